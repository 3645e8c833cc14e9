import assert from "node:assert/strict";
import { type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "../helpers/natsway.ts";
import { within } from "../helpers/wait.ts";
import { startRig } from "../helpers/rig.ts";

const CLI_MS = 20_000;

/** Runs NATS's own command line, with nothing of this machine's settings, and returns what it prints. */
async function nats(server: NatsServer, ...args: string[]): Promise<string> {
  const home = await Deno.makeTempDir({ prefix: "natsway-cli-" });
  const command = Deno.env.get("NATS_CLI") ?? "nats";
  let child: Deno.ChildProcess;
  try {
    child = new Deno.Command(command, {
      args: ["--server", server.url, ...args],
      clearEnv: true,
      env: { PATH: Deno.env.get("PATH") ?? "", HOME: home, NO_COLOR: "1" },
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  } catch (cause) {
    await Deno.remove(home, { recursive: true });
    const how = "go install github.com/nats-io/natscli/nats@v0.5.0";
    throw new Error(`no NATS command line: ${how}, or name it in NATS_CLI`, { cause });
  }
  try {
    const output = await within(child.output(), CLI_MS, `the end of nats ${args.join(" ")}`);
    const stdout = new TextDecoder().decode(output.stdout);
    const stderr = new TextDecoder().decode(output.stderr);
    assert.equal(output.code, 0, `nats ${args.join(" ")}: ${stdout}${stderr}`);
    return stdout;
  } finally {
    await Deno.remove(home, { recursive: true });
  }
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

/** Settings for one role, with a SERVICE_ID that another process has. */
function settings(server: NatsServer, role: string): Settings {
  return {
    NATS_URL: server.url,
    SERVICE_ID: "twin",
    ...(role === "receiver" ? { UPSTREAM_URL: "http://127.0.0.1:9" } : {}),
  };
}

function start(server: NatsServer, role: string, waitFor: "ready" | "nothing"): Promise<Natsway> {
  return startNatsway(role, settings(server, role), { waitFor });
}

/** The instances that a refused process names: its own, then that of the other. */
function named(process: Natsway): { roles: string[]; instances: string[] } {
  const line = /SERVICE_ID twin is in use.*/.exec(process.stderr)?.[0] ?? "";
  assert.notEqual(line, "", process.described("no line about the SERVICE_ID"));
  assert.match(line, new RegExp(` on ${Deno.hostname()}.* on ${Deno.hostname()}`));
  return {
    roles: [...line.matchAll(/(requester|receiver) \(instance/g)].map((match) => match[1] ?? ""),
    instances: [...line.matchAll(/\(instance ([A-Za-z0-9_-]+)/g)].map((match) => match[1] ?? ""),
  };
}

for (const roles of [["requester", "requester"], ["receiver", "requester"]] as const) {
  Deno.test(`a ${roles[1]} with the SERVICE_ID of a running ${roles[0]} exits 3 and names both`, async () => {
    await using server = await startNats();
    await using first = await start(server, roles[0], "ready");
    await using second = await start(server, roles[1], "nothing");
    assert.equal((await second.ended(30_000)).code, 3, second.described("exit code"));
    assert.equal(second.log.events.some((event) => event.message === "ready"), false);
    const line = named(second);
    assert.deepEqual(line.roles, [roles[1], roles[0]]);
    assert.equal(new Set(line.instances).size, 2);
    const [running] = await natsJson<ServiceInfo[]>(server, "micro", "ls", "natsway");
    assert.equal(running?.id, line.instances[1]);
    assert.equal(first.running, true);
  });
}

Deno.test("of two processes with one SERVICE_ID that start at once exactly one survives", async () => {
  await using server = await startNats();
  for (let round = 0; round < 3; round++) {
    await using one = await start(server, "requester", "nothing");
    await using two = await start(server, "receiver", "nothing");
    const first = await within(
      Promise.race([one.status.then(() => one), two.status.then(() => two)]),
      30_000,
      () => two.described(one.described("one of the two ends")),
    );
    const other = first === one ? two : one;
    assert.equal((await first.ended()).code, 3, first.described("exit code"));
    await other.event("ready", { ms: 30_000 });
    const survivor = named(first).instances[1];
    await using third = await start(server, "receiver", "nothing");
    assert.equal((await third.ended(30_000)).code, 3, third.described("exit code"));
    assert.equal(named(third).instances[1], survivor);
    const listed = await natsJson<ServiceInfo[]>(server, "micro", "ls", "natsway");
    assert.deepEqual(listed.map((info) => info.id), [survivor]);
    assert.equal(other.running, true);
  }
});

Deno.test("a SERVICE_ID may be used again once its process has stopped, or was killed", async () => {
  await using server = await startNats();
  for (const signal of ["SIGTERM", "SIGKILL"] as const) {
    await using first = await start(server, "requester", "ready");
    first.kill(signal);
    await first.ended();
  }
  await using last = await start(server, "receiver", "ready");
  assert.equal(last.running, true);
});
