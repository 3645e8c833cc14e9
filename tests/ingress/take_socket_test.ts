import assert from "node:assert/strict";
import type { IngressRequest } from "../../lib/ingress/connection.ts";
import type { TunnelSocket } from "../../lib/net/tunnel_socket.ts";
import { latin1, octets, pattern } from "../helpers/bytes.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { loadReset } from "../helpers/unit_reset.ts";
import { echo, ok, PortRig, readResponse } from "../helpers/unit_server.ts";
import { within } from "../helpers/wait.ts";

loadReset();

const CONNECT = "CONNECT db.lan:5432 HTTP/1.1\r\nHost: db.lan:5432\r\n\r\n";
const REPLY = octets("HTTP/1.1 200 OK\r\n\r\n");

/** A port whose requests wait, but for those that are no CONNECT. */
function waitingPort(options: ConstructorParameters<typeof PortRig>[1] = {}): PortRig {
  return new PortRig((request) => {
    if (request.head.method === "CONNECT") request.response.closeAfter();
    else echo(request);
  }, options);
}

async function connectRequest(rig: PortRig, client: TestSocket, text = CONNECT) {
  await client.write(text);
  return await rig.requests.find((one) => one.response.method === "CONNECT", {
    ms: 5_000,
    what: "the CONNECT",
  });
}

/** What the tunnel reads next, as text; null at its end. */
async function next(tunnel: TunnelSocket): Promise<string | null> {
  const { reader } = tunnel;
  while (reader.unread === 0) if (!await within(reader.more(), 5_000, "input")) return null;
  const text = latin1(reader.buffer.subarray(reader.start, reader.end));
  reader.start = reader.end;
  return text;
}

async function taken(rig: PortRig, client: TestSocket, text?: string): Promise<TunnelSocket> {
  const request = await connectRequest(rig, client, text);
  const tunnel = request.takeSocket(REPLY)!;
  assert.equal(latin1(await client.readUntil("\r\n\r\n")), latin1(REPLY));
  return tunnel;
}

Deno.test("A socket that is taken passes octets both ways, behind the reply", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const tunnel = await taken(rig, client);
  await client.write("ping");
  assert.equal(await next(tunnel), "ping");
  let takenBytes = 0;
  tunnel.onTaken = () => takenBytes = 4 - tunnel.writer.pendingBytes;
  tunnel.writer.write(octets("pong"));
  assert.equal(latin1(await client.readExactly(4)), "pong");
  assert.equal(takenBytes, 4);
  tunnel.close();
  tunnel.close();
  assert.equal(await client.waitEnd(), "fin");
});

Deno.test("What the client sent right behind its CONNECT, or while it waited, is in the reader", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const request = await connectRequest(rig, client, `${CONNECT}early `);
  await client.write("and late");
  const tunnel = request.takeSocket(REPLY)!;
  let got = "";
  while (got.length < 14) got += await next(tunnel);
  assert.equal(got, "early and late");
  tunnel.close();
});

Deno.test("A flood of early octets waits in the client's socket: no more than 128 KiB are read ahead", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const request = await connectRequest(rig, client);
  const flood = client.write(pattern(20_000_000));
  flood.catch(() => {}); // it is broken off below
  await assert.rejects(within(flood, 200, "all of it"), /not within/);
  const tunnel = request.takeSocket(REPLY)!;
  assert.ok(tunnel.reader.unread <= 128 * 1024, `${tunnel.reader.unread}`);
  tunnel.close();
});

Deno.test("A client that has said all already still gets its tunnel, with all that it said", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const request = await connectRequest(rig, client, `${CONNECT}all that I say`);
  await client.closeWrite();
  // Longer than a client of a request that is half-closed is waited for.
  await new Promise((resolve) => setTimeout(resolve, 1_200));
  assert.equal(request.response.ended, false);
  const tunnel = request.takeSocket(REPLY)!;
  assert.equal(await next(tunnel), "all that I say");
  assert.equal(await next(tunnel), null);
  tunnel.writer.write(octets("answer"));
  await client.readUntil("\r\n\r\n");
  assert.equal(latin1(await client.readExactly(6)), "answer");
  await tunnel.closeWrite();
  assert.equal(await client.waitEnd(), "fin");
  tunnel.close();
});

Deno.test("A client that resets while it waits is gone, and there is nothing to take", async () => {
  await using rig = waitingPort();
  const client = await rig.connect();
  const request = await connectRequest(rig, client);
  const gone = new Promise<void>((resolve) => request.response.onGone = resolve);
  await client.reset();
  await within(gone, 5_000, "onGone");
  assert.equal(request.takeSocket(REPLY), null);
});

Deno.test("Each half ends on its own: a half-close leaves the other direction open", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const tunnel = await taken(rig, client);
  await tunnel.closeWrite();
  await client.write("still there");
  assert.equal(await next(tunnel), "still there");
  await client.closeWrite();
  assert.equal(await next(tunnel), null);
  assert.equal(await client.waitEnd(), "fin");
  tunnel.close();
});

Deno.test("A client that resets its tunnel is told of by a read that fails, or by onError", async () => {
  await using rig = waitingPort();
  const client = await rig.connect();
  const tunnel = await taken(rig, client);
  const broken = tunnel.reader.more();
  broken.catch(() => {});
  await client.reset();
  await assert.rejects(within(broken, 5_000, "the end"));
  const failed = new Promise<void>((resolve) => tunnel.onError = resolve);
  tunnel.writer.write(octets("x"));
  await within(failed, 5_000, "onError");
  tunnel.reset();
});

Deno.test("A tunnel outlives drain and the idle time, and ends with the server's close", async () => {
  await using rig = waitingPort({ keepaliveTimeoutMs: 50 });
  await using client = await rig.connect();
  const tunnel = await taken(rig, client);
  // A younger connection that is idle is closed: so the tunnel's idle time is over as well.
  await using younger = await rig.connect();
  await younger.waitEnd();
  rig.server.drain();
  await client.write("alive");
  assert.equal(await next(tunnel), "alive");
  assert.equal(rig.server.connections, 1);
  await within(rig.server.close(), 5_000, "the close");
  await client.waitEnd();
});

Deno.test("A CONNECT behind other requests waits for their answers, and is taken once", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  await client.write(`GET /1 HTTP/1.1\r\nHost: a\r\n\r\n${CONNECT}early`);
  assert.equal(await readResponse(client), ok("GET /1"));
  const request: IngressRequest = await connectRequest(rig, client, "");
  const tunnel = request.takeSocket(REPLY)!;
  assert.equal(request.takeSocket(REPLY), null);
  assert.equal(await next(tunnel), "early");
  tunnel.writer.write(octets("end"));
  await client.readUntil("\r\n\r\nend");
  tunnel.close();
});

Deno.test("A response that was answered can no longer be taken", async () => {
  await using rig = waitingPort();
  await using client = await rig.connect();
  const request = await connectRequest(rig, client);
  request.response.answer(502, "text/plain", "no");
  assert.equal(request.takeSocket(REPLY), null);
  assert.ok((await readResponse(client)).endsWith("no"));
  assert.equal(await client.waitEnd(), "fin");
});
