/**
 * natsway as a real process: `deno run -A main.ts <role>`, or the executable that
 * `NATSWAY_EXECUTABLE` names. It is followed by its log events, never by a sleep.
 * @module
 */
import { fileURLToPath } from "node:url";
import { rssBytes } from "./proc.ts";
import { EventLog, within } from "./wait.ts";

/** One line of the log (LOG_FORMAT=json). */
export interface LogEvent {
  readonly time: string;
  readonly level: string;
  readonly message: string;
  readonly [field: string]: unknown;
}

export type Settings = Readonly<Record<string, string>>;

export interface NatswayOptions {
  /** What to wait for before returning. @default {"ready"} */
  waitFor?: "ready" | "listening" | "nothing";
  /** Limit of that wait. @default {30000} */
  ms?: number;
  /** Arguments behind the command. */
  args?: readonly string[];
}

const START_MS = 30_000;
const MAIN = fileURLToPath(new URL("../../main.ts", import.meta.url));
/** Taken over from the test's environment; nothing else is, so a developer's settings cannot matter. */
const INHERITED = [
  "PATH",
  "HOME",
  "DENO_DIR",
  "XDG_CACHE_HOME",
  "TMPDIR",
  "NPM_CONFIG_REGISTRY",
  "npm_config_registry",
  "DENO_TLS_CA_STORE",
  "DENO_CERT",
  "SSL_CERT_FILE",
  "HTTP_PROXY",
  "HTTPS_PROXY",
  "NO_PROXY",
  "http_proxy",
  "https_proxy",
  "no_proxy",
];

/** The command line of natsway, for tests that start it themselves. */
export function natswayCommand(args: readonly string[]): { command: string; args: string[] } {
  const executable = Deno.env.get("NATSWAY_EXECUTABLE");
  return executable !== undefined && executable !== ""
    ? { command: executable, args: [...args] }
    : { command: Deno.execPath(), args: ["run", "-A", "--quiet", MAIN, ...args] };
}

/** The environment that a natsway under test gets. */
export function natswayEnvironment(settings: Settings): Record<string, string> {
  const environment: Record<string, string> = { NO_COLOR: "1" };
  for (const name of INHERITED) {
    const value = Deno.env.get(name);
    if (value !== undefined) environment[name] = value;
  }
  return { ...environment, ...settings };
}

/** A running (or ended) natsway. */
export class Natsway implements AsyncDisposable {
  readonly log = new EventLog<LogEvent>();
  readonly role: string;
  readonly status: Promise<Deno.CommandStatus>;
  readonly #child: Deno.ChildProcess;
  #stdout = "";
  #stderr = "";
  #ended: Deno.CommandStatus | null = null;

  constructor(role: string, settings: Settings, args: readonly string[]) {
    this.role = role;
    const { command, args: argv } = natswayCommand([role, ...args].filter((arg) => arg !== ""));
    const child = new Deno.Command(command, {
      args: argv,
      env: natswayEnvironment(settings),
      clearEnv: true,
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    const stdout = this.#collect(child.stdout, (text) => (this.#stdout += text));
    const stderr = this.#collect(child.stderr, (text) => this.#addLog(text));
    this.status = (async () => {
      const [status] = await Promise.all([child.status, stdout, stderr]);
      this.#ended = status;
      this.log.close(`natsway ${role} ended (code ${status.code}, signal ${status.signal})`);
      return status;
    })();
  }

  get pid(): number {
    return this.#child.pid;
  }

  get stdout(): string {
    return this.#stdout;
  }

  get stderr(): string {
    return this.#stderr;
  }

  get running(): boolean {
    return this.#ended === null;
  }

  /** Port of the HTTP listener, from the `listening` line. */
  get port(): number {
    const line = this.log.events.find((event) => event.message === "listening");
    const port = /:(\d+)$/.exec(String(line?.["address"] ?? ""))?.[1];
    if (port === undefined) throw new Error(this.described("no `listening` line with an address"));
    return Number(port);
  }

  /** Number of log events so far: the `from` for events that are still to come. */
  get mark(): number {
    return this.log.events.length;
  }

  /** Waits for a log event; one that was already written counts from `from` on. */
  event(
    test: string | ((event: LogEvent) => boolean),
    options: { ms?: number; from?: number } = {},
  ): Promise<LogEvent> {
    const accepts = typeof test === "string" ? (e: LogEvent) => e.message === test : test;
    return this.log.find(accepts, {
      ms: options.ms ?? 10_000,
      from: options.from ?? 0,
      what: `the log event ${typeof test === "string" ? `"${test}"` : test} of the ${this.role}`,
      describe: () => this.described(""),
    });
  }

  /** The `flow closed` line that `test` accepts. */
  flowClosed(
    test: (event: LogEvent) => boolean = () => true,
    options: { ms?: number; from?: number } = {},
  ): Promise<LogEvent> {
    return this.event((event) => event.message === "flow closed" && test(event), options);
  }

  kill(signal: Deno.Signal): void {
    if (this.#ended === null) this.#child.kill(signal);
  }

  /** Waits for the end and returns the status. */
  async ended(ms = 10_000): Promise<Deno.CommandStatus> {
    return await within(this.status, ms, () => this.described(`the end of the ${this.role}`));
  }

  /** Resident memory in bytes (Linux). */
  rssBytes(): number {
    return rssBytes(this.pid);
  }

  /** `text` and what the process has said. */
  described(text: string): string {
    const tail = (all: string) => all.length > 6000 ? `…${all.slice(-6000)}` : all;
    return `${text}\n--- ${this.role} (pid ${this.pid}), stderr:\n${tail(this.#stderr)}` +
      (this.#stdout === "" ? "" : `--- stdout:\n${tail(this.#stdout)}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    if (this.#ended === null) {
      try {
        this.#child.kill("SIGCONT");
        this.#child.kill("SIGTERM");
        this.#child.kill("SIGTERM");
      } catch { /* it has just ended */ }
      try {
        await within(this.status, 3_000, "the end after two SIGTERM");
      } catch {
        this.#child.kill("SIGKILL");
      }
    }
    await this.status;
  }

  #unfinished = "";

  #addLog(text: string): void {
    this.#stderr += text;
    const lines = (this.#unfinished + text).split("\n");
    this.#unfinished = lines.pop() as string;
    for (const line of lines) {
      if (!line.startsWith("{")) continue;
      try {
        this.log.add(JSON.parse(line) as LogEvent);
      } catch { /* not a log line; it stays in `stderr` */ }
    }
  }

  async #collect(
    stream: ReadableStream<Uint8Array>,
    take: (text: string) => void,
  ): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) take(text);
  }
}

/** Settings that every process under test gets unless the test says otherwise. */
export const TEST_SETTINGS: Settings = {
  PORT: "0",
  LISTEN_HOST: "127.0.0.1",
  LOG_FORMAT: "json",
  LOG_LEVEL: "debug",
};

/**
 * Starts natsway and waits until it is in service.
 * @param role `requester`, `receiver`, another command, or "" for none
 */
export async function startNatsway(
  role: string,
  settings: Settings,
  options: NatswayOptions = {},
): Promise<Natsway> {
  const natsway = new Natsway(role, { ...TEST_SETTINGS, ...settings }, options.args ?? []);
  const waitFor = options.waitFor ?? "ready";
  if (waitFor === "nothing") return natsway;
  try {
    await natsway.event("listening", { ms: options.ms ?? START_MS });
    if (waitFor === "ready") await natsway.event("ready", { ms: options.ms ?? START_MS });
  } catch (error) {
    await natsway[Symbol.asyncDispose]();
    throw error;
  }
  return natsway;
}

/** What a finished run left. */
export interface RunResult {
  readonly code: number;
  readonly stdout: string;
  readonly stderr: string;
  readonly ms: number;
}

/** Runs a command of natsway to its end. */
export async function runNatsway(
  args: readonly string[],
  settings: Settings = {},
  options: { ms?: number } = {},
): Promise<RunResult> {
  const started = performance.now();
  await using natsway = new Natsway(args[0] ?? "", settings, args.slice(1));
  const status = await natsway.ended(options.ms ?? 20_000);
  return {
    code: status.code,
    stdout: natsway.stdout,
    stderr: natsway.stderr,
    ms: performance.now() - started,
  };
}
