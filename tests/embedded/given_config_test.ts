import assert from "node:assert/strict";
import { readServerInfo } from "../../lib/embedded/info.ts";
import { keepNatsServer, type KeepOptions } from "../../lib/embedded/keeper.ts";
import { writeConfig } from "../../lib/embedded/config_file.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { within } from "../helpers/wait.ts";
import { KeptLog, namesIn, tempDir } from "./support.ts";

async function keep(file: string, options: Partial<KeepOptions> = {}) {
  return await keepNatsServer({
    binary: await natsServerBinary(),
    listen: "127.0.0.1:4222",
    given: { file, port: null },
    logger: new KeptLog(),
    firstPauseMs: 1,
    ...options,
  });
}

Deno.test("a given configuration is used as it is, and the server is asked for its port", async () => {
  await using dir = await tempDir();
  const file = `${dir.path}/own.conf`;
  const text = 'server_name: mine\nlisten: "127.0.0.1:-1"\nlog_file: "server.log"\n';
  await Deno.writeTextFile(file, text.replace("server.log", `${dir.path}/server.log`));
  const before = await Deno.readTextFile(file);
  const restarted = Promise.withResolvers<void>();
  const server = await keep(file, { onRestart: () => Promise.resolve(restarted.resolve()) });
  const { port, version } = server.current;
  const info = await readServerInfo("127.0.0.1", port, 5000);
  assert.equal(info!.serverName, "mine");
  assert.equal(version, info!.version);
  assert.equal(await Deno.readTextFile(file), before);
  // It would choose another port by itself.
  Deno.kill(server.current.pid, "SIGKILL");
  await within(restarted.promise, 10_000, "the restart");
  assert.equal(server.current.port, port);
  assert.equal((await readServerInfo("127.0.0.1", port, 5000))!.serverName, "mine");
  await server.stop();
});

Deno.test("of a listener on all addresses the one on loopback is used", async () => {
  await using dir = await tempDir();
  await Deno.writeTextFile(`${dir.path}/own.conf`, "port: -1\n");
  const server = await keep(`${dir.path}/own.conf`);
  assert.equal(server.current.address.hostname, "127.0.0.1");
  await server.stop();
});

Deno.test("a given configuration that is wrong, or whose port is taken, fails with what the server says", async () => {
  await using dir = await tempDir();
  const file = `${dir.path}/own.conf`;
  await Deno.writeTextFile(file, "port: {\n");
  await assert.rejects(keep(file), (error) => {
    assert.ok(error instanceof StartError);
    assert.ok(error.message.includes(`with ${file} did not start: it ended with status 1`));
    assert.ok(!error.message.includes("\n"));
    return true;
  });
  using foreign = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  await Deno.writeTextFile(file, `listen: "127.0.0.1:${foreign.addr.port}"\n`);
  await assert.rejects(
    keep(file),
    new RegExp(`cannot listen on 127\\.0\\.0\\.1:${foreign.addr.port}: the address is in use`),
  );
});

Deno.test("a configuration is written whole, for this user alone, over what was there", async () => {
  await using dir = await tempDir();
  const path = `${dir.path}/new/folder/nats.conf`;
  await writeConfig(path, "one");
  await Deno.chmod(path, 0o644);
  await writeConfig(path, "two");
  assert.equal(await Deno.readTextFile(path), "two");
  assert.equal((await Deno.stat(path)).mode! & 0o777, 0o600);
  assert.deepEqual(await namesIn(`${dir.path}/new/folder`), ["nats.conf"]);
  await Deno.mkdir(`${dir.path}/taken`);
  await assert.rejects(writeConfig(`${dir.path}/taken`, "x"), (error) => {
    assert.ok(error instanceof StartError);
    assert.ok(error.message.includes(`${dir.path}/taken`), error.message);
    return true;
  });
});
