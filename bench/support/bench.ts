/**
 * What all benches do alike: options, start of the candidates, the head of the report.
 * @module
 */
import { type Candidate, MissingToolError, type StartContext, type Way } from "./candidates.ts";
import { type BenchOptions, chosen, readOptions, UsageError } from "./options.ts";
import type { BenchProcess } from "./process.ts";
import { print, say } from "./terminal.ts";

const INTERRUPTED = 130;

/** How a run was made; every report starts with it. */
export interface Settings {
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
}

/** A candidate that is up. */
export interface Running {
  readonly name: string;
  readonly way: Way;
}

/**
 * Runs one bench and prints its report; returns the exit code: 0 also when a bar is missed.
 * @param names every name that `--only` may hold
 * @param textOf the report for people; `--json` prints it as it is
 */
export async function runBench<Report>(
  args: readonly string[],
  names: readonly string[],
  run: (options: BenchOptions, signal: AbortSignal) => Promise<Report>,
  textOf: (report: Report) => string,
): Promise<number> {
  const abort = new AbortController();
  const interrupt = () => abort.abort(new Error("interrupted"));
  const signals = ["SIGINT", "SIGTERM"] as const;
  for (const signal of signals) Deno.addSignalListener(signal, interrupt);
  try {
    const options = readOptions(args, names);
    if (Deno.build.os !== "linux") {
      throw new UsageError("this bench runs on Linux only: it reads /proc");
    }
    const report = await run(options, abort.signal);
    print(options.json ? JSON.stringify(report, null, 2) : textOf(report));
    return 0;
  } catch (error) {
    if (abort.signal.aborted) return INTERRUPTED;
    say(error instanceof Error ? error.message : String(error));
    return error instanceof UsageError ? 2 : 1;
  } finally {
    for (const signal of signals) Deno.removeSignalListener(signal, interrupt);
  }
}

/**
 * Starts the candidates and tries each once with `check`; what is not on this machine is noted in
 * `missing`.
 */
export async function startAll(
  candidates: readonly Candidate[],
  context: StartContext & { readonly only: readonly string[] },
  missing: Record<string, string>,
  check: (name: string, way: Way) => Promise<void>,
): Promise<Running[]> {
  const running: Running[] = [];
  for (const { name, start } of chosen(candidates, context.only)) {
    const folder = `${context.folder}/${name}`;
    await Deno.mkdir(folder);
    try {
      const way = await start({ ...context, folder });
      await check(name, way);
      running.push({ name, way });
    } catch (error) {
      if (!(error instanceof MissingToolError)) throw error;
      missing[name] = error.message;
      say(`left out: ${name}: ${error.message}`);
    }
  }
  return running;
}

/**
 * The candidates in the order of one load in one round: each is first in turn, so that a drift of the
 * machine favours none.
 */
export function inTurn(running: readonly Running[], round: number): Running[] {
  return running.map((_, i) => running[(i + round) % running.length]!);
}

/**
 * CPU seconds that each of `processes` uses while `work` runs.
 * @throws {Error} one of them has ended
 */
export async function withCpu<Result>(
  processes: readonly BenchProcess[],
  work: () => Promise<Result>,
): Promise<{ result: Result; cpu: Record<string, number> }> {
  const before = processes.map((process) => process.cpuSeconds());
  const result = await work();
  const cpu: Record<string, number> = {};
  processes.forEach((process, at) => {
    if (!process.running) throw process.failure("ended");
    cpu[process.name] = process.cpuSeconds() - before[at]!;
  });
  return { result, cpu };
}

/** The head of a report as text. */
export function settingsText(
  title: string,
  settings: Settings,
  missing: Readonly<Record<string, string>>,
  warnings: readonly string[],
): string {
  const list = (values: Readonly<Record<string, string>>) =>
    Object.entries(values).map(([name, value]) => `  ${name}: ${value}`);
  const indented = (text: string) => text.trimEnd().split("\n").map((line) => `    ${line}`);
  return [
    `${title} of ${settings.date}: ${settings.rounds} rounds of ` +
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
  ].join("\n");
}
