/**
 * What went over a link, also over clients that were replaced.
 * @module
 */

import type { NatsClient } from "./nats_internals.ts";
import type { TransportStatus } from "./types.ts";

export type LinkCounts = Pick<
  TransportStatus,
  | "sentMessages"
  | "receivedMessages"
  | "sentBytes"
  | "receivedBytes"
  | "sentPings"
  | "receivedPings"
  | "receivedPongs"
>;

/** Totals of the clients before the current one. */
export class LinkCounters {
  #before: LinkCounts = {
    sentMessages: 0,
    receivedMessages: 0,
    sentBytes: 0,
    receivedBytes: 0,
    sentPings: 0,
    receivedPings: 0,
    receivedPongs: 0,
  };

  /** `client` has ended. */
  keep(client: NatsClient): void {
    this.#before = this.with(client);
  }

  /** All counts, those of the current client included. */
  with({ protocol, pings }: NatsClient): LinkCounts {
    return {
      sentMessages: this.#before.sentMessages + protocol.outMsgs,
      receivedMessages: this.#before.receivedMessages + protocol.inMsgs,
      sentBytes: this.#before.sentBytes + protocol.outBytes,
      receivedBytes: this.#before.receivedBytes + protocol.inBytes,
      sentPings: this.#before.sentPings + pings.sent,
      receivedPings: this.#before.receivedPings + pings.received,
      receivedPongs: this.#before.receivedPongs + pings.pongs,
    };
  }
}
