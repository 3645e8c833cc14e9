/**
 * One end of a tunnel in memory: the test says what its client sends and when it takes what it gets.
 * @module
 */
import { BufferedWriter } from "../../lib/net/buffered_writer.ts";
import { SocketReader } from "../../lib/net/socket_reader.ts";
import type { TunnelSocket } from "../../lib/net/tunnel_socket.ts";
import { concat, latin1, octets } from "./bytes.ts";
import { EventLog } from "./wait.ts";

/** A socket whose other end is the test. */
export class MemorySocket implements TunnelSocket {
  readonly reader: SocketReader;
  readonly writer: BufferedWriter;
  onTaken: (() => void) | null = null;
  onError: (() => void) | null = null;
  /** What happened: `wrote 3`, `closeWrite`, `close`, `reset`. */
  readonly log = new EventLog<string>();
  readonly #written: Uint8Array[] = [];
  readonly #incoming: (Uint8Array | Error | null)[] = [];
  #wake = () => {};
  #gate: PromiseWithResolvers<void> | null = null;
  #broken = false;
  #closed = false;
  /** Reads that were begun. */
  reads = 0;

  constructor() {
    this.reader = new SocketReader({ read: (into) => this.#read(into) });
    this.writer = new BufferedWriter({ write: (bytes) => this.#write(bytes) }, {
      onTaken: () => this.onTaken?.(),
      onError: () => this.onError?.(),
    });
  }

  /** The client sends something. */
  send(data: string | Uint8Array): void {
    this.#add(typeof data === "string" ? octets(data) : data.slice());
  }

  /** The client shuts its sending side down. */
  sendEnd(): void {
    this.#add(null);
  }

  /** The client resets the connection. */
  breakOff(): void {
    this.#broken = true;
    this.#add(new Deno.errors.ConnectionReset("reset by the test"));
    this.#gate?.resolve();
  }

  /** The client takes nothing more until `release`. */
  hold(): void {
    this.#gate ??= Promise.withResolvers();
  }

  release(): void {
    this.#gate?.resolve();
    this.#gate = null;
  }

  /** What the client has got, one code point for each octet. */
  get got(): string {
    return latin1(concat(this.#written));
  }

  /** Waits until the client has got exactly `text`. */
  async gets(text: string): Promise<void> {
    const describe = () => JSON.stringify(this.got.slice(0, 300));
    const what = `${JSON.stringify(text.slice(0, 300))} at the client`;
    await this.log.find(() => this.got === text, { ms: 5_000, what, describe });
  }

  /** Waits for `closeWrite`, `close` or `reset`. */
  async sees(event: string): Promise<void> {
    const describe = () => this.log.events.join();
    await this.log.find((one) => one === event, { ms: 5_000, what: event, describe });
  }

  closeWrite(): Promise<void> {
    if (this.#broken) return Promise.reject(new Deno.errors.NotConnected("broken by the test"));
    this.log.add("closeWrite");
    return Promise.resolve();
  }

  close(): void {
    this.#end("close");
  }

  reset(): void {
    this.#end("reset");
  }

  #end(how: string): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onTaken = this.onError = null;
    this.writer.fail(new Error("the connection is closed"));
    this.log.add(how);
    this.#add(new Deno.errors.BadResource("closed here"));
    this.#gate?.resolve();
    this.reader.close();
  }

  #add(piece: Uint8Array | Error | null): void {
    this.#incoming.push(piece);
    this.#wake();
  }

  async #read(into: Uint8Array): Promise<number | null> {
    this.reads++;
    while (this.#incoming.length === 0) {
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
    const piece = this.#incoming[0]!;
    if (piece instanceof Error) throw piece;
    if (piece === null) return null;
    const size = Math.min(piece.length, into.length);
    into.set(piece.subarray(0, size));
    if (size === piece.length) this.#incoming.shift();
    else this.#incoming[0] = piece.subarray(size);
    return size;
  }

  async #write(bytes: Uint8Array): Promise<number> {
    if (this.#gate !== null) await this.#gate.promise;
    if (this.#broken) throw new Deno.errors.BrokenPipe("broken by the test");
    this.#written.push(bytes.slice());
    this.log.add(`wrote ${bytes.length}`);
    return bytes.length;
  }
}
