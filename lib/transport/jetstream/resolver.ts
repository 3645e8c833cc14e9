/**
 * Which backend carries the messages (configuration.md section 2.1): decided once per process, since
 * both sides of a bridge must agree and a change would split it.
 * @module
 */

import { errorText } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import type { NatsLink } from "../link.ts";
import { sleep } from "../sleep.ts";
import { backOffMs } from "./back_off.ts";
import { type ApiFailure, apiFailure, type Management } from "./management.ts";

/** NATS_MODE. */
export type NatsMode = "core" | "jetstream" | "auto";

/** What the question for the stream brought. */
export type StreamAnswer = "info" | ApiFailure;

export interface Resolution {
  readonly backend: "core" | "jetstream";
  /** Why, for logs and pages. */
  readonly reason: string;
}

/** A backend, or why it cannot be known yet. */
export type Decision =
  | { readonly kind: "resolved"; readonly resolution: Resolution }
  | { readonly kind: "ask_again"; readonly reason: string };

/** Named by the settings themselves: nothing has to be asked. Null in `auto`. */
export function fixedBackend(mode: NatsMode): Resolution | null {
  return mode === "auto" ? null : { backend: mode, reason: `NATS_MODE=${mode}` };
}

/** What `auto` makes of an answer: only a sure one decides, since a wrong guess would hold for good. */
export function decideBackend(stream: string, answer: StreamAnswer): Decision {
  const resolved = (backend: "core" | "jetstream", why: string): Decision => ({
    kind: "resolved",
    resolution: { backend, reason: `NATS_MODE=auto: ${why}` },
  });
  if (answer === "info") return resolved("jetstream", `stream ${stream} is there`);
  switch (answer.kind) {
    case "stream_not_found":
      return resolved("core", `there is no stream ${stream}`);
    case "not_enabled":
      return resolved("core", "JetStream is not enabled for the account");
    case "no_responders":
      return resolved("core", "the server has no JetStream");
    case "consumer_not_found":
    case "timeout":
    case "other":
      return {
        kind: "ask_again",
        reason: `cannot tell yet whether stream ${stream} is there: ${answer.text}`,
      };
  }
}

export interface BackendResolverOptions {
  readonly link: NatsLink;
  readonly management: Management;
  readonly logger: Logger;
  readonly stream: string;
  /** Called once. */
  readonly onResolved: (resolution: Resolution) => void;
}

const FIRST_BACK_OFF_MS = 250;
const MAX_BACK_OFF_MS = 2000;

/** Asks until the answer is a sure one, over all reconnects. */
export class BackendResolver {
  readonly #options: BackendResolverOptions;
  readonly #running: Promise<void>;
  #reason: string;
  #wake = Promise.withResolvers<void>();
  #closed = false;
  #failures = 0;

  constructor(options: BackendResolverOptions) {
    this.#options = options;
    this.#reason = `asking whether stream ${options.stream} is there`;
    options.link.onConnection(() => this.#again());
    this.#running = this.#run();
  }

  /** Why it is not resolved yet. */
  get reason(): string {
    return this.#reason;
  }

  /** Ends the asking; nothing is resolved any more. */
  async close(): Promise<void> {
    this.#closed = true;
    this.#wake.resolve();
    await this.#running;
  }

  #again(): void {
    this.#failures = 0;
    this.#wake.resolve();
  }

  async #run(): Promise<void> {
    const { link, logger, stream, onResolved } = this.#options;
    while (!this.#closed) {
      this.#wake = Promise.withResolvers<void>();
      const wake = this.#wake.promise;
      if (!link.connected) {
        await wake;
        continue;
      }
      const decision = decideBackend(stream, await this.#ask());
      if (this.#closed) return;
      if (decision.kind === "resolved") {
        const { backend, reason } = decision.resolution;
        logger.info("NATS backend resolved; the other side of the bridge must have the same", {
          backend,
          detail: reason,
        });
        return onResolved(decision.resolution);
      }
      if (decision.reason !== this.#reason) {
        this.#reason = decision.reason;
        logger.warn("NATS backend not resolved yet", { error: decision.reason });
      }
      await sleep(backOffMs(this.#failures++, FIRST_BACK_OFF_MS, MAX_BACK_OFF_MS), wake);
    }
  }

  async #ask(): Promise<StreamAnswer> {
    try {
      await this.#options.management.streamInfo();
      return "info";
    } catch (error) {
      const failure = apiFailure(error);
      // A question that was cut off by a reconnect says nothing.
      if (this.#options.link.connected) return failure;
      return { kind: "other", text: errorText(error) };
    }
  }
}
