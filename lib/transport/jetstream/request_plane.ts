/**
 * The request plane of a receiver over the durable consumer of its pool.
 * @module
 */

import type { NatsLink } from "../link.ts";
import type { Delivery, RequestConsumer } from "../types.ts";
import type { Clock, Moment } from "./clock.ts";
import type { Pulling } from "./consumer_keeper.ts";
import type { DeliveryKeeper } from "./delivery_keeper.ts";
import type { ConsumerInfo } from "./management.ts";
import { RequestPuller } from "./request_puller.ts";

export interface RequestPlaneOptions {
  readonly link: NatsLink;
  readonly clock: Clock;
  readonly deliveries: DeliveryKeeper;
  readonly handler: (delivery: Delivery) => void;
  readonly free: () => number;
  readonly pullSubject: string;
  readonly maxPayload: () => number;
  readonly single: boolean;
}

/** A consumer that is there, and whom to tell when it is not any more. */
interface Opened {
  readonly info: ConsumerInfo;
  readonly gone: (reason: string) => void;
}

const NS_PER_MS = 1_000_000;

/** The shortest time after which the server delivers a message again, in ms. */
export function ackWaitMs(info: ConsumerInfo): number {
  const { ack_wait, backoff } = info.config;
  return Math.min(ack_wait ?? 30_000 * NS_PER_MS, ...(backoff ?? [])) / NS_PER_MS;
}

/** Pulls while a consumer is there and the plane is not paused. */
export class RequestPlane implements RequestConsumer {
  readonly #options: RequestPlaneOptions;
  #opened: Opened | null = null;
  #puller: RequestPuller | null = null;
  #paused = false;

  constructor(options: RequestPlaneOptions) {
    this.#options = options;
  }

  /** The consumer is in service; it is pulled from until the result is stopped. */
  open(info: ConsumerInfo, gone: (reason: string) => void): Pulling {
    const opened = { info, gone };
    this.#opened = opened;
    this.#options.deliveries.setLimits({
      ackWaitMs: ackWaitMs(info),
      maxDeliver: Math.max(0, info.config.max_deliver ?? 0),
    });
    this.#pull();
    return {
      stop: async () => {
        if (this.#opened !== opened) return;
        this.#opened = null;
        await this.#stop();
      },
    };
  }

  more(): void {
    this.#puller?.more();
  }

  async pause(): Promise<void> {
    this.#paused = true;
    await this.#stop();
  }

  resume(): void {
    this.#paused = false;
    this.#pull();
  }

  #pull(): void {
    if (this.#opened === null || this.#paused || this.#puller !== null) return;
    const { info: { config }, gone } = this.#opened;
    const { link, clock, free, pullSubject, maxPayload, single } = this.#options;
    const expiresNs = positive(config.max_expires);
    this.#puller = new RequestPuller({
      link,
      clock,
      pullSubject,
      ackWaitMs: ackWaitMs(this.#opened.info),
      maxBatch: positive(config.max_batch),
      maxBytes: positive(config.max_bytes),
      maxExpiresMs: expiresNs === null ? null : expiresNs / NS_PER_MS,
      maxPayload: maxPayload(),
      single,
      free,
      onMessage: (...message) => this.#message(...message),
      onGone: gone,
    });
    this.#puller.more();
  }

  async #stop(): Promise<void> {
    const puller = this.#puller;
    this.#puller = null;
    await puller?.stop();
  }

  #message(
    token: string,
    data: Uint8Array,
    ackSubject: string,
    headers: Uint8Array | null,
    pulled: Moment,
  ): void {
    const delivery = this.#options.deliveries.take(token, data, headers, ackSubject, pulled);
    if (delivery === null) return;
    // It was on its way when the pool was left; only if nobody else can have it is it taken.
    if (this.#paused && !delivery.lastDelivery) delivery.nak(0);
    else this.#options.handler(delivery);
  }
}

function positive(value: number | undefined): number | null {
  return value !== undefined && value > 0 ? value : null;
}
