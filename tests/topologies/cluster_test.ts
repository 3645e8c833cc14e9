import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import { pause } from "../helpers/wait.ts";
import { Load } from "../system/load.ts";
import { Topology } from "./topology.ts";
import { askUntil, checkTraffic, Events } from "./traffic.ts";

const SERVERS = ["n1", "n2", "n3"];
const CLIENTS = 4;
/** In service again within that time (F42). */
const HEAL_MS = 15_000;
/** So many requests at once, answered soon, count as "in service". */
const AT_ONCE = 5;
const SOON_MS = 2_000;
/** A request whose message went down with the server is answered with 504 after that time. */
const RESPONSE_TIMEOUT_S = 8;
const POLL_MS = 100;
const LONGEST_ANSWER_MS = 1.5 * RESPONSE_TIMEOUT_S * 1000;

/** The server that leads the stream. */
async function leaderOf(topology: Topology): Promise<string> {
  const manager = await topology.manager(topology.natsPorts()[0]!);
  const { cluster, config } = await manager.streams.info("proxy");
  assert.equal(config.num_replicas, 3);
  assert.equal(cluster?.replicas?.length, 2);
  return cluster.leader!;
}

/** The server that the requester is connected to. */
async function requestersServer(topology: Topology): Promise<string> {
  const { server } = await topology.natsway("requester").event("connected to NATS");
  const port = Number(String(server).split(":")[1]);
  return SERVERS[topology.natsPorts().indexOf(port)]!;
}

/** Waits until requests are answered without delay. */
async function inService(port: number): Promise<void> {
  const until = performance.now() + HEAL_MS;
  for (;;) {
    const outcomes = await Promise.all(Array.from({ length: AT_ONCE }, async () => {
      try {
        const response = await request(port, "/after", { ms: SOON_MS });
        return response.status === 200 ? "" : text(response);
      } catch (error) {
        return (error as Error).message;
      }
    }));
    if (outcomes.every((outcome) => outcome === "")) return;
    assert.ok(performance.now() < until, `not in service: ${outcomes.join(", ")}`);
    await pause(POLL_MS);
  }
}

const VICTIMS = {
  "the stream's leader": leaderOf,
  "the requester's server": requestersServer,
};

for (const [name, victimOf] of Object.entries(VICTIMS)) {
  Deno.test(`cluster: ${name} is killed under load; flows live on, requests fail visibly or not at all, and service is back in time`, async () => {
    await using topology = await Topology.start("cluster", {
      settings: { NATS_RESPONSE_TIMEOUT: String(RESPONSE_TIMEOUT_S) },
    });
    const { port, upstream } = topology;
    await checkTraffic(port, upstream);
    await using flows = await Load.start({ port, upstream }, {
      tunnels: 4,
      tunnelBytes: 1_000_000,
      downloads: 4,
      downloadBytes: 1_000_000,
      ms: 30_000,
    });
    await using events = await Events.open(port, upstream);
    await events.next();
    const stop = new AbortController();
    const asking = askUntil(port, CLIENTS, LONGEST_ANSWER_MS, stop.signal);
    try {
      await upstream.request("/load/0/3");
      const victim = await victimOf(topology);
      await topology.server(victim).kill();
      await inService(port);
    } finally {
      stop.abort();
    }
    await events.next();
    await flows.finish();
    const { answered, failures } = await asking;
    assert.ok(answered > 0);
    for (const what of failures) assert.match(what, /^50[234] \{.*"code":"\w+"/);
    assert.deepEqual(upstream.faults, []);
  });
}
