/**
 * The credit window of a double: starts at 0, loses what exceeds its cap, and is closed by a cancel.
 * @module
 */
export class RubyWindow {
  readonly #cap: number;
  readonly #onWait: () => void;
  #credit = 0;
  #wake: (() => void) | null = null;
  /** All credit that was ever granted. */
  granted = 0;
  /** All bytes that were published against it. */
  sent = 0;
  /** Reason of the cancel that closed it, or null. */
  closedBy: string | null = null;

  /** @param onWait called when a publisher begins to wait behind its first bytes */
  constructor(cap: number, onWait: () => void) {
    this.#cap = cap;
    this.#onWait = onWait;
  }

  /** Adds credit and returns how much of it the cap swallowed. */
  grant(bytes: number): number {
    this.granted += bytes;
    const lost = Math.max(0, this.#credit + bytes - this.#cap);
    this.#credit += bytes - lost;
    this.#wake?.();
    return lost;
  }

  take(bytes: number): void {
    this.#credit -= bytes;
    this.sent += bytes;
  }

  close(reason: string): void {
    this.closedBy ??= reason;
    this.#wake?.();
  }

  /** Credit at hand; 0 when none came within `ms` (0 waits for ever) or the window was closed. */
  async wait(ms: number): Promise<number> {
    if (this.#credit > 0 || this.closedBy !== null) return this.#credit;
    if (this.sent > 0) this.#onWait();
    let timer: ReturnType<typeof setTimeout> | undefined;
    await new Promise<void>((resolve) => {
      this.#wake = resolve;
      if (ms > 0) timer = setTimeout(resolve, ms);
    });
    clearTimeout(timer);
    this.#wake = null;
    return this.#credit;
  }
}
