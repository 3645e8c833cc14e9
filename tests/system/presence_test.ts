import assert from "node:assert/strict";
import { latin1 } from "../helpers/bytes.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { type NatsServer, startNats } from "../helpers/nats_server.ts";
import { type Natsway, type Settings, startNatsway } from "../helpers/natsway.ts";
import { within } from "../helpers/wait.ts";

/** The instances that answer to the name natsway. Those that have ended cannot: one round trip shows all. */
async function listed(server: NatsServer): Promise<string[]> {
  await using client = await NatsClient.connect(server.port);
  const answers = await client.subscribe("test.presence");
  await client.publish("$SRV.PING.natsway", "", { reply: "test.presence" });
  await answers.find(() => true, { ms: 10_000, what: "an answer of a process" });
  await client.flush();
  return answers.events.map((answer) => JSON.parse(latin1(answer.data)).id);
}

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
    assert.deepEqual(await listed(server), [line.instances[1]]);
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
    assert.deepEqual(await listed(server), [survivor]);
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
