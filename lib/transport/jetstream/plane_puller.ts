/**
 * Pulls a plane of this process: so many messages and bytes are asked for in advance that the server
 * never waits, and each message is acknowledged when its handler has returned.
 * @module
 */

import type { NatsLink } from "../link.ts";
import type { Inbound } from "../types.ts";
import { PullInbox } from "./pull_inbox.ts";
import { PullLife } from "./pull_life.ts";
import type { PullStatus } from "./pull_status.ts";

/** What may be asked for and not delivered yet. */
export const PLANE_MESSAGES = 500;
export const PLANE_BYTES = 4 * 1024 * 1024;
/** More is asked for when so much of it is left. */
const REFILL = 0.75;
const EXPIRES_MS = 30_000;
/** Subject, settlement subject and headers of a message count as well. */
export const MESSAGE_OVERHEAD_BYTES = 4096;
/** After so many refused pulls in a row the consumer is looked at. */
const MAX_REFUSALS = 5;

const ACK = [new TextEncoder().encode("+ACK")];

export interface PlanePullerOptions {
  readonly link: NatsLink;
  readonly label: string;
  /** `<prefix>.CONSUMER.MSG.NEXT.<stream>.<consumer>`. */
  readonly pullSubject: string;
  /** Filter of the consumer: its length is that of a stored subject but for the id. */
  readonly filter: string;
  /** Largest message, in bytes. */
  readonly maxPayload: number;
  readonly handler: (message: Inbound) => void;
  /** The consumer must be looked at. Called once. */
  readonly onGone: (reason: string) => void;
}

/** Works from the constructor on, until `stop`. */
export class PlanePuller {
  readonly #options: PlanePullerOptions;
  readonly #inbox: PullInbox;
  readonly #life: PullLife;
  readonly #windowBytes: number;
  #messages = 0;
  #bytes = 0;
  #receivedSincePull = false;

  constructor(options: PlanePullerOptions) {
    this.#options = options;
    this.#windowBytes = Math.max(PLANE_BYTES, options.maxPayload + MESSAGE_OVERHEAD_BYTES);
    this.#life = new PullLife({
      mostRefusals: MAX_REFUSALS,
      again: () => this.#refill(),
      onGone: options.onGone,
    });
    this.#inbox = new PullInbox({
      link: options.link,
      label: options.label,
      pullSubject: options.pullSubject,
      expiresMs: EXPIRES_MS,
      heartbeats: true,
      onMessage: (token, data, ackSubject, headers) =>
        this.#message(token, data, ackSubject, headers),
      onStatus: (_number, status) => this.#status(status),
      onSilence: () => this.#life.gone("the server sends no heartbeats"),
      waiting: () => this.#messages > 0,
    });
    this.#refill();
  }

  /** Ends it; resolves when no more comes. */
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
    const { link, filter, handler } = this.#options;
    this.#receivedSincePull = true;
    this.#life.served();
    this.#messages--;
    // As the server counts it; an id of another length is set right with the end of the pull.
    this.#bytes -= filter.length - 1 + token.length + ackSubject.length + data.length +
      (headers?.length ?? 0);
    try {
      handler({ token, data, reply: "", headers });
    } finally {
      link.publish(ackSubject, ACK);
      this.#refill();
    }
  }

  #status(status: Exclude<PullStatus, { kind: "heartbeat" }>): void {
    switch (status.kind) {
      case "gone":
        return this.#life.gone(status.text);
      case "busy":
      case "refused":
        return this.#refused(status);
      case "ended": {
        this.#messages -= status.unusedMessages;
        this.#bytes -= status.unusedBytes;
        const stuck = this.#messages <= 0 && !this.#receivedSincePull &&
          status.unusedBytes >= this.#windowBytes;
        if (stuck) this.#pullOne();
        else this.#refill();
      }
    }
  }

  /** None of what was asked for is left: what is counted as such was never taken. */
  #refused(status: { readonly kind: string; readonly text: string }): void {
    this.#messages = 0;
    this.#bytes = 0;
    this.#life.refused(status);
  }

  #refill(): void {
    if (this.#life.resting) return;
    if (this.#messages <= 0) this.#messages = this.#bytes = 0;
    if (this.#messages > PLANE_MESSAGES * REFILL && this.#bytes > this.#windowBytes * REFILL) {
      return;
    }
    const messages = PLANE_MESSAGES - this.#messages;
    const bytes = Math.floor(this.#windowBytes - Math.max(0, this.#bytes));
    if (messages <= 0 || bytes <= 0) return;
    if (this.#inbox.pull({ messages, bytes }) === 0) return;
    this.#messages += messages;
    this.#bytes += bytes;
    this.#receivedSincePull = false;
  }

  /** The next message is larger than all that may be asked for: it is taken alone. */
  #pullOne(): void {
    if (this.#life.ended || this.#inbox.pull({ messages: 1 }) === 0) return;
    this.#messages = 1;
    this.#bytes = 0;
    this.#receivedSincePull = false;
  }
}
