/**
 * What is remembered of flows that have ended: numbers and reasons, no bytes.
 * @module
 */

/** What a probe for an ended flow is answered with. */
export interface EndedFlow {
  /** First number that this side did not take. */
  readonly next: number;
  /** `""` when `next` acknowledges all that the peer has to know; else why this side ended the flow. */
  readonly reason: string;
}

interface Entry extends EndedFlow {
  readonly untilMs: number;
}

/** Forgets after a time, and the oldest ones when there are too many. */
export class EndedFlows {
  readonly #rememberMs: number;
  readonly #most: number;
  /** In the order in which they ended. */
  readonly #entries = new Map<string, Entry>();

  constructor(rememberMs: number, most: number) {
    this.#rememberMs = rememberMs;
    this.#most = most;
  }

  get size(): number {
    return this.#entries.size;
  }

  add(key: string, ended: EndedFlow, now: number): void {
    this.#entries.delete(key);
    this.#entries.set(key, { ...ended, untilMs: now + this.#rememberMs });
    for (const [old, { untilMs }] of this.#entries) {
      if (untilMs > now && this.#entries.size <= this.#most) break;
      this.#entries.delete(old);
    }
  }

  get(key: string, now: number): EndedFlow | null {
    const entry = this.#entries.get(key);
    return entry === undefined || entry.untilMs <= now ? null : entry;
  }
}
