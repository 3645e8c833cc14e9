/**
 * Waiting with a way out.
 * @module
 */

/** Resolves after `ms`, or as soon as `until` has settled; no timer is left behind. */
export function sleep(ms: number, until?: Promise<void>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const elapsed = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  if (until === undefined) return elapsed;
  return Promise.race([elapsed, until]).finally(() => clearTimeout(timer));
}
