/**
 * Several ways to one end, started one after the other (RFC 8305 §5).
 * @module
 */

export interface RaceOptions<C, T> {
  /** Starts one attempt; its signal ends it when it is no longer wanted. */
  readonly attempt: (candidate: C, signal: AbortSignal) => Promise<T>;
  /** Takes what an attempt brought after the race was decided. */
  readonly discard: (late: T) => void;
  /** How long an attempt has the field to itself, in ms; one that fails gives it up at once. */
  readonly delayMs: number;
  /** Ends the race without a winner. */
  readonly signal: AbortSignal;
}

/** What the first attempt to succeed brought, or why those that ended failed, in order of failure. */
export type RaceResult<T> =
  | { readonly won: T; readonly failures?: undefined }
  | { readonly won?: undefined; readonly failures: readonly unknown[] };

/** Runs the race; never rejects. All attempts have been told to end when it resolves. */
export function race<C, T>(
  candidates: readonly C[],
  { attempt, discard, delayMs, signal }: RaceOptions<C, T>,
): Promise<RaceResult<T>> {
  return new Promise((resolve) => {
    const losers = new AbortController();
    const failures: unknown[] = [];
    let started = 0;
    let over = false;
    let timer: ReturnType<typeof setTimeout> | undefined;
    const finish = (result: RaceResult<T>) => {
      if (over) return;
      over = true;
      clearTimeout(timer);
      signal.removeEventListener("abort", stop);
      losers.abort();
      resolve(result);
    };
    const stop = () => finish({ failures });
    const failed = (error: unknown) => {
      if (over) return;
      failures.push(error);
      if (failures.length === candidates.length) stop();
      else startNext();
    };
    const run = async (candidate: C) => {
      try {
        const won = await attempt(candidate, losers.signal);
        if (over) discard(won);
        else finish({ won });
      } catch (error) {
        failed(error);
      }
    };
    const startNext = () => {
      clearTimeout(timer);
      const next = candidates.slice(started, ++started);
      if (started < candidates.length) timer = setTimeout(startNext, delayMs);
      for (const candidate of next) void run(candidate);
    };
    if (signal.aborted || candidates.length === 0) return stop();
    signal.addEventListener("abort", stop);
    startNext();
  });
}
