/**
 * The subscriptions of presence. They are nats-core's own and no planes of a role: a server that refuses
 * them takes nothing from what the role carries.
 * @module
 */
import { type Msg, PermissionViolationError, type Subscription } from "@nats-io/nats-core/internal";
import { errorText } from "../errors.ts";
import type { Logger } from "../logger.ts";
import type { NatsLink } from "./link.ts";

/** One subject to listen on. */
export interface ChannelSubject {
  readonly subject: string;
  /** Listened on while the process drains, too. */
  readonly kept: boolean;
  /** The message's data is a view that ends with the call. */
  readonly handler: (message: Msg) => void;
}

export interface ChannelOptions {
  readonly link: NatsLink;
  readonly logger: Logger;
  readonly subjects: readonly ChannelSubject[];
  /** Subscriptions are on their way to the server. `again`: not the first connection. */
  readonly onConnected: (again: boolean) => void;
}

interface Listening {
  readonly subscription: Subscription;
  readonly kept: boolean;
}

/** Subscribes at each connection. What the server refuses turns it off until the next one. */
export class PresenceChannel {
  readonly #options: ChannelOptions;
  #subjects: readonly ChannelSubject[];
  #listening: Listening[] = [];
  #client: NatsLink["connection"] | null = null;
  #connections = 0;
  #waiters: (() => void)[] = [];
  #refused = false;
  #mayAsk = true;
  #toldRefusal = false;
  #started = false;

  constructor(options: ChannelOptions) {
    this.#options = options;
    this.#subjects = options.subjects;
  }

  /** Counts connections: what was published on an earlier one may never have arrived. */
  get connections(): number {
    return this.#connections;
  }

  /** Whether the server takes the subscriptions and, as far as is known, the questions. */
  get allowed(): boolean {
    return !this.#refused && this.#mayAsk;
  }

  start(): void {
    if (this.#started) return;
    this.#started = true;
    const { link } = this.#options;
    link.onConnection((connected) => {
      if (connected) this.#connected();
    });
    if (link.connected) this.#connected();
  }

  /** Resolves with the first connection, and at `stop`. */
  connected(): Promise<void> {
    if (this.#subjects.length === 0) return Promise.resolve();
    if (this.#connections > 0 && this.#options.link.connected) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  /** Publishes a question; nothing while that is not possible. Never throws. */
  ask(subject: string, data: Uint8Array, reply: string): void {
    if (!this.allowed) return;
    this.#guard(subject, () => this.#options.link.publish(subject, [data], { reply }));
  }

  /** Answers where a message asks for it. Nobody may have a process publish to a system subject. */
  answer(message: Msg, data: Uint8Array): void {
    const { reply } = message;
    if (reply && !reply.startsWith("$")) this.#options.link.publish(reply, [data]);
  }

  /** Leaves all that is not kept. */
  drain(): void {
    this.#subjects = this.#subjects.filter((one) => one.kept);
    this.#leave((one) => !one.kept);
  }

  /** Leaves everything, for good. */
  stop(): void {
    this.#subjects = [];
    this.#leave(() => true);
    this.#wake();
  }

  #connected(): void {
    if (this.#subjects.length === 0) return;
    const again = ++this.#connections > 1;
    const { connection } = this.#options.link;
    this.#mayAsk = true;
    // nats-core repeats its subscriptions after its own reconnects, but for those that were refused.
    if (this.#client !== connection || this.#refused) this.#subscribe(connection);
    this.#options.onConnected(again);
    this.#wake();
  }

  #wake(): void {
    for (const resume of this.#waiters.splice(0)) resume();
  }

  #subscribe(client: NatsLink["connection"]): void {
    this.#leave(() => true);
    this.#refused = false;
    if (this.#client !== client) void this.#watch(client);
    this.#client = client;
    for (const { subject, kept, handler } of this.#subjects) {
      const subscription = client.subscribe(subject, {
        callback: (error, message) => {
          if (error !== null) this.#refuse(subscription, error);
          else this.#guard(subject, () => handler(message));
        },
      });
      this.#listening.push({ subscription, kept });
    }
  }

  #leave(which: (one: Listening) => boolean): void {
    const leaving = this.#listening.filter(which);
    this.#listening = this.#listening.filter((one) => !which(one));
    for (const { subscription } of leaving) {
      if (!subscription.isClosed()) subscription.unsubscribe();
    }
  }

  /** What presence cannot do is no failure, and an exception must not reach nats-core's parser. */
  #guard(subject: string, action: () => void): void {
    try {
      action();
    } catch (error) {
      this.#options.logger.debug("presence failed", { subject, error: errorText(error) });
    }
  }

  #refuse(subscription: Subscription, error: Error): void {
    if (!this.#listening.some((one) => one.subscription === subscription)) return;
    this.#refused = true;
    this.#tell(errorText(error));
    // nats-core is about to close this one itself.
    queueMicrotask(() => {
      if (this.#refused) this.#leave(() => true);
    });
  }

  /** Learns that questions are refused; ends with the client. */
  async #watch(client: NatsLink["connection"]): Promise<void> {
    for await (const event of client.status()) {
      if (event.type !== "error" || !(event.error instanceof PermissionViolationError)) continue;
      const { operation, subject } = event.error;
      if (operation !== "publish" || !subject.startsWith("$SRV.")) continue;
      this.#mayAsk = false;
      this.#tell(errorText(event.error));
    }
  }

  #tell(error: string): void {
    if (this.#toldRefusal) return;
    this.#toldRefusal = true;
    this.#options.logger.info("presence needs $SRV.> and _INBOX.> of the NATS server", { error });
  }
}
