import assert from "node:assert/strict";
import { text } from "../helpers/http_message.ts";
import { request } from "../helpers/client.ts";
import { Load } from "../system/load.ts";
import { Topology } from "./topology.ts";
import { askUntil, checkTraffic, Events } from "./traffic.ts";

const SERVERS = ["n1", "n2", "n3"];
const CLIENTS = 4;
/** In service again within that time (F42). */
const HEAL_MS = 15_000;
/** So many answers in a row count as "in service". */
const IN_A_ROW = 20;

/** The server that leads the stream, and the ports of the three in the order of NATS_URL. */
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

/** Waits until requests are answered one after the other. */
async function inService(port: number): Promise<void> {
  const until = performance.now() + HEAL_MS;
  for (let inARow = 0; inARow < IN_A_ROW;) {
    const response = await request(port, "/after", { ms: 2 * HEAL_MS });
    if (response.status === 200) inARow++;
    else inARow = 0;
    assert.ok(performance.now() < until, `not in service: ${response.status} ${text(response)}`);
  }
}

const VICTIMS = {
  "the stream's leader": leaderOf,
  "the requester's server": requestersServer,
};

for (const [name, victimOf] of Object.entries(VICTIMS)) {
  Deno.test(`cluster: ${name} is killed under load; flows live on, requests fail visibly or not at all, and service is back in time`, async () => {
    const t0 = performance.now();
    const lap = (w: string) => console.log(w, Math.round(performance.now() - t0));
    await using topology = await Topology.start("cluster");
    lap("start");
    const { port, upstream } = topology;
    await checkTraffic(port, upstream);
    lap("traffic");
    await using flows = await Load.start({ port, upstream }, {
      tunnels: 4,
      tunnelBytes: 1_000_000,
      downloads: 4,
      downloadBytes: 1_000_000,
      ms: 30_000,
    });
    lap("load");
    await using events = await Events.open(port, upstream);
    await events.next();
    const stop = new AbortController();
    const asking = askUntil(port, CLIENTS, stop.signal);
    try {
      const victim = await victimOf(topology);
      lap("kill " + victim);
      await topology.server(victim).kill();
      lap("killed");
      await inService(port);
      lap("service");
    } finally {
      stop.abort();
    }
    await events.next();
    lap("event");
    await flows.finish();
    lap("finished");
    const { answered, failures } = await asking;
    assert.ok(answered > 0);
    for (const { what } of failures) assert.match(what, /^50[234] \{.*"code":"\w+"/);
    console.log(
      answered,
      failures.length,
      failures.map((f) => Math.round(f.atMs - t0)).filter((_, i) => i % 40 === 0),
      [...new Set(failures.map((f) => f.what))],
      topology.natsway("requester").described(""),
      topology.natsway("receiver").described(""),
    );
    assert.deepEqual(upstream.faults, []);
  });
}
