import { makeCertificates } from "./certificates.ts";
import { checkMutualRefusals, checkMutualTls, checkTls, startTlsServer } from "./tls_support.ts";

// `handshake_first`, TLS before the server's first line, is not in nats-server 2.9.

Deno.test("TLS before INFO keeps the lane", async () => {
  await using certificates = await makeCertificates();
  await using server = await startTlsServer(certificates, "handshake_first: true");
  const tls = { ca: certificates.ca, handshakeFirst: true };
  await checkTls(server, `tls://localhost:${server.port}`, { tls });
});

Deno.test("mutual TLS before INFO keeps the lane", async () => {
  await checkMutualTls("127.0.0.1", true);
});

Deno.test("before INFO, too, a certificate that is not trusted, or not for that name, is refused", async () => {
  await checkMutualRefusals(true);
});
