type Write = (fields: object, message: string) => void;

/** Where log lines go: one event, one line, fields first. Handed in, never reached for. */
export type Log = { readonly debug: Write; readonly info: Write; readonly warn: Write; readonly error: Write };

/** A log that keeps nothing, for tests that don't look. */
export const silentLog: Log = { debug() {}, info() {}, warn() {}, error() {} };
