/**
 * A real nats-server of a test's own: its own port on loopback, its own folder, gone at the end.
 * @module
 */

import { fileURLToPath } from "node:url";

export interface NatsOptions {
  /** Lines of nats-server configuration besides `listen`. */
  readonly config?: string;
  /** @default a free port */
  readonly port?: number;
  /** Whether it has JetStream, with a store in its own folder. @default {false} */
  readonly jetstream?: boolean;
}

const READY_TIMEOUT_MS = 15_000;
const STOP_TIMEOUT_MS = 5_000;
/** A stopped process cannot say so itself: who does not greet for this time is silent. */
const SILENCE_MS = 100;
const FINDER = fileURLToPath(new URL("find_nats_server.ts", import.meta.url));

/** A port that nobody listens on now. */
export function freePort(): number {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const { port } = listener.addr;
  listener.close();
  return port;
}

/** Starts a server and waits until it takes clients. Use it with `await using`. */
export async function startNats(options: NatsOptions = {}): Promise<NatsServer> {
  const binary = await natsServerBinary();
  // Another process may take the free port before the server does: then another one is tried.
  for (let attempt = 1;; attempt++) {
    const server = new NatsServer(binary, options);
    try {
      await server.restart();
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      if (options.port !== undefined || attempt === 3) throw error;
    }
  }
}

let binary: Promise<string> | null = null;

/**
 * Path of the nats-server for the tests: `NATS_SERVER`, else the one that natsway itself would use,
 * which may have to be downloaded or built.
 * @throws {Error} there is none; what was tried is on standard error.
 */
export function natsServerBinary(): Promise<string> {
  return binary ??= find();
}

async function find(): Promise<string> {
  const named = Deno.env.get("NATS_SERVER");
  if (named) {
    return await Deno.realPath(named).catch((cause) => {
      throw new Error(`NATS_SERVER ${named}: set it to the path of a nats-server`, { cause });
    });
  }
  const { success, stdout } = await new Deno.Command(Deno.execPath(), {
    args: ["run", "-A", "--quiet", FINDER],
    stdin: "null",
    stderr: "inherit",
  }).output();
  if (!success) throw new Error("no nats-server for the tests: set NATS_SERVER to the path of one");
  const path = new TextDecoder().decode(stdout);
  // The test files of one run are threads of one process and share its environment.
  Deno.env.set("NATS_SERVER", path);
  return path;
}

/** See {@link startNats}. */
export class NatsServer implements AsyncDisposable {
  readonly port: number;
  readonly #binary: string;
  readonly #folder: string;
  /** What the configuration always begins with. */
  readonly #head: string;
  #process: Deno.ChildProcess | null = null;
  #logDone: Promise<void> = Promise.resolve();
  #log = "";
  #listeners: ((ended: boolean) => void)[] = [];

  constructor(binary: string, options: NatsOptions) {
    this.port = options.port ?? freePort();
    this.#binary = binary;
    this.#folder = Deno.makeTempDirSync({ prefix: "natsway-nats-" });
    const store = options.jetstream ? `jetstream { store_dir: "${this.#folder}/store" }\n` : "";
    this.#head = `listen: "127.0.0.1:${this.port}"\n${store}`;
    this.configure(options.config ?? "");
  }

  get url(): string {
    return `nats://127.0.0.1:${this.port}`;
  }

  get pid(): number {
    return this.#running().pid;
  }

  /** What the server has logged since its first start. */
  get log(): string {
    return this.#log;
  }

  /** Replaces the configuration (without `listen` and the store) for the next `restart` or `reload`. */
  configure(config: string): void {
    Deno.writeTextFileSync(`${this.#folder}/nats.conf`, this.#head + config);
  }

  /** What JetStream has kept is gone. Only while the server does not run. */
  async loseStore(): Promise<void> {
    if (this.#process !== null) throw new Error("the nats-server of the test still runs");
    await Deno.remove(`${this.#folder}/store`, { recursive: true });
  }

  /** Makes the server read its configuration again and waits until it has. */
  async reload(): Promise<void> {
    const before = this.#log.length;
    this.#running().kill("SIGHUP");
    await this.logged(/Reloaded server configuration|Failed to reload/, before);
  }

  /** Starts it, after `stop` or `kill`, on the same port; stops it first if it runs. */
  async restart(): Promise<void> {
    if (this.#process !== null) await this.stop();
    const before = this.#log.length;
    const process = new Deno.Command(this.#binary, {
      args: ["-c", `${this.#folder}/nats.conf`],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    this.#process = process;
    this.#logDone = this.#collect(process.stderr);
    await this.logged(/Server is ready/, before);
  }

  /**
   * Sends a signal. After SIGTERM and SIGKILL waits until the process is gone, after SIGSTOP until it
   * has fallen silent.
   */
  async kill(signal: Deno.Signal): Promise<void> {
    const process = this.#running();
    process.kill(signal);
    if (signal === "SIGTERM" || signal === "SIGKILL") await this.#gone(process);
    while (signal === "SIGSTOP" && await this.#greets()) await null;
  }

  /** Whether a new connection gets the server's INFO, within a time that is long for loopback. */
  async #greets(): Promise<boolean> {
    const conn = await Deno.connect({ hostname: "127.0.0.1", port: this.port });
    let silent = false;
    const timer = setTimeout(() => {
      silent = true;
      conn.close();
    }, SILENCE_MS);
    try {
      return await conn.read(new Uint8Array(1)) !== null;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
      if (!silent) conn.close();
    }
  }

  /** Ends it, stopped or not. Its folder stays for a restart. */
  async stop(): Promise<void> {
    const process = this.#process;
    if (process === null) return;
    try {
      process.kill("SIGCONT");
      process.kill("SIGTERM");
    } catch {
      // It has ended by itself.
    }
    const timer = setTimeout(() => process.kill("SIGKILL"), STOP_TIMEOUT_MS);
    await this.#gone(process);
    clearTimeout(timer);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
    await Deno.remove(this.#folder, { recursive: true });
  }

  async #gone(process: Deno.ChildProcess): Promise<void> {
    await process.status;
    await this.#logDone;
    if (this.#process === process) this.#process = null;
  }

  #running(): Deno.ChildProcess {
    if (this.#process === null) throw new Error("the nats-server of the test does not run");
    return this.#process;
  }

  async #collect(stderr: ReadableStream<Uint8Array>): Promise<void> {
    for await (const text of stderr.pipeThrough(new TextDecoderStream())) {
      this.#log += text;
      for (const listener of this.#listeners) listener(false);
    }
    for (const listener of this.#listeners) listener(true);
  }

  /** Resolves when `pattern` is in the log behind offset `from`; rejects when the server ends first. */
  logged(pattern: RegExp, from = 0): Promise<void> {
    return new Promise((resolve, reject) => {
      const settle = (failure: string | null) => {
        clearTimeout(timer);
        this.#listeners = this.#listeners.filter((one) => one !== look);
        if (failure === null) resolve();
        else reject(new Error(`${failure} ${pattern}:\n${this.#log.slice(from)}`));
      };
      const look = (ended: boolean) => {
        if (pattern.test(this.#log.slice(from))) settle(null);
        else if (ended) settle("nats-server ended and did not log");
      };
      const timer = setTimeout(() => settle("nats-server did not log in time"), READY_TIMEOUT_MS);
      this.#listeners.push(look);
      look(false);
    });
  }
}
