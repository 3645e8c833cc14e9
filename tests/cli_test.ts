import { deepStrictEqual, match, ok, strictEqual } from "node:assert/strict";
import { cli, linesOf, type Outcome } from "./helpers/unit_cli.ts";
import { VERSION } from "../lib/config/version.ts";
import { StartError } from "../lib/errors.ts";

Deno.test("--version prints name and version", async () => {
  for (const flag of ["--version", "-V"]) {
    const { code, stdout, stderr } = await cli([flag]);
    deepStrictEqual([code, stdout, stderr], [0, `natsway ${VERSION}\n`, ""]);
  }
});

Deno.test("help fits into 80 columns, is grouped, and names commands and exit codes", async () => {
  for (
    const argv of [["--help"], ["-h"], ["requester", "--help"], ["demo", "-h"], [
      "settings",
      "--help",
    ]]
  ) {
    const { code, stdout, stderr, started } = await cli(argv);
    strictEqual(code, 0);
    strictEqual(stderr, "");
    deepStrictEqual(started, []);
    for (const line of linesOf(stdout)) ok(line.length <= 80, line);
    match(stdout, /Exit codes:\n {2}0 {2}orderly stop\n {2}1 .*\n {2}2 .*\n {2}3 /);
  }
  const { stdout } = await cli(["--help"]);
  match(stdout, /\nCommands:\n {2}requester /);
  match(stdout, /\nNATS connection:\n {2}--nats-url <urls>\n/);
  match(stdout, /\[20 s\]/);
  match(stdout, /--max-body-bytes <bytes>\n.*\(requester\) \[0: no limit\]/);
});

Deno.test("the help of a role leaves out what has no meaning there", async () => {
  const requester = (await cli(["requester", "--help"])).stdout;
  const receiver = (await cli(["receiver", "--help"])).stdout;
  deepStrictEqual([requester.includes("--upstream-url"), requester.includes("--peers")], [
    false,
    true,
  ]);
  deepStrictEqual([receiver.includes("--upstream-url"), receiver.includes("--peers")], [
    true,
    false,
  ]);
  match((await cli(["demo", "--help"])).stdout, /--self-test/);
});

Deno.test("without a command the settings name the role", async () => {
  const { code, started } = await cli(["--upstream-url", "http://h", "--port=0"]);
  strictEqual(code, 0);
  deepStrictEqual(started.map(({ what, config }) => [what, config.serviceRole, config.port]), [
    ["service", "receiver", 0],
  ]);
});

Deno.test("a command names the role, and flags may stand before and after it", async () => {
  const { started } = await cli(["--port", "1", "requester", "--max-flows", "2", "--max-flows=3"]);
  const config = started[0]?.config;
  deepStrictEqual([config?.serviceRole, config?.port, config?.maxFlows], ["requester", 1, 3]);
});

Deno.test("a flag may be given by any name of the table, lists add up, values may look like flags", async () => {
  const { started } = await cli([
    "requester",
    "--nats-url=nats://a",
    "--nats-url",
    "nats://b",
    "--nats-token-file",
    "/t",
    "--service-id",
    "-x-",
  ], { files: { "/t": "hunter2\n" } });
  const config = started[0]?.config;
  deepStrictEqual(config?.natsUrls.map((url) => url.hostname), ["a", "b"]);
  strictEqual(config.natsToken, "hunter2");
  strictEqual(config.serviceId, "-x-");
});

Deno.test("a switch may stand alone and never swallows a command", async () => {
  const { started } = await cli([
    "--embedded-nats-generate-config",
    "requester",
    "--via",
    "off",
    "--nats-tls-first",
  ]);
  const config = started[0]?.config;
  deepStrictEqual([
    config?.serviceRole,
    config?.embeddedNatsGenerateConfig,
    config?.via,
    config?.natsTlsFirst,
  ], [
    "requester",
    true,
    false,
    true,
  ]);
});

Deno.test("--env-file is read only when it is named, below the environment", async () => {
  const files = { "x.env": "PORT=1\nMAX_FLOWS=1\n", ".env": "PORT=9\n" };
  const { started } = await cli(["requester", "--env-file", "x.env"], {
    files,
    env: { MAX_FLOWS: "2" },
  });
  deepStrictEqual([started[0]?.config.port, started[0]?.config.maxFlows], [1, 2]);
  strictEqual((await cli(["requester"], { files })).started[0]?.config.port, 7000);
  const missing = await cli(["requester", "--env-file", "no.env", "--port", "x"]);
  strictEqual(missing.code, 2);
  deepStrictEqual(linesOf(missing.stderr).map((line) => line.slice(0, 12)), [
    '--env-file "',
    "--port (PORT",
  ]);
});

Deno.test("F61: mistakes of all kinds come in one report, and nothing starts", async () => {
  const { code, stderr, stdout, started } = await cli(
    [
      "receiver",
      "--nats-ulr",
      "nats://bob:hunter2@h",
      "--port",
      "70000",
      "--max-flows",
      "--via=loud",
      "-p",
    ],
    {
      env: {
        FRAME_BYTES: "12k",
        NATS_MODE_: "core",
        MAX_CONNECTIONS: "5",
        UPSTREAM_URL: "http://h",
      },
    },
  );
  strictEqual(code, 2);
  strictEqual(stdout, "");
  deepStrictEqual(started, []);
  deepStrictEqual(linesOf(stderr), [
    "--max-flows has no value: accepted: a whole number from 1 to 1000000",
    "--nats-ulr: unknown flag; the nearest is --nats-url",
    "-p: unknown flag; natsway --help lists all flags",
    '--port (PORT) "70000": accepted: a whole number from 0 to 65535 (0: any free port)',
    'FRAME_BYTES "12k": accepted: a whole number from 1 to 1073741824',
    '--via (VIA) "loud": accepted: on, off',
    "warning: NATS_MODE_ is not a setting; the nearest is NATS_MODE",
    "warning: MAX_CONNECTIONS has no effect on a receiver; it is for a requester",
  ]);
});

Deno.test("an unknown command names its nearest, and a stray word is a mistake", async () => {
  const unknown = await cli(["requestor"]);
  strictEqual(unknown.code, 2);
  match(
    unknown.stderr,
    /^"requestor": unknown command; the nearest is requester; accepted: requester, /,
  );
  const stray = await cli(["demo", "--json", "now"]);
  strictEqual(stray.code, 2);
  match(stray.stderr, /^"now": unexpected argument of natsway demo\n$/);
  const after = await cli(["requester", "--", "--port", "1"]);
  deepStrictEqual([after.code, after.stderr], [
    2,
    '"--port": no arguments are accepted after --\n',
  ]);
});

Deno.test("the demo gets its options and settings of both sides without a warning", async () => {
  const { started, stderr, code } = await cli(["demo", "--self-test", "--port", "0"], {
    env: { PEERS: "natsway", UPSTREAM_HOST: "client" },
    serve: () => Promise.resolve(1),
  });
  strictEqual(code, 1);
  strictEqual(stderr, "");
  deepStrictEqual(started.map(({ what, options, config }) => [what, options, config.port]), [
    ["demo", { json: false, selfTest: true }, 0],
  ]);
});

Deno.test("warnings of a start go to the log", async () => {
  const { stderr } = await cli(["requester"], { env: { UPSTREAM_URL: "http://h" } });
  const line = JSON.parse(stderr);
  strictEqual(line.level, "warning");
  match(line.message, /^UPSTREAM_URL has no effect on a requester/);
});

Deno.test("a failed start is one line and exit code 3, without stack trace and secret", async () => {
  const failed = await cli(["requester"], {
    env: { NATS_TOKEN: "hunter2" },
    serve: () =>
      Promise.reject(new StartError("cannot listen on 0.0.0.0:7000 with hunter2\nport taken")),
  });
  strictEqual(failed.code, 3);
  strictEqual(failed.stderr, "natsway: cannot listen on 0.0.0.0:7000 with ***; port taken\n");
  const broken = await cli(["requester"], { serve: () => Promise.reject(new Error("boom")) });
  deepStrictEqual([broken.code, broken.stderr], [1, "natsway: boom\n"]);
});

const SECRETS = { NATS_PASSWORD: "hunter2", OBSERVABILITY_TOKEN: "hunter3", NATS_USER: "bobby" };

Deno.test("settings prints each value with its source, and secrets as set or unset", async () => {
  const { code, stdout, stderr } = await cli(["settings", "--port", "80"], {
    env: { ...SECRETS, PEER_TIMEOUT: "0.5" },
  });
  strictEqual(code, 0);
  strictEqual(stderr, "");
  match(stdout, /^ {2}PORT +80 +flag$/m);
  match(stdout, /^ {2}PEER_TIMEOUT +0\.5 s +environment$/m);
  match(stdout, /^ {2}NATS_PASSWORD +set +environment$/m);
  match(stdout, /^ {2}NATS_TOKEN +unset +default$/m);
  match(stdout, /^ {2}NATS_QUEUE_GROUP +nats-proxy +derived$/m);
});

Deno.test("settings --json is for machines", async () => {
  const { stdout } = await cli(["settings", "--json"], {
    env: {
      ...SECRETS,
      NATS_USER: "",
      NATS_PASSWORD: "",
      NATS_URL: "nats://bobby:hunter2@h",
      PROXY_AUTH_HIDDEN: "x",
    },
  });
  const report = JSON.parse(stdout);
  const of = (name: string) =>
    report.settings.find((it: { setting: string }) => it.setting === name);
  deepStrictEqual(of("NATS_URL"), {
    setting: "NATS_URL",
    flag: "--nats-url",
    value: ["nats://h:4222"],
    credentials: "set",
    source: "environment",
    group: "NATS connection",
  });
  strictEqual(of("NATS_TOKEN").value, null);
  strictEqual(of("OBSERVABILITY_TOKEN").value, "set");
  strictEqual(of("PEER_TIMEOUT").value, 15);
  deepStrictEqual(report.warnings, ["PROXY_AUTH_HIDDEN is not served by this version"]);
});

Deno.test("F63: settings, help, warnings and mistakes hold no secret", async () => {
  const inUrl = { NATS_URL: "nats://bobby:hunter2@h:4222", OBSERVABILITY_TOKEN: "hunter3" };
  const commands = [["settings"], ["settings", "--json"], ["--help"], ["requester", "--help"], [
    "requester",
  ]];
  for (const env of [SECRETS, inUrl, { ...SECRETS, ...inUrl }]) {
    for (const argv of commands) {
      for (const extra of [[], ["--log-level=debug"], ["--port=x", "--nats-tokn=hunter2"]]) {
        const { stdout, stderr } = await cli([...argv, ...extra], { env });
        strictEqual(/hunter|bobby/.test(stdout + stderr), false, stdout + stderr);
      }
    }
  }
});

/** Runs the real program, or the executable in NATSWAY_EXECUTABLE. */
async function program(
  argv: readonly string[],
  env: Record<string, string> = {},
): Promise<Outcome> {
  const executable = Deno.env.get("NATSWAY_EXECUTABLE");
  const main = new URL("../main.ts", import.meta.url).pathname;
  // Not the whole environment of the tests: it may hold settings.
  const kept = ["PATH", "HOME", "DENO_DIR", "XDG_CACHE_HOME"].flatMap((name) => {
    const value = Deno.env.get(name);
    return value === undefined ? [] : [[name, value] as const];
  });
  const command = new Deno.Command(executable ?? Deno.execPath(), {
    args: executable === undefined ? ["run", "-A", main, ...argv] : [...argv],
    clearEnv: true,
    env: { NO_COLOR: "1", ...Object.fromEntries(kept), ...env },
    stdin: "null",
  });
  const { code, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  return { code, stdout: decoder.decode(stdout), stderr: decoder.decode(stderr), started: [] };
}

Deno.test("F61: the process ends with 2 and one line per mistake before anything listens", async () => {
  const { code, stdout, stderr } = await program(
    ["requester", "--nats-ulr=nats://h", "--port", "70000"],
    { UPSTREAM_ULR: "http://h", RECEIVER_MAX_INFLIGHT: "5", MAX_FLOWS: "abc" },
  );
  strictEqual(code, 2, stderr);
  strictEqual(stdout, "");
  deepStrictEqual(linesOf(stderr), [
    "--nats-ulr: unknown flag; the nearest is --nats-url",
    '--port (PORT) "70000": accepted: a whole number from 0 to 65535 (0: any free port)',
    'MAX_FLOWS "abc": accepted: a whole number from 1 to 1000000',
    "warning: UPSTREAM_ULR is not a setting; the nearest is UPSTREAM_URL",
    "warning: RECEIVER_MAX_INFLIGHT has no effect on a requester; it is for a receiver",
  ]);
});

Deno.test("the process ends with 0 after --version, --help and settings", async () => {
  const version = await program(["--version"]);
  deepStrictEqual([version.code, version.stdout, version.stderr], [0, `natsway ${VERSION}\n`, ""]);
  const help = await program(["--help"]);
  deepStrictEqual([help.code, help.stderr], [0, ""]);
  const settings = await program(["settings", "--json"], { NATS_TOKEN: "hunter2" });
  strictEqual(settings.code, 0, settings.stderr);
  strictEqual((settings.stdout + settings.stderr).includes("hunter2"), false);
});
