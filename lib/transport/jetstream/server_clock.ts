/**
 * How old a stored message is, although the server's clock is not this machine's: a message of one's
 * own, published and read back, tells how far apart they are (extensions.md section 8).
 * @module
 */

import { errorText } from "../../errors.ts";
import type { Logger } from "../../logger.ts";
import type { NatsLink } from "../link.ts";
import { sleep } from "../sleep.ts";
import { backOffMs } from "./back_off.ts";
import type { Clock } from "./clock.ts";
import type { Management } from "./management.ts";

export interface ServerClockOptions {
  readonly link: NatsLink;
  readonly management: Management;
  readonly clock: Clock;
  readonly logger: Logger;
  /** Subjects of this process alone, of which the stream should take one; tried in turn. */
  readonly subjects: readonly string[];
}

interface Offset {
  /** Server time of monotonic zero. */
  readonly serverMinusMonoMs: number;
  /** What the two clocks of this machine were apart; if that changes one of them was set or slept. */
  readonly wallMinusMonoMs: number;
}

/** Both of the publish and of its answer; the mean is wrong by half of it at most. */
const MAX_ROUND_TRIP_MS = 2000;
const MAX_DRIFT_MS = 1000;
const FIRST_RETRY_MS = 500;
const MAX_RETRY_MS = 5000;

const decoder = new TextDecoder();

/** Knows nothing until the first measurement has ended. */
export class ServerClock {
  readonly #options: ServerClockOptions;
  #offset: Offset | null = null;
  #round = 0;
  #wake = Promise.withResolvers<void>();
  #running: Promise<void> = Promise.resolve();
  #closed = false;

  constructor(options: ServerClockOptions) {
    this.#options = options;
  }

  /** Time since a message was stored at `timeMs` of the server's clock, or null while unknown. */
  ageMs(timeMs: number): number | null {
    const offset = this.#offset;
    if (offset === null) return null;
    const { clock } = this.#options;
    const monoMs = clock.monoMs();
    const drift = clock.wallMs() - monoMs - offset.wallMinusMonoMs;
    if (Math.abs(drift) > MAX_DRIFT_MS) {
      this.measure();
      return null;
    }
    return Math.max(0, monoMs + offset.serverMinusMonoMs - timeMs);
  }

  /** What was known is void: measures again, for as long as it takes. */
  measure(): void {
    if (this.#closed) return;
    this.forget();
    const round = this.#round;
    const wake = this.#wake.promise;
    this.#running = this.#running.then(() => this.#measure(round, wake));
  }

  /** What was known is void, and nothing can be measured now. */
  forget(): void {
    this.#offset = null;
    this.#round++;
    this.#wake.resolve();
    this.#wake = Promise.withResolvers<void>();
  }

  /** Ends what is running. */
  async close(): Promise<void> {
    this.#closed = true;
    this.forget();
    await this.#running;
  }

  async #measure(round: number, wake: Promise<void>): Promise<void> {
    for (let failures = 0; round === this.#round; failures++) {
      if (failures > 0) await sleep(backOffMs(failures - 1, FIRST_RETRY_MS, MAX_RETRY_MS), wake);
      if (round !== this.#round) return;
      try {
        const offset = await this.#once();
        if (round === this.#round) this.#offset = offset;
        return;
      } catch (error) {
        if (failures === 3 && round === this.#round) {
          this.#options.logger.warn("cannot read the NATS server's clock: requests get no age", {
            error: errorText(error),
          });
        }
      }
    }
  }

  async #once(): Promise<Offset> {
    const { management, clock } = this.#options;
    const { seq, sentMs, answeredMs } = await this.#publish();
    if (answeredMs - sentMs > MAX_ROUND_TRIP_MS) throw new Error("the answer took too long");
    const stored = await management.message(seq);
    if (stored === null) throw new Error("the message is not in the stream");
    const monoMs = clock.monoMs();
    return {
      serverMinusMonoMs: stored.timeMs - (sentMs + answeredMs) / 2,
      wallMinusMonoMs: clock.wallMs() - monoMs,
    };
  }

  /** Publishes an empty message to the first subject that the stream takes. */
  async #publish(): Promise<{ seq: number; sentMs: number; answeredMs: number }> {
    const { link, clock, subjects } = this.#options;
    let failure: unknown = new Error("there is no subject for it");
    for (const subject of subjects) {
      try {
        const sentMs = clock.monoMs();
        const answer = await link.request(subject, new Uint8Array(0), {
          timeoutMs: MAX_ROUND_TRIP_MS,
        });
        const answeredMs = clock.monoMs();
        const { seq, error } = JSON.parse(decoder.decode(answer)) as {
          readonly seq?: number;
          readonly error?: { readonly description?: string };
        };
        if (typeof seq === "number") return { seq, sentMs, answeredMs };
        failure = new Error(error?.description ?? "the stream gave no sequence");
      } catch (error) {
        failure = error;
      }
    }
    throw failure;
  }
}
