/**
 * Names beyond the table: what this version does not serve, what natsway ignores by design, and
 * which known name a wrong one was probably meant to be.
 * @module
 */
import { SETTING_KEYS, settingOf } from "./settings.ts";

/** Names of the contract that this version does not serve yet: setting one gives a warning. */
export const NOT_SERVED: readonly string[] = [
  "PROXY_AUTH_USERS_JSON",
  "PROXY_AUTH_USERS_FILE",
  "PROXY_AUTH_HIDDEN",
  "ROUTES",
  "LISTEN_TLS_CERT",
  "LISTEN_TLS_KEY",
  "UPSTREAM_CA",
  "UPSTREAM_INSECURE",
];

/** Flags that are not the plain form of their variable. */
export const NOT_SERVED_FLAGS: Readonly<Record<string, string>> = {
  route: "ROUTES",
};

/** Variables of the Ruby service base that have no meaning here (configuration.md 1 and 6). */
export const IGNORED: ReadonlySet<string> = new Set([
  "APP_ENV",
  "RACK_ENV",
  "SERVER_ENV",
  "RUBY_YJIT_ENABLE",
  "QUIET",
  "PERFORMANCE",
  "CONSOLE_LEVEL",
  "CONSOLE_OUTPUT",
  "PROMETHEUS_METRICS_EXPORT",
  "OTEL_EXPORTER_OTLP_ENDPOINT",
  "STACK_NAME",
  "STACK_SERVICE_NAME",
  "SWARM_NATS_URL",
]);

/** Variables of the table, with those that name a file for one. */
export const SERVED: readonly string[] = SETTING_KEYS.flatMap((key) => {
  const { env, fileTwin } = settingOf(key);
  return fileTwin ? [env, `${env}_FILE`] : [env];
});

const KNOWN: readonly string[] = [...SERVED, ...NOT_SERVED];
const KNOWN_SET: ReadonlySet<string> = new Set(KNOWN);

/**
 * Steps (insert, delete, replace, swap of neighbours) that turn `a` into `b`; the optimal string
 * alignment distance. Stops counting above `limit` and returns `limit + 1` then.
 */
export function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) > limit) return limit + 1;
  let before: number[] = [];
  let previous = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const same = a[i - 1] === b[j - 1];
      let steps = Math.min(
        at(previous, j) + 1,
        at(row, j - 1) + 1,
        at(previous, j - 1) + (same ? 0 : 1),
      );
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        steps = Math.min(steps, at(before, j - 2) + 1);
      }
      row.push(steps);
    }
    if (Math.min(...row) > limit) return limit + 1;
    before = previous;
    previous = row;
  }
  return Math.min(at(previous, b.length), limit + 1);
}

function at(row: readonly number[], index: number): number {
  return row[index] ?? 0;
}

/** The candidate that takes the fewest steps from `word`, or null when none is close enough. */
export function nearest(
  word: string,
  candidates: Iterable<string>,
  limitFor: (candidate: string) => number,
): string | null {
  let best: string | null = null;
  let bestSteps = Infinity;
  for (const candidate of candidates) {
    const steps = editDistance(word, candidate, limitFor(candidate));
    if (steps <= limitFor(candidate) && steps < bestSteps) {
      best = candidate;
      bestSteps = steps;
    }
  }
  return best;
}

/** For words that a person typed for natsway: generous. */
export function nearestTyped(word: string, candidates: Iterable<string>): string | null {
  return nearest(
    word.toLowerCase(),
    candidates,
    (candidate) => 1 + Math.floor(candidate.length / 4),
  );
}

/**
 * The known variable that `name` was probably meant to be, or null. The environment is full of names
 * for other programs, so short names allow few steps: none up to 3 letters, 1 up to 6, else 2.
 */
export function nearMiss(name: string): string | null {
  if (KNOWN_SET.has(name) || IGNORED.has(name)) return null;
  const limitFor = (known: string) => (known.length <= 3 ? 0 : known.length <= 6 ? 1 : 2);
  return nearest(name.toUpperCase().replaceAll("-", "_"), KNOWN, limitFor);
}
