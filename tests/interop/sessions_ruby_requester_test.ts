import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startUpstream, type UpstreamConnection } from "../helpers/upstream.ts";
import { RubyRequester } from "./ruby_requester.ts";
import { echo } from "./tunnels.ts";

const STREAM_TIMEOUT_S = 1.5;
const ROOTS = { requestRoot: "proxy", responseRoot: "proxy" };

interface Bridge extends AsyncDisposable {
  readonly receiver: Natsway;
  readonly double: RubyRequester;
  /** How the receiver says that the session ended. */
  closed(): Promise<string>;
}

/** A Ruby requester and natsway's receiver, which may dial 127.0.0.1 alone. */
async function bridge(): Promise<Bridge> {
  const stack = new AsyncDisposableStack();
  const nats = stack.use(await startNats());
  const receiver = stack.use(
    await startNatsway("receiver", {
      NATS_URL: nats.url,
      NATS_REQUEST_SUBJECT_ROOT: "proxy",
      NATS_RESPONSE_SUBJECT_ROOT: "proxy",
      STREAM_RESPONSE_TIMEOUT: String(STREAM_TIMEOUT_S),
      TARGET_ALLOW: "127.0.0.1",
    }),
  );
  const double = stack.use(
    await RubyRequester.start({ ...ROOTS, port: nats.port, serviceId: "edge-a" }),
  );
  return {
    receiver,
    double,
    closed: async () =>
      String((await receiver.flowClosed((line) => line["kind"] === "tcp"))["code"]),
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

Deno.test("A Ruby requester's session: 3 MB each way, frames and credit as the contract says", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  for (const kind of ["http_connect", "socks5"] as const) {
    const session = rig.double.openSession("127.0.0.1", target.port, kind);
    const { status, event } = await session.opened;
    assert.equal(status, 200);
    const connection = target.connections.at(-1);
    assert.deepEqual(event, {
      type: "session_established",
      session_id: session.id,
      bind_host: "127.0.0.1",
      bind_port: connection?.remotePort,
      ingress_kind: kind,
      receiver_service_id: event?.["receiver_service_id"],
      flow_kind: kind === "socks5" ? "socks5_stream" : "tcp_stream",
    });
    const bytes = pattern(3_000_000);
    assert.equal(await session.write(bytes), true);
    assert.equal(sha256(await session.received(bytes.length)), sha256(bytes));
    assert.equal(session.seen.events[1], "session_credit_upstream");
    session.leave();
    assert.equal(await session.ended, "target_closed");
    assert.equal(await connection?.waitEnd(), "fin");
  }
  assert.equal(await rig.closed(), "ok");
  rig.double.assertContent();
});

Deno.test("Octets that look like natsway's own frames pass from a Ruby requester like any others", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  const session = rig.double.openSession("127.0.0.1", target.port);
  await session.opened;
  for (let type = 0; type <= 8; type++) await session.write(new Uint8Array(40).fill(type));
  const got = await session.received(9 * 40);
  assert.deepEqual([...got].filter((_, i) => i % 40 === 0), [0, 1, 2, 3, 4, 5, 6, 7, 8]);
  session.leave();
  assert.equal(await session.ended, "target_closed");
  rig.double.assertContent();
});

Deno.test("A target that closes first: all of its bytes, then session_close, to a Ruby requester", async () => {
  await using rig = await bridge();
  const bytes = pattern(1_500_000);
  await using target = await startUpstream(async (connection) => {
    await connection.write(bytes);
    await connection.closeWrite();
    await connection.waitEnd();
  });
  const session = rig.double.openSession("127.0.0.1", target.port);
  assert.equal(await session.ended, "target_closed");
  assert.equal(sha256(session.bytes), sha256(bytes));
  assert.equal(await rig.closed(), "ok");
  rig.double.assertContent();
});

Deno.test("What a Ruby client sent before its end reaches the target before the target's end", async () => {
  await using rig = await bridge();
  const got = Promise.withResolvers<Uint8Array>();
  await using target = await startUpstream(async (connection) => {
    got.resolve(await connection.readExactly(500_000));
    assert.equal(await connection.waitEnd(), "fin");
  });
  const session = rig.double.openSession("127.0.0.1", target.port);
  await session.opened;
  await session.write(pattern(500_000));
  session.leave();
  assert.deepEqual(await got.promise, pattern(500_000));
  assert.equal(await session.ended, "target_closed");
  rig.double.assertContent();
});

for (
  const [name, act, said, code, target] of [
    ["cancels", "cancel", "cancel_requested", "canceled", "reset"],
    ["loses its client", "client_disconnected", "target_closed", "reset", "reset"],
  ] as const
) {
  Deno.test(`A Ruby requester that ${name}: the target's connection is broken off`, async () => {
    await using rig = await bridge();
    const ends: string[] = [];
    const ended = Promise.withResolvers<void>();
    await using server = await startUpstream(async (connection) => {
      await connection.write("hello");
      ends.push(await connection.waitEnd());
      ended.resolve();
    });
    const session = rig.double.openSession("127.0.0.1", server.port);
    await session.received(5);
    if (act === "cancel") session.cancel();
    else session.leave(act);
    assert.equal(await session.ended, said);
    await ended.promise;
    assert.deepEqual(ends, [target]);
    assert.equal(await rig.closed(), code);
    rig.double.assertContent();
  });
}

Deno.test("A target that breaks is told to a Ruby requester as response_error", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(async (connection) => {
    await connection.readExactly(1);
    await connection.reset();
  });
  const session = rig.double.openSession("127.0.0.1", target.port);
  await session.opened;
  await session.write(octets("x"));
  assert.equal(await session.ended, "response_error: Tunnel error: reset");
  assert.equal(await rig.closed(), "reset");
  rig.double.assertContent();
});

Deno.test("A Ruby client that takes nothing: flow_credit_timeout, and the target sees the break", async () => {
  await using rig = await bridge();
  const end = Promise.withResolvers<string>();
  const script = async (connection: UpstreamConnection) => {
    const sent = connection.write(pattern(16_000_000)).catch(() => {});
    end.resolve(await connection.waitEnd());
    await sent;
  };
  await using target = await startUpstream(script);
  const never = () => new Promise<void>(() => {});
  const session = rig.double.openSession("127.0.0.1", target.port, "http_connect", never);
  await session.seen.find((one) => one === "session_close", { ms: 8_000, what: "the close" });
  assert.equal(session.events.at(-1)?.["reason"], "flow_credit_timeout");
  assert.equal(await end.promise, "reset");
  assert.equal(await rig.closed(), "flow_credit_timeout");
  session.stop("it never took a byte");
  rig.double.assertContent();
});

Deno.test("A target that cannot be had is told as Ruby tells it", async () => {
  await using rig = await bridge();
  const session = rig.double.openSession("127.0.0.1", 1);
  const { status, event } = await session.opened;
  assert.equal(status, 502);
  assert.deepEqual(event, {
    type: "response_start",
    status: 502,
    headers: { "content-type": "text/plain" },
    content_type: "text/plain",
    streaming: false,
    receiver_service_id: event?.["receiver_service_id"],
    request_id: session.id,
    flow_kind: "tcp_stream",
  });
  assert.equal(await rig.closed(), "target_refused");
  rig.double.assertContent();
});

Deno.test("A target that the receiver may not dial is refused without a dial", async () => {
  await using rig = await bridge();
  await using target = await startUpstream(echo);
  const session = rig.double.openSession("127.0.0.2", target.port);
  const { status, event } = await session.opened;
  assert.equal(status, 502);
  assert.equal(event?.["status"], 403);
  assert.equal(await rig.closed(), "target_denied");
  assert.equal(target.connections.length, 0);
  rig.double.assertContent();
});
