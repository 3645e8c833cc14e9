/**
 * Keeps an embedded nats-server running: one that ends is started again, within bounds.
 * @module
 */
import { errorText } from "../errors.ts";
import { type EmbeddedServer, startNatsServer, type StartOptions } from "./server.ts";
import { formatAddress, parseListen } from "./server_config.ts";

/** A server that comes back when it ends. */
export interface KeptServer {
  /** The server of now, or the last one that there was; its address stays the same. */
  readonly current: EmbeddedServer;
  /** Resolves when it cannot be kept running: a message for the operator. */
  readonly failed: Promise<string>;
  /** Ends it for good; resolves when the process is gone. More calls wait too. */
  stop(): Promise<void>;
}

export interface KeepOptions extends StartOptions {
  /** Ends that are mended within `windowMs`; one more is a failure. @default {5} */
  restarts?: number;
  /** @default {60000} */
  windowMs?: number;
  /** Pause before the first start anew, in ms; it doubles with each one in the window. @default {250} */
  firstPauseMs?: number;
  /** Called when a server is there again, before natsway relies on it. A rejection is a failure. */
  onRestart?: (signal: AbortSignal) => Promise<void>;
}

const RESTARTS = 5;
const WINDOW_MS = 60_000;
const FIRST_PAUSE_MS = 250;

/**
 * Starts a server and starts it anew on the same address when it ends without `stop`.
 * @throws {StartError} as {@link startNatsServer}: what cannot start the first time is not tried again
 */
export async function keepNatsServer(options: KeepOptions): Promise<KeptServer> {
  const first = await startNatsServer(options);
  return new Keeper(options, first);
}

class Keeper implements KeptServer {
  readonly #options: KeepOptions;
  readonly #abort = new AbortController();
  readonly #failed = Promise.withResolvers<string>();
  readonly #running: Promise<void>;
  #current: EmbeddedServer;
  /** When a server ended or a start anew failed, within the window. */
  #ends: number[] = [];

  constructor(options: KeepOptions, first: EmbeddedServer) {
    this.#options = options;
    this.#current = first;
    this.#running = this.#run();
  }

  get current(): EmbeddedServer {
    return this.#current;
  }

  get failed(): Promise<string> {
    return this.#failed.promise;
  }

  async stop(): Promise<void> {
    this.#abort.abort();
    await this.#running;
    await this.#current.stop();
  }

  async #run(): Promise<void> {
    const { signal } = this.#abort;
    const stopped = new Promise<null>((resolve) => {
      signal.addEventListener("abort", () => resolve(null));
    });
    for (;;) {
      let reason = await Promise.race([this.#current.died, stopped]);
      if (reason === null) return;
      for (;;) {
        const pauseMs = this.#pauseFor(reason);
        if (pauseMs === null) return;
        this.#options.logger.error(reason, { restart_in_ms: pauseMs });
        await within(pauseMs, stopped);
        if (signal.aborted) return;
        try {
          this.#current = await startNatsServer({ ...this.#sameAddress(), signal });
          break;
        } catch (error) {
          if (signal.aborted) return;
          reason = errorText(error);
        }
      }
      if (!await this.#restarted()) return;
    }
  }

  /** How long to wait before the next start; `null` when it was the last. */
  #pauseFor(reason: string): number | null {
    const { restarts = RESTARTS, windowMs = WINDOW_MS, firstPauseMs = FIRST_PAUSE_MS } =
      this.#options;
    const now = performance.now();
    this.#ends = [...this.#ends.filter((at) => now - at < windowMs), now];
    const count = this.#ends.length;
    if (count <= restarts) return firstPauseMs * 2 ** (count - 1);
    this.#failed.resolve(
      `the embedded nats-server does not stay up: it ended ${count} times in ` +
        `${windowMs / 1000} s. The last time: ${reason}`,
    );
    return null;
  }

  /** The server must be found where it was: a free port was only looked for once. */
  #sameAddress(): StartOptions {
    const { port } = this.#current;
    const { given, listen } = this.#options;
    if (given) return { ...this.#options, given: { ...given, port } };
    return { ...this.#options, listen: formatAddress({ host: parseListen(listen).host, port }) };
  }

  async #restarted(): Promise<boolean> {
    try {
      await this.#options.onRestart?.(this.#abort.signal);
      return true;
    } catch (error) {
      if (this.#abort.signal.aborted) return false;
      this.#failed.resolve(errorText(error));
      return false;
    }
  }
}

/** Until `done`, or `ms` are over. */
async function within(ms: number, done: Promise<unknown>): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<void>((resolve) => {
    timer = setTimeout(resolve, ms);
  });
  await Promise.race([done, late]);
  clearTimeout(timer);
}
