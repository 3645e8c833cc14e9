import assert from "node:assert/strict";
import { readServerInfo } from "../../lib/embedded/info.ts";
import { startNatsServer, type StartOptions } from "../../lib/embedded/server.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { assertGone, isAlive, KeptLog, namesIn, script, tempDir } from "./support.ts";

async function start(options: Partial<StartOptions> = {}): ReturnType<typeof startNatsServer> {
  return await startNatsServer({
    binary: await natsServerBinary(),
    listen: "127.0.0.1:0",
    logger: new KeptLog(),
    ...options,
  });
}

Deno.test("a server is ready when it has started, and gone when it was stopped", async () => {
  await using dir = await tempDir();
  const server = await start({ stateDir: `${dir.path}/state` });
  assert.equal(server.url, `nats://127.0.0.1:${server.port}`);
  const info = await readServerInfo("127.0.0.1", server.port, 5000);
  assert.match(info!.serverName, /^natsway-/);
  assert.equal(server.version, info!.version);
  assert.ok(await isAlive(server.pid));
  const [folder] = await namesIn(`${dir.path}/state`);
  const path = `${dir.path}/state/${folder}`;
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o700);
  assert.equal((await Deno.stat(`${path}/nats-server.conf`)).mode! & 0o777, 0o600);
  await Promise.all([server.stop(), server.stop()]);
  assert.ok(!await isAlive(server.pid));
  assert.equal(await readServerInfo("127.0.0.1", server.port, 5000), null);
  assert.deepEqual(await namesIn(`${dir.path}/state`), []);
  await server.stop();
});

Deno.test("a folder with any name may hold the configuration", async () => {
  await using dir = await tempDir();
  const stateDir = `${dir.path}/a "b" \\c $HOME #ü`;
  const server = await start({ stateDir });
  await server.stop();
  assert.deepEqual(await namesIn(stateDir), []);
});

Deno.test("what the server logs goes to the logger, by level, and says whose it is", async () => {
  const logger = new KeptLog();
  const server = await start({ logger });
  await server.stop();
  const lines = logger.lines.filter(({ fields }) => fields["component"] === "nats-server");
  const messages = lines.filter(({ level }) => level === "info").map(({ message }) => message);
  assert.ok(messages.includes("Server is ready"), messages.join("\n"));
  assert.ok(messages.some((line) => line.startsWith("Listening for client connections")));
  assert.match(messages.at(-1)!, /^Server Exiting/);
  assert.deepEqual(logger.of("error"), []);
  assert.deepEqual(logger.of("warning"), []);
});

Deno.test("a listener that others can reach is warned of", async () => {
  const logger = new KeptLog();
  const server = await start({ logger, listen: "0.0.0.0:0" });
  assert.equal(server.url, `nats://127.0.0.1:${server.port}`);
  assert.equal(logger.of("warning").length, 1);
  await server.stop();
});

Deno.test("F45 a port that something else holds fails the start with one line, and is not connected to", async () => {
  await using dir = await tempDir();
  const occupant = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  let connections = 0;
  const accepting = (async () => {
    for await (const connection of occupant) {
      connections++;
      connection.close();
    }
  })();
  const listen = `127.0.0.1:${occupant.addr.port}`;
  const logger = new KeptLog();
  const startedAt = performance.now();
  await assert.rejects(start({ listen, logger, stateDir: dir.path }), (error) => {
    assert.ok(error instanceof StartError);
    assert.ok(error.message.includes(`cannot listen on ${listen}: the address is in use`));
    assert.ok(!error.message.includes("\n"));
    return true;
  });
  assert.ok(performance.now() - startedAt < 5000);
  // One connection of our own ends the accept loop's wait behind any that came before.
  (await Deno.connect({ hostname: "127.0.0.1", port: occupant.addr.port })).close();
  while (connections === 0) await new Promise((resolve) => setTimeout(resolve, 1));
  occupant.close();
  await accepting;
  assert.equal(connections, 1);
  assert.deepEqual(logger.of("error"), []);
  assert.deepEqual(await namesIn(dir.path), []);
});

Deno.test("F45 another nats-server on the port is not adopted and goes on", async () => {
  const foreign = await start();
  const startedAt = performance.now();
  await assert.rejects(
    start({ listen: `127.0.0.1:${foreign.port}` }),
    new RegExp(`cannot listen on 127\\.0\\.0\\.1:${foreign.port}: the address is in use`),
  );
  assert.ok(performance.now() - startedAt < 5000);
  assert.ok(await readServerInfo("127.0.0.1", foreign.port, 5000));
  await foreign.stop();
});

Deno.test("a program that does not become a server fails the start with what it said", async () => {
  await using dir = await tempDir();
  const stateDir = `${dir.path}/state`;
  const failing = await script(`${dir.path}/failing`, 'echo "broken: no reason" >&2; exit 4');
  const cases = [
    [failing, /did not start: it ended with status 4: broken: no reason$/],
    [`${dir.path}/missing`, /missing: not found|No such file/],
  ] as const;
  for (const [binary, reason] of cases) {
    await assert.rejects(start({ binary, stateDir }), (error) => {
      assert.ok(error instanceof StartError);
      assert.match(error.message, reason);
      return true;
    });
    assert.deepEqual(await namesIn(stateDir), []);
  }
});

Deno.test("a program that never answers is ended after the ready time, and when the start is aborted", async () => {
  await using dir = await tempDir();
  const pidFile = `${dir.path}/pid`;
  const body = `echo $$ >"${pidFile}"; echo "[1] [INF] up" >&2; exec sleep 600`;
  const binary = await script(`${dir.path}/silent`, body);
  await assert.rejects(start({ binary, readyTimeoutMs: 300 }), /did not answer in 0\.3 s/);
  assert.ok(!await isAlive(Number(await Deno.readTextFile(pidFile))));
  const abort = new AbortController();
  const logger = new KeptLog();
  // The first line of the program is the sign that it runs.
  logger.info = () => abort.abort(new Error("enough"));
  await assert.rejects(start({ binary, logger, signal: abort.signal }), /^Error: enough$/);
  assert.ok(!await isAlive(Number(await Deno.readTextFile(pidFile))));
  await assert.rejects(start({ signal: abort.signal }), /^Error: enough$/);
});

Deno.test("a server that ends by itself is told, with its process and how it ended", async () => {
  await using dir = await tempDir();
  const server = await start({ stateDir: dir.path });
  Deno.kill(server.pid, "SIGKILL");
  assert.equal(
    await server.died,
    `the embedded nats-server (process ${server.pid}) ended with signal number 9`,
  );
  await server.stop();
  assert.deepEqual(await namesIn(dir.path), []);
});

Deno.test("a server that hangs is killed by the stop within 5 s", async () => {
  const server = await start();
  Deno.kill(server.pid, "SIGSTOP");
  const startedAt = performance.now();
  await server.stop();
  assert.ok(performance.now() - startedAt < 5000);
  assert.ok(!await isAlive(server.pid));
});

/** A process that stands for natsway, with the facts of its server. */
async function startOwner(listen: string) {
  const process = new Deno.Command(Deno.execPath(), {
    args: [
      "run",
      "-A",
      new URL("run_server.ts", import.meta.url).pathname,
      await natsServerBinary(),
      listen,
    ],
    stdout: "piped",
    stderr: "inherit",
    detached: true,
  }).spawn();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  const line = async () => {
    while (!text.includes("\n")) {
      const { value, done } = await reader.read();
      if (done) throw new Error(`no line but ${text}`);
      text += value;
    }
    const end = text.indexOf("\n");
    const result = text.slice(0, end);
    text = text.slice(end + 1);
    return result;
  };
  const { pid, port } = JSON.parse(await line()) as { pid: number; port: number };
  const ended = async () => {
    const status = await process.status;
    while (!(await reader.read()).done);
    return status;
  };
  return { process, pid, port, line, ended };
}

Deno.test("F46 the server ends with natsway, in order or by SIGKILL, and the next start serves", async () => {
  const first = await startOwner("127.0.0.1:0");
  first.process.kill("SIGTERM");
  assert.equal((await first.ended()).code, 0);
  assert.ok(!await isAlive(first.pid), "the server is gone before natsway is");
  const second = await startOwner(`127.0.0.1:${first.port}`);
  assert.equal(second.port, first.port);
  second.process.kill("SIGKILL");
  await second.ended();
  await assertGone(second.pid, 5000);
  const third = await startOwner(`127.0.0.1:${first.port}`);
  assert.ok(await readServerInfo("127.0.0.1", third.port, 5000));
  third.process.kill("SIGTERM");
  assert.equal((await third.ended()).code, 0);
});

Deno.test("F46 a hanging server is killed when natsway was", async () => {
  const owner = await startOwner("127.0.0.1:0");
  Deno.kill(owner.pid, "SIGSTOP");
  owner.process.kill("SIGKILL");
  await owner.ended();
  await assertGone(owner.pid, 5000);
});

Deno.test("Ctrl-C for the whole process group leaves the server to natsway", async () => {
  const owner = await startOwner("127.0.0.1:0");
  // What a terminal does: the signal goes to each process of the group.
  Deno.kill(-owner.process.pid, "SIGINT");
  assert.equal(await owner.line(), "interrupted");
  assert.ok(await readServerInfo("127.0.0.1", owner.port, 5000), "it serves while natsway drains");
  Deno.kill(-owner.process.pid, "SIGINT");
  assert.equal((await owner.ended()).code, 0);
  assert.ok(!await isAlive(owner.pid));
});
