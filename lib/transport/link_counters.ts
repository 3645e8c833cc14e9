/**
 * What went over a link, also over clients that were replaced.
 * @module
 */

import type { NatsProtocol } from "./nats_internals.ts";
import type { TransportStatus } from "./types.ts";

export type LinkCounts = Pick<
  TransportStatus,
  "sentMessages" | "receivedMessages" | "sentBytes" | "receivedBytes"
>;

/** Totals of the clients before the current one. */
export class LinkCounters {
  #before: LinkCounts = { sentMessages: 0, receivedMessages: 0, sentBytes: 0, receivedBytes: 0 };

  /** `protocol` has ended. */
  keep(protocol: NatsProtocol): void {
    this.#before = this.with(protocol);
  }

  /** All counts, those of the current client included. */
  with(protocol: NatsProtocol): LinkCounts {
    return {
      sentMessages: this.#before.sentMessages + protocol.outMsgs,
      receivedMessages: this.#before.receivedMessages + protocol.inMsgs,
      sentBytes: this.#before.sentBytes + protocol.outBytes,
      receivedBytes: this.#before.receivedBytes + protocol.inBytes,
    };
  }
}
