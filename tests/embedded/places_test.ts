import assert from "node:assert/strict";
import { sha256Hex } from "../../lib/embedded/download.ts";
import { findNatsServer } from "../../lib/embedded/find.ts";
import { dataFolder, defaultStateDir, privateTempDir } from "../../lib/embedded/places.ts";
import { NatswayError, StartError } from "../../lib/errors.ts";
import { KeptLog, namesIn, tempDir } from "./support.ts";

const envOf = (values: Record<string, string>) => (name: string) => values[name];

Deno.test("the state folder follows XDG_STATE_HOME, then HOME", () => {
  assert.equal(defaultStateDir(envOf({ XDG_STATE_HOME: "/s", HOME: "/h" })), "/s/natsway");
  assert.equal(
    defaultStateDir(envOf({ XDG_STATE_HOME: "s", HOME: "/h" })),
    "/h/.local/state/natsway",
  );
  assert.throws(() => defaultStateDir(envOf({})), NatswayError);
  const windows = defaultStateDir(envOf({ LOCALAPPDATA: "C:\\u" }), "windows");
  assert.equal(windows, "C:\\u\\natsway\\state");
});

Deno.test("configuration and store go to /data where that can be written to, else to the state folder", async () => {
  await using dir = await tempDir();
  const env = envOf({ XDG_STATE_HOME: `${dir.path}/state` });
  await Deno.mkdir(`${dir.path}/data`);
  assert.equal(await dataFolder(env, `${dir.path}/data`), `${dir.path}/data`);
  assert.deepEqual(await namesIn(`${dir.path}/data`), []);
  assert.equal(await dataFolder(env, `${dir.path}/none`), `${dir.path}/state/natsway`);
  assert.equal((await Deno.stat(`${dir.path}/state/natsway`)).mode! & 0o777, 0o700);
  await assert.rejects(dataFolder(envOf({}), `${dir.path}/none`), (error) => {
    assert.ok(error instanceof StartError);
    assert.match(error.message, /EMBEDDED_NATS_GENERATED_CONFIG_PATH/);
    return true;
  });
});

Deno.test("the private temporary folder is the same each time, unless others can write to it", async () => {
  await using dir = await tempDir();
  const env = envOf({ TMPDIR: `${dir.path}/` });
  const path = await privateTempDir(env);
  assert.equal(path, `${dir.path}/natsway-${Deno.uid()}`);
  assert.equal(await privateTempDir(env), path);
  await Deno.chmod(path, 0o777);
  const other = await privateTempDir(env);
  assert.notEqual(other, path);
  await Deno.remove(other);
  await Deno.remove(path);
  await Deno.symlink("/", path);
  const third = await privateTempDir(env);
  assert.notEqual(third, path);
  await Deno.remove(third);
});

Deno.test("the nats-server inside is unpacked to the temporary folder when the cache cannot be used", async () => {
  await using dir = await tempDir();
  const insideDir = `${dir.path}/bin`;
  await Deno.mkdir(insideDir);
  const program = new TextEncoder().encode("#!/bin/sh\necho 'nats-server: v2.15.2'\n");
  await Deno.writeFile(`${insideDir}/nats-server`, program);
  const note = { version: "2.15.2", sha256: await sha256Hex(program), bytes: program.length };
  await Deno.writeTextFile(`${insideDir}/nats-server.json`, JSON.stringify(note));
  await Deno.writeTextFile(`${dir.path}/file`, "");
  const found = await findNatsServer({
    // A folder below a file: not even root can make it.
    cacheDir: `${dir.path}/file/cache`,
    insideDir,
    tempDir: () => Promise.resolve(`${dir.path}/tmp`),
    path: "",
    goBinary: null,
    isTerminal: false,
    logger: new KeptLog(),
  });
  assert.equal(found.source, "executable");
  assert.ok(found.path.startsWith(`${dir.path}/tmp/nats-server-v2.15.2-`), found.path);
});
