import assert from "node:assert/strict";
import { startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { flowsGone } from "./flows.ts";
import { Load, type LoadOptions } from "./load.ts";
import { askTunnel, OPEN_PROXY } from "./tunnels.ts";
import { requestOctets } from "../helpers/client.ts";

const KIB = 1_024;
const MIB = 1_048_576;
/** F38: 5 MiB through a tunnel; here both ways at once, some times, and as a response. */
const LOAD: LoadOptions = {
  tunnels: 4,
  tunnelBytes: 5 * MIB,
  downloads: 2,
  downloadBytes: 5 * MIB,
  ms: 20_000,
};
const BESIDE = 10;

for (const [name, maxPayload] of [["64 KiB", 64 * KIB], ["1 MiB", MIB]] as const) {
  Deno.test(`F38 tunnels over a nats-server with max_payload ${name}: every octet arrives, the connection is never closed, no small request fails`, async () => {
    await using rig = await startRig({
      natsConfig: `max_payload: ${maxPayload}\n`,
      requesterSettings: OPEN_PROXY,
      settings: { FRAME_BYTES: String(MIB) },
    });
    let going = true;
    let small = 0;
    const beside = Promise.all(Array.from({ length: BESIDE }, async () => {
      while (going) {
        assert.equal((await rig.request("/small")).status, 200);
        small++;
      }
    }));
    try {
      await using load = await Load.start(rig, LOAD);
      await load.finish();
    } finally {
      going = false;
      await beside;
    }
    assert.ok(small >= BESIDE, `${small} small requests`);
    assert.doesNotMatch(rig.nats.log, /maximum payload|slow consumer|protocol/i);
    for (const role of [rig.requester, rig.receiver]) {
      const connected = role.log.events.filter((event) => event.message === "connected to NATS");
      assert.equal(connected.length, 1, role.described("the connection was closed"));
    }
  });
}

Deno.test("F38 max_payload shrinks under a running load: each flow survives or ends visibly, and new ones work", async () => {
  await using rig = await startRig({
    natsConfig: `max_payload: ${MIB}\n`,
    requesterSettings: OPEN_PROXY,
    settings: { PEER_TIMEOUT: "3", FRAME_BYTES: String(512 * KIB) },
  });
  // What goes on in it is compared; how it ends is not foreseen.
  {
    await using load = await Load.start(rig, LOAD);
    rig.nats.configure(`max_payload: ${64 * KIB}\n`);
    const marks = [rig.requester, rig.receiver].map((role) => [role, role.mark] as const);
    await rig.nats.restart();
    for (const [role, from] of marks) await role.event("ready", { from });
    await load.finish().catch((error: Error) => {
      assert.doesNotMatch(error.message, /not the one sent|tunnel \d+: fin after/);
    });
  }
  await flowsGone([rig.requester, rig.receiver], 10_000);
  for (let i = 0; i < 3; i++) {
    await using tunnel = await askTunnel(rig.port, `127.0.0.1:${rig.upstream.port}`);
    assert.equal(tunnel.status, 200, tunnel.head);
    await tunnel.socket.write(requestOctets("/inside"));
    await tunnel.socket.readUntil("GET /inside");
    await pause(10);
  }
  assert.ok(rig.requester.running && rig.receiver.running);
});
