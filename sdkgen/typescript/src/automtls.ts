/** Generates a key pair for a standard go-plugin host with AutoMTLS. Node can sign, but has no API for certificates. */
import { generateKeyPairSync, randomBytes, sign } from "node:crypto";

/** Returns a P-256 key and a self-signed certificate for `localhost`, in PEM. */
export function makeKeyPair(): { key: string; cert: string } {
  const { privateKey, publicKey } = generateKeyPairSync("ec", { namedCurve: "P-256" });
  const ecdsaWithSha256 = seq(oid("2a8648ce3d040302"));
  const name = seq(der(0x31, seq(oid("550403"), der(0x0c, Buffer.from("localhost")))));
  const serial = randomBytes(16);
  serial[0] = ((serial[0] ?? 0) & 0x3f) | 0x40; // Positive, of full length.
  const now = Date.now();
  const year = 365.25 * 24 * 3600_000;
  const critical = der(0x01, Buffer.from([0xff]));
  const extension = (id: string, isCritical: boolean, value: Buffer) =>
    seq(oid(id), ...(isCritical ? [critical] : []), der(0x04, value));
  const body = seq(
    der(0xa0, der(0x02, Buffer.from([2]))), // version 3
    der(0x02, serial),
    ecdsaWithSha256,
    name,
    seq(time(now - 30_000), time(now + 30 * year)),
    name,
    publicKey.export({ type: "spki", format: "der" }),
    der(
      0xa3,
      seq(
        extension("551d13", true, seq()), // basicConstraints: no CA, which rustls rejects as a server's certificate
        extension("551d0f", true, der(0x03, Buffer.from([7, 0x80]))), // keyUsage: signature
        extension("551d25", false, seq(oid("2b06010505070301"), oid("2b06010505070302"))), // serverAuth, clientAuth
        extension("551d11", false, seq(der(0x82, Buffer.from("localhost")))), // subjectAltName
      ),
    ),
  );
  const signature = sign("sha256", body, privateKey);
  const certificate = seq(body, ecdsaWithSha256, der(0x03, Buffer.concat([Buffer.from([0]), signature])));
  const base64 = certificate.toString("base64").replace(/.{1,64}/g, "$&\n");
  return {
    key: privateKey.export({ type: "pkcs8", format: "pem" }) as string,
    cert: `-----BEGIN CERTIFICATE-----\n${base64}-----END CERTIFICATE-----\n`,
  };
}

function der(tag: number, value: Buffer): Buffer {
  const n = value.length;
  const length = n < 0x80 ? [n] : n < 0x100 ? [0x81, n] : [0x82, n >> 8, n & 0xff];
  return Buffer.concat([Buffer.from([tag, ...length]), value]);
}

function seq(...parts: Buffer[]): Buffer {
  return der(0x30, Buffer.concat(parts));
}

function oid(hex: string): Buffer {
  return der(0x06, Buffer.from(hex, "hex"));
}

/** Returns a GeneralizedTime from 2050 on, and a UTCTime before (RFC 5280). */
function time(ms: number): Buffer {
  const digits = new Date(ms).toISOString().replace(/\.\d+/, "").replace(/[-:T]/g, "");
  return Number(digits.slice(0, 4)) < 2050 ? der(0x17, Buffer.from(digits.slice(2))) : der(0x18, Buffer.from(digits));
}
