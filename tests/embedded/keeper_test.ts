import assert from "node:assert/strict";
import { readServerInfo } from "../../lib/embedded/info.ts";
import { keepNatsServer, type KeepOptions } from "../../lib/embedded/keeper.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { within } from "../helpers/wait.ts";
import { isAlive, KeptLog, namesIn, script, tempDir } from "./support.ts";

async function keep(options: Partial<KeepOptions> = {}): ReturnType<typeof keepNatsServer> {
  return await keepNatsServer({
    binary: await natsServerBinary(),
    listen: "127.0.0.1:0",
    logger: new KeptLog(),
    firstPauseMs: 1,
    ...options,
  });
}

Deno.test("a server that is killed is started again on the same port, and that is told", async () => {
  await using dir = await tempDir();
  const restarted = Promise.withResolvers<void>();
  const logger = new KeptLog();
  const server = await keep({
    logger,
    stateDir: dir.path,
    onRestart: () => Promise.resolve(restarted.resolve()),
  });
  const { pid, port } = server.current;
  Deno.kill(pid, "SIGKILL");
  await within(restarted.promise, 10_000, "the restart");
  assert.notEqual(server.current.pid, pid);
  assert.equal(server.current.port, port);
  assert.ok(await readServerInfo("127.0.0.1", port, 5000));
  assert.match(logger.of("error").join("\n"), new RegExp(`process ${pid}\\) ended with signal`));
  await Promise.all([server.stop(), server.stop()]);
  assert.ok(!await isAlive(server.current.pid));
  assert.deepEqual(await namesIn(dir.path), []);
});

Deno.test("a store outlives the server, and is free for the next one", async () => {
  await using dir = await tempDir();
  const restarted = Promise.withResolvers<void>();
  const jetstream = { storeDir: `${dir.path}/store`, domain: null };
  const server = await keep({
    jetstream,
    onRestart: () => Promise.resolve(restarted.resolve()),
  });
  Deno.kill(server.current.pid, "SIGKILL");
  await within(restarted.promise, 10_000, "the restart");
  // Another one on the same store would spoil it.
  await assert.rejects(keep({ jetstream }), /store is in use by another nats-server of natsway/);
  await server.stop();
  const next = await keep({ jetstream });
  await next.stop();
});

Deno.test("a server that does not stay up is given up after so many times, with the last reason", async () => {
  await using dir = await tempDir();
  const real = await natsServerBinary();
  // Serves for a moment and fails.
  const binary = await script(
    `${dir.path}/dying`,
    `"${real}" "$@" & sleep 1; kill -9 $!; echo "[1] [ERR] out of luck" >&2; exit 9`,
  );
  const logger = new KeptLog();
  const server = await keep({ binary, logger, restarts: 2 });
  const message = await within(server.failed, 20_000, "the end");
  assert.match(message, /does not stay up: it ended 3 times in 60 s.*status 9.*out of luck/);
  assert.equal(
    logger.lines.filter(({ fields }) => fields["restart_in_ms"] !== undefined).length,
    2,
  );
  await server.stop();
});

Deno.test("a port that is taken while the server is down counts as an end", async () => {
  const logger = new KeptLog();
  const server = await keep({ logger, restarts: 1 });
  const { pid, port } = server.current;
  const foreign: Deno.Listener[] = [];
  // The news comes when the server is gone and before the next one begins.
  logger.error = () => foreign.push(Deno.listen({ hostname: "127.0.0.1", port }));
  Deno.kill(pid, "SIGKILL");
  const message = await within(server.failed, 10_000, "the failure");
  assert.match(message, new RegExp(`cannot listen on 127\\.0\\.0\\.1:${port}`));
  assert.equal(foreign.length, 1);
  foreign[0]!.close();
  await server.stop();
});

Deno.test("what must be done after a restart and cannot be done is a failure", async () => {
  const server = await keep({ onRestart: () => Promise.reject(new Error("no stream")) });
  Deno.kill(server.current.pid, "SIGKILL");
  assert.equal(await within(server.failed, 10_000, "the failure"), "no stream");
  await server.stop();
});

Deno.test("a stop in the pause before a restart ends it at once", async () => {
  const logger = new KeptLog();
  const told = Promise.withResolvers<void>();
  logger.error = () => told.resolve();
  const server = await keep({ logger, firstPauseMs: 60_000 });
  Deno.kill(server.current.pid, "SIGKILL");
  await within(told.promise, 5000, "the news of the end");
  await within(server.stop(), 5000, "the stop");
});
