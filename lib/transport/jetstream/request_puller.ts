/**
 * Pulls requests: one pull at a time, for as many as there are free slots, so that the receivers of a
 * pool share the work and nothing waits where it cannot be done.
 * @module
 */

import type { NatsLink } from "../link.ts";
import { type Clock, type Moment, momentOf } from "./clock.ts";
import { PullInbox, SHORT_EXPIRES_MS } from "./pull_inbox.ts";
import { PullLife } from "./pull_life.ts";
import type { PullStatus } from "./pull_status.ts";
import { MESSAGE_OVERHEAD_BYTES } from "./plane_puller.ts";

const PULL_BYTES = 8 * 1024 * 1024;
const MAX_REFUSALS = 10;

export interface RequestPullerOptions {
  readonly link: NatsLink;
  readonly clock: Clock;
  readonly pullSubject: string;
  readonly ackWaitMs: number;
  /** Limits of the consumer for one pull, where it has any. */
  readonly maxBatch: number | null;
  readonly maxBytes: number | null;
  readonly maxExpiresMs: number | null;
  readonly maxPayload: number;
  /** Only the first answer to a pull arrives (see `single_puller.ts`). */
  readonly single: boolean;
  /** How many may come now. */
  readonly free: () => number;
  /** `pulled`: when the pull was sent that brought the message, or an earlier one. */
  readonly onMessage: (
    token: string,
    data: Uint8Array,
    ackSubject: string,
    headers: Uint8Array | null,
    pulled: Moment,
  ) => void;
  readonly onGone: (reason: string) => void;
}

/** Works from the first `more` on, until `stop`. */
export class RequestPuller {
  readonly #options: RequestPullerOptions;
  readonly #inbox: PullInbox;
  readonly #life: PullLife;
  #pull: { readonly number: number; left: number; used: boolean } | null = null;
  #pulled: Moment;
  #alone = false;

  constructor(options: RequestPullerOptions) {
    this.#options = options;
    this.#pulled = momentOf(options.clock);
    this.#life = new PullLife({
      mostRefusals: MAX_REFUSALS,
      again: () => this.more(),
      onGone: options.onGone,
    });
    this.#inbox = new PullInbox({
      link: options.link,
      label: "requests",
      pullSubject: options.pullSubject,
      // A third of ack_wait: what comes at the end of a pull still has two thirds of its lease.
      expiresMs: Math.max(
        20,
        Math.min(options.ackWaitMs / 3, SHORT_EXPIRES_MS, options.maxExpiresMs ?? Infinity),
      ),
      // With heartbeats servers do not say that all places for waiting pulls are taken.
      heartbeats: false,
      onMessage: (token, data, ackSubject, headers) =>
        this.#message(token, data, ackSubject, headers),
      onStatus: (number, status) => this.#status(number, status),
      onSilence: () => this.#life.gone("the server sends no heartbeats"),
      waiting: () => this.#pull !== null,
    });
  }

  /** Pulls, if there are free slots and no pull is open. */
  more(): void {
    if (this.#life.resting || this.#pull !== null) return;
    const { maxBatch, maxBytes, maxPayload, clock } = this.#options;
    const free = Math.min(this.#options.free(), maxBatch ?? Infinity);
    if (!(free >= 1)) return;
    const messages = this.#alone || this.#options.single ? 1 : Math.floor(free);
    const wanted = Math.max(PULL_BYTES, maxPayload + MESSAGE_OVERHEAD_BYTES);
    const bytes = Math.min(wanted, maxBytes ?? Infinity);
    const sent = momentOf(clock);
    const number = this.#inbox.pull(this.#alone ? { messages } : { messages, bytes });
    if (number === 0) return;
    this.#alone = false;
    this.#pulled = sent;
    this.#pull = { number, left: messages, used: false };
  }

  /** Ends the pull. What is on its way still comes until it resolves. */
  async stop(): Promise<void> {
    this.#life.end();
    await this.#inbox.close();
  }

  #message(
    token: string,
    data: Uint8Array,
    ackSubject: string,
    headers: Uint8Array | null,
  ): void {
    this.#life.served();
    if (this.#pull !== null) {
      this.#pull.used = true;
      if (--this.#pull.left <= 0) this.#pull = null;
    }
    try {
      this.#options.onMessage(token, data, ackSubject, headers, this.#pulled);
    } finally {
      this.more();
    }
  }

  #status(number: number, status: Exclude<PullStatus, { kind: "heartbeat" }>): void {
    if (status.kind === "gone") return this.#life.gone(status.text);
    if (this.#pull?.number !== number) return;
    const { used } = this.#pull;
    this.#pull = null;
    if (status.kind === "ended") {
      // The first message was larger than the pull: it is taken alone, without that limit.
      this.#alone = !used && /exceeds maxbytes/i.test(status.text);
      this.more();
      return;
    }
    this.#life.refused(status);
  }
}
