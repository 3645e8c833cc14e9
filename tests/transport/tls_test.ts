import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import { freePort, startNats } from "../helpers/nats_server.ts";
import { makeCertificates } from "./certificates.ts";
import { checkEcho } from "./echo.ts";
import { restartUnder, seeded, startLink, TestLink } from "./support.ts";
import {
  checkMutualRefusals,
  checkMutualTls,
  checkTls,
  reasonOf,
  startTlsServer,
} from "./tls_support.ts";

const random = seeded(Math.floor(Math.random() * 2 ** 32));

Deno.test("TLS that the server requires keeps the lane", async () => {
  await using certificates = await makeCertificates();
  await using server = await startTlsServer(certificates);
  await checkTls(server, `nats://127.0.0.1:${server.port}`, { tls: { ca: certificates.ca } });
});

for (const host of ["localhost", "127.0.0.1"]) {
  Deno.test(`mutual TLS keeps the lane (${host})`, async () => {
    await checkMutualTls(host, false);
  });
}

Deno.test("a certificate that is not trusted, or not for that name, is refused", async () => {
  await using certificates = await makeCertificates();
  await using other = await makeCertificates();
  const { ca, folder } = certificates;
  await using server = await startTlsServer(certificates);
  assert.match(await reasonOf(server.url, {}), /certificate/i);
  assert.match(await reasonOf(server.url, { tls: { ca: other.ca } }), /certificate/i);
  await using wrongName = await startNats({
    config: `tls { cert_file: "${folder}/ca.pem", key_file: "${folder}/ca.key" }`,
  });
  assert.match(await reasonOf(wrongName.url, { tls: { ca } }), /certificate/i);
});

Deno.test("so it is where the client has a certificate as well", async () => {
  await checkMutualRefusals(false);
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
