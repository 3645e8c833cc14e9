/**
 * Ways from the load tool to the upstream, each with its own processes.
 * @module
 */
import { fileURLToPath } from "node:url";
import { BenchProcess, freePort } from "./process.ts";
import type { Toolbox } from "./tools.ts";

/** A way that is up: `port` leads to the upstream. */
export interface Way {
  readonly port: number;
  readonly processes: readonly BenchProcess[];
  /** Versions by program, for the report. */
  readonly versions: Readonly<Record<string, string>>;
  /** Text of configuration files by name, for the report. */
  readonly configs: Readonly<Record<string, string>>;
}

export interface StartContext {
  /** What the upstream speaks; to natsway it makes a difference. */
  readonly kind: "http" | "tcp";
  readonly upstreamPort: number;
  /** Empty folder of this candidate alone. */
  readonly folder: string;
  readonly binary: string | null;
  readonly tools: Toolbox;
  /** Takes each process as soon as it is started, to end it in any case. */
  readonly own: (process: BenchProcess) => BenchProcess;
  readonly signal: AbortSignal;
}

/** What a candidate needs is not on this machine; it is left out of the run. */
export class MissingToolError extends Error {
  override readonly name = "MissingToolError";
}

export interface Candidate {
  readonly name: string;
  /** @throws {MissingToolError} a program is missing */
  start(context: StartContext): Promise<Way>;
}

export const CANDIDATES: readonly Candidate[] = [
  {
    name: "direct",
    start: ({ upstreamPort }) =>
      Promise.resolve({ port: upstreamPort, processes: [], versions: {}, configs: {} }),
  },
  { name: "natsway", start: startNatsway },
  { name: "chisel", start: startChisel },
  { name: "frp", start: startFrp },
];

const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
/** Environment that natsway gets; a developer's settings must not change what is measured. */
const INHERITED = ["PATH", "HOME", "DENO_DIR", "XDG_CACHE_HOME", "TMPDIR", "NPM_CONFIG_REGISTRY"];

async function startNatsway(context: StartContext): Promise<Way> {
  const { upstreamPort, kind, binary, own, signal, tools } = context;
  let server: { path: string; version: string };
  try {
    server = await tools.natsServer(signal);
  } catch (error) {
    throw new MissingToolError(error instanceof Error ? error.message : String(error));
  }
  const natsPort = freePort();
  const nats = own(
    new BenchProcess({
      name: "nats-server",
      command: server.path,
      args: ["-a", "127.0.0.1", "-p", String(natsPort)],
    }),
  );
  await nats.said(/Server is ready/, signal);
  const env: Record<string, string> = { NO_COLOR: "1", LOG_FORMAT: "json" };
  for (const name of INHERITED) {
    const value = Deno.env.get(name);
    if (value !== undefined) env[name] = value;
  }
  const role = (name: string, ...settings: string[]) =>
    own(
      new BenchProcess({
        name,
        command: binary ?? Deno.execPath(),
        args: [
          ...(binary === null ? ["run", "-A", "--quiet", MAIN] : []),
          name,
          "--port=0",
          "--listen-host=127.0.0.1",
          `--nats-url=nats://127.0.0.1:${natsPort}`,
          ...settings,
        ],
        env,
      }),
    );
  const target = `127.0.0.1:${upstreamPort}`;
  let port: number;
  let receiver: BenchProcess;
  let requester: BenchProcess;
  if (kind === "tcp") {
    port = freePort();
    receiver = role("receiver", "--target-allow=127.0.0.1");
    requester = role("requester", `--forward=127.0.0.1:${port}=${target}`);
  } else {
    receiver = role("receiver", `--upstream-url=http://${target}`);
    requester = role("requester");
    port = Number((await requester.said(/"address":"127\.0\.0\.1:(\d+)"/, signal))[1]);
  }
  await receiver.said(/"message":"ready"/, signal);
  await requester.said(/"message":"ready"/, signal);
  return {
    port,
    processes: [requester, receiver, nats],
    versions: {
      natsway: binary === null ? `source on Deno ${Deno.version.deno}` : await versionOf(binary),
      "nats-server": server.version,
    },
    configs: {},
  };
}

async function startChisel({ upstreamPort, tools, own, signal }: StartContext): Promise<Way> {
  const chisel = await tools.find("chisel", PEERS_HINT, ["--version"]);
  if (chisel.path === null) throw new MissingToolError(chisel.missing);
  const [serverPort, port] = [freePort(), freePort()];
  const server = own(
    new BenchProcess({
      name: "chisel server",
      command: chisel.path,
      args: ["server", "--host", "127.0.0.1", "--port", String(serverPort)],
    }),
  );
  await server.said(/Listening on/, signal);
  const client = own(
    new BenchProcess({
      name: "chisel client",
      command: chisel.path,
      args: [
        "client",
        `http://127.0.0.1:${serverPort}`,
        `127.0.0.1:${port}:127.0.0.1:${upstreamPort}`,
      ],
    }),
  );
  return {
    port,
    processes: [client, server],
    versions: { chisel: chisel.version },
    configs: {},
  };
}

async function startFrp(context: StartContext): Promise<Way> {
  const { upstreamPort, tools, own, folder } = context;
  const frps = await tools.find("frps", PEERS_HINT, ["--version"]);
  if (frps.path === null) throw new MissingToolError(frps.missing);
  const frpc = await tools.find("frpc", PEERS_HINT, ["--version"]);
  if (frpc.path === null) throw new MissingToolError(frpc.missing);
  const [serverPort, port] = [freePort(), freePort()];
  const configs = {
    "frps.toml": [
      'bindAddr = "127.0.0.1"',
      `bindPort = ${serverPort}`,
      'proxyBindAddr = "127.0.0.1"',
      "",
    ].join("\n"),
    "frpc.toml": [
      'serverAddr = "127.0.0.1"',
      `serverPort = ${serverPort}`,
      "loginFailExit = false",
      "[[proxies]]",
      'name = "bench"',
      'type = "tcp"',
      'localIP = "127.0.0.1"',
      `localPort = ${upstreamPort}`,
      `remotePort = ${port}`,
      "",
    ].join("\n"),
  };
  for (const [name, text] of Object.entries(configs)) {
    await Deno.writeTextFile(`${folder}/${name}`, text);
  }
  const start = (name: string, command: string) =>
    own(new BenchProcess({ name, command, args: ["-c", `${folder}/${name}.toml`] }));
  const server = start("frps", frps.path);
  await server.said(/started successfully/, context.signal);
  const client = start("frpc", frpc.path);
  return { port, processes: [server, client], versions: { frp: frps.version }, configs };
}

const PEERS_HINT = "for measurements only; put it on the PATH to have it in the run";

async function versionOf(binary: string): Promise<string> {
  const { stdout } = await new Deno.Command(binary, { args: ["--version"] }).output();
  return `${new TextDecoder().decode(stdout).trim()} (compiled)`;
}
