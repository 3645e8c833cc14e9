/**
 * An iperf3 server of a test's own.
 * @module
 */
import { freePort } from "../../helpers/nats_server.ts";
import { Program } from "./program.ts";

/** See {@link startIperf3}. */
export class Iperf3 implements AsyncDisposable {
  constructor(readonly port: number, readonly program: Program) {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program[Symbol.asyncDispose]();
  }
}

/**
 * Starts a server and waits until it listens. Use it with `await using`.
 * @param file where received octets go to, and where octets to send come from
 */
export async function startIperf3(file?: string): Promise<Iperf3> {
  const port = freePort();
  const program = await Program.start("iperf3", [
    ...["--server", "--bind", "127.0.0.1", "--port", `${port}`, "--forceflush"],
    ...(file === undefined ? [] : ["--file", file]),
  ], { ready: /Server listening on/ });
  return new Iperf3(port, program);
}
