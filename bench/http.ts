/**
 * `deno task bench http`: natsway, chisel, frp and the bare upstream under the same HTTP load, in turn.
 * @module
 */
import {
  BARS,
  type HttpSample,
  MEASURES,
  type Row,
  rowsOf,
  tables,
  warningsOf,
} from "./http_report.ts";
import {
  inTurn,
  runBench,
  type Running,
  type Settings,
  settingsText,
  startAll,
  withCpu,
} from "./support/bench.ts";
import { CANDIDATES, type Way } from "./support/candidates.ts";
import { type BenchOptions, chosen } from "./support/options.ts";
import { answers, type BenchProcess, quoted } from "./support/process.ts";
import { type Ratio, ratiosOf } from "./support/report.ts";
import { say } from "./support/terminal.ts";
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

/** What is written about a run; `--json` prints it as it is. */
interface Report {
  readonly settings: Settings;
  /** Candidates that were left out, with the reason. */
  readonly missing: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
  readonly ratios: readonly Ratio[];
  readonly warnings: readonly string[];
  readonly samples: readonly HttpSample[];
}

/** Runs the bench; returns the exit code: 0 also when a bar is missed. */
export function benchHttp(args: readonly string[]): Promise<number> {
  const names = [...CANDIDATES, ...LOADS].map(({ name }) => name);
  return runBench(args, names, run, asText);
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
  const context = { ...options, kind: "http" as const, folder, tools, own, signal };
  const running = await startAll(
    CANDIDATES,
    { ...context, upstreamPort: upstream.port },
    missing,
    (_, way) => check(way, upstream.process, signal),
  );
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
    ratios: ratiosOf(samples, MEASURES, BARS),
    warnings: warningsOf(rows),
    samples,
  };
}

async function check(way: Way, upstream: BenchProcess, signal: AbortSignal): Promise<void> {
  for (const [path, bytes] of Object.entries(FILES)) {
    const url = `http://127.0.0.1:${way.port}${path}`;
    await answers(url, fileBody(bytes), [upstream, ...way.processes], signal);
  }
}

async function measure(
  running: readonly Running[],
  loads: readonly Load[],
  upstream: BenchProcess,
  wrk: Wrk,
  { rounds, seconds }: BenchOptions,
  signal: AbortSignal,
): Promise<HttpSample[]> {
  const samples: HttpSample[] = [];
  for (const { way } of running) await wrk.run(WARM_UP, way.port, WARM_UP_SECONDS, signal);
  for (let round = 1; round <= rounds; round++) {
    for (const load of loads) {
      for (const { name, way } of inTurn(running, round)) {
        const { result, cpu } = await withCpu(
          [...way.processes, upstream],
          () => wrk.run(load, way.port, seconds, signal),
        );
        cpu["wrk"] = result.cpuSeconds;
        samples.push({ round, load: load.name, candidate: name, result, cpu });
        const rate = (result.requests / result.seconds).toFixed(0);
        say(`round ${round} of ${rounds}, ${load.about}: ${name} ${rate} requests/s`);
      }
    }
  }
  return samples;
}

function asText({ settings, missing, warnings, rows, ratios }: Report): string {
  return [settingsText("HTTP bench", settings, missing, warnings), tables(rows, ratios)].join("\n");
}
