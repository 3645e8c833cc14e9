/**
 * Runs a nats-server for natsway: generated or given configuration, own process, ready check, end.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { type ChildEnd, type ServerChild, startChild } from "./child.ts";
import { makeFolder, writeConfig } from "./config_file.ts";
import { readServerInfo } from "./info.ts";
import { addressInUse, assertFree } from "./listeners.ts";
import { type ClientListener, clientListener } from "./ports_file.ts";
import {
  configText,
  dialHost,
  formatAddress,
  isLoopback,
  type JetStreamConfig,
  type LeafnodesConfig,
  type ListenAddress,
  parseListen,
} from "./server_config.ts";
import { ServerLog } from "./server_log.ts";
import { lockStore, type StoreLock } from "./store_lock.ts";

/** A nats-server that lives as long as natsway. */
export interface EmbeddedServer {
  /** Such as `nats://127.0.0.1:4222`. */
  readonly url: string;
  /** Where it can be reached from this machine. */
  readonly address: ClientListener;
  readonly port: number;
  /** As the server says itself; "unknown" when it does not greet (TLS from the first octet on). */
  readonly version: string;
  /** Process id of nats-server. */
  readonly pid: number;
  /** Resolves when the server ended without `stop()`: a message for the operator. */
  readonly died: Promise<string>;
  /** SIGTERM, then SIGKILL; resolves when the process is gone. More calls wait too. */
  stop(): Promise<void>;
}

/** A ready configuration. */
export interface GivenConfig {
  readonly file: string;
  /** Port in place of the file's: the one that an earlier run of it had. */
  readonly port: number | null;
}

export interface StartOptions {
  /** The nats-server program. */
  binary: string;
  /** `host:port`; port 0 or -1 for any free one. Without meaning with `given`. */
  listen: string;
  /** Used as it is: nothing below is generated then. */
  given?: GivenConfig | null;
  jetstream?: JetStreamConfig | null;
  leafnodes?: LeafnodesConfig | null;
  /** Where the configuration is written, mode 0600, to stay there. @default a file that goes away */
  configPath?: string | null;
  /** Folder that takes a fresh folder for what goes away. @default the temporary folder */
  stateDir?: string;
  logger: Logger;
  /** Longest wait for the server's first answer, in ms. @default {10000} */
  readyTimeoutMs?: number;
  signal?: AbortSignal;
}

const DEFAULT_READY_TIMEOUT_MS = 10_000;
/** Pause between two looks at the ports file when the server logs nothing, in ms. */
const LOOK_PAUSE_MS = 50;
/** Longest wait for the greeting of a server that has the port, in ms; then it is tried again. */
const GREETING_TIMEOUT_MS = 1000;
/** What a server with a store may take to close it, in seconds. */
const CLOSE_STORE_S = 10;

/**
 * Starts nats-server and waits until it serves clients. A foreign server on the port is never
 * connected to: natsway dials only after its own child has said that it has the port, and one with a
 * generated configuration must greet with the name that natsway gave it.
 * @throws {StartError} a port is taken, the store is in use, the server ended or did not answer in time
 * @throws the signal's reason, when it was aborted; the server is gone by then
 */
export async function startNatsServer(options: StartOptions): Promise<EmbeddedServer> {
  options.signal?.throwIfAborted();
  const listen = parseListen(options.listen);
  if (!options.given && !isLoopback(listen.host)) {
    options.logger.warn("the embedded nats-server has no user check and listens for others too", {
      address: formatAddress(listen),
    });
  }
  const folder = await makeFolder(options.stateDir);
  try {
    return await new Starting(options, listen, folder).start();
  } catch (error) {
    await Deno.remove(folder, { recursive: true }).catch(() => {});
    throw error;
  }
}

class Starting {
  readonly #options: StartOptions;
  readonly #listen: ListenAddress;
  /** Holds what the server writes; removed when it ends. */
  readonly #folder: string;
  readonly #serverName = `natsway-${crypto.randomUUID()}`;
  readonly #log: ServerLog;
  #lock: StoreLock | null = null;
  #wake: () => void = () => {};
  #isStopping = false;

  constructor(options: StartOptions, listen: ListenAddress, folder: string) {
    this.#options = options;
    this.#listen = listen;
    this.#folder = folder;
    this.#log = new ServerLog(options.logger);
  }

  async start(): Promise<EmbeddedServer> {
    if (!this.#options.given) await this.#takePlace();
    try {
      if (!this.#options.given) this.#assertPorts();
      return await this.#run(await this.#spawn());
    } catch (error) {
      await this.#lock?.release();
      throw error;
    }
  }

  /** The store first: a server of a natsway that was killed may need a moment to let its ports go. */
  async #takePlace(): Promise<void> {
    const { jetstream, signal } = this.#options;
    if (!jetstream) return;
    this.#lock = await lockStore({
      storeDir: jetstream.storeDir,
      tag: this.#folder,
      ...(signal === undefined ? {} : { signal }),
    });
  }

  /** Before the server opens its store: it looks at its ports only after that. */
  #assertPorts(): void {
    assertFree(this.#listen, "EMBEDDED_NATS_LISTEN (port 0: any free port)");
    const { leafnodes } = this.#options;
    if (leafnodes) assertFree(leafnodes.listen, "EMBEDDED_NATS_LEAF_LISTEN_PORT");
  }

  async #run(child: ServerChild): Promise<EmbeddedServer> {
    const ended = child.ended.then(async (end) => {
      await this.#lock?.release();
      return end;
    });
    const stop = async () => {
      this.#isStopping = true;
      await child.stop();
      await ended;
    };
    let ready: { address: ClientListener; version: string };
    try {
      ready = await this.#untilReady(ended);
    } catch (error) {
      await stop();
      throw error;
    }
    const died = Promise.withResolvers<string>();
    ended.then((end) => {
      if (!this.#isStopping) died.resolve(this.#deathText(child.pid, end));
    });
    this.#log.isReady = true;
    const { address, version } = ready;
    const shown = formatAddress({ host: address.hostname, port: address.port });
    this.#options.logger.info("embedded nats-server runs", {
      address: shown,
      version,
      pid: child.pid,
    });
    const url = `${address.scheme}://${shown}`;
    const { port } = address;
    return { url, address, port, version, pid: child.pid, died: died.promise, stop };
  }

  async #spawn(): Promise<ServerChild> {
    const { binary, given = null, jetstream = null, leafnodes = null } = this.#options;
    const file = given?.file ?? this.#options.configPath ?? `${this.#folder}/nats-server.conf`;
    if (given === null) {
      const listen = this.#listen;
      const text = configText({ listen, serverName: this.#serverName, jetstream, leafnodes });
      await writeConfig(file, text);
    }
    const port = given?.port ?? null;
    try {
      return await startChild({
        binary,
        args: [
          ...["-c", file, "--ports_file_dir", this.#folder],
          ...(port === null ? [] : ["-p", String(port)]),
        ],
        removeDir: this.#folder,
        onLine: (line) => {
          this.#log.take(line);
          this.#wake();
        },
        // A given configuration may have a store too.
        ...(jetstream === null && given === null ? {} : { stopAfterS: CLOSE_STORE_S }),
      });
    } catch (error) {
      throw new StartError(`the embedded nats-server cannot be started: ${errorText(error)}`);
    }
  }

  /** Waits for the ports file, then for the server's own greeting; the process's end ends the wait. */
  async #untilReady(
    ended: Promise<ChildEnd>,
  ): Promise<{ address: ClientListener; version: string }> {
    const { signal, readyTimeoutMs = DEFAULT_READY_TIMEOUT_MS } = this.#options;
    const deadline = performance.now() + readyTimeoutMs;
    let end: ChildEnd | null = null;
    ended.then((value) => {
      end = value;
      this.#wake();
    });
    const onAbort = () => this.#wake();
    signal?.addEventListener("abort", onAbort);
    try {
      for (;;) {
        signal?.throwIfAborted();
        if (end !== null) throw this.#startFailure(end);
        const remainingMs = deadline - performance.now();
        if (remainingMs <= 0) {
          throw new StartError(
            `the embedded nats-server ${this.#name} did not answer in ${readyTimeoutMs / 1000} s`,
          );
        }
        const address = await clientListener(this.#folder);
        const version = address === null ? null : await this.#greeting(address);
        if (address !== null && version !== null) return { address, version };
        // Read again: it may have changed during the await.
        if (end === null) await this.#pause();
      }
    } finally {
      signal?.removeEventListener("abort", onAbort);
    }
  }

  /** Until the server logs something, ends, or a short time is over. */
  async #pause(): Promise<void> {
    const woken = Promise.withResolvers<void>();
    this.#wake = woken.resolve;
    const timer = setTimeout(woken.resolve, LOOK_PAUSE_MS);
    await woken.promise;
    clearTimeout(timer);
  }

  /** The version; `null` when nothing answers, or a server that is not ours. */
  async #greeting({ hostname, port }: ClientListener): Promise<string | null> {
    const isGiven = Boolean(this.#options.given);
    const host = isGiven ? hostname : dialHost(this.#listen.host);
    const info = await readServerInfo(host, port, GREETING_TIMEOUT_MS);
    // The name of a given configuration is its own, and with TLS it may not greet at all.
    if (isGiven) return info?.version ?? "unknown";
    return info?.serverName === this.#serverName ? info.version : null;
  }

  /** Which server, for messages. */
  get #name(): string {
    const given = this.#options.given;
    return given ? `with ${given.file}` : `on ${formatAddress(this.#listen)}`;
  }

  #startFailure(end: ChildEnd): StartError {
    const { reason } = this.#log;
    const { given, leafnodes } = this.#options;
    if (/address already in use|Only one usage of each socket address/i.test(reason)) {
      const told = /listen tcp (\S+): /.exec(reason)?.[1];
      if (given) return addressInUse(told ?? "its address", `another in ${given.file}`);
      return leafnodes && /leafnode/.test(reason)
        ? addressInUse(formatAddress(leafnodes.listen), "EMBEDDED_NATS_LEAF_LISTEN_PORT")
        : addressInUse(formatAddress(this.#listen), "EMBEDDED_NATS_LISTEN (port 0: any free port)");
    }
    const how = reason === "" ? endText(end) : `${endText(end)}: ${reason}`;
    return new StartError(
      `the embedded nats-server ${this.#name} did not start: it ended with ${how}`,
    );
  }

  #deathText(pid: number, end: ChildEnd): string {
    const { lastErrors } = this.#log;
    const last = lastErrors === "" ? "" : `; its last errors: ${lastErrors}`;
    return `the embedded nats-server (process ${pid}) ended with ${endText(end)}${last}`;
  }
}

/** A shell gives 128 + n for an end by signal n. */
function endText(end: ChildEnd): string {
  if (end.signal !== null) return `signal ${end.signal}`;
  return end.code > 128 ? `signal number ${end.code - 128}` : `status ${end.code}`;
}
