import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startUpstream, type UpstreamConnection } from "../helpers/upstream.ts";
import { RubyReceiver } from "./ruby_receiver.ts";
import { RubyRequester } from "./ruby_requester.ts";

const ROOTS = { requestRoot: "proxy", responseRoot: "proxy" };

/** Both doubles with a target between them that a test scripts. */
async function doubles(
  script: (connection: UpstreamConnection) => Promise<void>,
  streamTimeoutMs = 10_000,
) {
  const stack = new AsyncDisposableStack();
  const nats = stack.use(await startNats());
  const target = stack.use(await startUpstream(script));
  const place = { ...ROOTS, port: nats.port, streamTimeoutMs, responseTimeoutMs: 5_000 };
  const receiver = stack.use(await RubyReceiver.start({ ...place, serviceId: "worker-1" }));
  const requester = stack.use(await RubyRequester.start({ ...place, serviceId: "edge-a" }));
  return {
    target,
    receiver,
    requester,
    assertContent: () => {
      receiver.assertContent();
      requester.assertContent();
    },
    [Symbol.asyncDispose]: () => stack.disposeAsync(),
  };
}

/** Sends back what comes, until the peer's end. */
async function echo(connection: UpstreamConnection): Promise<void> {
  for (let piece = await connection.read(); piece !== null; piece = await connection.read()) {
    await connection.write(piece);
  }
}

Deno.test("The doubles carry a session to each other: every byte, both ends said", async () => {
  await using rig = await doubles(echo);
  for (const kind of ["http_connect", "socks5"] as const) {
    const session = rig.requester.openSession("127.0.0.1", rig.target.port, kind);
    const { status, event } = await session.opened;
    assert.equal(status, 200);
    assert.equal(event?.["flow_kind"], kind === "socks5" ? "socks5_stream" : "tcp_stream");
    const bytes = pattern(3_000_000);
    assert.equal(await session.write(bytes), true);
    assert.equal(sha256(await session.received(bytes.length)), sha256(bytes));
    session.leave();
    assert.equal(await session.ended, "target_closed");
  }
  rig.assertContent();
  assert.equal(rig.receiver.live, 0);
});

Deno.test("The doubles say when a target cannot be had, and when it closes first", async () => {
  await using rig = await doubles((connection) => connection.write("bye"));
  const refused = rig.requester.openSession("127.0.0.1", 1);
  const { status, text } = await refused.opened;
  assert.equal(status, 502);
  assert.equal(text, "Session failed: Expected session_established, got response_start");
  const session = rig.requester.openSession("127.0.0.1", rig.target.port);
  assert.equal(await session.ended, "target_closed");
  assert.deepEqual(session.bytes, octets("bye"));
  rig.assertContent();
});

Deno.test("The doubles end a cancelled session, a broken target, and a starved one", async () => {
  let resets = true;
  await using rig = await doubles(async (connection) => {
    await connection.read();
    if (resets) return await connection.reset();
    await connection.write(pattern(2_000_000));
    await connection.waitEnd();
  }, 700);
  const broken = rig.requester.openSession("127.0.0.1", rig.target.port);
  await broken.write(octets("x"));
  assert.match(await broken.ended, /^response_error: Tunnel error: /);
  resets = false;
  const starved = rig.requester.openSession(
    "127.0.0.1",
    rig.target.port,
    "http_connect",
    () => new Promise(() => {}),
  );
  await starved.write(octets("x"));
  const close = await starved.seen.find((one) => one === "session_close", {
    ms: 5_000,
    what: "the close for want of credit",
  });
  assert.equal(close, "session_close");
  assert.equal(starved.events.at(-1)?.["reason"], "flow_credit_timeout");
  starved.stop("the client never took a byte");
  const canceled = rig.requester.openSession("127.0.0.1", rig.target.port);
  await canceled.opened;
  canceled.cancel();
  assert.equal(await canceled.ended, "cancel_requested");
  assert.equal(rig.receiver.violations.length, 0);
});
