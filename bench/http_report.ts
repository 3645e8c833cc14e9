/**
 * What a run of the HTTP bench comes to: medians, ratios, bars, and the text of both.
 * @module
 */
import type { WrkResult } from "./support/wrk.ts";

/** One measurement. */
export interface Sample {
  readonly round: number;
  readonly load: string;
  readonly candidate: string;
  readonly result: WrkResult;
  /** CPU seconds by process; wrk and the upstream (`nginx`) too. */
  readonly cpu: Readonly<Record<string, number>>;
}

/** What is compared of two candidates in one round. */
interface Measure {
  readonly name: string;
  of(sample: Sample): number;
}

/** Processes that serve every candidate alike: no part of a tunnel. */
const SHARED = ["wrk", "nginx"];

const MEASURES: readonly Measure[] = [
  { name: "requests/s", of: ({ result }) => result.requests / result.seconds },
  { name: "p50", of: ({ result }) => result.p50Us },
  { name: "CPU/request, tunnel", of: (sample) => cpuPerRequest(sample, isTunnel) },
  { name: "CPU/request, all", of: (sample) => cpuPerRequest(sample, () => true) },
];

/** A limit for the ratio of natsway to another candidate. */
interface Bar {
  readonly load: string;
  readonly measure: string;
  readonly to: string;
  readonly limit: number;
  readonly kind: "at least" | "at most";
}

const BARS: readonly Bar[] = [
  ...["32", "128"].flatMap((load): Bar[] => [
    { load, measure: "requests/s", to: "chisel", limit: 0.85, kind: "at least" },
    { load, measure: "requests/s", to: "frp", limit: 0.95, kind: "at least" },
    { load, measure: "CPU/request, tunnel", to: "chisel", limit: 1.25, kind: "at most" },
  ]),
  { load: "1", measure: "p50", to: "chisel", limit: 1.7, kind: "at most" },
  { load: "new", measure: "requests/s", to: "chisel", limit: 1.7, kind: "at least" },
];

/** natsway to another candidate: the median over the rounds of the ratio within each round. */
export interface Ratio {
  readonly load: string;
  readonly measure: string;
  readonly to: string;
  readonly median: number;
  readonly rounds: readonly number[];
  readonly bar: string | null;
  readonly verdict: "ok" | "MISS" | null;
}

/** Medians of one candidate under one load. */
export interface Row {
  readonly load: string;
  readonly candidate: string;
  readonly requestsPerSecond: number;
  readonly megabytesPerSecond: number;
  readonly p50Us: number;
  readonly p99Us: number;
  /** Errors of all rounds: of sockets, statuses and timeouts. */
  readonly errors: number;
  /** Microseconds of CPU per request, by process. */
  readonly cpuUsPerRequest: Readonly<Record<string, number>>;
}

export function rowsOf(samples: readonly Sample[]): Row[] {
  return groups(samples).map(([first, ...rest]) => {
    const group = [first, ...rest];
    const cpu: Record<string, number> = {};
    for (const process of Object.keys(first.cpu)) {
      cpu[process] = round(median(group.map((s) => cpuPerRequest(s, (name) => name === process))));
    }
    const errors = (s: Sample) => Object.values(s.result.errors).reduce((sum, n) => sum + n, 0);
    return {
      load: first.load,
      candidate: first.candidate,
      requestsPerSecond: round(median(group.map((s) => s.result.requests / s.result.seconds))),
      megabytesPerSecond: round(median(group.map((s) => s.result.bytes / s.result.seconds / 1e6))),
      p50Us: median(group.map((s) => s.result.p50Us)),
      p99Us: median(group.map((s) => s.result.p99Us)),
      errors: group.reduce((sum, s) => sum + errors(s), 0),
      cpuUsPerRequest: cpu,
    };
  });
}

export function ratiosOf(samples: readonly Sample[]): Ratio[] {
  const ratios: Ratio[] = [];
  const candidates = [...new Set(samples.map((s) => s.candidate))];
  for (const load of new Set(samples.map((s) => s.load))) {
    for (const to of candidates.filter((name) => name !== "natsway")) {
      for (const measure of MEASURES) {
        // Without a tunnel there is nothing to compare its CPU time with.
        if (to === "direct" && measure.name === "CPU/request, tunnel") continue;
        const rounds = ratiosByRound(samples, load, to, measure);
        if (rounds.length === 0) continue;
        const value = median(rounds);
        const bar = BARS.find((b) => b.load === load && b.to === to && b.measure === measure.name);
        ratios.push({
          load,
          measure: measure.name,
          to,
          median: round(value),
          rounds: rounds.map(round),
          bar: bar === undefined ? null : `${bar.kind} ${bar.limit}`,
          verdict: bar === undefined ? null : holds(bar, value) ? "ok" : "MISS",
        });
      }
    }
  }
  return ratios;
}

/** What makes the figures doubtful, in sentences. */
export function warningsOf(rows: readonly Row[]): string[] {
  const warnings: string[] = [];
  for (const row of rows) {
    if (row.errors > 0) {
      warnings.push(`${row.candidate} had ${row.errors} errors under ${row.load}`);
    }
    if (row.candidate !== "direct" || (row.load !== "32" && row.load !== "128")) continue;
    const others = rows.filter((r) => r.load === row.load && r.candidate !== "direct");
    const best = Math.max(0, ...others.map((r) => r.requestsPerSecond));
    if (row.requestsPerSecond < 1.5 * best) {
      warnings.push(`wrk or nginx may be the bottleneck under ${row.load}`);
    }
  }
  return warnings;
}

/** The tables of a report. */
export function tables(rows: readonly Row[], ratios: readonly Ratio[]): string {
  const result = rows.map((row) => [
    row.load,
    row.candidate,
    row.requestsPerSecond.toFixed(0),
    row.megabytesPerSecond.toFixed(1),
    row.p50Us.toFixed(0),
    row.p99Us.toFixed(0),
    String(row.errors),
    ...cpuCells(row),
  ]);
  const headings = ["load", "candidate", "req/s", "MB/s", "p50 us", "p99 us", "errors"];
  headings.push("CPU us/req: tunnel", "all", "by process");
  const compared = ratios.map((ratio) => [
    ratio.load,
    ratio.measure,
    `natsway / ${ratio.to}`,
    ratio.median.toFixed(2),
    ratio.rounds.map((value) => value.toFixed(2)).join(" "),
    ratio.bar ?? "",
    ratio.verdict ?? "",
  ]);
  return [
    "Medians over the rounds",
    table(headings, result),
    "Ratios: median of the ratios within each round",
    table(["load", "measure", "ratio", "median", "rounds", "bar", ""], compared),
  ].join("\n");
}

function cpuCells(row: Row): string[] {
  const entries = Object.entries(row.cpuUsPerRequest);
  const sum = (list: [string, number][]) => list.reduce((total, [, us]) => total + us, 0);
  return [
    sum(entries.filter(([name]) => isTunnel(name))).toFixed(0),
    sum(entries).toFixed(0),
    entries.map(([name, us]) => `${name} ${us.toFixed(0)}`).join(", "),
  ];
}

function isTunnel(process: string): boolean {
  return !SHARED.includes(process);
}

function cpuPerRequest(sample: Sample, counts: (process: string) => boolean): number {
  let seconds = 0;
  for (const [name, value] of Object.entries(sample.cpu)) if (counts(name)) seconds += value;
  return seconds * 1e6 / Math.max(1, sample.result.requests);
}

function ratiosByRound(
  samples: readonly Sample[],
  load: string,
  to: string,
  measure: Measure,
): number[] {
  const ratios: number[] = [];
  for (const own of samples) {
    if (own.load !== load || own.candidate !== "natsway") continue;
    const other = samples.find((s) =>
      s.load === load && s.candidate === to && s.round === own.round
    );
    const value = other === undefined ? 0 : measure.of(other);
    if (value > 0) ratios.push(measure.of(own) / value);
  }
  return ratios;
}

function holds(bar: Bar, value: number): boolean {
  return bar.kind === "at least" ? value >= bar.limit : value <= bar.limit;
}

function groups(samples: readonly Sample[]): [Sample, ...Sample[]][] {
  const found = new Map<string, [Sample, ...Sample[]]>();
  for (const sample of samples) {
    const key = `${sample.load} ${sample.candidate}`;
    const group = found.get(key);
    if (group === undefined) found.set(key, [sample]);
    else group.push(sample);
  }
  return [...found.values()];
}

/** The middle value, or the mean of the two in the middle; NaN for none. */
export function median(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = Math.floor(sorted.length / 2);
  if (sorted.length === 0) return NaN;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** A Markdown table. */
function table(headings: readonly string[], rows: readonly string[][]): string {
  const widths = headings.map((heading, i) =>
    Math.max(heading.length, 3, ...rows.map((row) => row[i]!.length))
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(headings), rule, ...rows.map(line), ""].join("\n");
}
