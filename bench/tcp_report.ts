/**
 * What a run of the TCP bench comes to: medians, bars, and the text of both.
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
import type { TcpResult } from "./support/tcp_load.ts";

export type TcpSample = Sample<TcpResult>;

/** Name of the load tool among the processes; it serves every candidate alike and is no part of a tunnel. */
export const LOAD_TOOL = "tcpload";
/** Part of natsway's tunnel, but neither of its ends. */
const BROKER = "nats-server";

export const MEASURES: readonly Measure<TcpResult>[] = [
  { name: "MB/s", of: ({ load, result }) => isStreams(load) ? rate(result) : NaN },
  { name: "slowest/fastest", of: ({ load, result }) => isMany(load) ? fairness(result) : NaN },
  { name: "CPU/GB, ends", tunnelOnly: true, of: (sample) => cpuPerGigabyte(sample, isEnd) },
  { name: "CPU/GB, tunnel", tunnelOnly: true, of: (sample) => cpuPerGigabyte(sample, isTunnel) },
  { name: "sessions/s", of: ({ load, result }) => load === "new" ? perSecond(result) : NaN },
  { name: "CPU/session", tunnelOnly: true, of: cpuPerSession },
  { name: "p50", of: ({ load, result }) => load === "ping" ? result.p50Us : NaN },
];

export const BARS: readonly Bar[] = [
  ...["up-1", "down-1"].map((load): Bar => (
    { load, measure: "MB/s", to: "frp", limit: 1.15, kind: "at least" }
  )),
  ...["up-64", "down-64"].flatMap((load): Bar[] => [
    { load, measure: "MB/s", to: "frp", limit: 1, kind: "at least" },
    { load, measure: "slowest/fastest", to: null, limit: 0.7, kind: "at least" },
  ]),
  // The figure that the bar was set by, 0.23, counts requester and receiver alone; both are shown.
  ...["up-1", "down-1", "up-16", "down-16", "up-64", "down-64"].flatMap((load) =>
    ["CPU/GB, ends", "CPU/GB, tunnel"].map((measure): Bar => (
      { load, measure, to: "chisel", limit: 0.4, kind: "at most" }
    ))
  ),
  { load: "new", measure: "sessions/s", to: "chisel", limit: 0.75, kind: "at least" },
  { load: "ping", measure: "p50", to: "chisel", limit: 1.6, kind: "at most" },
];

/** Medians of one candidate under one load; null where a load has none of the kind. */
export interface Row {
  readonly load: string;
  readonly candidate: string;
  readonly megabytesPerSecond: number | null;
  readonly slowestToFastest: number | null;
  readonly sessionsPerSecond: number | null;
  readonly p50Us: number | null;
  readonly p99Us: number | null;
  /** CPU seconds per GB, or milliseconds per session, by process; null for round trips. */
  readonly cpu: Readonly<Record<string, number>> | null;
  /** Errors of all rounds. */
  readonly errors: readonly string[];
}

export function rowsOf(samples: readonly TcpSample[]): Row[] {
  return groupsOf(samples).map((group) => {
    const [{ load, candidate, cpu }] = group;
    const of = (value: (result: TcpResult) => number) =>
      rounded(median(group.map((s) => value(s.result))));
    const streams = isStreams(load);
    const units = streams ? (r: TcpResult) => r.totalBytes / 1e9 : (r: TcpResult) => r.count / 1e3;
    const perUnit = (process: string) =>
      rounded(median(group.map((s) => s.cpu[process]! / units(s.result))));
    return {
      load,
      candidate,
      megabytesPerSecond: streams ? of(rate) : null,
      slowestToFastest: isMany(load) ? of(fairness) : null,
      sessionsPerSecond: load === "new" ? of(perSecond) : null,
      p50Us: load === "ping" ? of((r) => r.p50Us) : null,
      p99Us: load === "ping" ? of((r) => r.p99Us) : null,
      cpu: load === "ping"
        ? null
        : Object.fromEntries(Object.keys(cpu).map((process) => [process, perUnit(process)])),
      errors: group.flatMap((s) => s.result.errors),
    };
  });
}

/** What makes the figures doubtful, in sentences. */
export function warningsOf(rows: readonly Row[]): string[] {
  const warnings: string[] = [];
  for (const { load, candidate, errors, megabytesPerSecond } of rows) {
    if (errors.length > 0) {
      warnings.push(`${candidate} had errors under ${load}: ${errors.slice(0, 3).join("; ")}`);
    }
    if (candidate !== "direct" || megabytesPerSecond === null) continue;
    const others = rows.filter((row) => row.load === load && row.candidate !== "direct");
    const best = Math.max(0, ...others.map((row) => row.megabytesPerSecond ?? 0));
    if (megabytesPerSecond < 3 * best) {
      warnings.push(`the load tool may be the bottleneck under ${load}`);
    }
  }
  return warnings;
}

/** The tables of a report. */
export function tables(rows: readonly Row[], ratios: readonly Ratio[]): string {
  const cell = (value: number | null, digits: number) => value?.toFixed(digits) ?? "";
  const result = rows.map((row) => {
    const cpu = Object.entries(row.cpu ?? {});
    const sum = (counts: (process: string) => boolean) =>
      row.cpu === null || row.candidate === "direct" ? null : cpu.filter(([name]) => counts(name))
        .reduce((total, [, value]) => total + value, 0);
    return [
      row.load,
      row.candidate,
      cell(row.megabytesPerSecond, 0),
      cell(row.slowestToFastest, 2),
      cell(row.sessionsPerSecond, 0),
      cell(row.p50Us, 0),
      cell(row.p99Us, 0),
      cell(sum(isEnd), 2),
      cell(sum(isTunnel), 2),
      cpu.map(([name, value]) => `${name} ${value.toFixed(2)}`).join(", "),
      row.errors.length === 0 ? "" : String(row.errors.length),
    ];
  });
  const headings = [
    "load",
    "candidate",
    "MB/s",
    "slowest/fastest",
    "sessions/s",
    "p50 us",
    "p99 us",
  ];
  headings.push("CPU: ends", "tunnel", "by process", "errors");
  return [
    "Medians over the rounds; CPU in seconds per GB, for sessions in ms per session",
    table(headings, result),
    "Ratios: median of the ratios within each round",
    ratioTable(ratios),
  ].join("\n");
}

/** One measurement in a few words. */
export function inShort({ load, result }: TcpSample): string {
  if (load === "ping") return `${result.p50Us.toFixed(0)} us`;
  if (load === "new") return `${perSecond(result).toFixed(0)} sessions/s`;
  return `${rate(result).toFixed(0)} MB/s`;
}

function isStreams(load: string): boolean {
  return load.startsWith("up-") || load.startsWith("down-");
}

/** One stream is never slower than itself. */
function isMany(load: string): boolean {
  return load.endsWith("-16") || load.endsWith("-64");
}

function rate({ bytes, seconds }: TcpResult): number {
  return bytes / seconds / 1e6;
}

function fairness({ slowest, fastest }: TcpResult): number {
  return slowest / Math.max(1, fastest);
}

function perSecond({ count, seconds }: TcpResult): number {
  return count / seconds;
}

function cpuPerGigabyte(sample: TcpSample, counts: (process: string) => boolean): number {
  const { load, result } = sample;
  return isStreams(load) ? cpuSeconds(sample, counts) / (result.totalBytes / 1e9) : NaN;
}

function cpuPerSession(sample: TcpSample): number {
  if (sample.load !== "new") return NaN;
  return cpuSeconds(sample, isTunnel) / Math.max(1, sample.result.count);
}

function cpuSeconds({ cpu }: TcpSample, counts: (process: string) => boolean): number {
  return Object.entries(cpu).filter(([name]) => counts(name))
    .reduce((total, [, seconds]) => total + seconds, 0);
}

function isTunnel(process: string): boolean {
  return process !== LOAD_TOOL;
}

function isEnd(process: string): boolean {
  return isTunnel(process) && process !== BROKER;
}
