import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import { freePort, type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Certificates, makeCertificates } from "./certificates.ts";
import { checkEcho } from "./echo.ts";
import { restartUnder, seeded, startLink, TestLink } from "./support.ts";
import { LaneTransport } from "../../lib/transport/lane_transport.ts";

const random = seeded(Math.floor(Math.random() * 2 ** 32));

function startTlsServer(certificates: Certificates, more = ""): Promise<NatsServer> {
  const { folder } = certificates;
  return startNats({
    config: `tls { cert_file: "${folder}/server.pem", key_file: "${folder}/server.key"
      ca_file: "${folder}/ca.pem"\n${more} }`,
  });
}

/** All of the lane, also over a reconnect, on a link with these settings. */
async function checkTls(
  server: NatsServer,
  url: string,
  options: Parameters<typeof startLink>[1],
): Promise<void> {
  await using a = await startLink(url, options);
  await using b = await startLink(url, options);
  const transport = a.link.connection.protocol.transport;
  assert.ok(transport instanceof LaneTransport && transport.isEncrypted());
  await checkEcho(a.link, b.link, { count: 200, largestBytes: 300_000, random });
  await restartUnder(server, a, b);
  await checkEcho(a.link, b.link, { count: 50, largestBytes: 100_000, random });
}

Deno.test("TLS that the server requires keeps the lane", async () => {
  await using certificates = await makeCertificates();
  await using server = await startTlsServer(certificates);
  await checkTls(server, `nats://127.0.0.1:${server.port}`, { tls: { ca: certificates.ca } });
});

Deno.test("TLS before INFO keeps the lane", async () => {
  await using certificates = await makeCertificates();
  await using server = await startTlsServer(certificates, "handshake_first: true");
  const tls = { ca: certificates.ca, handshakeFirst: true };
  await checkTls(server, `tls://localhost:${server.port}`, { tls });
});

for (const [host, handshakeFirst] of [["localhost", false], ["127.0.0.1", true]] as const) {
  Deno.test(`mutual TLS keeps the lane (${host}, handshake first: ${handshakeFirst})`, async () => {
    await using certificates = await makeCertificates();
    const { ca, clientCert: cert, clientKey: key } = certificates;
    await using server = await startTlsServer(
      certificates,
      `verify: true\nhandshake_first: ${handshakeFirst}`,
    );
    await checkTls(server, `tls://${host}:${server.port}`, {
      tls: { ca, cert, key, handshakeFirst },
    });
  });
}

/** Why the link does not connect. */
async function reasonOf(url: string, options: Parameters<typeof startLink>[1]): Promise<string> {
  await using a = new TestLink(url, options);
  const line = await a.logger.lines.find(() => true, { ms: 5000, what: "a reason" });
  assert.equal(a.link.connected, false);
  return String(line.fields.error);
}

Deno.test("a certificate that is not trusted, or not for that name, is refused", async () => {
  await using certificates = await makeCertificates();
  await using other = await makeCertificates();
  await using server = await startTlsServer(certificates);
  const url = `nats://127.0.0.1:${server.port}`;
  assert.match(await reasonOf(url, {}), /certificate/i);
  assert.match(await reasonOf(url, { tls: { ca: other.ca } }), /certificate/i);
  await using wrongName = await startNats({
    config:
      `tls { cert_file: "${certificates.folder}/ca.pem", key_file: "${certificates.folder}/ca.key" }`,
  });
  await using wrongNameFirst = await startNats({
    config:
      `tls { cert_file: "${certificates.folder}/ca.pem", key_file: "${certificates.folder}/ca.key", handshake_first: true }`,
  });
  assert.match(await reasonOf(wrongName.url, { tls: { ca: certificates.ca } }), /certificate/i);
  for (const handshakeFirst of [false, true]) {
    const { clientCert: cert, clientKey: key } = certificates;
    const tls = { ca: other.ca, cert, key, handshakeFirst };
    await using mutual = await startTlsServer(certificates, `handshake_first: ${handshakeFirst}`);
    for (const host of ["localhost", "127.0.0.1"]) {
      const untrusted = await reasonOf(`tls://${host}:${mutual.port}`, { tls });
      assert.match(untrusted, /certificate|issuer/i, host);
      const otherName = await reasonOf(
        `tls://${host}:${(handshakeFirst ? wrongNameFirst : wrongName).port}`,
        { tls: { ...tls, ca: certificates.ca } },
      );
      assert.match(otherName, /certificate|altnames|name/i, host);
    }
  }
});

Deno.test("TLS that is asked for is not given up when the server has none", async () => {
  await using server = await startNats();
  assert.match(await reasonOf(`tls://127.0.0.1:${server.port}`, {}), /the NATS server has none/);
  assert.match(await reasonOf(server.url, { tls: {} }), /the NATS server has none/);
});

Deno.test("a server that wants a client certificate is told apart, and bad pairs stop the start", async () => {
  await using certificates = await makeCertificates();
  const { ca, clientCert: cert, clientKey: key } = certificates;
  await using server = await startTlsServer(certificates, "verify: true");
  assert.match(await reasonOf(server.url, { tls: { ca } }), /client certificate/);
  assert.throws(() => new TestLink(server.url, { tls: { cert } }), StartError);
  assert.throws(() => new TestLink(server.url, { tls: { key } }), StartError);
  assert.throws(() => new TestLink("wss://127.0.0.1:1", { tls: { cert, key } }), StartError);
  assert.throws(() => new TestLink("ws://127.0.0.1:1", { tls: { ca } }), StartError);
});

Deno.test("NATS over WebSocket carries the lane, with and without TLS, and comes back", async () => {
  await using certificates = await makeCertificates();
  const { ca, folder } = certificates;
  for (const scheme of ["ws", "wss"]) {
    const port = freePort();
    const tls = scheme === "ws"
      ? "no_tls: true"
      : `tls { cert_file: "${folder}/server.pem", key_file: "${folder}/server.key" }`;
    await using server = await startNats({
      config: `websocket { listen: "127.0.0.1:${port}"\n${tls} }`,
    });
    const options = scheme === "ws" ? {} : { tls: { ca } };
    await using a = await startLink(`${scheme}://localhost:${port}`, options);
    await using b = await startLink(server.url);
    await checkEcho(a.link, b.link, { count: 200, largestBytes: 200_000, random });
    await restartUnder(server, a, b);
    await checkEcho(b.link, a.link, { count: 50, largestBytes: 100_000, random });
  }
});
