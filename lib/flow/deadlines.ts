/**
 * Many deadlines of one length, one timer. All waits of a kind last equally long, so they end in the
 * order in which they began: adding and removing one costs no timer of its own.
 * @module
 */

/** One running wait. */
export interface Deadline {
  /** The wait is over; its action will not run. Does nothing when it ran already. */
  cancel(): void;
}

interface Entry extends Deadline {
  at: number;
  run: (() => void) | null;
  previous: Entry;
  next: Entry;
}

/** Deadlines that all end `durationMs` after they were started. */
export class Deadlines {
  readonly #durationMs: number;
  readonly #ring: Entry;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(durationMs: number) {
    this.#durationMs = durationMs;
    const ring = { at: 0, run: null, cancel: () => {} } as unknown as Entry;
    ring.previous = ring.next = ring;
    this.#ring = ring;
  }

  /** Runs `run` once, `durationMs` from now, unless the deadline is cancelled before. */
  start(run: () => void): Deadline {
    const ring = this.#ring;
    const entry: Entry = {
      at: performance.now() + this.#durationMs,
      run,
      previous: ring.previous,
      next: ring,
      cancel: () => remove(entry),
    };
    ring.previous.next = entry;
    ring.previous = entry;
    if (this.#timer === undefined) this.#arm(this.#durationMs);
    return entry;
  }

  /** Cancels all and stops the timer. */
  close(): void {
    const ring = this.#ring;
    while (ring.next !== ring) remove(ring.next);
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }

  #arm(delayMs: number): void {
    const timer = setTimeout(() => this.#fire(), Math.max(1, Math.ceil(delayMs)));
    Deno.unrefTimer(timer);
    this.#timer = timer;
  }

  #fire(): void {
    this.#timer = undefined;
    const now = performance.now();
    const ring = this.#ring;
    while (ring.next !== ring && ring.next.at <= now) {
      const { run } = ring.next;
      remove(ring.next);
      run?.();
    }
    if (ring.next !== ring && this.#timer === undefined) this.#arm(ring.next.at - now);
  }
}

function remove(entry: Entry): void {
  if (entry.run === null) return;
  entry.run = null;
  entry.previous.next = entry.next;
  entry.next.previous = entry.previous;
}

/** Lengths that are kept apart at most. */
const MAX_LENGTHS = 32;

/** Deadlines of a few lengths, as peers ask for them. */
export class DeadlinesByLength {
  readonly #byMs = new Map<number, Deadlines>();

  /**
   * Runs `run` once after `durationMs`, rounded up to whole ms. After 32 different lengths every other
   * one takes the next longer of those, or the longest.
   */
  start(durationMs: number, run: () => void): Deadline {
    const ms = Math.ceil(durationMs);
    let deadlines = this.#byMs.get(ms);
    if (deadlines === undefined) {
      if (this.#byMs.size < MAX_LENGTHS) {
        deadlines = new Deadlines(ms);
        this.#byMs.set(ms, deadlines);
      } else deadlines = this.#nextLonger(ms);
    }
    return deadlines.start(run);
  }

  /** Cancels all and stops the timers. */
  close(): void {
    for (const deadlines of this.#byMs.values()) deadlines.close();
  }

  #nextLonger(ms: number): Deadlines {
    const lengths = [...this.#byMs.keys()].sort((a, b) => a - b);
    return this.#byMs.get(lengths.find((length) => length >= ms) ?? lengths.at(-1)!)!;
  }
}

/** One deadline over one or several waits. */
export class Clock {
  readonly #deadline: Deadline;
  readonly #late: Promise<null>;

  constructor(deadlines: Deadlines) {
    let late!: (value: null) => void;
    this.#late = new Promise((resolve) => late = resolve);
    this.#deadline = deadlines.start(() => late(null));
  }

  /** The value of `wait`, or null when the deadline comes first. */
  limit<T>(wait: Promise<T>): Promise<T | null> {
    return Promise.race([wait, this.#late]);
  }

  stop(): void {
    this.#deadline.cancel();
  }
}
