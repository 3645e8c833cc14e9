/**
 * Incremental credit of one lane (wire-protocol.md section 7): what a producer may still send, and
 * what a consumer has to grant.
 * @module
 */
import type { CreditSizes } from "../protocol/credit.ts";

/** Producer's side: starts at 0, grows by grants up to the cap. */
export class SendWindow {
  readonly #cap: number;
  #credit: number;
  #wake: (() => void) | null = null;
  #closed = false;

  /** @param initial bytes that may go without a grant */
  constructor(cap: number, initial: number) {
    this.#cap = cap;
    this.#credit = initial;
  }

  /** Bytes that may be sent now. */
  get credit(): number {
    return this.#credit;
  }

  /** Uses up `bytes`, which must not exceed `credit`. */
  take(bytes: number): void {
    this.#credit -= bytes;
  }

  /** Adds a grant; what would exceed the cap is lost. */
  grant(bytes: number): void {
    this.#credit = Math.min(this.#cap, this.#credit + bytes);
    this.#notify();
  }

  /** Wakes a waiter for good: the flow is over. */
  close(): void {
    this.#closed = true;
    this.#notify();
  }

  /** Resolves when there is credit, or the window was closed. One waiter at a time. */
  wait(): Promise<void> {
    if (this.#credit > 0 || this.#closed) return Promise.resolve();
    return new Promise((resolve) => this.#wake = resolve);
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}

/** Consumer's side: what was handed to the local socket is granted again, in batches. */
export class GrantCounter {
  readonly #sizes: CreditSizes;
  #granted = 0;

  constructor(sizes: CreditSizes) {
    this.#sizes = sizes;
  }

  /** The first grant, right after the head. */
  first(): number {
    this.#granted = this.#sizes.initial;
    return this.#sizes.initial;
  }

  /**
   * Bytes to grant now, 0 for none yet.
   * @param consumed body bytes that the local socket has taken since the first grant
   */
  next(consumed: number): number {
    const back = consumed + this.#sizes.initial - this.#granted;
    if (back < this.#sizes.batch) return 0;
    this.#granted += back;
    return back;
  }
}
