import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { request, requestOctets } from "../helpers/client.ts";
import { json } from "../helpers/http_message.ts";
import { startRig } from "../helpers/rig.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { pause, within } from "../helpers/wait.ts";
import { flowsAre, flowsGone } from "./flows.ts";
import { OPEN_PROXY, openTunnel } from "./tunnels.ts";
import { assertClientsTold, assertTargetsTold, Witnesses } from "./witnesses.ts";

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

/** F58. */
const TUNNELS = 50;
const STREAMS = 10;

for (const killed of ["requester", "receiver"] as const) {
  Deno.test(`F58 ${TUNNELS} tunnels and ${STREAMS} streams are open when the ${killed} is killed: the other side closes all of them as peer_lost within the bound`, async () => {
    const peerTimeoutS = 3;
    await using rig = await startRig({
      settings: { PEER_TIMEOUT: String(peerTimeoutS) },
      requesterSettings: OPEN_PROXY,
    });
    await using witnesses = new Witnesses(rig.port, rig.upstream);
    for (let i = 0; i < TUNNELS; i++) await witnesses.idleTunnel();
    for (let i = 0; i < STREAMS; i++) await witnesses.stream();
    const [victim, survivor] = killed === "requester"
      ? [rig.requester, rig.receiver]
      : [rig.receiver, rig.requester];
    await flowsAre([survivor], TUNNELS + STREAMS);
    victim.kill("SIGKILL");
    const side = killed === "requester" ? "target" : "client";
    const endings = await witnesses.endings(side, peerTimeoutS * 4_000 / 3 + 2_000);
    assert.equal(endings.length, TUNNELS + STREAMS);
    (side === "target" ? assertTargetsTold : assertClientsTold)(endings);
    await flowsGone([survivor]);
    const closed = survivor.log.events.filter((event) => event.message === "flow closed");
    assert.equal(closed.length, TUNNELS + STREAMS);
    for (const event of closed) assert.equal(event["code"], "peer_lost", JSON.stringify(event));
  });
}

Deno.test("F58 idle tunnels and streams live on for more than three times PEER_TIMEOUT, half-closed ones too", async () => {
  const peerTimeoutS = 2;
  await using rig = await startRig({
    settings: {
      PEER_TIMEOUT: String(peerTimeoutS),
      HEADER_TIMEOUT: "1",
      KEEPALIVE_TIMEOUT: "1",
      NATS_RESPONSE_TIMEOUT: "1",
      STREAM_RESPONSE_TIMEOUT: "1",
      CONNECT_TIMEOUT: "1",
      SHUTDOWN_GRACE: "1",
    },
    requesterSettings: OPEN_PROXY,
  });
  await using witnesses = new Witnesses(rig.port, rig.upstream);
  const halfClosed = Promise.withResolvers<void>();
  rig.upstream.route("/waits", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
    await halfClosed.promise;
    await connection.write("5\r\nlater\r\n0\r\n\r\n");
  });
  const tunnels = [];
  for (let i = 0; i < 10; i++) tunnels.push(await witnesses.idleTunnel());
  const [half] = tunnels;
  // Its target echoes what it has read before it shuts down as well.
  const silent = await witnesses.idleTunnel();
  await silent.write("said");
  assert.equal(latin1(await silent.readExactly(4)), "said");
  await using client = await rig.connect();
  await client.send(requestOctets("/waits"));
  await client.socket.readUntil("\r\n\r\n");
  await pause(peerTimeoutS * 3_500);
  await flowsAre([rig.requester, rig.receiver], 12);
  for (const [i, socket] of tunnels.entries()) {
    await socket.write(`word ${i}`);
    assert.equal(latin1(await socket.readExactly(6, 2_000)), `word ${i}`);
  }
  await half?.closeWrite();
  assert.equal(await half?.waitEnd(2_000), "fin");
  halfClosed.resolve();
  assert.equal(latin1(await client.socket.readUntil("0\r\n\r\n")), "5\r\nlater\r\n0\r\n\r\n");
});

for (const first of ["client", "target"] as const) {
  Deno.test(`a tunnel that the ${first} has half-closed lives on for more than three times PEER_TIMEOUT`, async () => {
    const peerTimeoutS = 2;
    const both = Promise.withResolvers<TestSocket>();
    const over = Promise.withResolvers<void>();
    await using rig = await startRig({
      settings: { PEER_TIMEOUT: String(peerTimeoutS) },
      requesterSettings: OPEN_PROXY,
      upstream: (connection) => {
        both.resolve(connection);
        return over.promise;
      },
    });
    await using client = await openTunnel(rig.port, rig.upstream.port);
    const target = await both.promise;
    const [closed, open] = first === "client" ? [client, target] : [target, client];
    await closed.closeWrite();
    assert.equal(await open.read(), null);
    assert.equal(open.end, "fin");
    await pause(peerTimeoutS * 3_500);
    await open.write("still here");
    assert.equal(latin1(await closed.readExactly(10, 2_000)), "still here");
    await open.closeWrite();
    assert.equal(await closed.waitEnd(2_000), "fin");
    over.resolve();
    await flowsGone([rig.requester, rig.receiver]);
  });
}

for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
  Deno.test(`F54 one of two receivers gets ${signal}: its flows end visibly in time, those of the other live, new ones go on`, async () => {
    const peerTimeoutS = 3;
    await using rig = await startRig({
      receivers: 2,
      settings: { PEER_TIMEOUT: String(peerTimeoutS), NATS_RESPONSE_TIMEOUT: "2" },
      requesterSettings: OPEN_PROXY,
    });
    await using witnesses = new Witnesses(rig.port, rig.upstream);
    for (let i = 0; i < 20; i++) await witnesses.idleTunnel();
    for (let i = 0; i < 10; i++) await witnesses.stream();
    const [lost, kept] = rig.receivers;
    assert.ok(lost !== undefined && kept !== undefined);
    const { flows } = json(await request(lost.port, "/observability/nats"));
    assert.ok(Number(flows) > 0 && Number(flows) < 30, `${flows} of 30 flows at one receiver`);
    const { mark } = rig.requester;
    lost.kill(signal);
    await flowsAre([rig.requester], 30 - Number(flows), peerTimeoutS * 4_000 / 3 + 2_000);
    const closed = rig.requester.log.events.slice(mark).filter((event) =>
      event.message === "flow closed"
    );
    assert.deepEqual([...new Set(closed.map((event) => event["code"]))], ["peer_lost"]);
    await flowsAre([kept], 30 - Number(flows));
    if (signal === "SIGKILL") {
      // NATS knows that it has gone: nothing is sent to it any more.
      for (let i = 0; i < 10; i++) assert.equal((await rig.request("/new")).status, 200);
      return;
    }
    lost.kill("SIGCONT");
    await flowsGone([lost], peerTimeoutS * 4_000 / 3 + 2_000);
    let served = 0;
    for (let i = 0; i < 60 && served === 0; i++) {
      const from = lost.mark;
      assert.equal((await rig.request("/back")).status, 200);
      served = lost.log.events.slice(from).filter((event) =>
        event.message === "flow closed"
      ).length;
    }
    assert.ok(served > 0, "the receiver is not back in the pool");
  });
}
