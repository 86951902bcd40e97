/**
 * The user's object is wrong. It is shown as a condition on that object alone; everything else goes on.
 * `reason` is CamelCase and one per cause; `message` says what, where and what to do.
 */
export type Problem = { readonly reason: string; readonly message: string };

/** The peer's bytes are wrong. Counted by `reason`, never thrown. */
export type Malformed = { readonly reason: string };

/** The world is in the way (API server, kernel). Retried with back-off, visible in status until it clears. */
export type Fault = { readonly what: string; readonly message: string };

/** For the branch that the types say can't be reached: a bug of ours, so it throws. */
export function unreachable(value: never): never {
  throw new Error(`unreachable: ${JSON.stringify(value)}`);
}
