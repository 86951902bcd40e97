/** Why a request was not carried out, as the API says it: metav1.Status. */

export type StatusCause = { reason?: string; message: string; field?: string };

export type Status = {
  kind: "Status";
  apiVersion: "v1";
  metadata: Record<string, never>;
  status: "Success" | "Failure";
  message?: string;
  reason?: string;
  details?: {
    name?: string;
    group?: string;
    kind?: string;
    uid?: string;
    causes?: StatusCause[];
    retryAfterSeconds?: number;
  };
  code: number;
};

export type Target = { readonly group: string; readonly plural: string; readonly name?: string };

/**
 * Thrown at any depth of a request and answered in one place (`answer.ts`). It is the outcome of a request, not a bug:
 * the one exception in this folder that is no surprise.
 */
export class Refusal extends Error {
  readonly status: Status;
  constructor(code: number, reason: string, message: string, details: Status["details"] = {}) {
    super(message);
    this.status = { kind: "Status", apiVersion: "v1", metadata: {}, status: "Failure", message, reason, details, code };
  }
}

const detailsOf = (target: Target): NonNullable<Status["details"]> => ({
  ...(target.name === undefined ? {} : { name: target.name }),
  ...(target.group === "" ? {} : { group: target.group }),
  kind: target.plural,
});

const qualified = (target: Target): string =>
  target.group === "" ? target.plural : `${target.plural}.${target.group}`;

export const notFound = (target: Target): Refusal =>
  new Refusal(404, "NotFound", `${qualified(target)} "${target.name}" not found`, detailsOf(target));

export const noSuchPath = (): Refusal =>
  new Refusal(404, "NotFound", "the server could not find the requested resource");

export const alreadyExists = (target: Target): Refusal =>
  new Refusal(409, "AlreadyExists", `${qualified(target)} "${target.name}" already exists`, detailsOf(target));

export const conflict = (target: Target, why: string): Refusal =>
  new Refusal(
    409,
    "Conflict",
    `Operation cannot be fulfilled on ${qualified(target)} "${target.name}": ${why}`,
    detailsOf(target),
  );

export const MODIFIED = "the object has been modified; please apply your changes to the latest version and try again";

export const invalid = (target: Target, kind: string, causes: readonly StatusCause[]): Refusal => {
  const text = causes.map((cause) => (cause.field ? `${cause.field}: ${cause.message}` : cause.message));
  return new Refusal(
    422,
    "Invalid",
    `${kind}${target.group === "" ? "" : `.${target.group}`} "${target.name}" is invalid: ${
      text.length === 1 ? text[0] : `[${text.join(", ")}]`
    }`,
    { ...detailsOf(target), kind, causes: causes.map((cause) => ({ reason: "FieldValueInvalid", ...cause })) },
  );
};

export const badRequest = (message: string): Refusal => new Refusal(400, "BadRequest", message);

export const forbidden = (target: Target, why: string): Refusal =>
  new Refusal(403, "Forbidden", `${qualified(target)} "${target.name}" is forbidden: ${why}`, detailsOf(target));

export const unauthorized = (): Refusal => new Refusal(401, "Unauthorized", "Unauthorized");

export const methodNotAllowed = (): Refusal =>
  new Refusal(405, "MethodNotAllowed", "the server does not allow this method on the requested resource");

export const unsupportedMediaType = (message: string): Refusal => new Refusal(415, "UnsupportedMediaType", message);

/** The resourceVersion or continue token lies before the compaction. */
export const expired = (message: string): Refusal => new Refusal(410, "Expired", message);
