/**
 * One request that was pulled from the stream.
 * @module
 */

import type { Delivery } from "../types.ts";
import type { AckReply } from "./ack_reply.ts";
import type { Moment } from "./clock.ts";
import type { Lease } from "./lease.ts";

/** What a delivery needs of the part that holds all of them. */
export interface DeliveryHost {
  /** `max_deliver` of the consumer, 0 for no limit. */
  readonly maxDeliver: number;
  /** Sends a settlement; the delivery is not held any more. */
  settle(delivery: JetStreamDelivery, payload: string): void;
  /** Acknowledges and resolves true if the confirmation comes within the lease. */
  claim(delivery: JetStreamDelivery): Promise<boolean>;
  /** Sends an in_progress. */
  beat(delivery: JetStreamDelivery): void;
  /** Age of a message that was stored at `timeMs` of the server's clock, or null. */
  ageMs(timeMs: number): number | null;
}

const NS_PER_MS = 1_000_000;

/** See {@link Delivery}. */
export class JetStreamDelivery implements Delivery {
  /** The reply subject of the message is for the settlement; the role gets none. */
  readonly reply = "";
  readonly #host: DeliveryHost;
  readonly #facts: AckReply;
  #claim: Promise<boolean> | null = null;
  #settled = false;
  /** When the last in_progress was sent, or the message came. */
  lastBeat: Moment;

  constructor(
    host: DeliveryHost,
    readonly token: string,
    readonly data: Uint8Array,
    readonly headers: Uint8Array | null,
    readonly ackSubject: string,
    facts: AckReply,
    readonly lease: Lease,
    now: Moment,
  ) {
    this.#host = host;
    this.#facts = facts;
    this.lastBeat = now;
  }

  get deliveries(): number {
    return this.#facts.delivered;
  }

  get redelivered(): boolean {
    return this.#facts.delivered > 1;
  }

  get lastDelivery(): boolean {
    const { maxDeliver } = this.#host;
    return maxDeliver > 0 && this.#facts.delivered >= maxDeliver;
  }

  get ageMs(): number | null {
    return this.#host.ageMs(this.#facts.timeMs);
  }

  /** Sequence in the stream, for logs. */
  get streamSeq(): number {
    return this.#facts.streamSeq;
  }

  claim(): Promise<boolean> {
    if (this.#claim === null) {
      const open = !this.#settled;
      this.#settled = true;
      this.#claim = open ? this.#host.claim(this) : Promise.resolve(false);
    }
    return this.#claim;
  }

  ack(): void {
    this.#settle("+ACK");
  }

  nak(delayMs: number): void {
    if (this.lastDelivery) return this.term("no delivery is left");
    const delayNs = Math.max(0, Math.round(delayMs * NS_PER_MS));
    this.#settle(delayNs === 0 ? "-NAK" : `-NAK {"delay": ${delayNs}}`);
  }

  /** The reason stays here: older servers know `+TERM` alone and take anything longer for nothing. */
  term(_reason: string): void {
    this.#settle("+TERM");
  }

  working(): void {
    if (!this.#settled) this.#host.beat(this);
  }

  #settle(payload: string): void {
    if (this.#settled) return;
    this.#settled = true;
    this.#host.settle(this, payload);
  }
}
