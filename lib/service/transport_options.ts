/**
 * What the settings say of the transport.
 * @module
 */
import type { Config } from "../config/settings.ts";
import type { Logger } from "../logger.ts";
import { planePatterns } from "../protocol/subjects.ts";
import type { AutoOptions } from "../transport/jetstream/auto_transport.ts";
import { linkSettings } from "../transport/settings.ts";
import { rootsOf } from "./roles.ts";

/**
 * The options of a process's transport; reads the PEM files.
 * @throws {StartError} a file cannot be read
 */
export function transportOptions(config: Config, logger: Logger): AutoOptions {
  return {
    ...linkSettings(config),
    logger,
    mode: config.natsMode,
    stream: config.natsStream,
    base: config.natsConsumerName,
    apiPrefix: config.natsJsApiPrefix,
    serviceId: config.serviceId,
    responseTimeoutMs: config.responseTimeoutMs,
    streamResponseTimeoutMs: config.streamTimeoutMs,
    subjects: {
      requests: config.listenSubject,
      queueGroup: config.natsQueueGroup,
      ...planePatterns(rootsOf(config), config.serviceId),
    },
  };
}
