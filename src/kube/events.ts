import type { KubeObject } from "../api/meta.ts";
import { EVENT } from "../api/resource.ts";
import type { Log } from "../core/log.ts";
import type { Clock } from "../host/port.ts";
import {
  DEFAULT_SERIES_LIMITS,
  EventSeries,
  type EventWrite,
  type Happening,
  type SeriesLimits,
} from "./event-series.ts";
import { microTime } from "./lease.ts";
import type { ApiClient } from "./port.ts";

export type EventRecorder = {
  /** Returns at once; never throws. Whether the Event arrives is nobody's business but the log's. */
  record(happening: Happening): void;
  close(): void;
};

/** Writes Events about objects. `controller` is reportingController (`belfry.dev/speaker`), `instance` who of them. */
export function createEventRecorder(options: {
  client: ApiClient;
  controller: string;
  instance: string;
  clock: Clock;
  log: Log;
  limits?: Partial<SeriesLimits>;
  wallClock?: () => Date;
}): EventRecorder {
  const { client, controller, instance, clock, log, wallClock = () => new Date() } = options;
  const limits = { ...DEFAULT_SERIES_LIMITS, ...options.limits };
  const series = new EventSeries(limits, clock.now());
  /** Where each Event of a series stands; an entry is dropped when the series is forgotten or the Event is gone. */
  const written = new Map<number, { namespace: string; name: string }>();
  let timer: NodeJS.Timeout | undefined;
  let closed = false;

  function write(write: EventWrite): void {
    if (write.type === "create") create(write.id, write.happening);
    else count(write.id, write.count);
  }

  function create(id: number, happening: Happening): void {
    const event = render(happening);
    written.set(id, { namespace: event.metadata.namespace ?? "default", name: event.metadata.name });
    if (written.size > limits.remembered) {
      const oldest = written.keys().next().value;
      if (oldest !== undefined) written.delete(oldest);
    }
    void client.create(EVENT, event).then((answer) => {
      if (answer.ok) return;
      written.delete(id);
      log.debug({ reason: happening.reason, message: answer.failure.message }, "an Event was not written");
    });
  }

  function count(id: number, count: number): void {
    const key = written.get(id);
    if (key === undefined) return;
    const patch = { series: { count, lastObservedTime: microTime(wallClock()) } };
    void client.mergePatch(EVENT, key, patch).then((answer) => {
      if (answer.ok) return;
      if (answer.failure.status === 404) written.delete(id);
      log.debug({ event: key.name, message: answer.failure.message }, "an Event was not written");
    });
  }

  function render({ regarding, type, reason, action, note }: Happening): KubeObject & Record<string, unknown> {
    const wall = wallClock();
    const { name, namespace, uid, resourceVersion } = regarding.metadata;
    return {
      metadata: {
        // As client-go names them; the time makes it unique beside the instance's own series.
        name: `${name}.${wall.getTime().toString(16)}${Math.floor(Math.random() * 0x10000)
          .toString(16)
          .padStart(4, "0")}`,
        // The API wants Events of cluster-scoped objects in `default`.
        namespace: namespace ?? "default",
      },
      eventTime: microTime(wall),
      reportingController: controller,
      reportingInstance: instance.slice(0, 128),
      action,
      reason,
      type,
      note: cut(note, 1024),
      regarding: {
        ...(regarding.apiVersion === undefined ? {} : { apiVersion: regarding.apiVersion }),
        ...(regarding.kind === undefined ? {} : { kind: regarding.kind }),
        name,
        ...(namespace === undefined ? {} : { namespace }),
        ...(uid === undefined ? {} : { uid }),
        ...(resourceVersion === undefined ? {} : { resourceVersion }),
      },
    };
  }

  function schedule(): void {
    clearTimeout(timer);
    const deadline = series.nextDeadline();
    if (deadline === undefined || closed) return;
    timer = setTimeout(
      () => {
        for (const due of series.due(clock.now())) write(due);
        schedule();
      },
      Math.max(0, deadline - clock.now()),
    );
    timer.unref();
  }

  return {
    record(happening) {
      if (closed) return;
      const due = series.record(happening, clock.now());
      if (due !== undefined) write(due);
      schedule();
    },
    close() {
      closed = true;
      clearTimeout(timer);
    },
  };
}

/** At most so many bytes of UTF-8, never half a character. */
function cut(text: string, bytes: number): string {
  const whole = Buffer.from(text);
  if (whole.length <= bytes) return text;
  return whole
    .subarray(0, bytes)
    .toString("utf8")
    .replace(/\uFFFD+$/, "");
}
