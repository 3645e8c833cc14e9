/**
 * The compiled executable, alone: an empty folder, an empty PATH, a fresh home. `NATSWAY_EXECUTABLE`
 * names one that is built already; else `compile.sh` builds one with `DENO` and `DENORT_BIN`.
 * @module
 */
import assert from "node:assert/strict";

const ROOT = new URL("../../", import.meta.url);
const STOP_LIMIT_MS = 2000;
const KILL_LIMIT_MS = 5000;
const READY_LIMIT_MS = 30_000;

async function executable(folder: string): Promise<string> {
  const given = Deno.env.get("NATSWAY_EXECUTABLE");
  if (given) return await Deno.realPath(given);
  const output = `${folder}/natsway`;
  const result = await new Deno.Command("bash", {
    args: [new URL("compile.sh", ROOT).pathname, "--output", output],
    env: { DENO: Deno.env.get("DENO") || Deno.execPath() },
    stderr: "piped",
  }).output();
  const text = new TextDecoder();
  assert.ok(result.success, `compile.sh failed:\n${text.decode(result.stderr)}`);
  assert.match(text.decode(result.stdout), /natsway \d+\.\d+\.\d+ with nats-server \d+\.\d+\.\d+/);
  return output;
}

/** Processes that have `mark` in their command line and are no zombies. */
async function processesWith(mark: string): Promise<string[]> {
  const output = await new Deno.Command("ps", { args: ["-eo", "stat=,pid=,args="] }).output();
  return new TextDecoder().decode(output.stdout).split("\n")
    .filter((line) => line.includes(mark) && !line.startsWith("Z"));
}

async function assertNoneWith(mark: string, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  for (;;) {
    const left = await processesWith(mark);
    if (left.length === 0) return;
    assert.ok(performance.now() < deadline, `left behind:\n${left.join("\n")}`);
  }
}

/** An empty working folder and a fresh home for one run. */
async function freshPlace(base: string) {
  const place = await Deno.makeTempDir({ dir: base, prefix: "run-" });
  const home = `${place}/home`;
  const cwd = `${place}/empty`;
  const temporary = `${place}/tmp`;
  for (const folder of [home, cwd, temporary]) await Deno.mkdir(folder);
  const env = {
    PATH: "",
    HOME: home,
    XDG_CACHE_HOME: `${home}/cache`,
    XDG_STATE_HOME: `${home}/state`,
    TMPDIR: temporary,
  };
  return { home, options: { cwd, env, clearEnv: true }, temporary };
}

async function names(folder: string): Promise<string[]> {
  return (await Array.fromAsync(Deno.readDir(folder))).map((entry) => entry.name).sort();
}

/** Starts `demo --json` and waits for its line. */
async function startDemo(program: string, options: Deno.CommandOptions) {
  const process = new Deno.Command(program, {
    ...options,
    args: ["demo", "--json"],
    stdin: "null",
    stdout: "piped",
    stderr: "piped",
    detached: true,
  }).spawn();
  const stderr = new Response(process.stderr).text();
  const reader = process.stdout.pipeThrough(new TextDecoderStream()).getReader();
  const timer = setTimeout(() => process.kill("SIGKILL"), READY_LIMIT_MS);
  let text = "";
  while (!text.includes("\n")) {
    const { value, done } = await reader.read();
    if (done) throw new Error(`the demo ended without its line:\n${text}\n${await stderr}`);
    text += value;
  }
  clearTimeout(timer);
  const ended = async () => {
    const status = await process.status;
    while (!(await reader.read()).done);
    return { status, stderr: await stderr };
  };
  return { process, line: JSON.parse(text) as Record<string, unknown>, ended };
}

/** Runs a receiver until it listens, ends it in order, and gives what it logged. */
async function receiverLog(program: string, options: Deno.CommandOptions): Promise<string> {
  const process = new Deno.Command(program, {
    ...options,
    args: ["receiver"],
    stdin: "null",
    stdout: "null",
    stderr: "piped",
  }).spawn();
  const timer = setTimeout(() => process.kill("SIGKILL"), READY_LIMIT_MS);
  let log = "";
  let asked = false;
  for await (const text of process.stderr.pipeThrough(new TextDecoderStream())) {
    log += text;
    if (asked || !log.includes('"message":"listening"')) continue;
    asked = true;
    process.kill("SIGTERM");
  }
  clearTimeout(timer);
  assert.equal((await process.status).code, 0, log);
  return log;
}

Deno.test("the executable works alone", async (t) => {
  const base = await Deno.makeTempDir({ prefix: "natsway-compiled-" });
  try {
    const program = await executable(base);
    const { version } = JSON.parse(await Deno.readTextFile(new URL("deno.json", ROOT)));

    await t.step("--version prints the version of deno.json and writes no file", async () => {
      const { home, options, temporary } = await freshPlace(base);
      const output = await new Deno.Command(program, { ...options, args: ["--version"] }).output();
      assert.equal(output.code, 0, new TextDecoder().decode(output.stderr));
      assert.match(new TextDecoder().decode(output.stdout), new RegExp(`\\b${version}\\b`));
      assert.deepEqual([await names(home), await names(temporary)], [[], []]);
    });

    await t.step("demo --self-test passes with the nats-server inside", async () => {
      const { home, options, temporary } = await freshPlace(base);
      const command = new Deno.Command(program, { ...options, args: ["demo", "--self-test"] });
      for (const run of ["first", "with the server unpacked"]) {
        const output = await command.output();
        const text = new TextDecoder().decode(output.stdout);
        const said = `${run}:\n${text}\n${new TextDecoder().decode(output.stderr)}`;
        assert.equal(output.code, 0, said);
        assert.ok(text.trim().split("\n").length > 1, said);
      }
      const cached = await names(`${home}/cache/natsway`);
      assert.equal(cached.length, 1);
      assert.match(cached[0]!, /^nats-server-v\d+\.\d+\.\d+-[0-9a-f]{16}$/);
      assert.deepEqual(await names(temporary), [], "the generated configuration is gone");
      await assertNoneWith(home, 0);
    });

    await t.step("Ctrl-C ends demo --json within 2 s and leaves nothing behind", async () => {
      const { home, options, temporary } = await freshPlace(base);
      const demo = await startDemo(program, options);
      assert.equal((await processesWith(home)).some((line) => line.includes("nats-server")), true);
      const startedAt = performance.now();
      // As a terminal does: to the whole process group.
      Deno.kill(-demo.process.pid, "SIGINT");
      const { status, stderr } = await demo.ended();
      const tookMs = performance.now() - startedAt;
      assert.equal(status.code, 0, stderr);
      assert.ok(tookMs < STOP_LIMIT_MS, `it took ${tookMs} ms`);
      await assertNoneWith(home, 0);
      assert.deepEqual(await names(temporary), []);
    });

    await t.step(
      "a receiver without a home brings nats-server and stream, and finds them again",
      async () => {
        const { home, options, temporary } = await freshPlace(base);
        // Neither HOME nor XDG_CACHE_HOME: the server inside goes to the temporary folder.
        const env = {
          PATH: "",
          TMPDIR: temporary,
          PORT: "0",
          LISTEN_HOST: "127.0.0.1",
          LOG_FORMAT: "json",
          UPSTREAM_URL: "http://127.0.0.1:9",
          NATS_MODE: "jetstream",
          EMBEDDED_NATS_ENABLED: "true",
          EMBEDDED_NATS_GENERATE_CONFIG: "true",
          EMBEDDED_NATS_GENERATED_CONFIG_PATH: `${home}/nats.conf`,
          EMBEDDED_NATS_JETSTREAM_STORE_DIR: `${home}/store`,
          EMBEDDED_NATS_LISTEN: "127.0.0.1:0",
          EMBEDDED_NATS_LEAF_LISTEN_HOST: "127.0.0.1",
          EMBEDDED_NATS_LEAF_LISTEN_PORT: "0",
        };
        for (const made of [true, false]) {
          const log = await receiverLog(program, { ...options, env });
          assert.equal(log.includes('"message":"stream created"'), made, log);
          assert.match(log, /"message":"JetStream Shutdown"/);
          await assertNoneWith(temporary, 0);
        }
        assert.deepEqual(await names(temporary), [`natsway-${Deno.uid()}`]);
        assert.deepEqual(await names(home), ["nats.conf", "store"]);
      },
    );

    await t.step("F46 the nats-server ends by itself when the executable is killed", async () => {
      const { home, options, temporary } = await freshPlace(base);
      const demo = await startDemo(program, options);
      demo.process.kill("SIGKILL");
      await demo.ended();
      await assertNoneWith(home, KILL_LIMIT_MS);
      assert.deepEqual(await names(temporary), []);
    });
  } finally {
    await Deno.remove(base, { recursive: true });
  }
});
