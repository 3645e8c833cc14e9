/**
 * Questions to the JetStream API: streams, consumers, single messages. Data never goes this way.
 * @module
 */

import {
  type ConsumerInfo,
  JetStreamApiCodes,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  type StreamInfo,
} from "@nats-io/jetstream";
import { type NatsConnection, RequestError, TimeoutError } from "@nats-io/nats-core/internal";
import { errorText, NatswayError } from "../../errors.ts";
import type { NatsLink } from "../link.ts";
import type { SentConfig } from "./consumer_configs.ts";

export type { ConsumerInfo, StreamInfo } from "@nats-io/jetstream";

export interface ManagementOptions {
  readonly link: NatsLink;
  readonly stream: string;
  /** NATS_JS_API_PREFIX, null for the server's own. */
  readonly apiPrefix: string | null;
  /** Longest wait for an answer, in ms. @default {2000} */
  readonly timeoutMs?: number;
}

/** Why a question was not answered as hoped. */
export interface ApiFailure {
  readonly kind:
    | "stream_not_found"
    | "consumer_not_found"
    /** JetStream is off for the account (10039). */
    | "not_enabled"
    /** Nobody answers the API: a server without JetStream, or with another domain. */
    | "no_responders"
    | "timeout"
    | "other";
  /** For people. */
  readonly text: string;
}

/** A message as the stream keeps it. */
export interface StoredMessage {
  readonly subject: string;
  readonly data: Uint8Array;
  readonly headers: Uint8Array | null;
  /** When the stream took it, in ms since 1970 by the server's clock. */
  readonly timeMs: number;
}

const DEFAULT_PREFIX = "$JS.API";
const TIMEOUT_MS = 2000;
const NOT_FOUND = 404;

/**
 * Whether the API behind `prefix` may be that of another account: a service import of the usual kind
 * lets only the first answer to a request through. The server's own prefix, also with a domain, is not.
 */
export function crossesAccounts(prefix: string | null): boolean {
  return prefix !== null && !/^\$JS\.(?:[^.]+\.)?API$/.test(prefix);
}

/** Tells what an error of {@link Management} means. */
export function apiFailure(error: unknown): ApiFailure {
  const text = errorText(error);
  // The package wraps both "off for the account" and "nobody answers" into an error of one class.
  const cause = error instanceof Error && error.cause !== undefined ? error.cause : error;
  if (cause instanceof JetStreamApiError) {
    const kind = cause.code === JetStreamApiCodes.JetStreamNotEnabledForAccount
      ? "not_enabled"
      : cause.code === JetStreamApiCodes.StreamNotFound
      ? "stream_not_found"
      : cause.code === JetStreamApiCodes.ConsumerNotFound
      ? "consumer_not_found"
      : cause.status === NOT_FOUND || /not found/i.test(cause.message)
      ? "stream_not_found"
      : "other";
    return { kind, text: `${cause.message} (error ${cause.code})` };
  }
  if (cause instanceof TimeoutError) return { kind: "timeout", text: "no answer in time" };
  if (cause instanceof RequestError && cause.isNoResponders()) {
    return { kind: "no_responders", text: "nobody answers the JetStream API" };
  }
  return { kind: "other", text };
}

/** Asks on the connection of now. All calls reject while the link is down. */
export class Management {
  readonly #options: ManagementOptions;
  readonly #prefix: string;
  #manager: JetStreamManager | null = null;
  #connection: unknown = null;

  constructor(options: ManagementOptions) {
    this.#options = options;
    this.#prefix = options.apiPrefix ?? DEFAULT_PREFIX;
  }

  /** Where pulls of a consumer are published to. */
  pullSubject(consumer: string): string {
    return `${this.#prefix}.CONSUMER.MSG.NEXT.${this.#options.stream}.${consumer}`;
  }

  async streamInfo(): Promise<StreamInfo> {
    return (await this.#ask()).streams.info(this.#options.stream);
  }

  async consumerInfo(name: string): Promise<ConsumerInfo> {
    return (await this.#ask()).consumers.info(this.#options.stream, name);
  }

  /** Creates; a consumer of that name with another config is an error and stays as it is. */
  async createConsumer(config: SentConfig): Promise<ConsumerInfo> {
    return (await this.#ask()).consumers.add(this.#options.stream, config);
  }

  async deleteConsumer(name: string): Promise<void> {
    await (await this.#ask()).consumers.delete(this.#options.stream, name);
  }

  /** A stored message, or null when it is not there any more. */
  async message(seq: number): Promise<StoredMessage | null> {
    const found = await (await this.#ask()).streams.getMessage(this.#options.stream, { seq });
    if (found === null) return null;
    const hdrs = (found as { readonly smr?: { readonly message: { readonly hdrs?: string } } })
      .smr?.message.hdrs;
    return {
      subject: found.subject,
      data: found.data,
      headers: hdrs === undefined || hdrs === "" ? null : Uint8Array.fromBase64(hdrs),
      timeMs: Date.parse(found.timestamp),
    };
  }

  async deleteMessage(seq: number): Promise<void> {
    await (await this.#ask()).streams.deleteMessage(this.#options.stream, seq, false);
  }

  async #ask(): Promise<JetStreamManager> {
    const { link, timeoutMs } = this.#options;
    if (!link.connected) throw new NatswayError("the NATS link is down");
    if (this.#manager === null || this.#connection !== link.connection) {
      this.#connection = link.connection;
      this.#manager = await jetstreamManager(link.connection as unknown as NatsConnection, {
        apiPrefix: this.#prefix,
        checkAPI: false,
        timeout: timeoutMs ?? TIMEOUT_MS,
      });
    }
    return this.#manager;
  }
}
