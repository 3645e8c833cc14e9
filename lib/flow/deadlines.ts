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

/** A link of the ring; one that was taken out points to itself. */
class Entry implements Deadline {
  at: number;
  run: (() => void) | null;
  previous: Entry = this;
  next: Entry = this;

  constructor(at: number, run: (() => void) | null) {
    this.at = at;
    this.run = run;
  }

  cancel(): void {
    if (this.run === null) return;
    this.run = null;
    this.previous.next = this.next;
    this.next.previous = this.previous;
    // An entry that the collector has called old would keep all later ones alive through its links.
    this.previous = this.next = this;
  }
}

/** Deadlines that all end `durationMs` after they were started. */
export class Deadlines {
  readonly #durationMs: number;
  readonly #ring: Entry;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(durationMs: number) {
    this.#durationMs = durationMs;
    this.#ring = new Entry(0, null);
  }

  /**
   * Runs `run` once, `durationMs` from now, unless the deadline is cancelled before.
   * @param nowMs `performance.now()`, where the caller has just asked for it
   */
  start(run: () => void, nowMs = performance.now()): Deadline {
    const ring = this.#ring;
    const entry = new Entry(nowMs + this.#durationMs, run);
    entry.previous = ring.previous;
    entry.next = ring;
    ring.previous.next = entry;
    ring.previous = entry;
    if (this.#timer === undefined) this.#arm(this.#durationMs);
    return entry;
  }

  /** Whether none is running. */
  get idle(): boolean {
    return this.#ring.next === this.#ring;
  }

  /** Cancels all and stops the timer. */
  close(): void {
    const ring = this.#ring;
    while (ring.next !== ring) ring.next.cancel();
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
      ring.next.cancel();
      run?.();
    }
    if (ring.next !== ring && this.#timer === undefined) this.#arm(ring.next.at - now);
  }
}

/** From so many lengths on, those that nobody waits for are forgotten. */
const MAX_LENGTHS = 64;
/** Steps between a power of two and the next one that lengths are rounded up to. */
const STEPS = 128;

/** Deadlines of any lengths, as peers ask for them; those of nearly one length share a timer. */
export class DeadlinesByLength {
  readonly #byMs = new Map<number, Deadlines>();

  /**
   * Runs `run` once, `durationMs` from now or at most a hundredth of that (or 1 ms) later, unless the
   * deadline is cancelled before.
   */
  start(durationMs: number, run: () => void): Deadline {
    const step = Math.max(1, 2 ** Math.floor(Math.log2(Math.max(1, durationMs))) / STEPS);
    const ms = Math.ceil(durationMs / step) * step;
    let deadlines = this.#byMs.get(ms);
    if (deadlines === undefined) {
      if (this.#byMs.size >= MAX_LENGTHS) this.#forgetIdle();
      deadlines = new Deadlines(ms);
      this.#byMs.set(ms, deadlines);
    }
    return deadlines.start(run);
  }

  /** Cancels all and stops the timers. */
  close(): void {
    for (const deadlines of this.#byMs.values()) deadlines.close();
    this.#byMs.clear();
  }

  #forgetIdle(): void {
    for (const [ms, deadlines] of this.#byMs) {
      if (!deadlines.idle) continue;
      deadlines.close();
      this.#byMs.delete(ms);
    }
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
