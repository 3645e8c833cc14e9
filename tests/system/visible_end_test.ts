import assert from "node:assert/strict";
import type { Natsway } from "../helpers/natsway.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { type Bridge, startCabled } from "./bridges.ts";
import { flowsGone } from "./flows.ts";
import { OPEN_PROXY } from "./tunnels.ts";
import { assertClientsTold, assertTargetsTold, Witnesses } from "./witnesses.ts";

const PEER_TIMEOUT_S = 3;
/**
 * The clock starts with the first unanswered probe, which is sent after a third of PEER_TIMEOUT of
 * silence (extensions.md section 6); the rest is room for a busy machine.
 */
const BOUND_MS = PEER_TIMEOUT_S * 1000 * 4 / 3 + 2_500;

/** Two of each kind. */
async function witnessed(port: number, upstream: Rig["upstream"]): Promise<Witnesses> {
  const witnesses = new Witnesses(port, upstream);
  for (let i = 0; i < 2; i++) {
    await witnesses.idleTunnel();
    await witnesses.busyTunnel();
    await witnesses.stream();
    await witnesses.download();
  }
  return witnesses;
}

function startWitnessed(): Promise<Rig> {
  return startRig({
    settings: { PEER_TIMEOUT: String(PEER_TIMEOUT_S) },
    requesterSettings: OPEN_PROXY,
  });
}

/** Expects that all flows of the role ended with this code, the last of them now. */
function assertCodes(role: Natsway, codes: readonly string[]): void {
  const closed = role.log.events.filter((event) => event.message === "flow closed");
  assert.equal(closed.length, 8, JSON.stringify(closed));
  for (const event of closed) assert.ok(codes.includes(String(event["code"])), role.described(""));
}

Deno.test("a receiver that is stopped for longer than PEER_TIMEOUT: clients see a broken end in time, targets when it goes on", async () => {
  await using rig = await startWitnessed();
  await using witnesses = await witnessed(rig.port, rig.upstream);
  rig.receiver.kill("SIGSTOP");
  const clients = await witnesses.endings("client", BOUND_MS);
  assertClientsTold(clients);
  await flowsGone([rig.requester]);
  assertCodes(rig.requester, ["peer_lost"]);
  rig.receiver.kill("SIGCONT");
  assertTargetsTold(await witnesses.endings("target", BOUND_MS));
  await flowsGone([rig.receiver]);
  assert.equal((await rig.request("/again")).status, 200);
});

Deno.test("a requester that is stopped for longer than PEER_TIMEOUT: targets see a broken end in time, clients when it goes on", async () => {
  await using rig = await startWitnessed();
  await using witnesses = await witnessed(rig.port, rig.upstream);
  rig.requester.kill("SIGSTOP");
  const targets = await witnesses.endings("target", BOUND_MS);
  assertTargetsTold(targets);
  await flowsGone([rig.receiver]);
  assertCodes(rig.receiver, ["peer_lost"]);
  rig.requester.kill("SIGCONT");
  assertClientsTold(await witnesses.endings("client", BOUND_MS));
  await flowsGone([rig.requester]);
  assert.equal((await rig.request("/again")).status, 200);
});

for (const how of ["gone", "silent"] as const) {
  Deno.test(`a nats-server that is ${how} for longer than PEER_TIMEOUT: both ends of every flow see a broken end`, async () => {
    await using rig = await startWitnessed();
    await using witnesses = await witnessed(rig.port, rig.upstream);
    await (how === "gone" ? rig.nats.kill("SIGKILL") : rig.nats.kill("SIGSTOP"));
    const [clients, targets] = await Promise.all([
      witnesses.endings("client", BOUND_MS),
      witnesses.endings("target", BOUND_MS),
    ]);
    assertClientsTold(clients);
    assertTargetsTold(targets);
    await flowsGone([rig.requester, rig.receiver]);
    for (const role of [rig.requester, rig.receiver]) {
      assertCodes(role, how === "gone" ? ["nats_down"] : ["peer_lost", "nats_down"]);
    }
    await (how === "gone" ? rig.nats.restart() : rig.nats.kill("SIGCONT"));
    let status = 0;
    for (let i = 0; status !== 200 && i < 100; i++) {
      status = (await rig.request("/again")).status;
      await pause(100);
    }
    assert.equal(status, 200);
  });
}

for (const role of ["requester", "receiver"] as const) {
  for (const how of ["cut", "blocked"] as const) {
    Deno.test(`the ${role}'s link to NATS is ${how} for longer than PEER_TIMEOUT: both ends of every flow see a broken end`, async () => {
      await using bridge: Bridge = await startCabled(role, {
        settings: { PEER_TIMEOUT: String(PEER_TIMEOUT_S) },
      });
      const { requester, receiver, upstream, cable } = bridge;
      await using witnesses = await witnessed(requester.port, upstream);
      if (how === "cut") await cable.cut();
      else cable.block();
      const [clients, targets] = await Promise.all([
        witnesses.endings("client", BOUND_MS),
        witnesses.endings("target", BOUND_MS),
      ]);
      assertClientsTold(clients);
      assertTargetsTold(targets);
      await flowsGone([requester, receiver]);
    });
  }
}
