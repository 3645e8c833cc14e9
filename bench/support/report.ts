/**
 * What the measurements of any bench come to: medians, ratios, bars and tables.
 * @module
 */

/** One measurement. */
export interface Sample<Result> {
  readonly round: number;
  readonly load: string;
  readonly candidate: string;
  readonly result: Result;
  /** CPU seconds by process; the load tool and the upstream too. */
  readonly cpu: Readonly<Record<string, number>>;
}

/** What is compared of two candidates in one round. */
export interface Measure<Result> {
  readonly name: string;
  /** Whether it is of the tunnel's own processes, so that `direct` has none. */
  readonly tunnelOnly?: boolean;
  /** NaN where it does not apply. */
  of(sample: Sample<Result>): number;
}

/** A limit for the ratio of natsway to another candidate, or for natsway's own value. */
export interface Bar {
  readonly load: string;
  readonly measure: string;
  /** null: the limit is for natsway's own value. */
  readonly to: string | null;
  readonly limit: number;
  readonly kind: "at least" | "at most";
}

/** natsway to another candidate: the median over the rounds of the ratio within each round. */
export interface Ratio {
  readonly load: string;
  readonly measure: string;
  readonly to: string | null;
  readonly median: number;
  readonly rounds: readonly number[];
  readonly bar: string | null;
  readonly verdict: "ok" | "MISS" | null;
}

/** The ratios of all loads, candidates and measures that `samples` have, with their bars. */
export function ratiosOf<Result>(
  samples: readonly Sample<Result>[],
  measures: readonly Measure<Result>[],
  bars: readonly Bar[],
): Ratio[] {
  const ratios: Ratio[] = [];
  const candidates = [...new Set(samples.map((s) => s.candidate))];
  const others = [...candidates.filter((name) => name !== "natsway"), null];
  for (const load of new Set(samples.map((s) => s.load))) {
    for (const to of others) {
      for (const measure of measures) {
        // Without a tunnel there is nothing to compare its CPU time with.
        if (to === "direct" && measure.tunnelOnly === true) continue;
        const bar = bars.find((b) => b.load === load && b.to === to && b.measure === measure.name);
        if (to === null && bar === undefined) continue;
        const rounds = ratiosByRound(samples, load, to, measure);
        if (rounds.length === 0) continue;
        const value = median(rounds);
        ratios.push({
          load,
          measure: measure.name,
          to,
          median: rounded(value),
          rounds: rounds.map(rounded),
          bar: bar === undefined ? null : `${bar.kind} ${bar.limit}`,
          verdict: bar === undefined ? null : holds(bar, value) ? "ok" : "MISS",
        });
      }
    }
  }
  return ratios;
}

function ratiosByRound<Result>(
  samples: readonly Sample<Result>[],
  load: string,
  to: string | null,
  measure: Measure<Result>,
): number[] {
  const ratios: number[] = [];
  for (const own of samples) {
    if (own.load !== load || own.candidate !== "natsway") continue;
    const other = samples.find((s) =>
      s.load === load && s.candidate === to && s.round === own.round
    );
    const divisor = to === null ? 1 : other === undefined ? 0 : measure.of(other);
    const value = measure.of(own);
    if (divisor > 0 && !Number.isNaN(value)) ratios.push(value / divisor);
  }
  return ratios;
}

function holds(bar: Bar, value: number): boolean {
  return bar.kind === "at least" ? value >= bar.limit : value <= bar.limit;
}

/** The samples of each load and candidate, in order. */
export function groupsOf<Result>(
  samples: readonly Sample<Result>[],
): [Sample<Result>, ...Sample<Result>[]][] {
  const found = new Map<string, [Sample<Result>, ...Sample<Result>[]]>();
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

/** To three decimals. */
export function rounded(value: number): number {
  return Math.round(value * 1000) / 1000;
}

/** The table of ratios, with bars and verdicts. */
export function ratioTable(ratios: readonly Ratio[]): string {
  const rows = ratios.map((ratio) => [
    ratio.load,
    ratio.measure,
    ratio.to === null ? "natsway" : `natsway / ${ratio.to}`,
    ratio.median.toFixed(2),
    ratio.rounds.map((value) => value.toFixed(2)).join(" "),
    ratio.bar ?? "",
    ratio.verdict ?? "",
  ]);
  return table(["load", "measure", "ratio", "median", "rounds", "bar", ""], rows);
}

/** A Markdown table. */
export function table(headings: readonly string[], rows: readonly string[][]): string {
  const widths = headings.map((heading, i) =>
    Math.max(heading.length, 3, ...rows.map((row) => row[i]!.length))
  );
  const line = (cells: readonly string[]) =>
    `| ${cells.map((cell, i) => cell.padEnd(widths[i]!)).join(" | ")} |`;
  const rule = `| ${widths.map((width) => "-".repeat(width)).join(" | ")} |`;
  return [line(headings), rule, ...rows.map(line), ""].join("\n");
}
