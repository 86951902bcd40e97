/**
 * What an object must hold beyond its schema: said in CEL, for a real API server, and as its TypeScript twin, for the
 * embedded one and for tests. Both must refuse the same values with the same words; `admission-table.ts` holds them to it.
 */
export type Rule = {
  /** The place in the object that `self` is: "" is the whole object, `spec.addresses[]` each entry of the list. */
  readonly at: string;
  /** CEL, true when the value is fine. When it names `oldSelf` it is judged only where old and new both have the value. */
  readonly cel: string;
  /** What is wrong when it is not; also what a reference page says of the rule. */
  readonly message: string;
  /** CEL for a message made from the value; takes the place of `message` when refusing. */
  readonly messageExpression?: string;
  /** The same judgement: the words of the refusal, or `undefined` when the value is fine. */
  readonly twin: (self: unknown, oldSelf: unknown) => string | undefined;
};

/** A rule about values of type T. Validation calls a twin only on values that its schema has let through. */
export const rule = <T>(
  it: Omit<Rule, "twin"> & { readonly twin: (self: T, oldSelf: T) => string | undefined },
): Rule => ({ ...it, twin: (self, oldSelf) => it.twin(self as T, oldSelf as T) });

/** A rule with one fixed message, from a test that is true when the value is fine. */
export const check = <T>(at: string, message: string, cel: string, fine: (self: T) => boolean): Rule =>
  rule<T>({ at, cel, message, twin: (self) => (fine(self) ? undefined : message) });

/** The value at this place may not change once it is there. */
export function immutable(at: string): Rule {
  const message = `${at.slice(at.lastIndexOf(".") + 1)} is immutable; delete the object and create another one`;
  return rule<unknown>({
    at,
    cel: "self == oldSelf",
    message,
    twin: (self, oldSelf) => (self === oldSelf ? undefined : message),
  });
}

/** The field is planned, nothing acts on it yet, and an object that has it would promise what is not kept. */
export const notYet = (at: string, field: string): Rule =>
  check<Record<string, unknown>>(
    at,
    `${field} is not supported by this version: nothing acts on it yet`,
    `!has(self.${field})`,
    (self) => self[field] === undefined,
  );
