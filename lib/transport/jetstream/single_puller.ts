/**
 * Pulls a plane through the API of another account (wire-protocol.md section 1.1). The service import
 * there lets one answer to each request through, so each pull asks for one message, without
 * heartbeats, and several are open at a time: more when messages come, fewer when none do.
 * @module
 */

import type { PlanePullerOptions } from "./plane_puller.ts";
import { PullInbox, SHORT_EXPIRES_MS } from "./pull_inbox.ts";
import { PullLife } from "./pull_life.ts";
import type { PullStatus } from "./pull_status.ts";

const MIN_OPEN = 2;
const MAX_OPEN = 128;
const MAX_REFUSALS = 5;

const ACK = [new TextEncoder().encode("+ACK")];

/** Works from the constructor on, until `stop`. */
export class SinglePuller {
  readonly #options: PlanePullerOptions;
  readonly #inbox: PullInbox;
  readonly #life: PullLife;
  #open = 0;
  #wanted = MIN_OPEN;
  /** Messages since a pull ended empty. */
  #streak = 0;

  constructor(options: PlanePullerOptions) {
    this.#options = options;
    this.#life = new PullLife({
      mostRefusals: MAX_REFUSALS,
      again: () => this.#refill(),
      onGone: options.onGone,
    });
    this.#inbox = new PullInbox({
      link: options.link,
      label: options.label,
      pullSubject: options.pullSubject,
      expiresMs: SHORT_EXPIRES_MS,
      heartbeats: false,
      onMessage: (token, data, ackSubject, headers) =>
        this.#message(token, data, ackSubject, headers),
      onStatus: (_number, status) => this.#status(status),
      onSilence: () => this.#life.gone("the server does not answer pulls"),
      waiting: () => this.#open > 0,
    });
    this.#refill();
  }

  /** Ends it; resolves when no more comes. */
  async stop(): Promise<void> {
    this.#life.end();
    await this.#inbox.close();
  }

  #message(
    token: string,
    data: Uint8Array,
    ackSubject: string,
    headers: Uint8Array | null,
  ): void {
    this.#open--;
    this.#life.served();
    // As many in a row as were open: the server had to wait for the next pull.
    if (++this.#streak >= this.#wanted) {
      this.#streak = 0;
      this.#wanted = Math.min(MAX_OPEN, this.#wanted * 2);
    }
    try {
      this.#options.handler({ token, data, reply: "", headers });
    } finally {
      this.#options.link.publish(ackSubject, ACK);
      this.#refill();
    }
  }

  #status(status: Exclude<PullStatus, { kind: "heartbeat" }>): void {
    if (status.kind === "gone") return this.#life.gone(status.text);
    this.#open--;
    this.#streak = 0;
    this.#wanted = Math.max(MIN_OPEN, Math.floor(this.#wanted / 2));
    if (status.kind === "ended") return this.#refill();
    this.#life.refused(status);
  }

  #refill(): void {
    if (this.#life.resting) return;
    while (this.#open < this.#wanted) {
      if (this.#inbox.pull({ messages: 1 }) === 0) return;
      this.#open++;
    }
  }
}
