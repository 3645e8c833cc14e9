/**
 * `deno task bench http`: natsway, chisel, frp and the bare upstream under the same HTTP load, in turn.
 * @module
 */
import {
  type Ratio,
  ratiosOf,
  type Row,
  rowsOf,
  type Sample,
  tables,
  warningsOf,
} from "./http_report.ts";
import {
  type Candidate,
  CANDIDATES,
  MissingToolError,
  type StartContext,
  type Way,
} from "./support/candidates.ts";
import { type BenchOptions, chosen, readOptions, UsageError } from "./support/options.ts";
import { answers, type BenchProcess, quoted } from "./support/process.ts";
import { print, say } from "./support/terminal.ts";
import { machine, Toolbox } from "./support/tools.ts";
import { fileBody, FILES, startUpstream } from "./support/upstream.ts";
import { Wrk, type WrkLoad } from "./support/wrk.ts";

interface Load extends WrkLoad {
  readonly name: string;
  readonly about: string;
}

const LOADS: readonly Load[] = [
  { name: "1", about: "1 KiB, 1 connection", path: "/1k", connections: 1, close: false },
  { name: "32", about: "1 KiB, 32 connections", path: "/1k", connections: 32, close: false },
  { name: "128", about: "1 KiB, 128 connections", path: "/1k", connections: 128, close: false },
  {
    name: "new",
    about: "1 KiB, a new connection per request, 16 at a time",
    path: "/1k",
    connections: 16,
    close: true,
  },
  { name: "download", about: "10 MiB, one at a time", path: "/10m", connections: 1, close: false },
];

/** Each candidate runs hot before it is measured: Deno compiles as it goes. */
const WARM_UP: WrkLoad = { path: "/1k", connections: 32, close: false };
const WARM_UP_SECONDS = 4;
const INTERRUPTED = 130;

/** What is written about a run; `--json` prints it as it is. */
interface Report {
  readonly settings: {
    readonly date: string;
    readonly rounds: number;
    readonly secondsPerMeasurement: number;
    readonly warmUpSeconds: number;
    readonly machine: Readonly<Record<string, string>>;
    readonly versions: Readonly<Record<string, string>>;
    /** Every process; the load's commands with PORT for the port of a candidate. */
    readonly commands: readonly string[];
    readonly ports: Readonly<Record<string, string>>;
    readonly configs: Readonly<Record<string, string>>;
    readonly loads: Readonly<Record<string, string>>;
  };
  /** Candidates that were left out, with the reason. */
  readonly missing: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
  readonly ratios: readonly Ratio[];
  readonly warnings: readonly string[];
  readonly samples: readonly Sample[];
}

/** Runs the bench; returns the exit code: 0 also when a bar is missed. */
export async function benchHttp(args: readonly string[]): Promise<number> {
  const abort = new AbortController();
  const interrupt = () => abort.abort(new Error("interrupted"));
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const signal of signals) Deno.addSignalListener(signal, interrupt);
  try {
    const names = [...CANDIDATES, ...LOADS].map(({ name }) => name);
    const options = readOptions(args, names);
    if (Deno.build.os !== "linux") {
      throw new UsageError("this bench runs on Linux only: it reads /proc");
    }
    const report = await run(options, abort.signal);
    print(options.json ? JSON.stringify(report, null, 2) : asText(report));
    return 0;
  } catch (error) {
    if (abort.signal.aborted) return INTERRUPTED;
    say(error instanceof Error ? error.message : String(error));
    return error instanceof UsageError ? 2 : 1;
  } finally {
    for (const signal of signals) Deno.removeSignalListener(signal, interrupt);
  }
}

/** A candidate that is up. */
interface Running {
  readonly name: string;
  readonly way: Way;
}

async function run(options: BenchOptions, signal: AbortSignal): Promise<Report> {
  const tools = await Toolbox.open();
  const wrkTool = await tools.find("wrk", "Debian: apt-get install wrk", ["-v"]);
  if (wrkTool.path === null) throw new Error(wrkTool.missing);
  const nginx = await tools.find("nginx", "Debian: apt-get install nginx-light", ["-v"]);
  if (nginx.path === null) throw new Error(nginx.missing);
  await using stack = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "natsway-bench-" });
  stack.defer(() => Deno.remove(folder, { recursive: true }));
  const commands: string[] = [];
  const own = (process: BenchProcess) => {
    commands.push(process.commandLine);
    return stack.use(process);
  };
  const about = await machine();
  const wrk = await Wrk.prepare(wrkTool.path, folder);
  const upstream = await startUpstream(nginx.path, folder);
  own(upstream.process);
  const missing: Record<string, string> = {};
  const running = await startAll(upstream, missing, { ...options, folder, tools, own, signal });
  const loads = chosen(LOADS, options.only);
  for (const load of loads) {
    commands.push(
      [wrkTool.path, ...wrk.args(load, "PORT", options.seconds)].map(quoted).join(" "),
    );
  }
  const samples = await measure(running, loads, upstream.process, wrk, options, signal);
  const rows = rowsOf(samples);
  return {
    settings: {
      date: new Date().toISOString(),
      rounds: options.rounds,
      secondsPerMeasurement: options.seconds,
      warmUpSeconds: WARM_UP_SECONDS,
      machine: about,
      versions: Object.assign(
        { wrk: wrkTool.version, nginx: nginx.version },
        ...running.map(({ way }) => way.versions),
      ),
      commands,
      ports: Object.fromEntries(running.map(({ name, way }) => [name, String(way.port)])),
      configs: Object.assign(
        { "nginx.conf": upstream.config },
        ...running.map(({ way }) => way.configs),
      ),
      loads: Object.fromEntries(loads.map((load) => [load.name, load.about])),
    },
    missing,
    rows,
    ratios: ratiosOf(samples),
    warnings: warningsOf(rows),
    samples,
  };
}

/** Starts the candidates and tries each once; what is not on this machine is noted in `missing`. */
async function startAll(
  upstream: { readonly port: number; readonly process: BenchProcess },
  missing: Record<string, string>,
  context: Omit<StartContext, "upstreamPort"> & { readonly only: readonly string[] },
): Promise<Running[]> {
  const running: Running[] = [];
  for (const { name, start } of chosen<Candidate>(CANDIDATES, context.only)) {
    const folder = `${context.folder}/${name}`;
    await Deno.mkdir(folder);
    try {
      const way = await start({ ...context, upstreamPort: upstream.port, folder });
      for (const [path, bytes] of Object.entries(FILES)) {
        const url = `http://127.0.0.1:${way.port}${path}`;
        const processes = [upstream.process, ...way.processes];
        await answers(url, fileBody(bytes), processes, context.signal);
      }
      running.push({ name, way });
    } catch (error) {
      if (!(error instanceof MissingToolError)) throw error;
      missing[name] = error.message;
      say(`left out: ${name}: ${error.message}`);
    }
  }
  return running;
}

async function measure(
  running: readonly Running[],
  loads: readonly Load[],
  upstream: BenchProcess,
  wrk: Wrk,
  { rounds, seconds }: BenchOptions,
  signal: AbortSignal,
): Promise<Sample[]> {
  const samples: Sample[] = [];
  for (const { way } of running) await wrk.run(WARM_UP, way.port, WARM_UP_SECONDS, signal);
  for (let round = 1; round <= rounds; round++) {
    for (const load of loads) {
      for (let i = 0; i < running.length; i++) {
        // Each candidate is first in turn, so that a drift of the machine favours none.
        const { name, way } = running[(i + round) % running.length]!;
        const processes = [...way.processes, upstream];
        const before = processes.map((process) => process.cpuSeconds());
        const result = await wrk.run(load, way.port, seconds, signal);
        const cpu: Record<string, number> = {};
        processes.forEach((process, at) => {
          if (!process.running) throw process.failure("ended");
          cpu[process.name] = process.cpuSeconds() - before[at]!;
        });
        cpu["wrk"] = result.cpuSeconds;
        samples.push({ round, load: load.name, candidate: name, result, cpu });
        const rate = (result.requests / result.seconds).toFixed(0);
        say(`round ${round} of ${rounds}, ${load.about}: ${name} ${rate} requests/s`);
      }
    }
  }
  return samples;
}

function asText(report: Report): string {
  const { settings, missing, warnings } = report;
  const list = (values: Readonly<Record<string, string>>) =>
    Object.entries(values).map(([name, value]) => `  ${name}: ${value}`);
  const indented = (text: string) => text.trimEnd().split("\n").map((line) => `    ${line}`);
  return [
    `HTTP bench of ${settings.date}: ${settings.rounds} rounds of ` +
    `${settings.secondsPerMeasurement} s after ${settings.warmUpSeconds} s each to warm up`,
    "Machine",
    ...list(settings.machine),
    "Versions",
    ...list(settings.versions),
    "Loads",
    ...list(settings.loads),
    "Commands",
    ...settings.commands.map((command) => `  ${command}`),
    "PORT",
    ...list(settings.ports),
    ...Object.entries(settings.configs).flatMap((
      [name, text],
    ) => [`  ${name}:`, ...indented(text)]),
    "",
    ...Object.entries(missing).map(([name, why]) => `Left out: ${name}: ${why}`),
    ...warnings.map((warning) => `Doubtful: ${warning}`),
    tables(report.rows, report.ratios),
  ].join("\n");
}
