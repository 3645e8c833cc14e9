import assert from "node:assert/strict";
import { latin1, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { TestSocket } from "../helpers/socket.ts";
import { echo, ok, PortRig, readResponse } from "../helpers/unit_server.ts";
import { ConnectionLimit } from "../../lib/ingress/connection_limit.ts";
import { within } from "../helpers/wait.ts";

Deno.test("A client that ended its input still gets what is answered soon", async () => {
  await using rig = new PortRig(() => {});
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await client.closeWrite();
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  request.response.answer(200, "text/plain", "late");
  assert.equal(await readResponse(client), ok("late"));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that ended its input and is not answered soon counts as gone", async () => {
  await using rig = new PortRig(() => {});
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  const gone = new Promise<void>((resolve) => request.response.onGone = resolve);
  await client.closeWrite();
  await within(gone, 5_000, "onGone");
  assert.ok(request.response.ended);
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that resets is gone at once, with and without a body under way", async () => {
  await using rig = new PortRig((request) => {
    if (request.head.framing.kind !== "none") echo(request);
  });
  const client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  const gone = new Promise<void>((resolve) => request.response.onGone = resolve);
  await client.reset();
  await within(gone, 5_000, "onGone");
  const uploading = await rig.connect();
  await uploading.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 10\r\n\r\nabc");
  await rig.requests.find(() => true, { ms: 5_000, what: "the upload", from: 1 });
  await uploading.reset();
});

Deno.test("A broken message ends with the connection, never with the next response", async () => {
  await using rig = new PortRig((request) => {
    request.response.start({ status: 200, fields: null, declaredLength: -1 });
    request.response.body(octets("abc"));
    request.response.abort();
  });
  await using client = await rig.connect();
  await client.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\nGET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await client.waitEnd(), "fin");
  assert.ok(latin1(client.transcript).endsWith("\r\n\r\n3\r\nabc\r\n"));
  assert.equal(rig.requests.events.length, 1);
});

Deno.test("An answer survives unread input behind it: it is thrown away before the close", async () => {
  await using rig = new PortRig((request) => {
    request.response.closeAfter();
    request.response.answer(200, "text/plain", "bye");
  });
  await using client = await rig.connect();
  await client.write(
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000\r\n\r\n" + "x".repeat(50_000),
  );
  const answer = await readResponse(client);
  assert.match(answer, /\r\nConnection: close\r\n/);
  assert.ok(answer.endsWith("bye"));
  await client.write("x".repeat(50_000));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A client that never stops sending is cut off, not served for ever", async () => {
  await using rig = new PortRig((request) => {
    request.response.closeAfter();
    request.response.answer(200, "text/plain", "bye");
  });
  await using client = await rig.connect();
  await client.write("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 100000000\r\n\r\n");
  await readResponse(client);
  const flood = (async () => {
    for (;;) await client.write("x".repeat(65_536));
  })().catch(() => "cut");
  assert.equal(await within(flood, 10_000, "the cut"), "cut");
});

Deno.test("A slow reader gets all of the last response of its connection", async () => {
  const body = pattern(12_000_000);
  await using rig = new PortRig((request) => {
    request.response.closeAfter();
    request.response.start({ status: 200, fields: null, declaredLength: body.length });
    request.response.body(body);
    request.response.end();
  });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await client.readUntil("\r\n\r\n");
  // Longer than input is thrown away for after the end: what is pending must not count as that.
  await new Promise((resolve) => setTimeout(resolve, 1_300));
  assert.equal(sha256(await client.readExactly(body.length)), sha256(body));
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("A reader that takes nothing for the idle time is closed", async () => {
  await using rig = new PortRig((request) => {
    request.response.start({ status: 200, fields: null, declaredLength: 30_000_000 });
    request.response.body(new Uint8Array(30_000_000));
    request.response.end();
  }, { keepaliveTimeoutMs: 150 });
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  await within(rig.requests.find(() => true, { ms: 5_000, what: "the request" }), 5_000, "it");
  const limit = Date.now() + 5_000;
  while (rig.server.connections > 0 && Date.now() < limit) {
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  assert.equal(rig.server.connections, 0);
});

Deno.test("drain lets the response under way end, and closes behind it", async () => {
  await using rig = new PortRig(() => {});
  await using idle = await rig.connect();
  await using client = await rig.connect();
  await client.write("GET / HTTP/1.1\r\nHost: a\r\n\r\n");
  const request = await rig.requests.find(() => true, { ms: 5_000, what: "the request" });
  rig.server.drain();
  assert.equal(await idle.waitEnd(), "fin");
  request.response.answer(200, "text/plain", "done");
  const answer = await readResponse(client);
  assert.match(answer, /\r\nConnection: close\r\n/);
  assert.equal(await client.waitEnd(), "fin");
  await within(rig.server.closed(), 5_000, "the last connection");
  await assert.rejects(TestSocket.connect(rig.server.port));
});

Deno.test("MAX_CONNECTIONS bounds the connections, and names itself in the log", async () => {
  await using rig = new PortRig(echo, { limit: new ConnectionLimit(1) });
  await using first = await rig.connect();
  await first.write("GET /1 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(first), ok("GET /1"));
  await using second = await rig.connect();
  await second.waitEnd();
  assert.equal(second.receivedBytes, 0);
  assert.equal(
    rig.logger.lines.find((line) => line.fields.setting)?.fields.setting,
    "MAX_CONNECTIONS",
  );
  await first.write("GET /2 HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(first), ok("GET /2"));
});

Deno.test("A handler that throws ends its connection and no other one", async () => {
  await using rig = new PortRig((request) => {
    if (request.head.target === "/throw") throw new Error("a fault in a handler");
    echo(request);
  });
  await using broken = await rig.connect();
  await broken.write("GET /throw HTTP/1.1\r\nHost: a\r\n\r\n");
  await broken.waitEnd();
  assert.equal(broken.receivedBytes, 0);
  await using client = await rig.connect();
  await client.write("GET /fine HTTP/1.1\r\nHost: a\r\n\r\n");
  assert.equal(await readResponse(client), ok("GET /fine"));
});
