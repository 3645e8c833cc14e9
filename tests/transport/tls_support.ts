/**
 * What the tests of TLS share.
 * @module
 */
import assert from "node:assert/strict";
import { LaneTransport } from "../../lib/transport/lane_transport.ts";
import type { LinkOptions } from "../../lib/transport/link.ts";
import { type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Certificates, makeCertificates } from "./certificates.ts";
import { checkEcho } from "./echo.ts";
import { restartUnder, seeded, startLink, TestLink } from "./support.ts";

const random = seeded(Math.floor(Math.random() * 2 ** 32));

/** A server with TLS; `more` is more of its `tls` block. */
export function startTlsServer(certificates: Certificates, more = ""): Promise<NatsServer> {
  const { folder } = certificates;
  return startNats({
    config: `tls { cert_file: "${folder}/server.pem", key_file: "${folder}/server.key"
      ca_file: "${folder}/ca.pem"\n${more} }`,
  });
}

/** All of the lane, also over a reconnect, on a link with these settings. */
export async function checkTls(
  server: NatsServer,
  url: string,
  options: Partial<LinkOptions>,
): Promise<void> {
  await using a = await startLink(url, options);
  await using b = await startLink(url, options);
  const transport = a.link.connection.protocol.transport;
  assert.ok(transport instanceof LaneTransport && transport.isEncrypted());
  await checkEcho(a.link, b.link, { count: 200, largestBytes: 300_000, random });
  await restartUnder(server, a, b);
  await checkEcho(a.link, b.link, { count: 50, largestBytes: 100_000, random });
}

/** All of the lane over mutual TLS. */
export async function checkMutualTls(host: string, handshakeFirst: boolean): Promise<void> {
  await using certificates = await makeCertificates();
  const { ca, clientCert: cert, clientKey: key } = certificates;
  const more = handshakeFirst ? "handshake_first: true" : "";
  await using server = await startTlsServer(certificates, `verify: true\n${more}`);
  const tls = { ca, cert, key, handshakeFirst };
  await checkTls(server, `tls://${host}:${server.port}`, { tls });
}

/** Why the link does not connect. */
export async function reasonOf(url: string, options: Partial<LinkOptions>): Promise<string> {
  await using a = new TestLink(url, options);
  const line = await a.logger.lines.find(() => true, { ms: 5000, what: "a reason" });
  assert.equal(a.link.connected, false);
  return String(line.fields.error);
}

/** With a client certificate too, a server that is not trusted or has another name is refused. */
export async function checkMutualRefusals(handshakeFirst: boolean): Promise<void> {
  await using certificates = await makeCertificates();
  await using other = await makeCertificates();
  const { ca, folder, clientCert: cert, clientKey: key } = certificates;
  const more = handshakeFirst ? "handshake_first: true" : "";
  await using server = await startTlsServer(certificates, more);
  await using wrongName = await startNats({
    config: `tls { cert_file: "${folder}/ca.pem", key_file: "${folder}/ca.key"\n${more} }`,
  });
  const tls = { cert, key, handshakeFirst };
  for (const host of ["localhost", "127.0.0.1"]) {
    const untrusted = await reasonOf(`tls://${host}:${server.port}`, {
      tls: { ...tls, ca: other.ca },
    });
    assert.match(untrusted, /certificate|issuer/i, host);
    const otherName = await reasonOf(`tls://${host}:${wrongName.port}`, { tls: { ...tls, ca } });
    assert.match(otherName, /certificate|altnames|name/i, host);
  }
}
