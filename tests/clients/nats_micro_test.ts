/**
 * NATS's own command line asks who is there.
 * @module
 */
import assert from "node:assert/strict";
import type { NatsServer } from "../helpers/nats_server.ts";
import { startRig } from "../helpers/rig.ts";
import { TempFolder } from "./support/files.ts";
import { run } from "./support/program.ts";

/** Runs the command line with nothing of this machine's settings, and returns what it prints. */
async function nats(server: NatsServer, ...args: string[]): Promise<string> {
  await using home = new TempFolder();
  const command = Deno.env.get("NATS_CLI") ?? "nats";
  const env = { HOME: home.path, NO_COLOR: "1" };
  return (await run(command, ["--server", server.url, ...args], { env })).text;
}

interface ServiceInfo {
  readonly id: string;
  readonly version: string;
  readonly metadata: Readonly<Record<string, string>>;
  readonly endpoints: readonly EndpointStats[] | null;
}

interface EndpointStats {
  readonly name: string;
  readonly subject: string;
  readonly queue_group: string;
  readonly num_requests: number;
  readonly num_errors: number;
  readonly data: Readonly<Record<string, unknown>>;
}

async function natsJson<T>(server: NatsServer, ...args: string[]): Promise<T> {
  return JSON.parse(await nats(server, ...args, "--json")) as T;
}

function instanceOf(list: readonly ServiceInfo[], serviceId: string): ServiceInfo {
  const found = list.find((one) => one.metadata["service_id"] === serviceId);
  assert.ok(found !== undefined, `${serviceId} is in ${JSON.stringify(list)}`);
  return found;
}

Deno.test("nats micro ls, info and stats natsway show both roles with their load", async () => {
  await using rig = await startRig({
    requesterSettings: { SERVICE_ID: "edge-1", MAX_FLOWS: "123" },
    receiverSettings: { SERVICE_ID: "worker-1" },
  });
  for (let i = 0; i < 3; i++) assert.equal((await rig.request(`/${i}`)).status, 200);
  await rig.receiver.flowClosed((event) => event["target"] === "/2");

  const listed = await natsJson<ServiceInfo[]>(rig.nats, "micro", "ls", "natsway");
  assert.equal(listed.length, 2, JSON.stringify(listed));
  const requester = instanceOf(listed, "edge-1");
  const receiver = instanceOf(listed, "worker-1");
  assert.deepEqual(
    [requester.metadata["role"], receiver.metadata["role"]],
    ["requester", "receiver"],
  );
  assert.match(receiver.version, /^\d+\.\d+\.\d+/);
  assert.match(await nats(rig.nats, "micro", "ls"), new RegExp(`natsway[^]*${receiver.id}`));

  const { info, stats } = await natsJson<{ info: ServiceInfo; stats: ServiceInfo }>(
    rig.nats,
    "micro",
    "info",
    "natsway",
    receiver.id,
  );
  assert.equal(info.id, receiver.id);
  assert.equal(info.endpoints?.[0]?.name, "requests");
  assert.equal(info.endpoints[0].subject, "to.proxy.requests.>");
  assert.equal(stats.endpoints?.[0]?.num_requests, 3);
  assert.match(await nats(rig.nats, "micro", "info", "natsway", requester.id), /edge-1/);

  const all = await natsJson<ServiceInfo[]>(rig.nats, "micro", "stats", "natsway");
  const load = all.find((one) => one.id === requester.id)?.endpoints?.[0];
  assert.equal(load?.num_requests, 3);
  assert.equal(load.num_errors, 0);
  assert.equal(load.data["flows"], 0);
  assert.equal(load.data["max_flows"], 123);
  assert.match(await nats(rig.nats, "micro", "stats", "natsway"), new RegExp(receiver.id));
});
