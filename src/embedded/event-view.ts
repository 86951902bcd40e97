/** Events are stored as events.k8s.io/v1; the core group shows the same objects under its older field names. */
import type { KubeObject } from "../api/meta.ts";
import type { Resource } from "../api/resource.ts";
import type { Column } from "./kind.ts";

export const CORE_EVENT: Resource = { group: "", version: "v1", kind: "Event", plural: "events", namespaced: true };

/** events.k8s.io/v1 name → core/v1 name, of the fields that differ. */
const RENAMED: Readonly<Record<string, string>> = {
  regarding: "involvedObject",
  note: "message",
  reportingController: "reportingComponent",
  deprecatedSource: "source",
  deprecatedFirstTimestamp: "firstTimestamp",
  deprecatedLastTimestamp: "lastTimestamp",
  deprecatedCount: "count",
};
const RENAMED_BACK = Object.fromEntries(Object.entries(RENAMED).map(([event, core]) => [core, event]));

export const toCoreEvent = (event: KubeObject): KubeObject => ({ ...rename(event, RENAMED), apiVersion: "v1" });

export const fromCoreEvent = (event: KubeObject): KubeObject => ({
  ...rename(event, RENAMED_BACK),
  apiVersion: "events.k8s.io/v1",
});

function rename(event: KubeObject, names: Readonly<Record<string, string>>): KubeObject {
  const renamed = Object.entries(event).map(([name, value]) => [names[name] ?? name, value]);
  return Object.fromEntries(renamed) as KubeObject;
}

/** The columns work on the stored form, in both views. */
export const EVENT_COLUMNS: Column[] = [
  {
    name: "Last Seen",
    type: "date",
    value: (object) => {
      const event = object as KubeObject & {
        series?: { lastObservedTime?: string };
        deprecatedLastTimestamp?: string;
        eventTime?: string;
      };
      return event.series?.lastObservedTime ?? event.deprecatedLastTimestamp ?? event.eventTime;
    },
  },
  { name: "Type", type: "string", jsonPath: ".type" },
  { name: "Reason", type: "string", jsonPath: ".reason" },
  {
    name: "Object",
    type: "string",
    value: (object) => {
      const { regarding } = object as { regarding?: { kind?: string; name?: string } };
      return `${(regarding?.kind ?? "").toLowerCase()}/${regarding?.name ?? ""}`;
    },
  },
  { name: "Message", type: "string", jsonPath: ".note" },
  { name: "Name", type: "string", jsonPath: ".metadata.name", priority: 1 },
];
