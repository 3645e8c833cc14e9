/**
 * Where the messages and statuses of pulls arrive, with a watch over the server's heartbeats.
 * @module
 */

import { createInbox } from "@nats-io/nats-core/internal";
import { natsHeader } from "../../protocol/nats_headers.ts";
import type { NatsLink } from "../link.ts";
import type { LinkSubscription } from "../link_subscription.ts";
import { parsePullStatus, type PullStatus } from "./pull_status.ts";

/** What one pull asks for. */
export interface PullRequest {
  readonly messages: number;
  /** Absent: no limit. */
  readonly bytes?: number;
}

export interface PullInboxOptions {
  readonly link: NatsLink;
  /** What the consumer is for, in logs and in the list of refused subscriptions. */
  readonly label: string;
  /** `<prefix>.CONSUMER.MSG.NEXT.<stream>.<consumer>`. */
  readonly pullSubject: string;
  /** The server ends a pull after that time. */
  readonly expiresMs: number;
  /** Without them the ends of pulls are the signs of life: `expiresMs` has to be a few seconds. */
  readonly heartbeats: boolean;
  /** A message; the views end with the call. */
  readonly onMessage: (
    token: string,
    data: Uint8Array,
    ackSubject: string,
    headers: Uint8Array | null,
  ) => void;
  /** A status of pull `number`; heartbeats are dealt with here. */
  readonly onStatus: (number: number, status: Exclude<PullStatus, { kind: "heartbeat" }>) => void;
  /** The server is silent although a pull is open. */
  readonly onSilence: () => void;
  /** Whether a pull is open. */
  readonly waiting: () => boolean;
}

/** Time of a pull that gets no heartbeats: its end is the sign of life. */
export const SHORT_EXPIRES_MS = 4000;
const NS_PER_MS = 1_000_000;
const MAX_HEARTBEAT_MS = 3000;
/** So many times nothing may have come. */
const QUIET_LOOKS = 2;
/** Not looked for more often, however short the heartbeats are. */
const MIN_LOOK_MS = 1000;

const encoder = new TextEncoder();

/** One subscription for all pulls of one consumer, until it is ended. */
export class PullInbox {
  readonly #options: PullInboxOptions;
  readonly #prefix = `${createInbox()}.`;
  readonly #subscription: LinkSubscription;
  readonly #heartbeatMs: number | null;
  readonly #watch: ReturnType<typeof setInterval>;
  #number = 0;
  #quiet = 0;

  constructor(options: PullInboxOptions) {
    this.#options = options;
    this.#subscription = options.link.subscribe({
      subject: `${this.#prefix}*`,
      label: options.label,
      deliver: (token, data, reply, headers) => this.#deliver(token, data, reply, headers),
    });
    // The server refuses heartbeats that are not rarer than twice in the time of a pull.
    this.#heartbeatMs = options.heartbeats
      ? Math.max(1, Math.floor(Math.min(MAX_HEARTBEAT_MS, options.expiresMs / 2)))
      : null;
    const lookMs = Math.max(MIN_LOOK_MS, this.#heartbeatMs ?? MAX_HEARTBEAT_MS);
    this.#watch = setInterval(() => this.#look(), lookMs);
  }

  /** Sends a pull; its number comes with its statuses. 0: there is no connection. */
  pull({ messages, bytes }: PullRequest): number {
    const { link, pullSubject, expiresMs } = this.#options;
    const body = {
      batch: messages,
      ...(bytes === undefined ? {} : { max_bytes: bytes }),
      expires: Math.round(expiresMs * NS_PER_MS),
      ...(this.#heartbeatMs === null ? {} : { idle_heartbeat: this.#heartbeatMs * NS_PER_MS }),
    };
    const number = ++this.#number;
    const sent = link.publish(pullSubject, [encoder.encode(JSON.stringify(body))], {
      reply: this.#prefix + number,
    });
    this.#quiet = 0;
    return sent ? number : 0;
  }

  /** Ends the subscription and with it all pulls. What is on its way still comes until it resolves. */
  async close(): Promise<void> {
    clearInterval(this.#watch);
    await this.#subscription.drain();
  }

  #deliver(token: string, data: Uint8Array, reply: string, headers: Uint8Array | null): void {
    this.#quiet = 0;
    // A stored message has a reply subject for its settlement, whatever else is in it.
    if (reply !== "") {
      const subject = headers === null ? null : natsHeader(headers, "Nats-Subject");
      const id = subject === null ? token : subject.slice(subject.lastIndexOf(".") + 1);
      return this.#options.onMessage(id, data, reply, headers);
    }
    const status = headers === null ? null : parsePullStatus(headers);
    if (status === null || status.kind === "heartbeat") return;
    this.#options.onStatus(Number(token), status);
  }

  /** Counts looks and not time: a process that was stopped finds its messages before it looks twice. */
  #look(): void {
    if (!this.#options.waiting()) this.#quiet = 0;
    else if (++this.#quiet > QUIET_LOOKS) this.#options.onSilence();
  }
}
