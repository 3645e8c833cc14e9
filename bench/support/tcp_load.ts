/**
 * The load tool and target of the TCP bench: a Go program, built from `tcpload/main.go` at start.
 *
 * It is Go and our own since it runs on the same cores as the tunnels and so must cost little (5 GB/s
 * without a tunnel), and since no tool at hand measures streams, new sessions and round trips alike:
 * iperf3 knows streams alone.
 * @module
 */
import { fileURLToPath } from "node:url";
import { cpuSeconds } from "./cpu.ts";
import type { Toolbox } from "./tools.ts";

const SOURCE = fileURLToPath(new URL("./tcpload/main.go", import.meta.url));
const GO_HINT = "builds the load tool; Debian: apt-get install golang-go; 1.19 or newer";

export type TcpLoad =
  | {
    readonly load: "streams";
    readonly atOnce: number;
    readonly up: boolean;
    /** Whether every byte is compared; costs a little. */
    readonly verify: boolean;
  }
  | { readonly load: "sessions"; readonly atOnce: number }
  | { readonly load: "pingpong" };

/** What a load came to; what does not apply is 0. */
export interface TcpResult {
  /** Length of the measured time. */
  readonly seconds: number;
  /** Received in the measured time, by all streams. */
  readonly bytes: number;
  /** Received from the first byte to the last. */
  readonly totalBytes: number;
  /** Bytes received by the slowest and the fastest stream in the measured time. */
  readonly slowest: number;
  readonly fastest: number;
  /** Sessions or round trips. */
  readonly count: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly errors: readonly string[];
}

/** The running load tool. */
export class TcpLoadTool implements AsyncDisposable {
  /** Port of the target. */
  readonly port: number;
  readonly #child: Deno.ChildProcess;
  readonly #lines: AsyncIterator<string>;
  readonly #input: WritableStreamDefaultWriter<Uint8Array>;

  private constructor(child: Deno.ChildProcess, lines: AsyncIterator<string>, port: number) {
    this.#child = child;
    this.#lines = lines;
    this.#input = child.stdin.getWriter();
    this.port = port;
  }

  /**
   * Builds it in `folder` and starts it.
   * @throws {Error} there is no Go, or the build failed
   */
  static async start(
    tools: Toolbox,
    folder: string,
  ): Promise<{ tool: TcpLoadTool; version: string }> {
    const go = await tools.find("go", GO_HINT, ["version"]);
    if (go.path === null) throw new Error(go.missing);
    const program = `${folder}/tcpload`;
    const { success, stderr } = await new Deno.Command(go.path, {
      args: ["build", "-o", program, SOURCE],
    }).output();
    if (!success) throw new Error(`go build failed: ${new TextDecoder().decode(stderr)}`);
    const child = new Deno.Command(program, {
      stdin: "piped",
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const lines = linesOf(child.stdout);
    const first = await lines.next();
    if (first.done === true) throw new Error("tcpload did not start");
    return {
      tool: new TcpLoadTool(child, lines, JSON.parse(first.value).port),
      version: go.version,
    };
  }

  /** CPU seconds of both ends until now. */
  cpuSeconds(): number {
    return cpuSeconds(this.#child.pid);
  }

  /**
   * Runs one load through the tunnel at `port`.
   * @throws {Error} the tool ended; the reason of `signal`
   */
  async run(
    load: TcpLoad,
    port: number,
    seconds: number,
    signal: AbortSignal,
  ): Promise<TcpResult> {
    signal.throwIfAborted();
    const stop = () => this.#kill();
    signal.addEventListener("abort", stop);
    try {
      const command = `${JSON.stringify({ ...load, port, seconds })}\n`;
      await this.#input.write(new TextEncoder().encode(command));
      const line = await this.#lines.next();
      signal.throwIfAborted();
      if (line.done === true) throw new Error("tcpload ended");
      return JSON.parse(line.value);
    } finally {
      signal.removeEventListener("abort", stop);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#kill();
    await this.#child.status;
  }

  #kill(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It ended by itself.
    }
  }
}

async function* linesOf(stream: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  let rest = "";
  for await (const text of stream.pipeThrough(new TextDecoderStream())) {
    const lines = (rest + text).split("\n");
    rest = lines.pop() ?? "";
    yield* lines;
  }
}
