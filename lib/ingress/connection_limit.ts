/**
 * How many client connections may be open at a time.
 * @module
 */

/** A count with an upper bound; several listeners may share one. */
export class ConnectionLimit {
  #open = 0;

  /** @param max the most that may be open (`MAX_CONNECTIONS`) */
  constructor(readonly max: number) {}

  /** Connections that are open now. */
  get open(): number {
    return this.#open;
  }

  /** Takes a place for one more connection; false when there is none. */
  take(): boolean {
    if (this.#open >= this.max) return false;
    this.#open++;
    return true;
  }

  /** Gives back a place that was taken. */
  release(): void {
    this.#open--;
  }
}
