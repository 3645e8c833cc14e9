/**
 * Holds the requests that a receiver has pulled and not settled: their heartbeats, leases and
 * settlements.
 * @module
 */

import type { NatsLink } from "../link.ts";
import { parseAckReply } from "./ack_reply.ts";
import { type Clock, elapsedMs, type Moment, momentOf } from "./clock.ts";
import { type DeliveryHost, JetStreamDelivery } from "./delivery.ts";
import { Lease } from "./lease.ts";
import { ReplyInbox, type ReplyMessage } from "./reply_inbox.ts";

export interface DeliveryKeeperOptions {
  readonly link: NatsLink;
  readonly clock: Clock;
  /** Age of a message that was stored at `timeMs` of the server's clock, or null. */
  readonly ageMs: (timeMs: number) => number | null;
}

/** What the consumer is like, as the server says. */
export interface ConsumerLimits {
  /** The shortest time after which the server gives a message to another receiver, in ms. */
  readonly ackWaitMs: number;
  /** 0 for no limit. */
  readonly maxDeliver: number;
}

/** An acknowledgement whose confirmation is awaited. */
interface Claim {
  readonly lease: Lease;
  readonly resolve: (owned: boolean) => void;
}

/** An in_progress whose confirmation is awaited. */
interface Beat {
  readonly delivery: JetStreamDelivery;
  readonly sent: Moment;
}

const BEATS_PER_ACK_WAIT = 3;
const TICKS_PER_BEAT = 4;
const MIN_TICK_MS = 20;
/** Settlements that are kept for the next connection. */
const MAX_UNSENT = 4096;

const encoder = new TextEncoder();
const ACK = encoder.encode("+ACK");
const IN_PROGRESS = encoder.encode("+WPI");

/** See the module. */
export class DeliveryKeeper implements DeliveryHost {
  readonly #options: DeliveryKeeperOptions;
  readonly #inbox: ReplyInbox;
  readonly #open = new Set<JetStreamDelivery>();
  readonly #claims = new Map<number, Claim>();
  readonly #beats = new Map<number, Beat>();
  #unsent: { readonly subject: string; readonly payload: Uint8Array }[] = [];
  #limits: ConsumerLimits = { ackWaitMs: 0, maxDeliver: 0 };
  #timer: ReturnType<typeof setInterval> | undefined;
  /** Claims that were not confirmed within their lease: another receiver may have the message. */
  leasesLost = 0;

  constructor(options: DeliveryKeeperOptions) {
    this.#options = options;
    this.#inbox = new ReplyInbox(options.link, "ack confirmations", (message) => {
      this.#answered(message);
    });
  }

  get maxDeliver(): number {
    return this.#limits.maxDeliver;
  }

  /** Requests that are not settled. */
  get open(): number {
    return this.#open.size;
  }

  /** Takes the limits of the consumer as it is now, from before its first message on. */
  setLimits(limits: ConsumerLimits): void {
    this.#limits = limits;
    clearInterval(this.#timer);
    const everyMs = limits.ackWaitMs / BEATS_PER_ACK_WAIT / TICKS_PER_BEAT;
    this.#timer = setInterval(() => this.#tick(), Math.max(MIN_TICK_MS, everyMs));
  }

  /**
   * A pulled message as a delivery that is held from now on; null when `ackSubject` is none.
   * @param pulled when the pull was sent
   */
  take(
    token: string,
    data: Uint8Array,
    headers: Uint8Array | null,
    ackSubject: string,
    pulled: Moment,
  ): JetStreamDelivery | null {
    const facts = parseAckReply(ackSubject);
    if (facts === null) return null;
    const { clock } = this.#options;
    const lease = new Lease(clock, pulled, this.#limits.ackWaitMs);
    const now = momentOf(clock);
    const delivery = new JetStreamDelivery(
      this,
      token,
      data,
      headers,
      ackSubject,
      facts,
      lease,
      now,
    );
    this.#open.add(delivery);
    return delivery;
  }

  ageMs(timeMs: number): number | null {
    return this.#options.ageMs(timeMs);
  }

  settle(delivery: JetStreamDelivery, payload: string): void {
    this.#open.delete(delivery);
    this.#send(delivery.ackSubject, encoder.encode(payload));
  }

  claim(delivery: JetStreamDelivery): Promise<boolean> {
    this.#open.delete(delivery);
    return new Promise((resolve) => {
      // A message that is not surely ours is not taken away from whoever has it now.
      if (!delivery.lease.held || !this.#options.link.connected) return this.#loseLease(resolve);
      const number = this.#inbox.next();
      this.#claims.set(number, { lease: delivery.lease, resolve });
      if (!this.#ask(delivery.ackSubject, ACK, number)) {
        this.#claims.delete(number);
        this.#loseLease(resolve);
      }
    });
  }

  beat(delivery: JetStreamDelivery): void {
    const sent = momentOf(this.#options.clock);
    const number = this.#inbox.next();
    if (!this.#ask(delivery.ackSubject, IN_PROGRESS, number)) return;
    delivery.lastBeat = sent;
    this.#beats.set(number, { delivery, sent });
  }

  /** The link is up again: what could not be settled meanwhile is settled now. */
  connected(): void {
    const unsent = this.#unsent;
    this.#unsent = [];
    for (const { subject, payload } of unsent) this.#send(subject, payload);
  }

  /** The link is down: no confirmation comes, and whether the server had the question is not known. */
  disconnected(): void {
    this.#beats.clear();
    const claims = [...this.#claims.values()];
    this.#claims.clear();
    for (const { resolve } of claims) this.#loseLease(resolve);
  }

  /** Ends it. What is not settled is left to other receivers. */
  async close(): Promise<void> {
    clearInterval(this.#timer);
    this.#open.clear();
    this.disconnected();
    await this.#inbox.close();
  }

  #answered({ number, noResponders }: ReplyMessage): void {
    const beat = this.#beats.get(number);
    if (beat !== undefined) {
      this.#beats.delete(number);
      if (!noResponders) beat.delivery.lease.confirmed(beat.sent);
      return;
    }
    const claim = this.#claims.get(number);
    if (claim === undefined) return;
    this.#claims.delete(number);
    if (!noResponders && claim.lease.held) claim.resolve(true);
    else this.#loseLease(claim.resolve);
  }

  #loseLease(resolve: (owned: boolean) => void): void {
    this.leasesLost++;
    resolve(false);
  }

  #tick(): void {
    const { clock } = this.#options;
    const everyMs = this.#limits.ackWaitMs / BEATS_PER_ACK_WAIT;
    for (const [number, { lease, resolve }] of this.#claims) {
      if (lease.held) continue;
      this.#claims.delete(number);
      this.#loseLease(resolve);
    }
    for (const [number, { sent }] of this.#beats) {
      if (elapsedMs(clock, sent) < this.#limits.ackWaitMs) break;
      this.#beats.delete(number);
    }
    // A tick early rather than one late: a third of ack_wait is the latest.
    const dueMs = everyMs * (1 - 1 / TICKS_PER_BEAT);
    for (const delivery of this.#open) {
      if (elapsedMs(clock, delivery.lastBeat) >= dueMs) this.beat(delivery);
    }
  }

  #ask(subject: string, payload: Uint8Array, number: number): boolean {
    const { link } = this.#options;
    return link.publish(subject, [payload], { reply: this.#inbox.subject(number) });
  }

  #send(subject: string, payload: Uint8Array): void {
    if (this.#options.link.publish(subject, [payload])) return;
    if (this.#unsent.length < MAX_UNSENT) this.#unsent.push({ subject, payload });
  }
}
