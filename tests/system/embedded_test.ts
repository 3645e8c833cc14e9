import assert from "node:assert/strict";
import { request } from "../helpers/client.ts";
import { freePort, startNats } from "../helpers/nats_server.ts";
import {
  type Natsway,
  runNatsway,
  type Settings,
  startNatsway,
  TEST_SETTINGS,
} from "../helpers/natsway.ts";
import { commandLine, descendants, processExists } from "../helpers/proc.ts";
import { startUpstream, type Upstream } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";
import { ownServer, tempFolder } from "./own_server.ts";

/** A receiver with a server of its own on `port`, with its state in `folder`. */
async function embeddedSettings(
  port: number,
  upstream: Upstream,
  folder: string,
): Promise<Settings> {
  return {
    ...await ownServer(folder),
    EMBEDDED_NATS_LISTEN: `127.0.0.1:${port}`,
    UPSTREAM_URL: upstream.url,
  };
}

/** A request through `receiver`'s embedded server and a requester of the test's own. */
async function serves(port: number): Promise<void> {
  await using requester = await startNatsway("requester", { NATS_URL: `nats://127.0.0.1:${port}` });
  for (let i = 0;; i++) {
    const response = await request(requester.port, "/embedded");
    if (response.status === 200) return;
    assert.ok(i < 20, `${response.status}`);
    await pause(100);
  }
}

async function startEmbedded(
  port: number,
  upstream: Upstream,
  folder: string,
): Promise<Natsway> {
  const settings = await embeddedSettings(port, upstream, folder);
  return await startNatsway("receiver", settings, { ms: 10_000 });
}

/** Runs a start that must fail because the port is taken. */
async function cannotStart(port: number, upstream: Upstream): Promise<void> {
  await using folder = await tempFolder();
  const result = await runNatsway(["receiver"], {
    ...TEST_SETTINGS,
    LOG_LEVEL: "error",
    ...await embeddedSettings(port, upstream, folder.path),
  });
  assert.equal(result.code, 3, result.stderr);
  assert.ok(result.ms < 5_000, `${result.ms} ms`);
  const naming = result.stderr.trim().split("\n").filter((line) =>
    line.includes(`127.0.0.1:${port}`) || line.includes(`${port}`)
  );
  assert.equal(naming.length, 1, result.stderr);
  assert.match(naming[0] ?? "", new RegExp(`127\\.0\\.0\\.1.*${port}`));
  assert.doesNotMatch(result.stderr, /\n\s+at /);
}

Deno.test("F45 an occupied embedded port ends the start, and the occupant is left alone", async () => {
  await using upstream = await startUpstream();
  await using occupant = await startUpstream(async (connection) => {
    await connection.waitEnd(60_000);
  });
  await cannotStart(occupant.port, upstream);
  assert.equal(occupant.connections.length, 0, "natsway connected to the foreign listener");
});

Deno.test("F45 another nats-server on the embedded port is never adopted", async () => {
  await using upstream = await startUpstream();
  const monitor = freePort();
  await using foreign = await startNats({ config: `http: "127.0.0.1:${monitor}"` });
  const total = async (): Promise<Record<string, unknown>> => {
    const response = await fetch(`http://127.0.0.1:${monitor}/varz`);
    const { total_connections, in_msgs, subscriptions } = await response.json();
    return { total_connections, in_msgs, subscriptions };
  };
  const before = await total();
  await cannotStart(foreign.port, upstream);
  assert.deepEqual(await total(), before);
});

Deno.test("F46 SIGTERM: the embedded server is gone before natsway exits, and the next start serves", async () => {
  await using upstream = await startUpstream();
  await using folder = await tempFolder();
  const port = freePort();
  const first = await startEmbedded(port, upstream, folder.path);
  const children = descendants(first.pid);
  assert.ok(children.length > 0, "no child process");
  await serves(port);
  first.kill("SIGTERM");
  assert.equal((await first.ended()).code, 0, first.described("exit code"));
  assert.deepEqual(children.filter(processExists), []);
  assert.match(first.stderr, /JetStream Shutdown/, "the store was closed");
  await using _second = await startEmbedded(port, upstream, folder.path);
  await serves(port);
});

Deno.test("F46 SIGKILL: the embedded server ends by itself within 5 s, and a start at once serves", async () => {
  await using upstream = await startUpstream();
  await using folder = await tempFolder();
  const port = freePort();
  const first = await startEmbedded(port, upstream, folder.path);
  const children = descendants(first.pid);
  assert.ok(children.length > 0, "no child process");
  first.kill("SIGKILL");
  const killed = performance.now();
  await first.ended();
  await using second = await startEmbedded(port, upstream, folder.path);
  assert.ok(performance.now() - killed < 10_000);
  assert.ok(second.running);
  await serves(port);
  // The end of a process that is not our child can only be looked for.
  while (children.some(processExists)) {
    assert.ok(performance.now() - killed < 5_000, "the orphaned nats-server still runs");
    await pause(50);
  }
});

/** Process id of the nats-server that a natsway has started. */
function serverOf(natsway: Natsway): number {
  const servers = descendants(natsway.pid).filter((pid) =>
    /nats-server/.test(commandLine(pid)[0] ?? "")
  );
  assert.equal(servers.length, 1);
  return servers[0] as number;
}

Deno.test("an embedded server that dies is started again and serves; one that keeps dying ends natsway with 3", async () => {
  await using upstream = await startUpstream();
  await using folder = await tempFolder();
  const port = freePort();
  await using natsway = await startEmbedded(port, upstream, folder.path);
  for (let kills = 1;; kills++) {
    const from = natsway.mark;
    Deno.kill(serverOf(natsway), "SIGKILL");
    if (kills === 6) break;
    await natsway.event("embedded nats-server runs", { from, ms: 20_000 });
    if (kills === 1) {
      await natsway.event("ready", { from });
      await serves(port);
    }
  }
  assert.equal((await natsway.ended(10_000)).code, 3, natsway.described("exit code"));
  assert.match(natsway.stderr, /nats-server does not stay up: it ended 6 times in 60 s/);
});
