/**
 * A clock that stands while the process is stopped (SIGSTOP, a suspended machine, a long pause).
 * @module
 */

/** Longest step that counts in full, in ms. */
const LONGEST_STEP_MS = 500;

/**
 * After a pause there are messages to be read that came during it. Deadlines that ran meanwhile would
 * fire before them, so of each gap between two readings at most 500 ms count. It must be read at least
 * that often while anything waits for it: by a timer, besides all calls of the engine.
 */
export class AwakeClock {
  readonly #real: () => number;
  #last: number;
  #now: number;

  /** @param real a monotonic clock in ms, such as `performance.now` */
  constructor(real: () => number) {
    this.#real = real;
    this.#last = this.#now = real();
  }

  /** Reads the clock. */
  readonly now = (): number => {
    const real = this.#real();
    this.#now += Math.min(real - this.#last, LONGEST_STEP_MS);
    this.#last = real;
    return this.#now;
  };
}
