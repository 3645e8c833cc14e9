/**
 * Programs of the machine in tests: run to their end, or kept running until the test is over.
 * Nothing that they started survives them.
 * @module
 */
import { descendants, processExists } from "../../helpers/proc.ts";
import { pause, within } from "../../helpers/wait.ts";

const RUN_MS = 60_000;
const READY_MS = 20_000;
const STOP_MS = 5_000;

export interface RunOptions {
  /** @default {""} */
  readonly stdin?: string | Uint8Array;
  /** The whole environment, besides PATH and HOME. */
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** A program that runs longer is killed and the test fails. @default {60000} */
  readonly ms?: number;
}

/** What a program has said, and how it ended. */
export interface Finished {
  readonly code: number;
  readonly stdout: Uint8Array<ArrayBuffer>;
  /** `stdout` as text. */
  readonly text: string;
  readonly stderr: string;
}

/** Nothing of a developer's environment: his proxies, locale or start files must not matter. */
function environment(extra: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { PATH: Deno.env.get("PATH") ?? "", HOME: "/nonexistent", LC_ALL: "C.UTF-8", ...extra };
}

/** Kills a process and all below it, and waits until none of them is left. */
async function killAll(pid: number): Promise<void> {
  const pids = [pid, ...descendants(pid)];
  for (const one of pids) {
    try {
      Deno.kill(one, "SIGKILL");
    } catch { /* it has ended by itself */ }
  }
  await gone(pids);
}

async function gone(pids: readonly number[]): Promise<void> {
  const deadline = performance.now() + STOP_MS;
  for (let left = pids; left.length > 0; left = left.filter(processExists)) {
    if (performance.now() > deadline) throw new Error(`processes left: ${left.join(", ")}`);
    await pause(5);
  }
}

/** Runs a program to its end, whatever its exit code is. */
export async function runAny(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Finished> {
  const child = new Deno.Command(command, {
    args: [...args],
    env: environment(options.env),
    clearEnv: true,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
    stdin: "piped",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  const { stdin = "" } = options;
  const bytes = typeof stdin === "string" ? new TextEncoder().encode(stdin) : stdin;
  // A program that ends before it has read all of it says why on standard error.
  const written = new Blob([bytes as Uint8Array<ArrayBuffer>]).stream().pipeTo(child.stdin).catch(
    () => {},
  );
  const stdout = new Response(child.stdout).bytes();
  const stderr = new Response(child.stderr).text();
  const finished = Promise.all([child.status, stdout, stderr, written]);
  try {
    await within(finished, options.ms ?? RUN_MS, `the end of ${command} ${args.join(" ")}`);
  } catch (error) {
    await killAll(child.pid);
    const said = await stderr;
    throw new Error(`${error instanceof Error ? error.message : error}\n${said}`, { cause: error });
  }
  const [{ code }, out, said] = await finished;
  return { code, stdout: out, text: new TextDecoder().decode(out), stderr: said };
}

/** Runs a program to its end; it must say that all went well. */
export async function run(
  command: string,
  args: readonly string[],
  options: RunOptions = {},
): Promise<Finished> {
  const finished = await runAny(command, args, options);
  if (finished.code === 0) return finished;
  const { code, text, stderr } = finished;
  throw new Error(
    `${command} ${args.join(" ")} ended with ${code}\n--- stderr:\n${stderr}\n--- stdout:\n` +
      text.slice(-4000),
  );
}

export interface ProgramOptions {
  /** What it writes, to either output, when it can be used. */
  readonly ready: RegExp;
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** Asks it to end. @default {"SIGTERM"} */
  readonly stopSignal?: Deno.Signal;
}

/** A program that runs beside the test. Use it with `await using`. */
export class Program implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #name: string;
  readonly #stopSignal: Deno.Signal;
  readonly #outputs: Promise<unknown>;
  #log = "";
  #wake = () => {};

  private constructor(command: string, args: readonly string[], options: ProgramOptions) {
    this.#name = `${command} ${args.join(" ")}`;
    this.#stopSignal = options.stopSignal ?? "SIGTERM";
    this.#child = new Deno.Command(command, {
      args: [...args],
      env: environment(options.env),
      clearEnv: true,
      ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
      stdin: "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#outputs = Promise.all(
      [this.#child.stdout, this.#child.stderr].map((output) => this.#collect(output)),
    );
  }

  /** Starts it and waits until it can be used. */
  static async start(
    command: string,
    args: readonly string[],
    options: ProgramOptions,
  ): Promise<Program> {
    const program = new Program(command, args, options);
    try {
      await within(program.#said(options.ready), READY_MS, () => program.described());
      return program;
    } catch (error) {
      await program[Symbol.asyncDispose]();
      throw error;
    }
  }

  get pid(): number {
    return this.#child.pid;
  }

  /** Its command line and what it has written to both outputs. */
  described(): string {
    return `${this.#name}\n${this.#log}`;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    // Noted first: who has lost its parent is no descendant any more.
    const pids = [this.pid, ...descendants(this.pid)];
    try {
      this.#child.kill(this.#stopSignal);
    } catch { /* it has ended by itself */ }
    try {
      await within(this.#child.status, STOP_MS, this.#name);
    } catch {
      await killAll(this.pid);
    }
    for (const pid of pids.filter(processExists)) await killAll(pid);
    await Promise.all([this.#child.status, this.#outputs]);
  }

  async #said(pattern: RegExp): Promise<void> {
    let ended = false;
    void this.#outputs.then(() => {
      ended = true;
      this.#wake();
    });
    while (!pattern.test(this.#log)) {
      if (ended) throw new Error(`ended before it said ${pattern}: ${this.described()}`);
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  async #collect(output: ReadableStream<Uint8Array<ArrayBuffer>>): Promise<void> {
    for await (const text of output.pipeThrough(new TextDecoderStream())) {
      this.#log += text;
      this.#wake();
    }
  }
}
