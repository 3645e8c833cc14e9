/**
 * A subscription that outlives connections.
 * @module
 */

import type { Msg, MsgImpl, Subscription } from "@nats-io/nats-core/internal";
import type { LaneTarget } from "./lane_splitter.ts";
import type { NatsClient } from "./nats_internals.ts";

/** Takes one message. `data` and `headers` are views: copy them before the first `await`. */
export type RawHandler = LaneTarget["deliver"];

export interface LinkSubscribeOptions {
  readonly subject: string;
  readonly queue?: string;
  /** What the subscription is for, in logs and in the list of refused ones. */
  readonly label: string;
  readonly deliver: RawHandler;
}

/** What a subscription needs of its link. */
export interface SubscriptionHost {
  readonly targets: Map<number, LaneTarget>;
  connected(): boolean;
  flush(): Promise<void>;
  ended(subscription: LinkSubscription): void;
  denied(label: string, error: Error): void;
  /** The server takes what it had refused. */
  allowed(label: string): void;
  /** Time before a refused subscription is asked for again, in ms. */
  readonly retryDeniedMs: number;
  /** Calls `retry` with the current client, if there is a connection. */
  askAgain(subscription: LinkSubscription): void;
  handlerFailed(error: unknown): void;
}

/** Made by `NatsLink.subscribe`. */
export class LinkSubscription implements LaneTarget {
  readonly #options: LinkSubscribeOptions;
  readonly #host: SubscriptionHost;
  #subscription: Subscription | null = null;
  #active = true;
  #denied = false;
  #retryTimer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: LinkSubscribeOptions, host: SubscriptionHost) {
    this.#options = options;
    this.#host = host;
  }

  get label(): string {
    return this.#options.label;
  }

  /** Whether the server refused it the last time that it was asked. */
  get denied(): boolean {
    return this.#denied;
  }

  get active(): boolean {
    return this.#active;
  }

  deliver(token: string, data: Uint8Array, reply: string, headers: Uint8Array | null): void {
    this.#options.deliver(token, data, reply, headers);
  }

  /** Subscribes on `client`; the client repeats it after its own reconnects. */
  attach(client: NatsClient): void {
    // A client that has closed by itself is about to be replaced.
    if (client.connection.isClosed()) return;
    const { subject, queue } = this.#options;
    const subscription = client.connection.subscribe(subject, {
      ...(queue === undefined ? {} : { queue }),
      callback: (error, message) => {
        if (error === null) this.#deliverWithoutLane(message);
        else this.#refused(subscription, error);
      },
    });
    this.#subscription = subscription;
    const sid = subscription.getID();
    this.#host.targets.set(sid, this);
    void subscription.closed.then(() => {
      // After a replaced client the same number may belong to another subscription.
      if (this.#subscription === subscription || !this.#active) {
        if (this.#host.targets.get(sid) === this) this.#host.targets.delete(sid);
      }
    });
  }

  /** A refused subscription is asked for again; it counts as refused until the server takes it. */
  retry(client: NatsClient): void {
    clearTimeout(this.#retryTimer);
    if (!this.#denied || !this.#active || client.connection.isClosed()) return;
    this.attach(client);
    const asked = this.#subscription;
    // The refusal comes before the PONG of this flush; a failed flush means a reconnect, and a retry.
    this.#host.flush().then(() => {
      if (this.#subscription !== asked || asked?.isClosed() !== false) return;
      this.#denied = false;
      this.#host.allowed(this.label);
    }, () => {});
  }

  /** Ends it after the messages that are on their way. Resolves when no more comes. */
  async drain(): Promise<void> {
    clearTimeout(this.#retryTimer);
    this.#host.ended(this);
    const subscription = this.#subscription;
    if (subscription === null || subscription.isClosed()) {
      this.#active = false;
    } else if (this.#host.connected()) {
      // Until the server has answered the UNSUB; if the link goes down first nothing more comes either.
      await Promise.race([subscription.drain(), this.#host.flush()]).catch(() => {});
      if (!subscription.isClosed()) subscription.unsubscribe();
      this.#active = false;
    } else {
      subscription.unsubscribe();
      this.#active = false;
    }
  }

  /** The link is closed. */
  forget(): void {
    clearTimeout(this.#retryTimer);
    this.#active = false;
  }

  /** The transport in use is not natsway's own. */
  #deliverWithoutLane(message: Msg): void {
    if (!this.#active) return;
    const { subject, data, reply } = message;
    try {
      this.#options.deliver(
        subject.slice(subject.lastIndexOf(".") + 1),
        data,
        reply ?? "",
        headerBlock(message),
      );
    } catch (error) {
      this.#host.handlerFailed(error);
    }
  }

  #refused(subscription: Subscription, error: Error): void {
    if (subscription !== this.#subscription || !this.#active) return;
    if (!this.#denied) this.#host.denied(this.label, error);
    this.#denied = true;
    this.#retryTimer = setTimeout(() => this.#host.askAgain(this), this.#host.retryDeniedMs);
  }
}

/** The header block as it came: nats-core keeps it in front of the payload. */
function headerBlock(message: Msg): Uint8Array | null {
  const { _msg, _rdata } = message as MsgImpl;
  return _msg.hdr > 0 ? _rdata.subarray(0, _msg.hdr) : null;
}
