/**
 * Keeps a SERVICE_ID to one live process.
 *
 * A process that starts asks all others with its claim, and those with the same SERVICE_ID answer with
 * theirs. Each subscribes before it asks, so of two that start together at least one hears the other,
 * and both decide alike ({@linkcode givesWay}). Who has asked for {@linkcode LATE_ANSWER_MS} without
 * giving way is settled and stays, whatever the clock of a newcomer says.
 * @module
 */
import type { Logger } from "../logger.ts";
import { type Claim, givesWay, type Identity } from "./presence_messages.ts";
import { sleep } from "./sleep.ts";

/** How long a start waits for another process with the same SERVICE_ID to answer. */
export const UNIQUE_WINDOW_MS = 250;
/** For so long answers count. */
export const LATE_ANSWER_MS = 3000;
/** Questions in the window, the first at its start: servers learn of new subscriptions bit by bit. */
const QUESTIONS = 2;
/** And one more, so long after the window. */
const LAST_QUESTION_MS = 1000;
/** Others with the SERVICE_ID that are remembered, so that each is logged once. */
const MOST_RIVALS = 100;

/** What a claim needs of the way to the others. */
export interface ClaimChannel {
  readonly connections: number;
  readonly allowed: boolean;
  connected(): Promise<void>;
}

export interface ServiceClaimOptions {
  readonly identity: Identity;
  readonly logger: Logger;
  readonly channel: ClaimChannel;
  /** Whether the link is up. */
  readonly isConnected: () => boolean;
  /** A round trip: what the server refuses is known after it. */
  readonly flush: () => Promise<void>;
  /** Asks the others with this claim. */
  readonly ask: (claim: Claim) => void;
  /** This process gives way. `late`: after `check` had resolved. */
  readonly onLost: (duplicate: Identity, late: boolean) => void;
}

/** The claim of one process to its SERVICE_ID. */
export class ServiceClaim {
  readonly #options: ServiceClaimOptions;
  readonly #over = Promise.withResolvers<void>();
  readonly #rivals = new Set<string>();
  #isOver = false;
  #checked = false;
  #settled = false;
  #lostTo: Identity | null = null;

  constructor(options: ServiceClaimOptions) {
    this.#options = options;
  }

  /** As it is told to others. */
  get claim(): Claim {
    return { ...this.#options.identity, settled: this.#settled };
  }

  /** Whether `claim` is of another process with this SERVICE_ID. */
  rivals(claim: Claim): boolean {
    const { serviceId, instance } = this.#options.identity;
    return claim.serviceId === serviceId && claim.instance !== instance;
  }

  /**
   * Resolves `windowMs` after the connection with null, or with the other process as soon as this one has
   * to give way. A connection that ends in the window is no answer: the next one counts.
   */
  async check(windowMs: number): Promise<Identity | null> {
    const { channel, ask, flush, isConnected } = this.#options;
    const over = this.#over.promise;
    let connection: number;
    do {
      await Promise.race([channel.connected(), over]);
      connection = channel.connections;
      await Promise.race([flush().catch(() => {}), over]);
      for (let i = 0; i < QUESTIONS && channel.allowed && !this.#isOver; i++) {
        ask(this.claim);
        await sleep(windowMs / QUESTIONS, over);
      }
    } while (!this.#isOver && (connection !== channel.connections || !isConnected()));
    this.#checked = true;
    if (!this.#isOver) void this.#settle();
    return this.#lostTo;
  }

  /** A connection after an outage: who started meanwhile could not hear this process. */
  reconnected(): void {
    if (this.#checked && !this.#isOver) this.#options.ask(this.claim);
  }

  /** A process with the SERVICE_ID has asked or answered. */
  heard(claim: Claim): void {
    if (this.#isOver || !this.rivals(claim)) return;
    if (this.#settled) {
      this.#report(claim);
    } else if (givesWay(this.claim, claim)) {
      this.#lostTo = claim;
      this.stop();
      this.#options.onLost(claim, this.#checked);
    }
  }

  /** Ends all waiting. */
  stop(): void {
    this.#isOver = true;
    this.#over.resolve();
  }

  async #settle(): Promise<void> {
    await sleep(LAST_QUESTION_MS, this.#over.promise);
    if (this.#isOver) return;
    this.#options.ask(this.claim);
    await sleep(LATE_ANSWER_MS - LAST_QUESTION_MS, this.#over.promise);
    this.#settled = true;
  }

  #report(rival: Claim): void {
    if (this.#rivals.has(rival.instance) || this.#rivals.size >= MOST_RIVALS) return;
    this.#rivals.add(rival.instance);
    const fields = { rival: rival.instance, rival_role: rival.role, rival_host: rival.host };
    if (rival.settled) {
      this.#options.logger.error(
        "another process works with the same SERVICE_ID: stop one of them",
        fields,
      );
    } else {this.#options.logger.warn(
        "a process with the same SERVICE_ID started and is refused",
        fields,
      );}
  }
}
