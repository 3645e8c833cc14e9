import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { type NatsServer, startNats } from "../helpers/nats_server.ts";
import { startUpstream, type Upstream } from "../helpers/upstream.ts";
import { RubyReceiver, type RubyRequest } from "./ruby_receiver.ts";
import {
  connectTunnel,
  echo,
  socksPort,
  socksReply,
  socksTunnel,
  type Tunnel,
  TUNNEL_SETTINGS,
} from "./tunnels.ts";

const RESPONSE_TIMEOUT_S = 1.5;
const STREAM_TIMEOUT_S = 2;
const ROOTS = { requestRoot: "proxy", responseRoot: "proxy" };

interface Bridge extends AsyncDisposable {
  readonly nats: NatsServer;
  readonly requester: Natsway;
  readonly double: RubyReceiver;
  /** CONNECT to the target of the test. */
  connect(target: Upstream, early?: Uint8Array): Promise<Tunnel>;
  /** The one session's request at the double. */
  request(port: number): Promise<RubyRequest>;
  closed(): Promise<string>;
}

/** natsway's requester and a Ruby receiver. */
async function bridge(): Promise<Bridge> {
  const stack = new AsyncDisposableStack();
  const nats = stack.use(await startNats());
  const requester = stack.use(
    await startNatsway("requester", {
      ...TUNNEL_SETTINGS,
      NATS_URL: nats.url,
      NATS_REQUEST_SUBJECT_ROOT: "proxy",
      NATS_RESPONSE_SUBJECT_ROOT: "proxy",
      NATS_RESPONSE_TIMEOUT: String(RESPONSE_TIMEOUT_S),
      STREAM_RESPONSE_TIMEOUT: String(STREAM_TIMEOUT_S),
    }),
  );
  const double = stack.use(
    await RubyReceiver.start({
      ...ROOTS,
      port: nats.port,
      serviceId: "worker-1",
      streamTimeoutMs: STREAM_TIMEOUT_S * 1000,
    }),
  );
  return {
    nats,
    requester,
    double,
    connect: (target, early) => connectTunnel(requester.port, `127.0.0.1:${target.port}`, early),
    request: (port) =>
      double.requests.find((one) => one.payload["port"] === port, {
        ms: 8_000,
        what: "the session's request",
      }),
    closed: async () =>
      String((await requester.flowClosed((line) => line["kind"] === "tcp"))["code"]),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

Deno.test("CONNECT through a Ruby receiver: early bytes and 3 MB each way, with credit", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  const bytes = pattern(3_000_000);
  await using tunnel = await rig.connect(target, bytes.subarray(0, 1000));
  assert.match(tunnel.answer, /^HTTP\/1\.1 200 /);
  const sent = tunnel.socket.write(bytes.subarray(1000));
  const back = await tunnel.socket.readExactly(bytes.length);
  await sent;
  assert.equal(sha256(back), sha256(bytes));
  const request = await rig.request(target.port);
  const frames = rig.double.targets.get(request.id)?.frames ?? [];
  assert.equal(frames[0], "session_credit_downstream", "credit before anything else");
  assert.ok(frames.filter((one) => one === "session_credit_downstream").length >= 3);
  await tunnel.socket.closeWrite();
  assert.equal(await tunnel.socket.waitEnd(), "fin");
  assert.equal(await rig.closed(), "ok");
  assert.ok(frames.includes("session_close"));
  rig.double.assertContent();
  assert.equal(rig.double.live, 0);
});

Deno.test("SOCKS5 through a Ruby receiver: the reply has its end of the connection", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  for (const host of ["127.0.0.1", "localhost"]) {
    await using tunnel = await socksTunnel(await socksPort(rig.requester), host, target.port);
    const connection = await target.connectionLog.find(
      (one) => one.index === target.connections.length - 1,
      { ms: 5_000, what: "the connection at the target" },
    );
    const port = connection.remotePort;
    const bound = String.fromCharCode(port >> 8, port & 255);
    assert.equal(tunnel.answer, `\x05\x00\x00\x01\x7f\x00\x00\x01${bound}`);
    await tunnel.socket.write("ping");
    assert.deepEqual(await tunnel.socket.readExactly(4), octets("ping"));
  }
  const payload = (await rig.request(target.port)).payload;
  assert.deepEqual(payload, {
    host: "127.0.0.1",
    port: target.port,
    ingress_kind: "socks5",
    method: "SOCKS5_CONNECT",
    requester_service_id: payload["requester_service_id"],
  });
  rig.double.assertContent();
});

Deno.test("Octets that look like natsway's own frames pass a Ruby receiver like any others", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  await using tunnel = await rig.connect(target);
  for (let type = 0; type <= 8; type++) {
    const piece = new Uint8Array(40).fill(type);
    await tunnel.socket.write(piece);
    assert.deepEqual(await tunnel.socket.readExactly(piece.length), piece);
  }
  rig.double.assertContent();
});

Deno.test("A target that closes first: the client gets all of it, then the end", async () => {
  await using rig = await bridge();
  const bytes = pattern(1_500_000);
  await using target = await startUpstream(async (connection) => {
    await connection.write(bytes);
    await connection.closeWrite();
  });
  await using tunnel = await rig.connect(target);
  assert.equal(sha256(await tunnel.socket.readExactly(bytes.length)), sha256(bytes));
  assert.equal(await tunnel.socket.waitEnd(), "fin");
  assert.equal(await rig.closed(), "ok");
  assert.ok(
    !rig.double.dropped.some((one) => one.startsWith("session frame")),
    "nothing is sent back",
  );
});

Deno.test("What the target had sent when the client ended is still delivered", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(async (connection) => {
    await connection.readExactly(4);
    await connection.write(pattern(100_000));
    await connection.waitEnd();
  });
  await using tunnel = await rig.connect(target);
  await tunnel.socket.write("send");
  const request = await rig.request(target.port);
  const session = rig.double.targets.get(request.id) ?? assert.fail("no session");
  await session.sent.find((bytes) => bytes === 100_000, { ms: 5_000, what: "all target bytes" });
  await tunnel.socket.closeWrite();
  assert.deepEqual(await tunnel.socket.readExactly(100_000), pattern(100_000));
  assert.equal(await tunnel.socket.waitEnd(), "fin");
});

Deno.test("A target that breaks: response_error, the client is reset, the receiver is told", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(async (connection) => {
    await connection.readExactly(1);
    await connection.reset();
  });
  await using tunnel = await rig.connect(target);
  await tunnel.socket.write("x");
  assert.equal(await tunnel.socket.waitEnd(), "reset");
  assert.equal(await rig.closed(), "target_broken");
  const cancel = await rig.double.cancels.find(() => true, { ms: 5_000, what: "the cancel" });
  assert.match(new TextDecoder().decode(cancel.data), /"reason":"upstream_error"/);
});

Deno.test("A client that breaks: client_disconnected goes to the receiver", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  const tunnel = await rig.connect(target);
  await tunnel.socket.write("x");
  await tunnel.socket.readExactly(1);
  const request = await rig.request(target.port);
  await tunnel.socket.reset();
  await rig.double.finished.find((id) => id === request.id, { ms: 5_000, what: "the end" });
  assert.equal(await rig.closed(), "reset");
  rig.double.assertContent();
});

Deno.test("A target that takes nothing: credit ends, then the session does, visibly on both sides", async () => {
  await using rig = await bridge();
  const { promise: done, resolve: release } = Promise.withResolvers<void>();
  await using target = await startUpstream(async (connection) => {
    await done;
    await connection.waitEnd();
  });
  await using tunnel = await rig.connect(target);
  const sent = tunnel.socket.write(pattern(16_000_000)).catch(() => {});
  assert.equal(await tunnel.socket.waitEnd(), "reset");
  await sent;
  assert.equal(await rig.closed(), "flow_credit_timeout");
  release();
  rig.double.assertContent();
});

Deno.test("A target that cannot be had, as Ruby says it: CONNECT 502, SOCKS5 01", async () => {
  await using rig = await bridge();
  await using connect = await connectTunnel(rig.requester.port, "127.0.0.1:1");
  assert.match(connect.answer, /^HTTP\/1\.1 502 /);
  await using socks = await socksTunnel(await socksPort(rig.requester), "127.0.0.1", 1);
  assert.equal(socks.answer, "\x05\x01\x00\x01\x00\x00\x00\x00\x00\x00");
});

Deno.test("A receiver that takes the open and never answers: CONNECT 504, SOCKS5 01, in time", async () => {
  await using rig = await bridge();
  rig.double.intercept = () => true;
  const started = performance.now();
  const [connect, socks] = await Promise.all([
    connectTunnel(rig.requester.port, "db.lan:5432"),
    socksPort(rig.requester).then((port) => socksTunnel(port, "db.lan", 5432)),
  ]);
  const seconds = (performance.now() - started) / 1000;
  assert.match(connect.answer, /^HTTP\/1\.1 504 /);
  assert.equal(socksReply(socks), 1);
  assert.ok(
    seconds >= RESPONSE_TIMEOUT_S - 0.05 && seconds < RESPONSE_TIMEOUT_S + 3,
    `${seconds} s`,
  );
  await connect.socket.close();
  await socks.socket.close();
});

Deno.test("A NATS server that dies: nothing is sent again to a Ruby peer, so the client is reset", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  await using tunnel = await rig.connect(target);
  await tunnel.socket.write("x");
  await tunnel.socket.readExactly(1);
  await rig.nats.kill("SIGKILL");
  assert.equal(await tunnel.socket.waitEnd(), "reset");
  assert.equal(await rig.closed(), "nats_down");
});
