/**
 * The receiving half of a tunnel at a double: a queue before the local socket, and the credit that
 * goes back as the socket takes bytes.
 * @module
 */
import type { CreditSizes } from "./ruby_wire.ts";

export interface InflowOptions {
  readonly sizes: CreditSizes;
  readonly grant: (bytes: number) => void;
  /** Writes to the local socket; credit is returned when it is done. */
  readonly consume: (bytes: Uint8Array) => Promise<void> | void;
  readonly violation: (text: string) => void;
}

export class RubyInflow {
  readonly #options: InflowOptions;
  #work: Promise<void> = Promise.resolve();
  #unreturned = 0;
  granted = 0;
  received = 0;

  constructor(options: InflowOptions) {
    this.#options = options;
  }

  /** The first grant. */
  open(): void {
    this.#grant(this.#options.sizes.initial);
  }

  /** Takes one frame; whether the peer had credit for it is noted. */
  take(bytes: Uint8Array): void {
    const { sizes, consume, violation } = this.#options;
    this.received += bytes.length;
    if (bytes.length > sizes.chunk) violation(`a frame of ${bytes.length} bytes`);
    if (this.received > this.granted) {
      violation(`${this.received} bytes against ${this.granted} of credit`);
    }
    this.#work = this.#work.then(async () => {
      await consume(bytes);
      this.#unreturned += bytes.length;
      if (this.#unreturned >= sizes.batch) this.returnRest();
    });
  }

  /** Resolves when all that came so far is consumed. */
  consumed(): Promise<void> {
    return this.#work;
  }

  /** Returns what is left, as at the end of a flow. */
  returnRest(): void {
    const bytes = this.#unreturned;
    this.#unreturned = 0;
    if (bytes > 0) this.#grant(bytes);
  }

  #grant(bytes: number): void {
    this.granted += bytes;
    this.#options.grant(bytes);
  }
}
