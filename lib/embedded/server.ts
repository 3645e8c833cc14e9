/**
 * Runs a nats-server for natsway: generated configuration, own process, ready check, end.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { type ChildEnd, type ServerChild, startChild } from "./child.ts";
import { readServerInfo } from "./info.ts";
import {
  configText,
  dialHost,
  formatAddress,
  isLoopback,
  type ListenAddress,
  parseListen,
} from "./server_config.ts";

/** A nats-server that lives as long as natsway. */
export interface EmbeddedServer {
  /** Such as `nats://127.0.0.1:4222`. */
  readonly url: string;
  readonly port: number;
  /** As the server says itself. */
  readonly version: string;
  /** Process id of nats-server. */
  readonly pid: number;
  /** Resolves when the server ended without `stop()`: a message for the operator. */
  readonly died: Promise<string>;
  /** SIGTERM, then SIGKILL after 3 s; resolves when the process is gone. More calls wait too. */
  stop(): Promise<void>;
}

export interface StartOptions {
  /** The nats-server program. */
  binary: string;
  /** `host:port`; port 0 or -1 for any free one. */
  listen: string;
  /** Folder that takes a fresh folder for the generated files. @default the temporary folder */
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
/** Error lines of the server that are kept for the message when it dies. */
const KEPT_ERRORS = 3;

/**
 * Starts nats-server and waits until it answers with the name that natsway gave it. A foreign
 * server on the port is never connected to: natsway dials only after its own child has said that it
 * has the port.
 * @throws {StartError} the port is taken, the server ended or did not answer in time
 * @throws the signal's reason, when it was aborted; the server is gone by then
 */
export async function startNatsServer(options: StartOptions): Promise<EmbeddedServer> {
  options.signal?.throwIfAborted();
  const listen = parseListen(options.listen);
  if (!isLoopback(listen.host)) {
    options.logger.warn("the embedded nats-server has no user check and listens for others too", {
      address: formatAddress(listen),
    });
  }
  return await new Starting(options, listen, await makeFolder(options.stateDir)).start();
}

/** A fresh folder for this start alone (mode 0700): two processes never share one. */
async function makeFolder(stateDir: string | undefined): Promise<string> {
  const prefix = "natsway-nats-";
  try {
    if (stateDir === undefined) return await Deno.makeTempDir({ prefix });
    await Deno.mkdir(stateDir, { recursive: true, mode: 0o700 });
    return await Deno.makeTempDir({ dir: stateDir, prefix });
  } catch (error) {
    throw new StartError(
      `no folder for the embedded nats-server's configuration: ${errorText(error)}`,
    );
  }
}

class Starting {
  readonly #options: StartOptions;
  readonly #listen: ListenAddress;
  /** Holds the configuration and what the server writes; removed when it ends. */
  readonly #folder: string;
  readonly #serverName: string;
  readonly #errors: string[] = [];
  /** First line without a level: a wrong configuration, or what a crash begins with. */
  #plainLine: string | null = null;
  #wake: () => void = () => {};
  #isReady = false;
  #isStopping = false;

  constructor(options: StartOptions, listen: ListenAddress, folder: string) {
    this.#options = options;
    this.#listen = listen;
    this.#folder = folder;
    this.#serverName = `natsway-${crypto.randomUUID()}`;
  }

  async start(): Promise<EmbeddedServer> {
    const child = await this.#spawn();
    const stop = async () => {
      this.#isStopping = true;
      await child.stop();
    };
    let ready: { port: number; version: string };
    try {
      ready = await this.#untilReady(child.ended);
    } catch (error) {
      await stop();
      throw error;
    }
    const died = Promise.withResolvers<string>();
    child.ended.then((end) => {
      if (!this.#isStopping) died.resolve(this.#deathText(child.pid, end));
    });
    this.#isReady = true;
    const { port, version } = ready;
    const address = formatAddress({ host: dialHost(this.#listen.host), port });
    this.#options.logger.info("embedded nats-server runs", { address, version, pid: child.pid });
    return { url: `nats://${address}`, port, version, pid: child.pid, died: died.promise, stop };
  }

  async #spawn(): Promise<ServerChild> {
    const file = `${this.#folder}/nats-server.conf`;
    try {
      const text = configText({
        listen: this.#listen,
        serverName: this.#serverName,
        portsDir: this.#folder,
      });
      await Deno.writeTextFile(file, text, { mode: 0o600, createNew: true });
      return await startChild({
        binary: this.#options.binary,
        args: ["-c", file],
        removeDir: this.#folder,
        onLine: (line) => this.#onLine(line),
      });
    } catch (error) {
      await Deno.remove(this.#folder, { recursive: true }).catch(() => {});
      throw new StartError(`the embedded nats-server cannot be started: ${errorText(error)}`);
    }
  }

  /** Waits for the ports file, then for the server's own greeting; the process's end ends the wait. */
  async #untilReady(ended: Promise<ChildEnd>): Promise<{ port: number; version: string }> {
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
        if (end !== null) throw new StartError(this.#startFailure(end));
        const remainingMs = deadline - performance.now();
        if (remainingMs <= 0) {
          throw new StartError(
            `the embedded nats-server on ${formatAddress(this.#listen)} did not answer in ` +
              `${readyTimeoutMs / 1000} s`,
          );
        }
        const port = await this.#portFromFile();
        const info = port === null ? null : await this.#greeting(port);
        if (port !== null && info !== null) return { port, version: info.version };
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

  /** `null` while the file is not there, or only half written. */
  async #portFromFile(): Promise<number | null> {
    try {
      for await (const entry of Deno.readDir(this.#folder)) {
        if (!entry.name.endsWith(".ports")) continue;
        const text = await Deno.readTextFile(`${this.#folder}/${entry.name}`);
        const url = (JSON.parse(text) as { nats?: unknown[] }).nats?.[0];
        const port = Number(/:(\d{1,5})$/.exec(String(url))?.[1]);
        if (port > 0) return port;
      }
    } catch {
      // Its writer is not done yet, or all is removed since the server has ended.
    }
    return null;
  }

  /** `null` when nothing answers, or a server that is not ours. */
  async #greeting(port: number): Promise<{ version: string } | null> {
    const info = await readServerInfo(dialHost(this.#listen.host), port, GREETING_TIMEOUT_MS);
    return info?.serverName === this.#serverName ? info : null;
  }

  #onLine(line: string): void {
    const found = /\[(DBG|TRC|INF|WRN|ERR|FTL)\] (.*)$/.exec(line);
    const level = found?.[1];
    const text = found?.[2] ?? line;
    const { logger } = this.#options;
    const message = `nats-server: ${text}`;
    if (level === "WRN") logger.warn(message);
    else if (level === "DBG" || level === "TRC" || level === "INF") logger.debug(message);
    else {
      if (level === undefined) this.#plainLine ??= text;
      else this.#errors.push(text);
      if (this.#errors.length > KEPT_ERRORS) this.#errors.shift();
      // A start that fails is told once, by the StartError.
      if (this.#isReady || level === "ERR") logger.error(message);
      else logger.debug(message);
    }
    this.#wake();
  }

  #startFailure(end: ChildEnd): string {
    const address = formatAddress(this.#listen);
    const detail = this.#errors.at(-1) ?? this.#plainLine ?? "";
    if (/address already in use|Only one usage of each socket address/i.test(detail)) {
      return `the embedded nats-server cannot listen on ${address}: the address is in use. Stop ` +
        "what holds it, or set EMBEDDED_NATS_LISTEN (port 0: any free port)";
    }
    const how = detail === "" ? endText(end) : `${endText(end)}: ${detail}`;
    return `the embedded nats-server on ${address} did not start: it ended with ${how}`;
  }

  #deathText(pid: number, end: ChildEnd): string {
    const said = [...(this.#plainLine === null ? [] : [this.#plainLine]), ...this.#errors];
    const last = said.length === 0 ? "" : `; its last errors: ${said.join(" | ")}`;
    return `the embedded nats-server (process ${pid}) ended with ${endText(end)}${last}`;
  }
}

/** A shell gives 128 + n for an end by signal n. */
function endText(end: ChildEnd): string {
  if (end.signal !== null) return `signal ${end.signal}`;
  return end.code > 128 ? `signal number ${end.code - 128}` : `status ${end.code}`;
}
