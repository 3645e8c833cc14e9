import type { LogEvent } from "../helpers/natsway.ts";
import { MODE } from "../helpers/mode.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { type Bridge, startCabled, startLeafBridge } from "./bridges.ts";
import { flowsGone } from "./flows.ts";
import { Load, type LoadOptions } from "./load.ts";
import { OPEN_PROXY } from "./tunnels.ts";

const FULL = Deno.env.get("NATSWAY_TEST_FULL") === "1";
const MIB = 1_048_576;
const LOAD: LoadOptions = FULL
  ? {
    tunnels: 64,
    tunnelBytes: 64 * MIB,
    downloads: 2,
    downloadBytes: 1_024 * MIB,
    ms: 60_000,
  }
  : { tunnels: 16, tunnelBytes: 2 * MIB, downloads: 4, downloadBytes: 12 * MIB, ms: 20_000 };
/** How long an outage lasts: less than PEER_TIMEOUT - 3 s. */
const OUTAGE_MS = 1_500;
const TIMES = FULL ? 5 : 2;

/** Runs `disturb` in the middle of a load, some times, and expects that nothing is lost. */
async function survives(rig: Rig, disturb: () => Promise<void>): Promise<void> {
  await using load = await Load.start(rig, LOAD);
  for (let i = 0; i < TIMES; i++) {
    const marks = [rig.requester, ...rig.receivers].map((role) => [role, role.mark] as const);
    await disturb();
    // The next one finds both roles connected again.
    for (const [role, from] of marks) {
      const down = (event: LogEvent) => event.message === "not ready";
      if (!role.log.events.slice(from).some(down)) continue;
      await role.event("ready", { from, ms: 15_000 });
    }
  }
  await load.finish();
  await flowsGone([rig.requester, ...rig.receivers]);
}

const KILLS: Record<string, (rig: Rig) => Promise<void>> = {
  "a restart of nats-server": (rig) => rig.nats.restart(),
  "kill -9 of nats-server": async (rig) => {
    await rig.nats.kill("SIGKILL");
    await rig.nats.restart();
  },
  "an outage of nats-server": async (rig) => {
    await rig.nats.kill("SIGKILL");
    await pause(OUTAGE_MS);
    await rig.nats.restart();
  },
  "a nats-server that stands still for a while": async (rig) => {
    await rig.nats.kill("SIGSTOP");
    await pause(OUTAGE_MS);
    await rig.nats.kill("SIGCONT");
  },
  "a receiver that stands still for a while": async (rig) => {
    rig.receiver.kill("SIGSTOP");
    await pause(OUTAGE_MS);
    rig.receiver.kill("SIGCONT");
  },
  "a requester that stands still for a while": async (rig) => {
    rig.requester.kill("SIGSTOP");
    await pause(OUTAGE_MS);
    rig.requester.kill("SIGCONT");
  },
  "everything standing still, one after the other, and a restart": async (rig) => {
    for (const role of [rig.requester, rig.receiver]) role.kill("SIGSTOP");
    await rig.nats.restart();
    rig.requester.kill("SIGCONT");
    await pause(OUTAGE_MS);
    rig.receiver.kill("SIGCONT");
  },
};

for (const [name, disturb] of Object.entries(KILLS)) {
  Deno.test(`F40 ${name} during ${LOAD.tunnels} tunnels and ${LOAD.downloads} downloads: every octet arrives`, async () => {
    await using rig = await startRig({
      settings: { LOG_LEVEL: "info" },
      requesterSettings: OPEN_PROXY,
    });
    await survives(rig, () => disturb(rig));
  });
}

/** What happens to the cable. */
const CUTS: Record<string, (bridge: Bridge) => Promise<void>> = {
  "cut": async ({ cable }) => {
    await cable.cut();
    await pause(OUTAGE_MS);
    await cable.heal();
  },
  "blocked": async ({ cable }) => {
    cable.block();
    await pause(OUTAGE_MS);
    await cable.heal();
  },
  "blocked, then cut": async ({ cable }) => {
    cable.block();
    await pause(OUTAGE_MS);
    await cable.cut();
    await cable.heal();
  },
};

const LINKS: Record<string, () => Promise<Bridge>> = {
  // With a stream the requester needs its domain: tests/topologies has that leaf.
  ...(MODE === "core" ? { "a leaf link": () => startLeafBridge() } : {}),
  "the requester's link to NATS": () => startCabled("requester"),
  "the receiver's link to NATS": () => startCabled("receiver"),
};

for (const [link, start] of Object.entries(LINKS)) {
  for (const [what, act] of Object.entries(CUTS)) {
    Deno.test(`F40 ${link} is ${what} during ${LOAD.tunnels} tunnels and ${LOAD.downloads} downloads: every octet arrives`, async () => {
      await using bridge = await start();
      const { requester, receiver, upstream } = bridge;
      await using load = await Load.start({ port: requester.port, upstream }, LOAD);
      for (let i = 0; i < TIMES; i++) {
        await bridge.cable.joined();
        await act(bridge);
      }
      await load.finish();
      await flowsGone([requester, receiver]);
    });
  }
}
