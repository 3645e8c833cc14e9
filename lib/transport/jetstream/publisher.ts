/**
 * Publishes to the stream without waiting for each answer (PubAck): a bounded number of messages and
 * bytes may be unanswered, and what the stream does not take is reported.
 * @module
 */

import type { NatsLink } from "../link.ts";
import type { PublishOptions } from "../types.ts";
import { ReplyInbox, type ReplyMessage } from "./reply_inbox.ts";

/** From so many unanswered messages or bytes on senders of data wait. */
export const WINDOW_MESSAGES = 2048;
export const WINDOW_BYTES = 8 * 1024 * 1024;
/** At so many times the window `publish` refuses: somebody does not wait. */
const HARD_FACTOR = 8;
const ACK_TIMEOUT_MS = 5000;

export interface PublisherOptions {
  readonly link: NatsLink;
  /** Longest wait for an answer, in ms. @default {5000} */
  readonly timeoutMs?: number;
}

/** How many publishes had which end. */
export interface PublishCounts {
  readonly accepted: number;
  readonly lost: number;
}

interface Unanswered {
  readonly bytes: number;
  readonly sentMs: number;
  readonly onLost: ((reason: string) => void) | undefined;
}

interface Waiter {
  readonly enough: () => boolean;
  readonly resolve: () => void;
}

const ERROR_KEY = new TextEncoder().encode('"error":');
const decoder = new TextDecoder();

/** See the module. Messages keep their order. */
export class Publisher {
  readonly #link: NatsLink;
  readonly #timeoutMs: number;
  readonly #inbox: ReplyInbox;
  /** By number, which is the order of sending. */
  readonly #unanswered = new Map<number, Unanswered>();
  #bytes = 0;
  #accepted = 0;
  #lost = 0;
  #last = 0;
  #waiters: Waiter[] = [];
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor({ link, timeoutMs }: PublisherOptions) {
    this.#link = link;
    this.#timeoutMs = timeoutMs ?? ACK_TIMEOUT_MS;
    this.#inbox = new ReplyInbox(link, "publish acks", (message) => this.#answered(message));
  }

  /** Unanswered messages. */
  get outstanding(): number {
    return this.#unanswered.size;
  }

  get counts(): PublishCounts {
    return { accepted: this.#accepted, lost: this.#lost };
  }

  /** The window is full. */
  get congested(): boolean {
    return this.#unanswered.size >= WINDOW_MESSAGES || this.#bytes >= WINDOW_BYTES;
  }

  /** See {@link Transport.publish}; `reply` is not sent. */
  publish(subject: string, parts: readonly Uint8Array[], options?: PublishOptions): boolean {
    if (
      this.#unanswered.size >= WINDOW_MESSAGES * HARD_FACTOR ||
      this.#bytes >= WINDOW_BYTES * HARD_FACTOR
    ) return false;
    const number = this.#inbox.next();
    const headers = options?.headers;
    const sent = this.#link.publish(subject, parts, {
      reply: this.#inbox.subject(number),
      ...(headers === undefined ? {} : { headers }),
    });
    if (!sent) return false;
    let bytes = headers?.length ?? 0;
    for (const part of parts) bytes += part.length;
    this.#bytes += bytes;
    this.#last = number;
    this.#unanswered.set(number, {
      bytes,
      sentMs: performance.now(),
      onLost: options?.onLost,
    });
    if (this.#timer === undefined) this.#arm(this.#timeoutMs);
    return true;
  }

  /** Resolves when no more than half of the window is unanswered. */
  drained(): Promise<void> {
    if (!this.congested) return Promise.resolve();
    return this.#when(() =>
      this.#unanswered.size <= WINDOW_MESSAGES / 2 && this.#bytes <= WINDOW_BYTES / 2
    );
  }

  /** Resolves when all that was published before is answered or lost. */
  settled(): Promise<void> {
    const last = this.#last;
    const enough = () => {
      const [oldest] = this.#unanswered.keys();
      return oldest === undefined || oldest > last;
    };
    return enough() ? Promise.resolve() : this.#when(enough);
  }

  /** The link is down: nobody will answer. Whether the stream took the messages is not known. */
  disconnected(): void {
    this.#loseAll("the NATS link went down");
  }

  /** Ends it; what is unanswered is lost. */
  async close(): Promise<void> {
    this.#loseAll("the transport is closed");
    await this.#inbox.close();
  }

  #answered({ number, data, noResponders }: ReplyMessage): void {
    const entry = this.#unanswered.get(number);
    if (entry === undefined) return;
    this.#unanswered.delete(number);
    this.#bytes -= entry.bytes;
    if (noResponders) {
      this.#lose(entry, "no stream takes the subject");
    } else if (holdsError(data)) {
      this.#lose(entry, errorOf(data));
    } else {
      this.#accepted++;
    }
    this.#wake();
  }

  #lose(entry: Unanswered, reason: string): void {
    this.#lost++;
    entry.onLost?.(reason);
  }

  #loseAll(reason: string): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const lost = [...this.#unanswered.values()];
    this.#unanswered.clear();
    this.#bytes = 0;
    for (const entry of lost) this.#lose(entry, reason);
    this.#wake();
  }

  #arm(ms: number): void {
    this.#timer = setTimeout(() => this.#expire(), ms);
  }

  /** One timer for all: the oldest message is the first to time out. */
  #expire(): void {
    this.#timer = undefined;
    const now = performance.now();
    for (const [number, entry] of this.#unanswered) {
      const restMs = entry.sentMs + this.#timeoutMs - now;
      if (restMs > 0) {
        this.#arm(restMs + 1);
        break;
      }
      this.#unanswered.delete(number);
      this.#bytes -= entry.bytes;
      this.#lose(entry, "the stream did not answer in time");
    }
    this.#wake();
  }

  #when(enough: () => boolean): Promise<void> {
    return new Promise((resolve) => this.#waiters.push({ enough, resolve }));
  }

  #wake(): void {
    if (this.#waiters.length === 0) return;
    const waiting = this.#waiters;
    this.#waiters = [];
    for (const waiter of waiting) {
      if (waiter.enough()) waiter.resolve();
      else this.#waiters.push(waiter);
    }
  }
}

/** Looks for the key of an error without parsing: nearly all answers are good ones. */
function holdsError(data: Uint8Array): boolean {
  const first = ERROR_KEY[0] as number;
  for (let at = data.indexOf(first); at >= 0; at = data.indexOf(first, at + 1)) {
    let i = 1;
    while (i < ERROR_KEY.length && data[at + i] === ERROR_KEY[i]) i++;
    if (i === ERROR_KEY.length) return true;
  }
  return false;
}

function errorOf(data: Uint8Array): string {
  try {
    const { error } = JSON.parse(decoder.decode(data)) as {
      readonly error?: { readonly description?: unknown };
    };
    if (typeof error?.description === "string") return error.description;
  } catch {
    // Said below.
  }
  return "the stream answered with an error that cannot be read";
}
