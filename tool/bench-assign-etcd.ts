/**
 * Ten thousand Gateways and Services in seconds: one of each is made through the API, the controller gives it its address,
 * and what the API server then has in etcd is copied under other names, uids and addresses of the same length. What comes
 * out is what the API server would have stored itself, byte for byte but for those.
 */

/** What tells the copies of one object apart, as it stands in the template. */
export type Template = {
  readonly keys: readonly string[];
  /** Texts in keys and values, and what copy `i` has instead: of the same length. */
  readonly texts: readonly { readonly text: string; readonly of: (i: number) => string }[];
};

/** etcd takes 128 operations in one transaction. */
const OPERATIONS = 120;

/** Copies [from, to) of the template, through etcd's JSON gateway at `origin`. */
export async function copyInEtcd(origin: string, template: Template, from: number, to: number): Promise<void> {
  const values = await Promise.all(template.keys.map(async (key) => [key, await read(origin, key)] as const));
  let puts: { requestPut: { key: string; value: string } }[] = [];
  const flush = async () => {
    if (puts.length > 0) await ask(origin, "/v3/kv/txn", { success: puts });
    puts = [];
  };
  for (let i = from; i < to; i++) {
    for (const [key, value] of values) {
      puts.push({ requestPut: { key: base64(rewrite(key, template, i)), value: base64(rewrite(value, template, i)) } });
    }
    if (puts.length + values.length > OPERATIONS) await flush();
  }
  await flush();
}

function rewrite(bytes: string, { texts }: Template, i: number): string {
  let copy = bytes;
  for (const { text, of } of texts) {
    const other = of(i);
    // Values of core kinds are protobuf, which says how long each text is.
    if (other.length !== text.length) throw new Error(`${other} is not as long as ${text}`);
    copy = copy.replaceAll(text, other);
  }
  return copy;
}

/** One byte per character, whatever the value holds. */
const base64 = (bytes: string): string => Buffer.from(bytes, "latin1").toString("base64");

async function read(origin: string, key: string): Promise<string> {
  const { kvs } = (await ask(origin, "/v3/kv/range", { key: base64(key) })) as { kvs?: { value: string }[] };
  const value = kvs?.[0]?.value;
  if (value === undefined) throw new Error(`etcd has no ${key}`);
  return Buffer.from(value, "base64").toString("latin1");
}

async function ask(origin: string, path: string, body: unknown): Promise<unknown> {
  const answer = await fetch(origin + path, { method: "POST", body: JSON.stringify(body) });
  const text = await answer.text();
  if (!answer.ok) throw new Error(`etcd: ${answer.status} ${text}`);
  return JSON.parse(text);
}
