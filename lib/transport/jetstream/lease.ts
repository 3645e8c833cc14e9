/**
 * How long a pulled message is surely this receiver's (extensions.md section 8): one `ack_wait` from
 * the moment the pull was *sent*, or from the sending of an in_progress that was confirmed in time.
 * @module
 */

import { type Clock, elapsedMs, type Moment } from "./clock.ts";

/** The server waits at least that long before it gives the message to another receiver. */
export class Lease {
  readonly #clock: Clock;
  readonly #ackWaitMs: number;
  #start: Moment;

  /** @param start when the pull was sent that brought the message */
  constructor(clock: Clock, start: Moment, ackWaitMs: number) {
    this.#clock = clock;
    this.#start = start;
    this.#ackWaitMs = ackWaitMs;
  }

  /** Whether it lasts on, by both clocks. */
  get held(): boolean {
    return elapsedMs(this.#clock, this.#start) < this.#ackWaitMs;
  }

  /** An in_progress that was sent at `sent` has been confirmed now; too late, it changes nothing. */
  confirmed(sent: Moment): void {
    if (this.held) this.#start = sent;
  }
}
