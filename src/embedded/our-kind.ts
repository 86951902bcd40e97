/** Belfry's own kinds, from the one registry that the CRDs are generated from. */
import type { Kind } from "../api/kind.ts";
import { KINDS, validate } from "../api/kinds.ts";
import { structuralSchema } from "../api/structural.ts";
import type { Column, ServedKind } from "./kind.ts";

const NAME: Column = { name: "Name", type: "string", jsonPath: ".metadata.name", description: "Name of the object." };

export const ourKinds = (): ServedKind[] => KINDS.map(served);

function served(kind: Kind): ServedKind {
  return {
    resource: kind.resource,
    singular: kind.singular,
    shortNames: kind.shortNames,
    categories: kind.categories,
    description: kind.description,
    schema: structuralSchema(kind),
    hasStatus: true,
    hasGeneration: true,
    columns: [NAME, ...kind.printerColumns],
    validate: (object, old) =>
      validate(kind, object, old).map(({ reason, field, message }) => ({
        reason,
        field: field === "" ? "<nil>" : field,
        // `message` names the field, which a cause has apart.
        message: message.slice(message.indexOf(": ") + 2),
      })),
  };
}
