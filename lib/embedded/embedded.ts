/**
 * The embedded nats-server by the settings (configuration.md section 5).
 * @module
 */
import type { Config } from "../config/settings.ts";
import { errorText, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { findNatsServer } from "./find.ts";
import { keepNatsServer, type KeptServer } from "./keeper.ts";
import {
  keptLeafCredentials,
  type LeafCredentials,
  newLeafCredentials,
} from "./leaf_credentials.ts";
import { dataFolder } from "./places.ts";
import type { StartOptions } from "./server.ts";
import type { LeafRemote } from "./server_config.ts";

/** What a server always has to come up; a large store may need more. */
const LEAST_READY_MS = 10_000;

export interface EmbeddedOptions {
  config: Config;
  logger: Logger;
  /** Whether standard error is a terminal: a download shows its progress there. */
  isTerminal: boolean;
  /** Takes text for the terminal as it is. */
  onProgress: (text: string) => void;
  /** As {@link KeepOptions.onRestart}. */
  onRestart: (signal: AbortSignal) => Promise<void>;
  signal: AbortSignal;
}

/**
 * Finds a nats-server, starts it as the settings say, and keeps it running.
 * @throws {StartError} there is none, or it cannot be started
 * @throws the signal's reason, when it was aborted
 */
export async function startEmbedded(options: EmbeddedOptions): Promise<KeptServer> {
  const { config, logger, isTerminal, onProgress, onRestart, signal } = options;
  const found = await findNatsServer({
    binary: config.embeddedNatsBinary,
    downloadUrl: config.embeddedNatsDownloadUrl,
    isTerminal,
    onProgress,
    logger,
    signal,
  });
  const shape = config.embeddedNatsConfig === null ? await generated(config) : {
    given: { file: config.embeddedNatsConfig, port: null },
    configPath: null,
    newCredentials: null,
  };
  const { newCredentials, ...start } = shape;
  try {
    return await keepNatsServer({
      binary: found.path,
      listen: config.embeddedNatsListen.authority,
      ...start,
      logger,
      readyTimeoutMs: Math.max(
        LEAST_READY_MS,
        config.embeddedNatsReadyRetries * config.embeddedNatsReadySleepMs,
      ),
      onRestart,
      signal,
    });
  } finally {
    await announce(newCredentials, start.configPath ?? "", logger);
  }
}

/** Shows new credentials once they are in the file, where the next start finds them. */
async function announce(
  credentials: LeafCredentials | null,
  configPath: string,
  logger: Logger,
): Promise<void> {
  if (credentials === null) return;
  const { user, password } = credentials;
  const written = await textOf(configPath).catch(() => "");
  if (keptLeafCredentials(written)?.password !== password) return;
  logger.info(
    "new credentials for leafnodes: " +
      `EMBEDDED_NATS_LEAF_USER=${user} EMBEDDED_NATS_LEAF_PASSWORD=${password}`,
  );
}

type Generated = Pick<StartOptions, "jetstream" | "leafnodes" | "configPath"> & {
  /** Credentials that nobody has given and no file has held. */
  readonly newCredentials: LeafCredentials | null;
};

async function generated(config: Config): Promise<Generated> {
  const wantsStore = config.embeddedNatsJetstreamEnabled;
  const { embeddedNatsGeneratedConfigPath, embeddedNatsJetstreamStoreDir } = config;
  const needsFolder = embeddedNatsGeneratedConfigPath === null ||
    (wantsStore && embeddedNatsJetstreamStoreDir === null);
  const folder = needsFolder ? await dataFolder() : "";
  const configPath = embeddedNatsGeneratedConfigPath ?? `${folder}/nats.conf`;
  const storeDir = embeddedNatsJetstreamStoreDir ?? folder;
  const { credentials, areNew } = await leafCredentials(config, configPath);
  return {
    configPath,
    jetstream: wantsStore ? { storeDir, domain: config.embeddedNatsJsDomain } : null,
    leafnodes: {
      listen: {
        host: config.embeddedNatsLeafListenHost,
        port: config.embeddedNatsLeafListenPort,
      },
      credentials,
      remote: config.serviceRole === "requester" ? remoteOf(config) : null,
    },
    newCredentials: areNew ? credentials : null,
  };
}

async function leafCredentials(
  config: Config,
  configPath: string,
): Promise<{ credentials: LeafCredentials; areNew: boolean }> {
  const { embeddedNatsLeafUser: user, embeddedNatsLeafPassword: password } = config;
  if (user !== null && password !== null) {
    return { credentials: { user, password }, areNew: false };
  }
  const kept = keptLeafCredentials(await textOf(configPath));
  if (kept !== null) return { credentials: kept, areNew: false };
  return { credentials: newLeafCredentials(), areNew: true };
}

/** "" when there is no such file. @throws {StartError} it cannot be read */
async function textOf(path: string): Promise<string> {
  try {
    return await Deno.readTextFile(path);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return "";
    throw new StartError(
      `EMBEDDED_NATS_GENERATED_CONFIG_PATH ${path}: the file of the last start cannot be read: ` +
        errorText(error),
      { cause: error },
    );
  }
}

/** Checked with the settings: there is a host, and one kind of credentials. */
function remoteOf(config: Config): LeafRemote {
  const { leafRemoteHost, leafRemotePort, leafRemoteNkey } = config;
  return {
    hostname: leafRemoteHost ?? "",
    port: leafRemotePort,
    auth: leafRemoteNkey !== null ? { kind: "nkey", seed: leafRemoteNkey } : {
      kind: "user",
      user: config.leafRemoteUser ?? "",
      password: config.leafRemotePassword ?? "",
    },
  };
}
