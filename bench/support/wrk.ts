/**
 * wrk as load tool; its figures come from a script at its end, not from its text.
 * @module
 */
import { endedChildrenCpuSeconds } from "./cpu.ts";

export interface WrkLoad {
  readonly path: string;
  readonly connections: number;
  /** Whether each request has a connection of its own. */
  readonly close: boolean;
}

export interface WrkResult {
  readonly requests: number;
  readonly seconds: number;
  readonly bytes: number;
  readonly p50Us: number;
  readonly p99Us: number;
  readonly errors: {
    readonly connect: number;
    readonly read: number;
    readonly write: number;
    readonly status: number;
    readonly timeout: number;
  };
  /** CPU seconds of wrk itself. */
  readonly cpuSeconds: number;
}

const SCRIPT = `done = function(summary, latency, requests)
  local e = summary.errors
  io.write(string.format(
    '\\n{"requests":%d,"seconds":%.6f,"bytes":%.0f,"p50Us":%.0f,"p99Us":%.0f,' ..
    '"errors":{"connect":%d,"read":%d,"write":%d,"status":%d,"timeout":%d}}\\n',
    summary.requests, summary.duration / 1e6, summary.bytes,
    latency:percentile(50), latency:percentile(99),
    e.connect, e.read, e.write, e.status, e.timeout))
end
`;

/** wrk with its script in a file. */
export class Wrk {
  readonly #program: string;
  readonly #script: string;

  private constructor(program: string, script: string) {
    this.#program = program;
    this.#script = script;
  }

  static async prepare(program: string, folder: string): Promise<Wrk> {
    const script = `${folder}/report.lua`;
    await Deno.writeTextFile(script, SCRIPT);
    return new Wrk(program, script);
  }

  /** The arguments for a load on `port`. */
  args(load: WrkLoad, port: number | string, seconds: number): string[] {
    return [
      "-t1",
      `-c${load.connections}`,
      `-d${seconds}s`,
      "--latency",
      "-s",
      this.#script,
      ...(load.close ? ["-H", "Connection: close"] : []),
      `http://127.0.0.1:${port}${load.path}`,
    ];
  }

  /**
   * Runs a load to its end. No other child of the bench may end meanwhile: wrk's CPU time is what the
   * ended children have more afterwards.
   * @throws {Error} wrk failed, with what it said
   */
  async run(load: WrkLoad, port: number, seconds: number, signal: AbortSignal): Promise<WrkResult> {
    const before = endedChildrenCpuSeconds();
    const { stdout, stderr } = await new Deno.Command(this.#program, {
      args: this.args(load, port, seconds),
      stdin: "null",
      signal,
    }).output();
    signal.throwIfAborted();
    const text = new TextDecoder().decode(stdout);
    const line = text.split("\n").findLast((line) => line.startsWith("{"));
    if (line === undefined) {
      throw new Error(`wrk gave no result: ${text}${new TextDecoder().decode(stderr)}`);
    }
    return { ...JSON.parse(line), cpuSeconds: endedChildrenCpuSeconds() - before };
  }
}
