/**
 * Makes the stream that both roles use, or brings its limits up to date (configuration.md section 5).
 * @module
 */
import {
  DiscardPolicy,
  JetStreamApiError,
  type JetStreamManager,
  jetstreamManager,
  RetentionPolicy,
  type StorageType,
  type StreamConfig,
} from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core";
import { errorText, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { NatsLink } from "./link.ts";
import type { LinkOptions } from "./link_dialer.ts";
import { sleep } from "./sleep.ts";

/** What the stream must be. */
export interface StreamPlan {
  readonly name: string;
  /** Without one that stands twice. */
  readonly subjects: readonly string[];
  readonly maxAgeMs: number;
  readonly maxBytes: number;
  readonly replicas: number;
  readonly storage: "file" | "memory";
}

export interface BootstrapOptions {
  readonly link: Omit<LinkOptions, "logger">;
  readonly apiPrefix: string;
  readonly plan: StreamPlan;
  /** So many attempts, with a pause after each. */
  readonly retries: number;
  readonly pauseMs: number;
  readonly logger: Logger;
  readonly signal: AbortSignal;
}

/** What was done. */
export type BootstrapResult = "created" | "unchanged" | "updated";

/** Longest wait for one answer of the JetStream API, in ms. */
const API_TIMEOUT_MS = 2000;
const NANOS_PER_MS = 1_000_000;
/** Error codes of the JetStream API (server/errors.json of nats-server). */
const STREAM_NOT_FOUND = 10059;
const NAME_IN_USE = 10058;
const SUBJECTS_OVERLAP = 10065;

/**
 * Waits for the server, then creates the stream, or changes the limits of the one that is there. Many
 * may do this at once. Messages are not touched, but for those that new limits leave no room for.
 * @throws {StartError} no server or no JetStream in time (names the URL); the stream has other
 * subjects; the server refuses it, or a change of it (names the field, the old and the new value)
 * @throws the signal's reason, when it was aborted
 */
export async function bootstrapStream(options: BootstrapOptions): Promise<BootstrapResult> {
  const link = new NatsLink({ ...options.link, logger: onlyDebug(options.logger) });
  const onAbort = () => void link.close();
  options.signal.addEventListener("abort", onAbort);
  try {
    return await new Bootstrap(options, link).run();
  } finally {
    options.signal.removeEventListener("abort", onAbort);
    await link.close();
  }
}

type Limits = Required<
  Pick<
    StreamConfig,
    "max_age" | "max_bytes" | "num_replicas" | "storage" | "retention" | "discard"
  >
>;

/** The setting behind each field. */
const SETTING_OF: Readonly<Record<keyof Limits, string | null>> = {
  max_age: "STREAM_MAX_AGE",
  max_bytes: "STREAM_MAX_BYTES",
  num_replicas: "STREAM_REPLICAS",
  storage: "STREAM_STORAGE",
  retention: null,
  discard: null,
};

class Bootstrap {
  readonly #options: BootstrapOptions;
  readonly #link: NatsLink;
  readonly #limits: Limits;

  constructor(options: BootstrapOptions, link: NatsLink) {
    this.#options = options;
    this.#link = link;
    const { maxAgeMs, maxBytes, replicas, storage } = options.plan;
    this.#limits = {
      max_age: maxAgeMs * NANOS_PER_MS,
      max_bytes: maxBytes,
      num_replicas: replicas,
      storage: storage as StorageType,
      retention: RetentionPolicy.Limits,
      discard: DiscardPolicy.Old,
    };
  }

  async run(): Promise<BootstrapResult> {
    const { retries, pauseMs, signal } = this.#options;
    const deadline = performance.now() + retries * pauseMs;
    let lastReason = "";
    for (;;) {
      signal.throwIfAborted();
      const startedAt = performance.now();
      if (this.#link.connected) {
        try {
          return await this.#ensure();
        } catch (error) {
          signal.throwIfAborted();
          if (error instanceof StartError) throw error;
          if (isFinal(error)) throw this.#failure(`the server refuses: ${errorText(error)}`);
          lastReason = errorText(error);
        }
      } else {
        lastReason = this.#link.status().lastError ?? "no answer";
      }
      if (performance.now() >= deadline) {
        const seconds = retries * pauseMs / 1000;
        throw this.#failure(`not ready within ${seconds} s: ${lastReason}`);
      }
      await this.#pause(startedAt + pauseMs - performance.now());
    }
  }

  /** Until the connection comes or goes, the end, or `ms` are over. */
  async #pause(ms: number): Promise<void> {
    const changed = new Promise<void>((resolve) => this.#link.onConnection(() => resolve()));
    const aborted = new Promise<void>((resolve) =>
      this.#options.signal.addEventListener("abort", () => resolve(), { once: true })
    );
    await sleep(Math.max(1, ms), Promise.race([changed, aborted]));
  }

  async #ensure(): Promise<BootstrapResult> {
    const { apiPrefix, plan, logger } = this.#options;
    const manager = await jetstreamManager(this.#link.connection as NatsConnection, {
      apiPrefix,
      checkAPI: false,
      timeout: API_TIMEOUT_MS,
    });
    const found = await this.#find(manager);
    if (found !== null) return await this.#adapt(manager, found);
    try {
      const subjects = [...plan.subjects];
      await manager.streams.add({ name: plan.name, subjects, ...this.#limits });
    } catch (error) {
      // Somebody else was faster, with other limits.
      const other = apiCode(error) === NAME_IN_USE ? await this.#find(manager) : null;
      if (other !== null) return await this.#adapt(manager, other);
      if (apiCode(error) === SUBJECTS_OVERLAP) throw await this.#overlap(manager);
      throw error;
    }
    logger.info("stream created", { stream: plan.name, subjects: plan.subjects.join(" ") });
    return "created";
  }

  async #find(manager: JetStreamManager): Promise<StreamConfig | null> {
    try {
      return (await manager.streams.info(this.#options.plan.name)).config;
    } catch (error) {
      if (apiCode(error) === STREAM_NOT_FOUND) return null;
      throw error;
    }
  }

  /** The limits as they should be; other subjects are never taken over in silence. */
  async #adapt(manager: JetStreamManager, found: StreamConfig): Promise<BootstrapResult> {
    const { plan, logger } = this.#options;
    const has = [...found.subjects ?? []].sort().join(", ");
    const wants = [...plan.subjects].sort().join(", ");
    if (has !== wants) {
      throw new StartError(
        `the stream ${plan.name} has the subjects ${
          has || "(none)"
        }, but NATS_REQUEST_SUBJECT_ROOT ` +
          `and NATS_RESPONSE_SUBJECT_ROOT ask for ${wants}: set the roots back, delete the stream, or ` +
          "set NATS_STREAM to another name",
      );
    }
    const keys = (Object.keys(this.#limits) as (keyof Limits)[])
      .filter((key) => found[key] !== this.#limits[key]);
    if (keys.length === 0) {
      logger.debug("the stream is as it should be", { stream: plan.name });
      return "unchanged";
    }
    const changes = keys.map((key) =>
      `${key} from ${shown(key, found[key])} to ${shown(key, this.#limits[key])}`
    );
    const windowNanos = Math.min(found.duplicate_window, this.#limits.max_age);
    try {
      await manager.streams.update(plan.name, { ...this.#limits, duplicate_window: windowNanos });
    } catch (error) {
      if (!isFinal(error)) throw error;
      const settings = keys.map((key) => SETTING_OF[key]).filter(Boolean).join(", ");
      throw new StartError(
        `the stream ${plan.name} cannot be changed (${changes.join(", ")}): ${errorText(error)}. ` +
          `${settings === "" ? "" : `Set ${settings} back, or `}delete the stream`,
        { cause: error },
      );
    }
    logger.info("stream limits changed", { stream: plan.name, changes: changes.join(", ") });
    return "updated";
  }

  /** Another stream takes messages on our subjects. */
  async #overlap(manager: JetStreamManager): Promise<StartError> {
    const names = new Set<string>();
    for (const subject of this.#options.plan.subjects) {
      for await (const name of manager.streams.names(subject)) names.add(name);
    }
    const { name, subjects } = this.#options.plan;
    return new StartError(
      `the stream ${name} cannot be created: ${[...names].join(", ")} takes the subjects ` +
        `${subjects.join(", ")} or some of them. Set NATS_STREAM to it, or delete it`,
    );
  }

  #failure(reason: string): StartError {
    const servers = this.#options.link.servers
      .map(({ scheme, authority }) => `${scheme}://${authority}`).join(", ");
    return new StartError(
      `the stream ${this.#options.plan.name} cannot be set up at ${servers}: ${reason}`,
    );
  }
}

/** Whether asking again cannot help: 5xx codes of that kind pass, as an election does. */
function isFinal(error: unknown): boolean {
  return error instanceof JetStreamApiError && error.code !== 503;
}

function apiCode(error: unknown): number {
  return error instanceof JetStreamApiError ? error.apiError().err_code : 0;
}

function shown(key: keyof Limits, value: unknown): string {
  if (key !== "max_age") return String(value);
  return value === 0 ? "unlimited" : `${Number(value) / NANOS_PER_MS / 1000} s`;
}

/** The service's own link says the same once more, for the reader of the log. */
function onlyDebug(logger: Logger): Logger {
  const debug = (message: string, fields?: Parameters<Logger["debug"]>[1]) =>
    logger.debug(message, fields);
  return {
    debug,
    info: debug,
    warn: debug,
    error: debug,
    enabled: (level) => logger.enabled(level),
  };
}
