import assert from "node:assert/strict";
import { isLocalTarget, serveLocal } from "../../lib/ingress/local.ts";
import { ingressRequest, withoutDate } from "../helpers/unit_client.ts";

Deno.test("Local are /health, /healthcheck and what starts with /observability", () => {
  for (
    const target of [
      "/health",
      "/healthcheck",
      "/health?x=1",
      "/observability",
      "/observability/ready?x",
      "/observabilityx",
    ]
  ) assert.ok(isLocalTarget(target), target);
  for (
    const target of [
      "/",
      "/healthy",
      "/health/",
      "/Health",
      "/a/health",
      "//health",
      "/%68ealth",
      "/x?/health",
      "http://a/health",
      "*",
    ]
  ) assert.ok(!isLocalTarget(target), target);
});

Deno.test("serveLocal hands the request to the application and its answer to the client", async () => {
  const { request, client } = ingressRequest(
    "GET /observability/x?y=1 HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer t\r\nX: \xe9\r\nX: 2\r\n\r\n",
    { clientAddress: "::1" },
  );
  await serveLocal((asked, address) => {
    const headers = ["authorization", "x"].map((name) => asked.headers.get(name)).join("|");
    const text = `${asked.method} ${new URL(asked.url).pathname} ${address} ${headers}`;
    return new Response(text, { status: 201, headers: { "X-Answer": "1" } });
  }, request);
  const body = "GET /observability/x ::1 Bearer t|\xc3\xa9, 2";
  assert.equal(
    withoutDate(await client.text()),
    "HTTP/1.1 201 Created\r\ncontent-type: text/plain;charset=UTF-8\r\nx-answer: 1\r\n" +
      `Content-Length: ${body.length}\r\n\r\n${body}`,
  );
});

Deno.test("Other methods are 405 with Allow, and a body that came along ends the connection", async () => {
  const { request, client } = ingressRequest(
    "POST /health HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\n",
  );
  await serveLocal(() => new Response("never"), request);
  const text = await client.text();
  assert.match(text, /^HTTP\/1\.1 405 Method Not Allowed\r\n[^]*\r\nAllow: GET, HEAD\r\n/);
  assert.equal(client.end, "close");
});

Deno.test("HEAD has the length of the GET and no body", async () => {
  const { request, client } = ingressRequest("HEAD /health HTTP/1.1\r\nHost: a\r\n\r\n");
  await serveLocal(() => new Response("hello"), request);
  assert.match(await client.text(), /\r\nContent-Length: 5\r\n\r\n$/);
});

Deno.test("A client that left while the application thought gets nothing", async () => {
  const { request, client } = ingressRequest("GET /health HTTP/1.1\r\nHost: a\r\n\r\n");
  const gate = Promise.withResolvers<Response>();
  const served = serveLocal(() => gate.promise, request);
  request.response.gone();
  gate.resolve(new Response("late"));
  await served;
  assert.equal(await client.text(), "");
});
