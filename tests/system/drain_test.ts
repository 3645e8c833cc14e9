import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";
import { flowsAre, flowsGone, liveFlows } from "./flows.ts";
import { askTunnel, OPEN_PROXY, openTunnel } from "./tunnels.ts";
import { assertClientsTold, assertTargetsTold, Witnesses } from "./witnesses.ts";

/** With NATSWAY_TEST_FULL=1 the times of F53. */
const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const WORK_MS = FULL ? 8_000 : 1_500;
const GRACES_S = FULL ? [20, 45] : [3];
/** From the end of the grace to the process's. */
const END_MS = 5_000;

async function startWorking(grace: number): Promise<Rig> {
  const rig = await startRig({
    settings: { SHUTDOWN_GRACE: String(grace), PEER_TIMEOUT: "6" },
    requesterSettings: OPEN_PROXY,
  });
  rig.upstream.route("/works", async (_, connection) => {
    await pause(WORK_MS);
    await connection.write(answer("done"));
  });
  return rig;
}

for (const graceS of GRACES_S) {
  for (const role of ["receiver", "requester"] as const) {
    Deno.test(`F53 SIGTERM to the ${role}, grace ${graceS} s: the request completes, streams and tunnels go on until the grace is over, then end visibly`, async () => {
      await using rig = await startWorking(graceS);
      await using witnesses = new Witnesses(rig.port, rig.upstream);
      const tunnel = await witnesses.idleTunnel();
      await witnesses.busyTunnel();
      await witnesses.stream();
      const working = rig.request("/works");
      await rig.upstream.request("/works");
      const stopping = rig[role];
      if (role === "receiver") await rig.addReceiver();
      const started = performance.now();
      stopping.kill("SIGTERM");
      await stopping.event("stopping");
      // What runs goes on as if nothing had happened.
      await tunnel.write("meanwhile");
      assert.equal(latin1(await tunnel.readExactly(9)), "meanwhile");
      const done = await working;
      assert.equal(text(done), "done");
      assert.equal(done.complete, true);
      if (role === "receiver") {
        assert.equal((await rig.request("/new")).status, 200);
        await using other = await openTunnel(rig.port, rig.upstream.port);
        await other.write(requestOctets("/inside"));
        await other.readUntil("GET /inside");
      }
      const most = graceS * 1000 + END_MS;
      const [clients, targets] = await Promise.all([
        witnesses.endings("client", most),
        witnesses.endings("target", most),
      ]);
      const took = performance.now() - started;
      assert.ok(took > graceS * 1000 - 200, `ended after ${took} ms already`);
      assertClientsTold(clients);
      assertTargetsTold(targets);
      const status = await stopping.ended(END_MS);
      assert.equal(status.code, 0, stopping.described("exit code"));
      if (role === "receiver") await flowsGone([rig.requester]);
      else await flowsGone([rig.receiver]);
    });
  }
}

Deno.test("F53 tunnels that end during the drain end in order, and the role leaves as soon as the last has", async () => {
  for (const role of ["receiver", "requester"] as const) {
    await using rig = await startWorking(20);
    await using witnesses = new Witnesses(rig.port, rig.upstream);
    const tunnel = await witnesses.idleTunnel();
    rig[role].kill("SIGTERM");
    await rig[role].event("stopping");
    await tunnel.write("last words");
    await tunnel.closeWrite();
    assert.equal(latin1(await tunnel.readExactly(10)), "last words");
    assert.equal(await tunnel.waitEnd(2_000), "fin");
    assert.equal((await rig[role].ended(3_000)).code, 0);
  }
});

Deno.test("F53 the second SIGTERM breaks tunnels and streams off at once", async () => {
  for (const role of ["receiver", "requester"] as const) {
    await using rig = await startWorking(20);
    await using witnesses = new Witnesses(rig.port, rig.upstream);
    await witnesses.idleTunnel();
    await witnesses.busyTunnel();
    await witnesses.stream();
    rig[role].kill("SIGTERM");
    await rig[role].event("stopping");
    rig[role].kill("SIGTERM");
    // The other side is told, and need not wait for PEER_TIMEOUT.
    const [clients, targets] = await Promise.all([
      witnesses.endings("client", 3_000),
      witnesses.endings("target", 3_000),
    ]);
    assertClientsTold(clients);
    assertTargetsTold(targets);
    await rig[role].ended(2_000);
  }
});

Deno.test("F53 a receiver that drains takes no new tunnel, and the requester finds the other one at once", async () => {
  await using rig = await startRig({ receivers: 2, requesterSettings: OPEN_PROXY });
  await using witnesses = new Witnesses(rig.port, rig.upstream);
  for (let i = 0; i < 8; i++) await witnesses.idleTunnel();
  const [leaving, staying] = rig.receivers;
  assert.ok(leaving !== undefined && staying !== undefined);
  const held = await liveFlows(leaving);
  leaving.kill("SIGTERM");
  await leaving.event("stopping");
  for (let i = 0; i < 10; i++) {
    await using tunnel = await askTunnel(rig.port, `127.0.0.1:${rig.upstream.port}`, { ms: 1_500 });
    assert.equal(tunnel.status, 200);
  }
  await flowsAre([staying], 8 - held);
});
