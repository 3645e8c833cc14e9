/**
 * Runs one role as a process: embedded nats-server, signals, exit code.
 * @module
 */
import type { Config } from "./config/settings.ts";
import { findNatsServer } from "./embedded/find.ts";
import { type EmbeddedServer, startNatsServer } from "./embedded/server.ts";
import { ExitCode } from "./errors.ts";
import type { Logger } from "./logger.ts";
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
  let embedded: EmbeddedServer | null = null;
  try {
    if (config.embeddedNatsEnabled) {
      embedded = await unlessSignalled(signal.first, (abort) => {
        return startEmbedded(config, logger, abort);
      });
      if (embedded === null) return ExitCode.Ok;
    }
    return await serve(new Service(config, logger), embedded, signal, logger);
  } finally {
    await embedded?.stop();
    signal.release();
  }
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

/** Finds and starts a nats-server as the settings say. */
async function startEmbedded(
  config: Config,
  logger: Logger,
  signal: AbortSignal,
): Promise<EmbeddedServer> {
  const found = await findNatsServer({
    binary: config.embeddedNatsBinary,
    downloadUrl: config.embeddedNatsDownloadUrl,
    isTerminal: Deno.stderr.isTerminal(),
    onProgress: (text) => Deno.stderr.writeSync(new TextEncoder().encode(text)),
    logger,
    signal,
  });
  const listen = config.embeddedNatsListen.authority;
  return await startNatsServer({ binary: found.path, listen, logger, signal });
}

async function serve(
  service: Service,
  embedded: EmbeddedServer | null,
  signal: ReturnType<typeof untilSignal>,
  logger: Logger,
): Promise<number> {
  const died = embedded === null ? NEVER : embedded.died.then((message) => {
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
  const atOnce = signal.second.then(() => {
    logger.warn("second signal: ending at once");
    return ExitCode.Failure;
  });
  return await Promise.race([stopped, atOnce, died]);
}

const NEVER = new Promise<never>(() => {});
