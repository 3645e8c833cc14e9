/**
 * The two clocks of a machine: one that only goes on, and one that also goes on while the machine
 * sleeps but may be set.
 * @module
 */

/** Passed in, so that tests can let time pass. */
export interface Clock {
  /** Monotonic, in ms. */
  monoMs(): number;
  /** Time of day, in ms since 1970. */
  wallMs(): number;
}

/** The machine's own. */
export const MACHINE_CLOCK: Clock = {
  monoMs: () => performance.now(),
  wallMs: () => Date.now(),
};

/** A moment on both clocks. */
export interface Moment {
  readonly monoMs: number;
  readonly wallMs: number;
}

/** Now. */
export function momentOf(clock: Clock): Moment {
  return { monoMs: clock.monoMs(), wallMs: clock.wallMs() };
}

/** Time since `start`, in ms: the larger of both clocks counts, so that none can hide a pause. */
export function elapsedMs(clock: Clock, start: Moment): number {
  return Math.max(clock.monoMs() - start.monoMs, clock.wallMs() - start.wallMs);
}
