/**
 * Seeded fuzzing. `NATSWAY_FUZZ` sets the number of cases; with it each run takes another seed, unless
 * `NATSWAY_FUZZ_SEED` gives one.
 * @module
 */
import assert from "node:assert/strict";

const givenCount = Deno.env.get("NATSWAY_FUZZ");
const CASES = Number(givenCount ?? 4000);
const SEED = Number(
  Deno.env.get("NATSWAY_FUZZ_SEED") ?? (givenCount === undefined ? 1 : Date.now() % 2 ** 32),
);
/** Far over what any case needs, even on a busy machine: only a loop that does not end gets there. */
const MAX_CASE_MS = 2000;

/** Small generator of 32-bit numbers (mulberry32), so that a seed tells a whole run. */
export class Random {
  #state: number;
  constructor(seed: number) {
    this.#state = seed | 0;
  }
  /** Whole number in [0, bound). */
  below(bound: number): number {
    this.#state = (this.#state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(this.#state ^ (this.#state >>> 15), 1 | this.#state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % bound;
  }
  pick<T>(from: readonly T[]): T {
    return from[this.below(from.length)]!;
  }
  bytes(count: number): Uint8Array {
    return Uint8Array.from({ length: count }, () => this.below(256));
  }
}

/**
 * Runs `check` for each case; what it throws is told with the seed.
 * @param salt keeps the fuzzers of one run apart
 * @param check returns its input, for the message when it took too long
 */
export function fuzz(salt: number, check: (random: Random) => unknown): void {
  for (let index = 0; index < CASES; index++) {
    const random = new Random(SEED + salt + index * 7919);
    const started = performance.now();
    let input: unknown;
    try {
      input = check(random);
    } catch (error) {
      throw new Error(`case ${index}: NATSWAY_FUZZ=${CASES} NATSWAY_FUZZ_SEED=${SEED}`, {
        cause: error,
      });
    }
    const tookMs = performance.now() - started;
    assert.ok(tookMs < MAX_CASE_MS, `case ${index} of seed ${SEED}: ${tookMs} ms for ${input}`);
  }
}
