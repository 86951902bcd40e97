/**
 * X.509 certificates made at start, without any program outside of Node: node:crypto signs, but builds no certificate,
 * so the few DER structures of RFC 5280 are written here.
 */
import { createHash, createPublicKey, generateKeyPairSync, type KeyObject, randomBytes, sign } from "node:crypto";
import { isIP } from "node:net";
import { bytesOf, parseAddress } from "../net/address.ts";

export type Authority = { readonly certificatePem: string; readonly key: KeyObject };
export type ServerCertificate = { readonly certificatePem: string; readonly keyPem: string };

const DAY_MILLISECONDS = 24 * 60 * 60 * 1000;
const LIFETIME_DAYS = 3650;

const OID = {
  commonName: [2, 5, 4, 3],
  subjectKeyIdentifier: [2, 5, 29, 14],
  keyUsage: [2, 5, 29, 15],
  subjectAltName: [2, 5, 29, 17],
  basicConstraints: [2, 5, 29, 19],
  authorityKeyIdentifier: [2, 5, 29, 35],
  extendedKeyUsage: [2, 5, 29, 37],
  serverAuth: [1, 3, 6, 1, 5, 5, 7, 3, 1],
  ecdsaWithSha256: [1, 2, 840, 10045, 4, 3, 2],
} as const;

/** A certificate authority with a P-256 key of its own. */
export function createAuthority(commonName: string, now: Date): Authority {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const certificatePem = issue({
    subject: commonName,
    issuer: commonName,
    subjectKey: privateKey,
    issuerKey: privateKey,
    now,
    extensions: [
      extension(OID.basicConstraints, sequence(boolean(true)), true),
      // RFC 5280 4.2.1.3: bits 5 and 6, keyCertSign and cRLSign.
      extension(OID.keyUsage, tagged(0x03, Buffer.from([1, 0b00000110])), true),
    ],
  });
  return { certificatePem, key: privateKey };
}

/** A certificate for a TLS server that is reached under the hosts: DNS names or IP addresses. */
export function issueServerCertificate(
  authority: Authority,
  authorityName: string,
  hosts: readonly string[],
  now: Date,
): ServerCertificate {
  const { privateKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const names = [...new Set(hosts)].map((host) => {
    const address = isIP(host) === 0 ? undefined : parseAddress(host);
    return address === undefined
      ? tagged(0x82, Buffer.from(host, "ascii"))
      : tagged(0x87, Buffer.from(bytesOf(address)));
  });
  const certificatePem = issue({
    subject: "belfry-embedded",
    issuer: authorityName,
    subjectKey: privateKey,
    issuerKey: authority.key,
    now,
    extensions: [
      extension(OID.basicConstraints, sequence(), true),
      // Bit 0, digitalSignature.
      extension(OID.keyUsage, tagged(0x03, Buffer.from([7, 0b10000000])), true),
      extension(OID.extendedKeyUsage, sequence(oid(OID.serverAuth)), false),
      extension(OID.subjectAltName, sequence(...names), false),
    ],
  });
  return { certificatePem, keyPem: privateKey.export({ type: "pkcs8", format: "pem" }).toString() };
}

type Request = {
  subject: string;
  issuer: string;
  subjectKey: KeyObject;
  issuerKey: KeyObject;
  now: Date;
  extensions: Buffer[];
};

/** RFC 5280 4.1: Certificate ::= SEQUENCE { tbsCertificate, signatureAlgorithm, signatureValue }, as PEM. */
function issue(request: Request): string {
  const algorithm = sequence(oid(OID.ecdsaWithSha256));
  const publicKey = createPublicKey(request.subjectKey).export({ type: "spki", format: "der" });
  const notBefore = new Date(request.now.getTime() - DAY_MILLISECONDS);
  const notAfter = new Date(request.now.getTime() + LIFETIME_DAYS * DAY_MILLISECONDS);
  const identifiers = [
    extension(OID.subjectKeyIdentifier, tagged(0x04, keyIdentifier(request.subjectKey)), false),
    extension(OID.authorityKeyIdentifier, sequence(tagged(0x80, keyIdentifier(request.issuerKey))), false),
  ];
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x7f) | 0x40; // positive, and no leading zero byte
  const tbs = sequence(
    tagged(0xa0, tagged(0x02, Buffer.from([2]))), // version 3
    tagged(0x02, serial),
    algorithm,
    distinguishedName(request.issuer),
    sequence(time(notBefore), time(notAfter)),
    distinguishedName(request.subject),
    publicKey,
    tagged(0xa3, sequence(...request.extensions, ...identifiers)),
  );
  const signature = sign("sha256", tbs, request.issuerKey);
  const certificate = sequence(tbs, algorithm, tagged(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const lines = certificate.toString("base64").match(/.{1,64}/g) ?? [];
  return `-----BEGIN CERTIFICATE-----\n${lines.join("\n")}\n-----END CERTIFICATE-----\n`;
}

const keyIdentifier = (key: KeyObject): Buffer =>
  createHash("sha1")
    .update(createPublicKey(key).export({ type: "spki", format: "der" }))
    .digest();

function extension(id: readonly number[], value: Buffer, critical: boolean): Buffer {
  return sequence(oid(id), ...(critical ? [boolean(true)] : []), tagged(0x04, value));
}

const distinguishedName = (commonName: string): Buffer =>
  sequence(tagged(0x31, sequence(oid(OID.commonName), tagged(0x0c, Buffer.from(commonName, "utf8")))));

/** RFC 5280 4.1.2.5: UTCTime through 2049, GeneralizedTime from then on. */
function time(date: Date): Buffer {
  const digits = date.toISOString().replace(/[-:T]/g, "").slice(0, 14);
  return date.getUTCFullYear() < 2050
    ? tagged(0x17, Buffer.from(`${digits.slice(2)}Z`, "ascii"))
    : tagged(0x18, Buffer.from(`${digits}Z`, "ascii"));
}

const sequence = (...parts: Buffer[]): Buffer => tagged(0x30, Buffer.concat(parts));
const boolean = (value: boolean): Buffer => tagged(0x01, Buffer.from([value ? 0xff : 0]));

function oid(arcs: readonly number[]): Buffer {
  const [first = 0, second = 0, ...rest] = arcs;
  return tagged(0x06, Buffer.from([first * 40 + second, ...rest.flatMap(base128)]));
}

function base128(arc: number): number[] {
  const bytes = [arc & 0x7f];
  for (let rest = arc >> 7; rest > 0; rest >>= 7) bytes.unshift((rest & 0x7f) | 0x80);
  return bytes;
}

/** Tag, length in the shortest form, value. */
function tagged(tag: number, value: Buffer): Buffer {
  const length: number[] = [];
  if (value.length < 0x80) length.push(value.length);
  else {
    for (let rest = value.length; rest > 0; rest >>= 8) length.unshift(rest & 0xff);
    length.unshift(0x80 | length.length);
  }
  return Buffer.concat([Buffer.from([tag, ...length]), value]);
}
