/**
 * A nats-server that is started by a command line as it stands.
 * @module
 */
import { natsServerBinary } from "../helpers/nats_server.ts";
import { EventLog } from "../helpers/wait.ts";

const READY_MS = 15_000;

/** Runs until it is ended by a signal or by the end of the test. */
export class ServerProcess implements AsyncDisposable {
  readonly log = new EventLog<string>();
  readonly #process: Deno.ChildProcess;
  readonly #ended: Promise<void>;

  private constructor(binary: string, name: string, args: readonly string[]) {
    this.#process = new Deno.Command(binary, {
      args: [...args],
      stdin: "null",
      stdout: "null",
      stderr: "piped",
    }).spawn();
    const reading = this.#read(this.#process.stderr);
    this.#ended = Promise.all([this.#process.status, reading])
      .then(([{ code, signal }]) =>
        this.log.close(`nats-server ${name} ended (${signal ?? code})`)
      );
  }

  /** Resolves when the server takes clients. */
  static async start(name: string, args: readonly string[]): Promise<ServerProcess> {
    const server = new ServerProcess(await natsServerBinary(), name, args);
    try {
      await server.log.find((line) => line.includes("Server is ready"), {
        ms: READY_MS,
        what: `nats-server ${name} to be ready`,
        describe: () => server.log.events.join("\n"),
      });
      return server;
    } catch (error) {
      await server[Symbol.asyncDispose]();
      throw error;
    }
  }

  /** Kills it and waits until it is gone. */
  async kill(): Promise<void> {
    try {
      this.#process.kill("SIGKILL");
    } catch { /* it has ended */ }
    await this.#ended;
  }

  /** Nobody needs its store any more, and a cluster takes its time to stop in order. */
  async [Symbol.asyncDispose](): Promise<void> {
    await this.kill();
  }

  async #read(stderr: ReadableStream<Uint8Array>): Promise<void> {
    let unfinished = "";
    for await (const text of stderr.pipeThrough(new TextDecoderStream())) {
      const lines = (unfinished + text).split("\n");
      unfinished = lines.pop() as string;
      for (const line of lines) this.log.add(line);
    }
  }
}
