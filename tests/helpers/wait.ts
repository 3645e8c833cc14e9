/**
 * Waiting in tests: always for an event, always with a limit that says what was missing.
 * @module
 */

/** Something awaited did not happen in time. */
export class WaitTimeoutError extends Error {
  override readonly name = "WaitTimeoutError";
}

/**
 * The value of `promise`, or a {@linkcode WaitTimeoutError} after `ms`.
 * @param what what was awaited, or a function that tells it (called only on a timeout)
 */
export async function within<T>(
  promise: Promise<T>,
  ms: number,
  what: string | (() => string),
): Promise<T> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const limit = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      const text = typeof what === "string" ? what : what();
      reject(new WaitTimeoutError(`not within ${ms} ms: ${text}`));
    }, ms);
  });
  try {
    return await Promise.race([promise, limit]);
  } finally {
    clearTimeout(timer);
  }
}

/** Resolves after `ms`. For a scripted peer's pauses, never to wait for the program. */
export function pause(ms: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, ms));
}

/** A list of events that can be awaited: what was already added counts too. */
export class EventLog<T> {
  readonly events: T[] = [];
  #waiting = new Set<() => void>();
  #closed: string | null = null;

  add(event: T): void {
    this.events.push(event);
    for (const wake of [...this.#waiting]) wake();
  }

  /** No more events come; who waits for one is told `reason`. */
  close(reason: string): void {
    this.#closed ??= reason;
    for (const wake of [...this.#waiting]) wake();
  }

  /**
   * The first event from index `from` on that `test` accepts.
   * @param describe what to add to the error: the log so far
   */
  async find(
    test: (event: T) => boolean,
    options: { ms: number; what: string; from?: number; describe?: () => string },
  ): Promise<T> {
    let at = options.from ?? 0;
    const look = (): T | undefined => {
      for (; at < this.events.length; at++) {
        const event = this.events[at] as T;
        if (test(event)) return event;
      }
      return undefined;
    };
    const describe = () => `${options.what}${options.describe ? `\n${options.describe()}` : ""}`;
    let wake = () => {};
    const found = new Promise<T>((resolve, reject) => {
      wake = () => {
        const event = look();
        if (event !== undefined) resolve(event);
        else if (this.#closed !== null) {
          reject(new Error(`${this.#closed} while waiting for ${describe()}`));
        }
      };
      this.#waiting.add(wake);
      wake();
    });
    try {
      return await within(found, options.ms, describe);
    } finally {
      this.#waiting.delete(wake);
    }
  }
}
