/**
 * What a run of the HTTP bench comes to: medians, bars, and the text of both.
 * @module
 */
import {
  type Bar,
  groupsOf,
  type Measure,
  median,
  type Ratio,
  ratioTable,
  rounded,
  type Sample,
  table,
} from "./support/report.ts";
import type { WrkResult } from "./support/wrk.ts";

export type HttpSample = Sample<WrkResult>;

/** Processes that serve every candidate alike: no part of a tunnel. */
const SHARED = ["wrk", "nginx"];

export const MEASURES: readonly Measure<WrkResult>[] = [
  { name: "requests/s", of: ({ result }) => result.requests / result.seconds },
  { name: "p50", of: ({ result }) => result.p50Us },
  {
    name: "CPU/request, tunnel",
    tunnelOnly: true,
    of: (sample) => cpuPerRequest(sample, isTunnel),
  },
  { name: "CPU/request, all", of: (sample) => cpuPerRequest(sample, () => true) },
];

export const BARS: readonly Bar[] = [
  ...["32", "128"].flatMap((load): Bar[] => [
    { load, measure: "requests/s", to: "chisel", limit: 0.85, kind: "at least" },
    { load, measure: "requests/s", to: "frp", limit: 0.95, kind: "at least" },
    { load, measure: "CPU/request, tunnel", to: "chisel", limit: 1.25, kind: "at most" },
  ]),
  { load: "1", measure: "p50", to: "chisel", limit: 1.7, kind: "at most" },
  { load: "new", measure: "requests/s", to: "chisel", limit: 1.7, kind: "at least" },
];

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

export function rowsOf(samples: readonly HttpSample[]): Row[] {
  return groupsOf(samples).map((group) => {
    const [first] = group;
    const cpu: Record<string, number> = {};
    for (const process of Object.keys(first.cpu)) {
      cpu[process] = rounded(
        median(group.map((s) => cpuPerRequest(s, (name) => name === process))),
      );
    }
    const errors = (s: HttpSample) => Object.values(s.result.errors).reduce((sum, n) => sum + n, 0);
    return {
      load: first.load,
      candidate: first.candidate,
      requestsPerSecond: rounded(median(group.map((s) => s.result.requests / s.result.seconds))),
      megabytesPerSecond: rounded(
        median(group.map((s) => s.result.bytes / s.result.seconds / 1e6)),
      ),
      p50Us: median(group.map((s) => s.result.p50Us)),
      p99Us: median(group.map((s) => s.result.p99Us)),
      errors: group.reduce((sum, s) => sum + errors(s), 0),
      cpuUsPerRequest: cpu,
    };
  });
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
  return [
    "Medians over the rounds",
    table(headings, result),
    "Ratios: median of the ratios within each round",
    ratioTable(ratios),
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

function cpuPerRequest(sample: HttpSample, counts: (process: string) => boolean): number {
  let seconds = 0;
  for (const [name, value] of Object.entries(sample.cpu)) if (counts(name)) seconds += value;
  return seconds * 1e6 / Math.max(1, sample.result.requests);
}
