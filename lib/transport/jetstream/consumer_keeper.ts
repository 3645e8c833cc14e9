/**
 * Keeps one consumer in service: looks for it at start, after each reconnect and whenever its pulls
 * say that it is gone; makes it when it is not there; tries on until it is.
 * @module
 */

import type { Logger } from "../../logger.ts";
import { sleep } from "../sleep.ts";
import { backOffMs } from "./back_off.ts";
import { type Adoption, filterOf, type SentConfig } from "./consumer_configs.ts";
import { chooseFilter, overlaps } from "./filters.ts";
import { apiFailure, type ConsumerInfo, type Management } from "./management.ts";
import type { StreamWatch } from "./stream_watch.ts";

/** Something that takes the consumer's messages until it is stopped. */
export interface Pulling {
  stop(): Promise<void>;
}

export interface ConsumerKeeperOptions {
  readonly management: Management;
  readonly streamWatch: StreamWatch;
  readonly logger: Logger;
  readonly stream: string;
  readonly consumer: string;
  /** Subject of the plane as it is published. */
  readonly subject: string;
  /** Config for a new one. */
  readonly config: (filter: string) => SentConfig;
  /** Judges one that is there, or null for a consumer that is this process's own. */
  readonly adopt: ((found: SentConfig) => Adoption) | null;
  /** Begins to pull; `gone` is called when the consumer has to be looked at. */
  readonly open: (info: ConsumerInfo, filter: string, gone: (reason: string) => void) => Pulling;
  /** A refused durable was found in the first look: nothing this process does will help. */
  readonly onRefused: (reason: string) => void;
  /** `notReady` has changed. */
  readonly onChange: () => void;
}

const FIRST_BACK_OFF_MS = 250;
const MAX_BACK_OFF_MS = 2000;
const GIVE_UP_AFTER = 2;

/** See the module. It does nothing before `connected` is called for the first time. */
export class ConsumerKeeper {
  readonly #options: ConsumerKeeperOptions;
  #pulling: Pulling | null = null;
  /** Counts connections and looks: what an older look finds is not used. */
  #round = 0;
  #failures = 0;
  #wake = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();
  #everReady = false;
  #openedMs = 0;
  /** Looks in a row in which the stream answered and the consumer did not. */
  #unheard = 0;
  #closed = false;
  #notReady: string | null;
  #warned = "";

  constructor(options: ConsumerKeeperOptions) {
    this.#options = options;
    this.#notReady = this.#because("has not been looked for yet");
  }

  /** Why the consumer is not in service, with its name and the stream's, or null. */
  get notReady(): string | null {
    return this.#notReady;
  }

  /** The link is up: look for the consumer. */
  connected(): void {
    this.#failures = 0;
    this.#look();
  }

  /** The link is down: pulls are void. */
  disconnected(): void {
    this.#round++;
    this.#wake.resolve();
    void this.#stopPulling();
    // The link has told of it already.
    this.#set(this.#because("is out of reach: not connected to NATS"), "debug");
  }

  /** Ends it; the consumer stays, for the server to remove after its time. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#round++;
    this.#wake.resolve();
    await this.#stopPulling();
    await this.#running;
  }

  #look(): void {
    const round = ++this.#round;
    this.#wake.resolve();
    this.#wake = Promise.withResolvers<void>();
    const wake = this.#wake.promise;
    this.#running = this.#running.then(() => this.#find(round, wake));
  }

  async #find(round: number, wake: Promise<void>): Promise<void> {
    while (round === this.#round) {
      if (this.#failures > 0) {
        await sleep(backOffMs(this.#failures - 1, FIRST_BACK_OFF_MS, MAX_BACK_OFF_MS), wake);
        if (round !== this.#round) return;
      }
      const reason = await this.#try(round);
      if (reason === null || round !== this.#round) return;
      this.#set(reason);
      this.#failures++;
    }
  }

  /** One look; null when the consumer is in service, or when the look is out of date. */
  async #try(round: number): Promise<string | null> {
    let found: { readonly info: ConsumerInfo; readonly filter: string } | string;
    try {
      found = await this.#ensure();
    } catch (error) {
      const { kind, text } = apiFailure(error);
      found = kind === "stream_not_found"
        ? this.#because("cannot be used: there is no such stream")
        : this.#because(`cannot be used: ${text}`);
    }
    if (round !== this.#round) return null;
    if (typeof found === "string") return found;
    const { info, filter } = found;
    this.#everReady = true;
    this.#openedMs = performance.now();
    this.#pulling = this.#options.open(info, filter, (reason) => {
      if (round === this.#round) this.#lost(reason);
    });
    this.#set(null);
    return null;
  }

  async #ensure(): Promise<{ info: ConsumerInfo; filter: string } | string> {
    const { management, streamWatch, stream, consumer, subject, adopt, config } = this.#options;
    const { subjects, num_replicas } = (await streamWatch.info()).config;
    const choice = chooseFilter(subject, stream, subjects ?? []);
    if (choice.kind === "none") return this.#because(`would get nothing: ${choice.reason}`);
    const existing = await this.#existing();
    if (existing === null) {
      const info = await management.createConsumer({ ...config(choice.filter), num_replicas });
      return leader(info) ? { info, filter: choice.filter } : this.#because("has no leader yet");
    }
    if (!leader(existing)) return this.#because("has no leader");
    const filter = filterOf(existing.config);
    if (adopt === null) {
      if (filter === choice.filter && !existing.config.deliver_subject) {
        return { info: existing, filter };
      }
      await management.deleteConsumer(consumer);
      return {
        info: await management.createConsumer({ ...config(choice.filter), num_replicas }),
        filter: choice.filter,
      };
    }
    const adoption = adopt(existing.config);
    if (adoption.kind === "refuse") {
      if (!this.#everReady) this.#options.onRefused(adoption.reason);
      return adoption.reason;
    }
    const taken = subjects ?? [];
    if (filter === null || !taken.some((one) => overlaps(one, filter))) {
      return this.#because(
        `has the filter ${filter}, of which the stream with subjects ${taken.join(", ")} takes ` +
          "nothing: delete the consumer, or change the stream's subjects",
      );
    }
    this.#warnOfDifferences(adoption.differences);
    return { info: existing, filter };
  }

  /**
   * The consumer, or null when it is not there. One of this process's own lives on one server of a
   * cluster: if nothing is heard of it twice it is given up with that server, and made elsewhere.
   */
  async #existing(): Promise<ConsumerInfo | null> {
    const { management, consumer, adopt } = this.#options;
    try {
      const info = await management.consumerInfo(consumer);
      const heard = leader(info) || adopt !== null;
      if (heard) this.#unheard = 0;
      if (heard || ++this.#unheard < GIVE_UP_AFTER) return info;
    } catch (error) {
      const { kind } = apiFailure(error);
      if (kind === "consumer_not_found") {
        this.#unheard = 0;
        return null;
      }
      if (adopt !== null || ++this.#unheard < GIVE_UP_AFTER) throw error;
    }
    try {
      await management.deleteConsumer(consumer);
    } catch (error) {
      // The server that would say so is the one that is lost.
      if (apiFailure(error).kind !== "timeout") throw error;
    }
    this.#unheard = 0;
    return null;
  }

  #lost(reason: string): void {
    // One that is there and cannot be pulled from is not to be asked without a pause.
    const lasted = performance.now() - this.#openedMs > MAX_BACK_OFF_MS;
    this.#failures = lasted ? 0 : this.#failures + 1;
    void this.#stopPulling();
    this.#set(this.#because(`is being looked for: ${reason}`));
    this.#look();
  }

  async #stopPulling(): Promise<void> {
    const pulling = this.#pulling;
    this.#pulling = null;
    await pulling?.stop();
  }

  #because(text: string): string {
    const { stream, consumer } = this.#options;
    return `consumer ${consumer} of stream ${stream} ${text}`;
  }

  #set(reason: string | null, level: "debug" | "warn" = "warn"): void {
    if (this.#closed || reason === this.#notReady) return;
    this.#notReady = reason;
    const { logger, stream, consumer } = this.#options;
    if (reason === null) logger.info("JetStream consumer in service", { stream, consumer });
    else logger[level]("JetStream consumer not in service", { stream, consumer, error: reason });
    this.#options.onChange();
  }

  #warnOfDifferences(differences: readonly string[]): void {
    const text = differences.join("; ");
    if (text === "" || text === this.#warned) return;
    this.#warned = text;
    const { logger, stream, consumer } = this.#options;
    logger.warn("the JetStream consumer has other limits than its receivers would set", {
      stream,
      consumer,
      detail: text,
    });
  }
}

/** Whether the consumer can answer: without a cluster it always can. */
function leader(info: ConsumerInfo): boolean {
  return info.cluster === undefined || (info.cluster.leader ?? "") !== "";
}
