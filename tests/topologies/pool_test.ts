import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { answer } from "../helpers/upstream.ts";
import { flowsAre, liveFlows } from "../system/flows.ts";
import { assertClientsTold, Witnesses } from "../system/witnesses.ts";
import { Topology, type TopologyOptions } from "./topology.ts";
import { checkTraffic } from "./traffic.ts";

const MODES: readonly TopologyOptions[] = [
  { mode: "core" },
  { mode: "jetstream", sections: ["With JetStream"] },
];
const GRACE_S = 3;
const PEER_TIMEOUT_S = 4;
/** From the end of the grace to the process's. */
const END_MS = 5_000;
/** Of each kind: both receivers get some, but for one time in a thousand. */
const FLOWS = 6;

async function startPool(options: TopologyOptions): Promise<Topology> {
  return await Topology.start("pool", {
    ...options,
    settings: { SHUTDOWN_GRACE: String(GRACE_S), PEER_TIMEOUT: String(PEER_TIMEOUT_S) },
  });
}

/** Tunnels and streams, spread over both receivers. */
async function openFlows({ port, upstream }: Topology): Promise<Witnesses> {
  const witnesses = new Witnesses(port, upstream);
  for (let i = 0; i < FLOWS; i++) {
    await witnesses.idleTunnel();
    await witnesses.stream();
  }
  return witnesses;
}

/** Ends the other receiver too, at once: then no flow may have ended as if it were complete. */
async function endVisibly(staying: Natsway, witnesses: Witnesses): Promise<void> {
  staying.kill("SIGTERM");
  staying.kill("SIGTERM");
  assertClientsTold(await witnesses.endings("client", END_MS));
}

function receivers(topology: Topology): [leaving: Natsway, staying: Natsway] {
  return [topology.natsway("receiver-1"), topology.natsway("receiver-2")];
}

for (const options of MODES) {
  Deno.test(`pool, ${options.mode}: both receivers serve`, async () => {
    await using topology = await startPool(options);
    await checkTraffic(topology.port, topology.upstream);
  });

  Deno.test(`F53 pool, ${options.mode}: SIGTERM to one receiver, its request completes, its flows end at the grace, the other has the work`, async () => {
    await using topology = await startPool(options);
    const [leaving, staying] = receivers(topology);
    await using witnesses = await openFlows(topology);
    const released = Promise.withResolvers<void>();
    topology.upstream.route("/works", async (_, connection) => {
      await released.promise;
      await connection.write(answer("done"));
    });
    const works = Array.from({ length: FLOWS }, () => request(topology.port, "/works"));
    await flowsAre([topology.natsway("requester")], 3 * FLOWS);
    leaving.kill("SIGTERM");
    const started = performance.now();
    await leaving.event("stopping");
    for (let i = 0; i < 10; i++) {
      assert.equal((await request(topology.port, "/new", { ms: 1_500 })).status, 200);
    }
    released.resolve();
    for (const response of await Promise.all(works)) assert.equal(text(response), "done");
    const { code } = await leaving.ended(GRACE_S * 1_000 + END_MS);
    assert.equal(code, 0);
    const tookMs = performance.now() - started;
    assert.ok(tookMs > GRACE_S * 1_000 - 200, `ended after ${tookMs} ms already`);
    const kept = await liveFlows(staying);
    assert.ok(kept > 0 && kept < 2 * FLOWS, `${kept} of the flows are left`);
    await flowsAre([topology.natsway("requester")], kept);
    await endVisibly(staying, witnesses);
  });

  Deno.test(`F54 pool, ${options.mode}: one receiver is killed, its flows end visibly in time, those of the other live, new ones go on`, async () => {
    await using topology = await startPool(options);
    const [leaving, staying] = receivers(topology);
    await using witnesses = await openFlows(topology);
    const [lost, kept] = await Promise.all([liveFlows(leaving), liveFlows(staying)]);
    assert.equal(lost + kept, 2 * FLOWS);
    assert.ok(lost > 0 && kept > 0, `${lost} and ${kept} flows`);
    leaving.kill("SIGKILL");
    await leaving.ended();
    const requester = topology.natsway("requester");
    await flowsAre([requester], kept, PEER_TIMEOUT_S * 4_000 / 3 + 2_000);
    for (let i = 0; i < 20; i++) {
      assert.equal((await request(topology.port, `/after/${i}`)).status, 200);
    }
    assert.equal(await liveFlows(staying), kept);
    const closed = requester.log.events.filter((event) =>
      event.message === "flow closed" && event["code"] === "peer_lost"
    );
    assert.equal(closed.length, lost);
    await endVisibly(staying, witnesses);
  });
}
