/**
 * Runs one role as a process: embedded nats-server, signals, exit code.
 * @module
 */
import { formatHostPort, natsAddress } from "./config/addresses.ts";
import type { Config } from "./config/settings.ts";
import { startEmbedded } from "./embedded/embedded.ts";
import type { KeptServer } from "./embedded/keeper.ts";
import type { ClientListener } from "./embedded/ports_file.ts";
import { ExitCode } from "./errors.ts";
import type { Logger } from "./logger.ts";
import { ensureStream } from "./service/bootstrap.ts";
import { Service } from "./service/service.ts";
import { untilSignal } from "./signals.ts";

/**
 * Runs a role until a signal ends it: the first SIGINT or SIGTERM stops it in order, the second at once.
 * @returns the exit code
 * @throws {StartError} it cannot start
 */
export async function runService(config: Config, logger: Logger): Promise<number> {
  // Before anything runs: a signal while starting must end what has begun.
  const signal = untilSignal();
  const own = new OwnServer(config, logger);
  try {
    const settings = config.embeddedNatsEnabled
      ? await unlessSignalled(signal.first, (abort) => own.start(abort))
      : config;
    if (settings === null) return ExitCode.Ok;
    return await serve(new Service(settings, logger), own, signal, logger);
  } finally {
    await own.stop();
    signal.release();
  }
}

/** The embedded nats-server of this process with the stream on it, where the settings ask for them. */
class OwnServer {
  readonly #config: Config;
  readonly #logger: Logger;
  #server: KeptServer | null = null;

  constructor(config: Config, logger: Logger) {
    this.#config = config;
    this.#logger = logger;
  }

  /** @returns the settings with the addresses that the server really has */
  async start(signal: AbortSignal): Promise<Config> {
    this.#server = await startEmbedded({
      config: this.#config,
      logger: this.#logger,
      isTerminal: Deno.stderr.isTerminal(),
      onProgress: (text) => Deno.stderr.writeSync(new TextEncoder().encode(text)),
      // What was in memory is gone with the server.
      onRestart: (abort) => ensureStream(settings, this.#logger, abort),
      signal,
    });
    const settings = withAddress(this.#config, this.#server.current.address);
    await ensureStream(settings, this.#logger, signal);
    return settings;
  }

  /** Resolves when the server cannot be kept running; never when there is none. */
  get failed(): Promise<string> {
    return this.#server?.failed ?? NEVER;
  }

  async stop(): Promise<void> {
    await this.#server?.stop();
  }
}

/** The settings with the client listener of the server that runs in place of the one that was meant. */
function withAddress(config: Config, { scheme, hostname, port }: ClientListener): Config {
  const authority = formatHostPort(hostname, port);
  return {
    ...config,
    natsUrls: config.natsUrls.map((url) =>
      url.embedded ? { ...natsAddress(hostname, port), scheme } : url
    ),
    embeddedNatsListen: { hostname, port, authority },
  };
}

/** What `start` resolves to, or null when the signal came first and ended it. */
async function unlessSignalled<T>(
  signalled: Promise<void>,
  start: (abort: AbortSignal) => Promise<T>,
): Promise<T | null> {
  const abort = new AbortController();
  let aborted = false;
  signalled.then(() => {
    aborted = true;
    abort.abort();
  });
  try {
    return await start(abort.signal);
  } catch (error) {
    if (aborted) return null;
    throw error;
  }
}

async function serve(
  service: Service,
  own: OwnServer,
  signal: ReturnType<typeof untilSignal>,
  logger: Logger,
): Promise<number> {
  const died = own.failed.then((message) => {
    logger.error(message);
    return ExitCode.CannotStart;
  });
  const failed = service.failed.then((error) => {
    logger.error(error.message);
    return ExitCode.CannotStart;
  });
  const early = await Promise.race([died, failed, signal.first.then(() => null)]);
  if (early !== null) {
    await service.stop(0);
    return early;
  }
  const stopped = service.stop().then(() => ExitCode.Ok);
  const atOnce = signal.second.then(async () => {
    logger.warn("second signal: ending at once");
    await service.abort();
    return ExitCode.Failure;
  });
  return await Promise.race([stopped, atOnce, died]);
}

const NEVER = new Promise<never>(() => {});
