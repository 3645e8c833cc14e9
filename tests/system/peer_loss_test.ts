import assert from "node:assert/strict";
import { requestOctets } from "../helpers/client.ts";
import { startRig } from "../helpers/rig.ts";
import { within } from "../helpers/wait.ts";

/** A response that has begun and goes on. */
const BEGUN = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n";

for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
  Deno.test(`F54 a receiver that gets ${signal} in the middle of a body: incomplete within PEER_TIMEOUT, never a clean end`, async () => {
    const peerTimeoutS = 6;
    await using rig = await startRig({ settings: { PEER_TIMEOUT: String(peerTimeoutS) } });
    rig.upstream.route("/half", async (_, connection) => {
      await connection.write(BEGUN);
      await connection.waitEnd(60_000);
      return "close";
    });
    await using client = await rig.connect();
    await client.send(requestOctets("/half"));
    await client.socket.readUntil("hello");
    const reading = client.socket.readUntil("\r\n0\r\n\r\n", 60_000).then(
      () => "clean end",
      () => client.socket.end,
    );
    const started = performance.now();
    rig.receiver.kill(signal);
    const end = await reading;
    const ms = performance.now() - started;
    assert.notEqual(end, "clean end");
    assert.notEqual(end, "open");
    // The clock of extensions.md section 6 starts with the first unanswered probe, which is sent
    // after a third of PEER_TIMEOUT of silence.
    assert.ok(ms < (peerTimeoutS * 4 / 3) * 1000 + 2_000, `after ${ms} ms`);
    const closed = await rig.requester.flowClosed((event) => event["code"] !== "ok");
    assert.equal(closed["code"], "peer_lost");
    if (signal === "SIGSTOP") {
      rig.receiver.kill("SIGCONT");
      const response = await within(rig.request("/back"), 15_000, "an answer after SIGCONT");
      assert.equal(response.status, 200);
    } else {
      await rig.addReceiver();
      assert.equal((await rig.request("/back")).status, 200);
    }
  });
}

Deno.test("F54 of two receivers one is killed while idle: later requests succeed", async () => {
  await using rig = await startRig({ receivers: 2, settings: { PEER_TIMEOUT: "4" } });
  rig.receiver.kill("SIGKILL");
  await rig.receiver.ended();
  for (let i = 0; i < 30; i++) {
    assert.equal((await rig.request(`/still/${i}`)).status, 200);
  }
});

Deno.test("F58 a requester that is killed frees what it had running at the receiver", async () => {
  await using rig = await startRig({ settings: { PEER_TIMEOUT: "4" } });
  const ended = Promise.withResolvers<string>();
  rig.upstream.route("/orphan", async (_, connection) => {
    await connection.write(BEGUN);
    ended.resolve(await connection.waitEnd(60_000));
    return "close";
  });
  await using client = await rig.connect();
  await client.send(requestOctets("/orphan"));
  await client.socket.readUntil("hello");
  rig.requester.kill("SIGKILL");
  await within(ended.promise, (4 * 4 / 3) * 1000 + 2_000, "the end of the orphaned upstream call");
  const closed = await rig.receiver.flowClosed((event) => event["code"] !== "ok");
  assert.equal(closed["code"], "peer_lost");
});
