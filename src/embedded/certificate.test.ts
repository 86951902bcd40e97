import { X509Certificate } from "node:crypto";
import { expect, test } from "vitest";
import { createAuthority, issueServerCertificate } from "./certificate.ts";

const NOW = new Date("2026-06-01T12:00:00Z");

test("an authority signs itself and may sign others", () => {
  const authority = new X509Certificate(createAuthority("test-ca", NOW).certificatePem);
  expect(authority.subject).toBe("CN=test-ca");
  expect(authority.ca).toBe(true);
  expect(authority.verify(authority.publicKey)).toBe(true);
});

test("a server's certificate is signed by the authority and good for its names, its addresses and now", () => {
  const authority = createAuthority("test-ca", NOW);
  const issuer = new X509Certificate(authority.certificatePem);
  const { certificatePem } = issueServerCertificate(
    authority,
    "test-ca",
    ["localhost", "192.0.2.1", "2001:db8::1"],
    NOW,
  );
  const certificate = new X509Certificate(certificatePem);
  expect(certificate.checkIssued(issuer)).toBe(true);
  expect(certificate.verify(issuer.publicKey)).toBe(true);
  expect(certificate.ca).toBe(false);
  expect(certificate.checkHost("localhost")).toBe("localhost");
  expect(certificate.checkIP("192.0.2.1")).toBe("192.0.2.1");
  expect(certificate.checkIP("2001:db8::1")).toBe("2001:db8::1");
  expect(certificate.checkHost("other")).toBeUndefined();
  expect(certificate.validFromDate.getTime()).toBeLessThan(NOW.getTime());
  expect(certificate.validToDate.getTime()).toBeGreaterThan(NOW.getTime());
});

test("dates from 2050 on are written in the longer form", () => {
  const late = new Date("2055-01-01T00:00:00Z");
  const certificate = new X509Certificate(createAuthority("test-ca", late).certificatePem);
  expect(certificate.validFromDate.toISOString()).toBe("2054-12-31T00:00:00.000Z");
});
