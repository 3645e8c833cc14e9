/**
 * `deno task bench tcp`: natsway, chisel, frp and no tunnel at all under the same TCP load, in turn.
 * @module
 */
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
import type { BenchProcess } from "./support/process.ts";
import { type Ratio, ratiosOf } from "./support/report.ts";
import { type TcpLoad, TcpLoadTool } from "./support/tcp_load.ts";
import { say } from "./support/terminal.ts";
import { machine, Toolbox } from "./support/tools.ts";
import {
  BARS,
  inShort,
  LOAD_TOOL,
  MEASURES,
  type Row,
  rowsOf,
  tables,
  type TcpSample,
  warningsOf,
} from "./tcp_report.ts";

interface Load {
  readonly name: string;
  readonly about: string;
  readonly load: TcpLoad;
}

const LOADS: readonly Load[] = [
  ...[1, 16, 64].flatMap((atOnce) => [streams("up", atOnce), streams("down", atOnce)]),
  {
    name: "new",
    about: "sessions of 1 byte each way, 16 at a time",
    load: { load: "sessions", atOnce: 16 },
  },
  { name: "ping", about: "1 byte there and back on one connection", load: { load: "pingpong" } },
];

/** Each candidate runs hot before it is measured, and every byte is compared meanwhile. */
const WARM_UP: readonly TcpLoad[] = [
  { load: "streams", atOnce: 16, up: true, verify: true },
  { load: "streams", atOnce: 16, up: false, verify: true },
  { load: "sessions", atOnce: 16 },
];
const WARM_UP_SECONDS_EACH = 2;
const READY_MS = 20_000;
const POLL_MS = 50;
const TRIAL_SECONDS = 0.05;

/** What is written about a run; `--json` prints it as it is. */
interface Report {
  readonly settings: Settings;
  /** Candidates that were left out, with the reason. */
  readonly missing: Readonly<Record<string, string>>;
  readonly rows: readonly Row[];
  readonly ratios: readonly Ratio[];
  readonly warnings: readonly string[];
  readonly samples: readonly TcpSample[];
}

/** Runs the bench; returns the exit code: 0 also when a bar is missed. */
export function benchTcp(args: readonly string[]): Promise<number> {
  const names = [...CANDIDATES, ...LOADS].map(({ name }) => name);
  return runBench(args, names, run, asText);
}

async function run(options: BenchOptions, signal: AbortSignal): Promise<Report> {
  const tools = await Toolbox.open();
  await using stack = new AsyncDisposableStack();
  const folder = await Deno.makeTempDir({ prefix: "natsway-bench-" });
  stack.defer(() => Deno.remove(folder, { recursive: true }));
  const commands: string[] = [];
  const own = (process: BenchProcess) => {
    commands.push(process.commandLine);
    return stack.use(process);
  };
  const about = await machine();
  const { tool, version } = await TcpLoadTool.start(tools, folder);
  stack.use(tool);
  const missing: Record<string, string> = {};
  const doubts: string[] = [];
  const context = { ...options, kind: "tcp" as const, folder, tools, own, signal };
  const running = await startAll(
    CANDIDATES,
    { ...context, upstreamPort: tool.port },
    missing,
    async (name, way) => {
      doubts.push(...await check(name, way, tool, signal));
    },
  );
  const loads = chosen(LOADS, options.only);
  const samples = await measure(running, loads, tool, options, signal);
  const rows = rowsOf(samples);
  return {
    settings: {
      date: new Date().toISOString(),
      rounds: options.rounds,
      secondsPerMeasurement: options.seconds,
      warmUpSeconds: WARM_UP.length * WARM_UP_SECONDS_EACH,
      machine: about,
      versions: Object.assign({ go: version }, ...running.map(({ way }) => way.versions)),
      commands,
      ports: Object.fromEntries(running.map(({ name, way }) => [name, String(way.port)])),
      configs: Object.assign({}, ...running.map(({ way }) => way.configs)),
      loads: Object.fromEntries(loads.map((load) => [load.name, load.about])),
    },
    missing,
    rows,
    ratios: ratiosOf(samples, MEASURES, BARS),
    warnings: [...doubts, ...warningsOf(rows)],
    samples,
  };
}

/** Waits until sessions get through, then runs the candidate hot; returns what went wrong meanwhile. */
async function check(
  name: string,
  way: Way,
  tool: TcpLoadTool,
  signal: AbortSignal,
): Promise<string[]> {
  const end = performance.now() + READY_MS;
  for (;;) {
    const { count, errors } = await tool.run(
      { load: "sessions", atOnce: 1 },
      way.port,
      TRIAL_SECONDS,
      signal,
    );
    if (count > 0 && errors.length === 0) break;
    const ended = way.processes.find((process) => !process.running);
    if (ended !== undefined) throw ended.failure("ended");
    if (performance.now() > end) throw new Error(`${name} is not ready: ${errors.join("; ")}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
  const doubts: string[] = [];
  for (const load of WARM_UP) {
    const { errors } = await tool.run(load, way.port, WARM_UP_SECONDS_EACH, signal);
    if (errors.length === 0) continue;
    doubts.push(`${name} had errors while it ran warm: ${errors.slice(0, 3).join("; ")}`);
  }
  return doubts;
}

async function measure(
  running: readonly Running[],
  loads: readonly Load[],
  tool: TcpLoadTool,
  { rounds, seconds }: BenchOptions,
  signal: AbortSignal,
): Promise<TcpSample[]> {
  const samples: TcpSample[] = [];
  for (let round = 1; round <= rounds; round++) {
    for (const { name: load, about, load: what } of loads) {
      for (const { name, way } of inTurn(running, round)) {
        const before = tool.cpuSeconds();
        const { result, cpu } = await withCpu(
          way.processes,
          () => tool.run(what, way.port, seconds, signal),
        );
        cpu[LOAD_TOOL] = tool.cpuSeconds() - before;
        const sample = { round, load, candidate: name, result, cpu };
        samples.push(sample);
        const errors = result.errors.length === 0 ? "" : `, errors: ${result.errors.join("; ")}`;
        say(`round ${round} of ${rounds}, ${about}: ${name} ${inShort(sample)}${errors}`);
      }
    }
  }
  return samples;
}

function streams(direction: "up" | "down", atOnce: number): Load {
  return {
    name: `${direction}-${atOnce}`,
    about: `${atOnce} ${atOnce === 1 ? "stream" : "streams"} ${direction}`,
    load: { load: "streams", atOnce, up: direction === "up", verify: false },
  };
}

function asText({ settings, missing, warnings, rows, ratios }: Report): string {
  return [settingsText("TCP bench", settings, missing, warnings), tables(rows, ratios)].join("\n");
}
