/**
 * Standard input and output as one end of a tunnel.
 * @module
 */
import { BufferedWriter } from "./buffered_writer.ts";
import { SocketReader } from "./socket_reader.ts";
import { endStdout } from "./stdout_end.ts";
import type { TunnelSocket } from "./tunnel_socket.ts";

/** Where bytes come from and go to. */
export interface StdioStreams {
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  /** Lets the reader of the output see its end; false when only the end of the process can do that. */
  endOutput(): boolean;
}

/** Those of this process. */
export const PROCESS_STREAMS: StdioStreams = {
  read: (into) => Deno.stdin.read(into),
  write: (bytes) => Deno.stdout.write(bytes),
  endOutput: endStdout,
};

/** How it ended: as a stream whose end was seen by both sides, or broken off. */
export type StdioEnd = "closed" | "reset";

/**
 * A tunnel's end over two streams. They cannot be closed from here: a process ends when `ended` says so.
 */
export class StdioTunnelSocket implements TunnelSocket {
  readonly #streams: StdioStreams;
  readonly #ended = Promise.withResolvers<StdioEnd>();
  readonly reader: SocketReader;
  readonly writer: BufferedWriter;
  onTaken: (() => void) | null = null;
  onError: (() => void) | null = null;
  #over = false;

  constructor(streams: StdioStreams) {
    this.#streams = streams;
    this.reader = new SocketReader(streams);
    this.writer = new BufferedWriter(streams, {
      onTaken: () => this.onTaken?.(),
      onError: () => this.onError?.(),
    });
  }

  /** Resolves once the tunnel's end is closed or reset. */
  get ended(): Promise<StdioEnd> {
    return this.#ended.promise;
  }

  /**
   * Ends the output. Where its reader would not see that, all of it ends: a program that waits for the
   * end would never end its own output.
   */
  closeWrite(): Promise<void> {
    if (!this.#over && !this.#streams.endOutput()) this.close();
    return Promise.resolve();
  }

  close(): void {
    this.#end("closed");
  }

  reset(): void {
    this.#end("reset");
  }

  #end(how: StdioEnd): void {
    if (this.#over) return;
    this.#over = true;
    this.onTaken = this.onError = null;
    this.writer.fail(new Error("standard output is closed"));
    this.reader.close();
    this.#ended.resolve(how);
  }
}
