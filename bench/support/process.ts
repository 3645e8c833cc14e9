/**
 * Child processes of a bench: started with a name, ended for certain.
 * @module
 */
import { cpuSeconds } from "./cpu.ts";

const STOP_MS = 3_000;
const READY_MS = 20_000;
const POLL_MS = 50;
const KEPT_OUTPUT = 4_000;

export interface ProcessOptions {
  /** Name in tables and errors. */
  readonly name: string;
  readonly command: string;
  readonly args: readonly string[];
  /** The whole environment. @default that of the bench */
  readonly env?: Readonly<Record<string, string>>;
}

/** A running process. Use it with `await using`, or give it to {@linkcode Processes}. */
export class BenchProcess implements AsyncDisposable {
  readonly name: string;
  /** As it would be typed in a shell. */
  readonly commandLine: string;
  readonly #child: Deno.ChildProcess;
  readonly #ended: Promise<void>;
  readonly #listeners = new Set<() => void>();
  #output = "";
  #running = true;

  constructor(options: ProcessOptions) {
    const { name, command, args, env } = options;
    this.name = name;
    this.commandLine = [command, ...args].map(quoted).join(" ");
    const child = new Deno.Command(command, {
      args: [...args],
      ...(env === undefined ? {} : { env: { ...env }, clearEnv: true }),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#child = child;
    const output = [this.#collect(child.stdout), this.#collect(child.stderr)];
    this.#ended = Promise.all([child.status, ...output]).then(() => {
      this.#running = false;
      for (const wake of this.#listeners) wake();
    });
  }

  /** CPU seconds of it and of its children until now. */
  cpuSeconds(): number {
    return cpuSeconds(this.#child.pid);
  }

  /**
   * Waits until its output matches.
   * @throws {Error} it ended or said nothing of the kind in 20 s; with its last output
   */
  async said(pattern: RegExp, signal: AbortSignal): Promise<RegExpExecArray> {
    const late = AbortSignal.timeout(READY_MS);
    for (;;) {
      const match = pattern.exec(this.#output);
      if (match !== null) return match;
      signal.throwIfAborted();
      if (!this.#running) throw this.failure("ended");
      if (late.aborted) throw this.failure("is not ready");
      await new Promise<void>((resolve) => {
        const wake = () => {
          this.#listeners.delete(wake);
          signal.removeEventListener("abort", wake);
          late.removeEventListener("abort", wake);
          resolve();
        };
        this.#listeners.add(wake);
        signal.addEventListener("abort", wake);
        late.addEventListener("abort", wake);
      });
    }
  }

  /** An error about it, with its last output. */
  failure(what: string): Error {
    return new Error(`${this.name} ${what}: ${this.commandLine}\n${this.#output}`);
  }

  /** Whether it has not ended yet. */
  get running(): boolean {
    return this.#running;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill("SIGTERM");
    const timer = setTimeout(() => this.#kill("SIGKILL"), STOP_MS);
    await this.#ended;
    clearTimeout(timer);
  }

  #kill(signal: Deno.Signal): void {
    try {
      if (this.#running) this.#child.kill(signal);
    } catch {
      // It ended in between.
    }
  }

  async #collect(stream: ReadableStream<Uint8Array>): Promise<void> {
    for await (const text of stream.pipeThrough(new TextDecoderStream())) {
      this.#output = (this.#output + text).slice(-KEPT_OUTPUT);
      for (const wake of [...this.#listeners]) wake();
    }
  }
}

/**
 * Asks `url` until it answers with exactly `body`.
 * @throws {Error} it does not in 20 s, or one of `processes` has ended
 */
export async function answers(
  url: string,
  body: Uint8Array,
  processes: readonly BenchProcess[],
  signal: AbortSignal,
): Promise<void> {
  const end = performance.now() + READY_MS;
  for (let last = "nothing listens";;) {
    signal.throwIfAborted();
    const ended = processes.find((process) => !process.running);
    if (ended !== undefined) throw ended.failure("ended");
    try {
      const response = await fetch(url, { signal });
      const got = new Uint8Array(await response.arrayBuffer());
      if (response.status === 200 && sameBytes(got, body)) return;
      last = `status ${response.status}, ${got.length} bytes`;
    } catch (error) {
      signal.throwIfAborted();
      last = String(error);
    }
    if (performance.now() > end) throw new Error(`${url} is not ready: ${last}`);
    await new Promise((resolve) => setTimeout(resolve, POLL_MS));
  }
}

/** A port of loopback that nobody listens on now. */
export function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}

function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  return a.length === b.length && a.every((octet, i) => octet === b[i]);
}

/** One word of a command line. */
export function quoted(word: string): string {
  return /^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
