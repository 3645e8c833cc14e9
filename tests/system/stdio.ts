/**
 * `natsway stdio` as a process whose standard input and output are the test's.
 * @module
 */
import { latin1, octets } from "../helpers/bytes.ts";
import { natswayCommand, natswayEnvironment, type Settings } from "../helpers/natsway.ts";
import { within } from "../helpers/wait.ts";

const DEFAULT_MS = 20_000;

/** Use it with `await using`. */
export class StdioProcess implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #input: WritableStreamDefaultWriter<Uint8Array<ArrayBuffer>>;
  readonly #output: ReadableStreamDefaultReader<Uint8Array<ArrayBuffer>>;
  readonly #errors: Promise<void>;
  #stderr = "";
  #wake = () => {};
  #unread = "";
  #inputEnded = false;

  constructor(target: string, settings: Settings) {
    const { command, args } = natswayCommand(["stdio", target]);
    this.#child = new Deno.Command(command, {
      args,
      env: natswayEnvironment(settings),
      clearEnv: true,
      stdin: "piped",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
    this.#input = this.#child.stdin.getWriter();
    this.#output = this.#child.stdout.getReader();
    this.#errors = this.#collectErrors();
  }

  write(data: Uint8Array<ArrayBuffer> | string): Promise<void> {
    return this.#input.write(typeof data === "string" ? octets(data) : data);
  }

  async closeInput(): Promise<void> {
    if (this.#inputEnded) return;
    this.#inputEnded = true;
    await this.#input.close().catch(() => {});
  }

  /** The reader of its output leaves. */
  async closeOutput(): Promise<void> {
    await this.#output.cancel();
  }

  /** The next octets of its output; null at their end. */
  async read(ms = DEFAULT_MS): Promise<Uint8Array | null> {
    const { value } = await within(this.#output.read(), ms, "octets on standard output");
    return value ?? null;
  }

  /** Exactly `count` octets as text. */
  async readText(count: number, ms = DEFAULT_MS): Promise<string> {
    while (this.#unread.length < count) {
      const piece = await this.read(ms);
      if (piece === null) throw new Error(`the end after ${JSON.stringify(this.#unread)}`);
      this.#unread += latin1(piece);
    }
    const text = this.#unread.slice(0, count);
    this.#unread = this.#unread.slice(count);
    return text;
  }

  /** Waits until standard error has this. */
  async said(pattern: RegExp, ms = DEFAULT_MS): Promise<void> {
    const found = (async () => {
      while (!pattern.test(this.#stderr)) {
        await new Promise<void>((resolve) => this.#wake = resolve);
      }
    })();
    await within(found, ms, () => `${pattern} on standard error; it has ${this.#stderr}`);
  }

  kill(signal: Deno.Signal): void {
    this.#child.kill(signal);
  }

  /** Its exit code and what it wrote to standard error. */
  async ended(ms = DEFAULT_MS): Promise<{ code: number; stderr: string }> {
    const { code } = await within(this.#child.status, ms, "the end of natsway stdio");
    await this.#errors;
    return { code, stderr: this.#stderr };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch { /* it has ended by itself */ }
    await this.closeInput();
    await this.#output.cancel();
    await Promise.all([this.#child.status, this.#errors]);
  }

  async #collectErrors(): Promise<void> {
    for await (const text of this.#child.stderr.pipeThrough(new TextDecoderStream())) {
      this.#stderr += text;
      this.#wake();
    }
  }
}
