/**
 * Requests that nobody has settled in all their deliveries: the server says so in an advisory, one
 * receiver of the pool reads the message, answers it and removes it from the stream.
 * @module
 */

import { errorText } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import type { NatsLink } from "../link.ts";
import type { LinkSubscription } from "../link_subscription.ts";
import type { Inbound } from "../types.ts";
import type { Management } from "./management.ts";

export interface ExhaustedOptions {
  readonly link: NatsLink;
  readonly management: Management;
  readonly logger: Logger;
  readonly stream: string;
  readonly consumer: string;
  readonly onExhausted: (message: Inbound) => void | Promise<void>;
}

/** Label of subscriptions that the work goes on without. */
export const ADVISORY_LABEL = "advisories";

const decoder = new TextDecoder();

/** Works from the constructor on, until `close`. */
export class Exhausted {
  readonly #options: ExhaustedOptions;
  readonly #subscription: LinkSubscription;
  /** Messages that were answered and removed. */
  count = 0;

  constructor(options: ExhaustedOptions) {
    this.#options = options;
    const { link, stream, consumer } = options;
    this.#subscription = link.subscribe({
      subject: `$JS.EVENT.ADVISORY.CONSUMER.MAX_DELIVERIES.${stream}.${consumer}`,
      queue: consumer,
      label: ADVISORY_LABEL,
      deliver: (_token, data) => this.#advised(data),
    });
  }

  async close(): Promise<void> {
    await this.#subscription.drain();
  }

  #advised(data: Uint8Array): void {
    let seq: unknown;
    try {
      ({ stream_seq: seq } = JSON.parse(decoder.decode(data)) as { stream_seq?: unknown });
    } catch {
      return;
    }
    if (typeof seq !== "number" || !Number.isSafeInteger(seq) || seq < 1) return;
    void this.#settle(seq);
  }

  async #settle(seq: number): Promise<void> {
    const { management, logger, stream, consumer, onExhausted } = this.#options;
    try {
      const message = await management.message(seq);
      if (message === null) return;
      const { subject, data, headers } = message;
      const token = subject.slice(subject.lastIndexOf(".") + 1);
      await onExhausted({ token, data, reply: "", headers });
      await management.deleteMessage(seq);
      this.count++;
      logger.warn("a request was delivered in vain as often as allowed, and is removed", {
        stream,
        consumer,
        stream_seq: seq,
      });
    } catch (error) {
      logger.warn("a request that was delivered in vain cannot be removed from the stream", {
        stream,
        consumer,
        stream_seq: seq,
        error: errorText(error),
      });
    }
  }
}
