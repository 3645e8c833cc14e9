import assert from "node:assert/strict";
import { coreTest } from "../helpers/mode.ts";
import { latin1, octets } from "../helpers/bytes.ts";
import { jsonOf, NatsClient } from "../helpers/nats_client.ts";
import { runNatsway, TEST_SETTINGS } from "../helpers/natsway.ts";
import { TestSocket } from "../helpers/socket.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { DeafTarget } from "./deaf.ts";
import {
  askSocks,
  connectOctets,
  failedWith,
  GREETING,
  NO_AUTH,
  OPEN_SOCKS5,
  openSocks,
  readReply,
  socksPort,
  startSocksRig,
} from "./socks5.ts";
import { checkStream, echo, sendStream } from "./tunnels.ts";

const MIB = 1_048_576;

/** A success reply: the receiver's end of a connection from 127.0.0.1 or ::1. */
function assertSuccess(reply: string, targetPort: number, type: 1 | 4 = 1): void {
  const address = type === 1 ? "\x7f\x00\x00\x01" : `${"\0".repeat(15)}\x01`;
  assert.equal(reply.slice(0, -2), `\x05\x00\x00${String.fromCharCode(type)}${address}`);
  const port = reply.charCodeAt(reply.length - 2) * 256 + reply.charCodeAt(reply.length - 1);
  assert.ok(port > 0 && port !== targetPort, `bound to port ${port}`);
}

/** Asks, and expects this reply and an orderly close. */
async function refused(port: number, request: string, code: number, ms = 10_000): Promise<void> {
  await using client = await askSocks(port, request);
  assert.equal(await readReply(client, ms), failedWith(code));
  assert.equal(await client.nothingFollows(2_000), "fin");
}

Deno.test("F29 a handshake octet by octet, and one that comes with the tunnel's first bytes", async () => {
  await using rig = await startSocksRig();
  rig.upstream.route("/f29", async (_, connection) => {
    await connection.write(answer("f29"));
    return "close";
  });
  const get = "GET /f29 HTTP/1.1\r\nHost: 127.0.0.1:18080\r\nConnection: close\r\n\r\n";
  const { port } = rig.upstream;
  await using slow = await TestSocket.connect(socksPort(rig));
  await slow.writeInPieces(GREETING, 1, 20);
  assert.equal(latin1(await slow.readExactly(2)), NO_AUTH);
  await slow.writeInPieces(connectOctets("127.0.0.1", port), 1, 20);
  assertSuccess(await readReply(slow), port);
  await slow.write(get);
  assert.match(latin1(await slow.readUntil("f29")), /^HTTP\/1\.1 200 OK\r\n/);
  assert.equal(await slow.waitEnd(), "fin");

  await using fast = await TestSocket.connect(socksPort(rig));
  await fast.write(GREETING + connectOctets("127.0.0.1", port) + get);
  assert.equal(latin1(await fast.readExactly(2)), NO_AUTH);
  assertSuccess(await readReply(fast), port);
  assert.match(latin1(await fast.readUntil("f29")), /^HTTP\/1\.1 200 OK\r\n/);
  assert.equal(await fast.waitEnd(), "fin");
  assert.equal(rig.upstream.requestsFor("/f29").length, 2);
});

Deno.test("every octet passes both ways, and each direction ends by itself", async () => {
  await using rig = await startSocksRig({ upstream: echo });
  await using client = await openSocks(socksPort(rig), rig.upstream.port);
  const sending = sendStream(client, 1, 8 * MIB);
  await checkStream(client, 1, 8 * MIB);
  await sending;
  await client.closeWrite();
  assert.equal(await client.waitEnd(), "fin");
  for (const role of [rig.requester, rig.receiver]) {
    const closed = await role.flowClosed();
    assert.deepEqual([closed["code"], closed["kind"]], ["ok", "tcp"]);
  }
});

Deno.test("F30, F52 each way in which a target cannot be reached has its reply, never a success first", async () => {
  await using deaf = await DeafTarget.start();
  await using rig = await startSocksRig({ receiverSettings: { CONNECT_TIMEOUT: "1" } });
  const port = socksPort(rig);
  await refused(port, connectOctets("127.0.0.1", 1), 5);
  await refused(port, connectOctets("no-such-host.invalid", 80), 4);
  await refused(port, connectOctets("127.0.0.1", deaf.port), 4);
  // Not in TARGET_ALLOW, and on the built-in list besides.
  await refused(port, "\x05\x01\x00\x01\xa9\xfe\xa9\xfe\x00\x50", 2);
  const codes = ["target_refused", "target_not_found", "target_timeout", "target_denied"];
  for (const code of codes) await rig.requester.flowClosed((event) => event["code"] === code);
});

Deno.test("F31 BIND, UDP ASSOCIATE and an unknown address type: a complete reply, then close, nothing crosses", async () => {
  await using rig = await startSocksRig();
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const port = socksPort(rig);
  await refused(port, "\x05\x02\x00\x01\x7f\x00\x00\x01\x46\xa0", 7);
  await refused(port, "\x05\x03\x00\x01\x00\x00\x00\x00\x00\x00", 7);
  await refused(port, "\x05\x01\x00\x02\x7f\x00\x00\x01\x46\xa0", 8);
  await refused(port, connectOctets("not a host", 80), 1);
  await refused(port, connectOctets("127.0.0.1", 0), 1);
  await spy.flush();
  assert.deepEqual(requests.events, []);
});

Deno.test("F32, F51 while PROXY_AUTH_ENABLED is on: FF to every offer, close, nothing crosses", async () => {
  await using rig = await startSocksRig({ requesterSettings: { PROXY_AUTH_ENABLED: "True" } });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const request = connectOctets("127.0.0.1", rig.upstream.port);
  for (const greeting of [GREETING, "\x05\x02\x00\x02\x01\x05alice\x07s3cr:et"]) {
    await using client = await TestSocket.connect(socksPort(rig));
    await client.write(greeting + request);
    assert.equal(latin1(await client.readExactly(2)), "\x05\xff");
    assert.equal(await client.nothingFollows(2_000), "fin");
  }
  await spy.flush();
  assert.deepEqual(requests.events, []);
  assert.equal(rig.upstream.connections.length, 0);
  assert.equal((await rig.request("/still")).status, 200);
});

Deno.test("F33 IPv6 is dialled as such; a name crosses as it was sent and is looked up by the receiver", async () => {
  await using rig = await startSocksRig({ upstream: echo });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  await using six: Upstream = await startUpstream(echo, "::1");
  const port = socksPort(rig);
  await using bySix = await askSocks(port, connectOctets("::1", six.port), "six");
  assertSuccess(await readReply(bySix), six.port, 4);
  assert.equal(latin1(await bySix.readExactly(3)), "six");
  await using byName = await askSocks(port, connectOctets("LocalHost", rig.upstream.port), "name");
  await readReply(byName);
  assert.equal(latin1(await byName.readExactly(4)), "name");
  await spy.flush();
  const payloads = requests.events.map((message) => jsonOf(message)["payload"]);
  assert.deepEqual(payloads.map((payload) => (payload as { host: string }).host), [
    "::1",
    "LocalHost",
  ]);
});

coreTest(
  "a stream keeps a request until somebody comes",
  "F37 no receiver: 01 within 2 s",
  async () => {
    await using rig = await startSocksRig({ receivers: 0 });
    const started = performance.now();
    await refused(socksPort(rig), connectOctets("127.0.0.1", 7), 1, 2_000);
    assert.ok(performance.now() - started < 2_000);
    await rig.requester.flowClosed((event) => event["code"] === "no_receiver");
  },
);

Deno.test("F37 NATS down, a receiver that never answers: 01", async () => {
  await using rig = await startSocksRig({
    receivers: 0,
    settings: { NATS_RESPONSE_TIMEOUT: "1" },
  });
  const port = socksPort(rig);
  const request = connectOctets("127.0.0.1", 7);
  {
    await using silent = await NatsClient.connect(rig.nats.port);
    await silent.subscribe("to.proxy.requests.>", "nats-proxy");
    await silent.flush();
    const asked = performance.now();
    await refused(port, request, 1, 5_000);
    const took = performance.now() - asked;
    assert.ok(took > 900 && took < 4_000, `after ${took} ms`);
    await rig.requester.flowClosed((event) => event["code"] === "response_timeout");
  }
  const { mark } = rig.requester;
  await rig.nats.stop();
  await rig.requester.event("not ready", { from: mark });
  await refused(port, request, 1, 1_000);
});

for (const end of ["client", "target"] as const) {
  Deno.test(`a reset of the ${end} is a reset at the other end`, async () => {
    const accepted = Promise.withResolvers<TestSocket>();
    const over = Promise.withResolvers<void>();
    await using rig = await startSocksRig({
      upstream: (connection) => {
        accepted.resolve(connection);
        return over.promise;
      },
    });
    await using client = await openSocks(socksPort(rig), rig.upstream.port);
    const target = await accepted.promise;
    await client.write("there");
    await target.readExactly(5);
    const [leaves, stays] = end === "client" ? [client, target] : [target, client];
    await leaves.reset();
    assert.equal(await stays.waitEnd(5_000), "reset");
    over.resolve();
    await rig.requester.flowClosed((event) => event["code"] === "reset");
  });
}

Deno.test("a client that breaks off during the dial gives its session up in both roles", async () => {
  await using deaf = await DeafTarget.start();
  await using rig = await startSocksRig({ receiverSettings: { CONNECT_TIMEOUT: "20" } });
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const client = await askSocks(socksPort(rig), connectOctets("127.0.0.1", deaf.port));
  await requests.find(() => true, { ms: 5_000, what: "the open" });
  await client.reset();
  for (const role of [rig.requester, rig.receiver]) {
    assert.equal((await role.flowClosed())["code"], "canceled");
  }
});

Deno.test("HANDSHAKE_TIMEOUT closes a handshake that does not end; MAX_CONNECTIONS refuses one too many", async () => {
  await using rig = await startSocksRig({
    requesterSettings: { HANDSHAKE_TIMEOUT: "0.5", MAX_CONNECTIONS: "2" },
  });
  const port = socksPort(rig);
  const started = performance.now();
  await using first = await TestSocket.connect(port);
  await using second = await TestSocket.connect(port);
  await first.write(GREETING + connectOctets("127.0.0.1", 1).slice(0, -1));
  assert.equal(latin1(await first.readExactly(2)), NO_AUTH);
  await using third = await TestSocket.connect(port);
  await third.waitEnd(2_000);
  await rig.requester.event((event) => event["setting"] === "MAX_CONNECTIONS");
  assert.equal(await first.nothingFollows(3_000), "fin");
  assert.equal(await second.nothingFollows(3_000), "fin");
  const took = performance.now() - started;
  assert.ok(took > 450 && took < 3_000, `after ${took} ms`);
  // Their places are free again.
  await refused(port, connectOctets("127.0.0.1", 1), 5);
});

Deno.test("F62 a SOCKS5 port that is taken: exit 3 and one line with role, address, port and setting", async () => {
  using taken = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = taken.addr;
  const result = await runNatsway(["requester"], {
    ...TEST_SETTINGS,
    ...OPEN_SOCKS5,
    NATS_URL: "nats://127.0.0.1:1",
    SOCKS5_LISTEN_PORT: String(port),
  });
  assert.equal(result.code, 3, result.stderr);
  assert.ok(result.ms < 5_000);
  const lines = result.stderr.split("\n").filter((line) => line.startsWith("natsway: "));
  assert.deepEqual(lines, [
    `natsway: cannot listen for SOCKS5 as requester on 127.0.0.1:${port}: the address is in use; ` +
    "stop the other program or change SOCKS5_LISTEN_PORT",
  ]);
});

Deno.test("SIGTERM during a tunnel: nobody new, the tunnel goes on to the grace, then a reset", async () => {
  await using rig = await startSocksRig({ upstream: echo, settings: { SHUTDOWN_GRACE: "1" } });
  const port = socksPort(rig);
  await using client = await openSocks(port, rig.upstream.port);
  const started = performance.now();
  rig.requester.kill("SIGTERM");
  await rig.requester.event("stopping");
  const late = await TestSocket.connect(port).catch(() => null);
  if (late !== null) { // it was in the backlog when the port was closed
    await late.waitEnd(500);
    assert.equal(late.receivedBytes, 0);
    await late.close();
  }
  await client.write(octets("still there"));
  assert.equal(latin1(await client.readExactly(11)), "still there");
  assert.equal(await client.waitEnd(5_000), "reset");
  assert.ok(performance.now() - started > 900);
  assert.equal((await rig.requester.ended()).code, 0);
});
