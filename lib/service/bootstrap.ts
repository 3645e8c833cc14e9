/**
 * The stream of a receiver that brings its own nats-server.
 * @module
 */
import type { Config } from "../config/settings.ts";
import type { Logger } from "../logger.ts";
import { linkSettings } from "../transport/settings.ts";
import { bootstrapStream } from "../transport/stream_bootstrap.ts";

/**
 * Whether this process makes the stream. All three must hold: everywhere else the stream belongs to
 * whoever runs the server, and `NATS_MODE=auto` finds out what there is, it does not make it.
 */
export function makesStream(config: Config): boolean {
  return config.embeddedNatsEnabled && config.serviceRole === "receiver" &&
    config.natsMode === "jetstream";
}

/**
 * Makes the stream, or brings its limits up to date, where that is this process's job; else nothing.
 * @throws {StartError} it cannot be had as the settings say
 * @throws the signal's reason, when it was aborted
 */
export async function ensureStream(
  config: Config,
  logger: Logger,
  signal: AbortSignal,
): Promise<void> {
  if (!makesStream(config)) return;
  const roots = {
    NATS_REQUEST_SUBJECT_ROOT: config.requestRoot,
    NATS_RESPONSE_SUBJECT_ROOT: config.responseRoot,
  };
  for (const [setting, root] of Object.entries(roots)) {
    if (!/^(to|from)\./.test(root)) continue;
    logger.warn(
      `${setting} ${root} begins with ${
        root.slice(0, root.indexOf(".") + 1)
      }: nats-proxy cannot use ` +
        "a stream with such subjects, natsway can",
    );
  }
  await bootstrapStream({
    link: linkSettings(config),
    apiPrefix: config.natsJsApiPrefix,
    plan: {
      name: config.natsStream,
      subjects: [...new Set(Object.values(roots).map((root) => `${root}.>`))],
      maxAgeMs: config.streamMaxAgeMs,
      maxBytes: config.streamMaxBytes,
      replicas: config.streamReplicas,
      storage: config.streamStorage,
    },
    retries: config.embeddedNatsReadyRetries,
    pauseMs: config.embeddedNatsReadySleepMs,
    logger,
    signal,
  });
}
