/**
 * Waiting longer after each failure, with jitter, so that many processes do not come at once.
 * @module
 */

/** Time before attempt `failures` + 1, in ms: doubled each time up to `maxMs`, less up to a half. */
export function backOffMs(failures: number, firstMs: number, maxMs: number): number {
  const step = Math.min(maxMs, firstMs * 2 ** Math.min(failures, 16));
  return Math.round(step * (0.5 + Math.random() / 2));
}
