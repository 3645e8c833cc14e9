/**
 * An inbox for answers that are told apart by a number in their subject.
 * @module
 */

import { createInbox } from "@nats-io/nats-core/internal";
import { natsStatus, NO_RESPONDERS } from "../../protocol/nats_headers.ts";
import type { NatsLink } from "../link.ts";
import type { LinkSubscription } from "../link_subscription.ts";

/** An answer; `data` is a view. */
export interface ReplyMessage {
  /** Number of the question, NaN when the subject is none of ours. */
  readonly number: number;
  readonly data: Uint8Array;
  /** Nobody listens on the subject of the question. */
  readonly noResponders: boolean;
}

/** See the module. */
export class ReplyInbox {
  readonly #prefix = `${createInbox()}.`;
  readonly #subscription: LinkSubscription;
  #next = 0;

  /** @param label what it is for, in logs and in the list of refused subscriptions */
  constructor(link: NatsLink, label: string, onReply: (message: ReplyMessage) => void) {
    this.#subscription = link.subscribe({
      subject: `${this.#prefix}*`,
      label,
      deliver: (token, data, _reply, headers) =>
        onReply({
          number: Number(token),
          data,
          noResponders: headers !== null && natsStatus(headers) === NO_RESPONDERS,
        }),
    });
  }

  /** A number that was not given before. */
  next(): number {
    return ++this.#next;
  }

  /** Subject for the answer to question `number`. */
  subject(number: number): string {
    return this.#prefix + number;
  }

  /** Ends the subscription. */
  async close(): Promise<void> {
    await this.#subscription.drain();
  }
}
