/**
 * A TCP socket for tests that sees what a program hides: each octet, FIN apart from RST, and that
 * nothing follows. It reads only when asked, so a test can be a slow reader.
 * @module
 */
import net from "node:net";
import { concat, indexOf, latin1, octets } from "./bytes.ts";
import { within } from "./wait.ts";

/** How the peer's side of the connection stands. */
export type End = "open" | "fin" | "reset";

/** The peer was gone before what was awaited had come. */
export class SocketEndedError extends Error {
  override readonly name = "SocketEndedError";
}

const DEFAULT_MS = 10_000;
/** Octets kept for {@linkcode TestSocket.transcript}; later ones are only counted. */
const TRANSCRIPT_BYTES = 1_048_576;

export class TestSocket implements AsyncDisposable {
  readonly #socket: net.Socket;
  readonly #closed: Promise<void>;
  #end: End = "open";
  #unread: Uint8Array[] = [];
  #transcript: Uint8Array[] = [];
  #receivedBytes = 0;
  #wake: (() => void) | null = null;
  #pending: Promise<Uint8Array | null> | null = null;

  constructor(socket: net.Socket) {
    this.#socket = socket;
    this.#closed = new Promise((resolve) => socket.once("close", () => resolve()));
    const wake = () => this.#wake?.();
    socket.on("readable", wake);
    socket.on("end", () => {
      if (this.#end === "open") this.#end = "fin";
      wake();
    });
    socket.on("error", (error: Error & { code?: string }) => {
      if (error.code === "ECONNRESET" || error.code === "EPIPE") this.#end = "reset";
      else if (this.#end === "open") this.#end = "reset";
      wake();
    });
    socket.on("close", wake);
  }

  static async connect(port: number, hostname = "127.0.0.1"): Promise<TestSocket> {
    const socket = net.connect({ port, host: hostname, allowHalfOpen: true, noDelay: true });
    const opened = new Promise<void>((resolve, reject) => {
      socket.once("connect", () => resolve());
      socket.once("error", reject);
    });
    await within(opened, DEFAULT_MS, `a connection to ${hostname}:${port}`);
    return new TestSocket(socket);
  }

  /** The peer's port. */
  get remotePort(): number {
    return this.#socket.remotePort ?? 0;
  }

  get localPort(): number {
    return this.#socket.localPort ?? 0;
  }

  /** All octets that were read so far (the first MiB of them), consumed or not. */
  get transcript(): Uint8Array<ArrayBuffer> {
    return concat(this.#transcript);
  }

  get receivedBytes(): number {
    return this.#receivedBytes;
  }

  /** Octets read but not consumed. */
  get unread(): Uint8Array<ArrayBuffer> {
    return concat(this.#unread);
  }

  /** What is known about the peer's end; only reading finds out. */
  get end(): End {
    return this.#end;
  }

  /** Sends exactly these octets; resolves when the kernel has them (a peer that does not read: never). */
  write(data: Uint8Array | string): Promise<void> {
    const bytes = typeof data === "string" ? octets(data) : data;
    if (bytes.length === 0) return Promise.resolve();
    return new Promise((resolve, reject) => {
      this.#socket.write(bytes, (error) => {
        if (error) reject(new SocketEndedError(`write failed: ${error.message}`));
        else resolve();
      });
    });
  }

  /** Sends `data` in pieces of `size` octets, each in a write of its own, `pauseMs` apart. */
  async writeInPieces(data: Uint8Array | string, size: number, pauseMs = 0): Promise<void> {
    const bytes = typeof data === "string" ? octets(data) : data;
    for (let at = 0; at < bytes.length; at += size) {
      await this.write(bytes.subarray(at, at + size));
      if (pauseMs > 0) await new Promise((resolve) => setTimeout(resolve, pauseMs));
    }
  }

  /** Sends FIN; reading goes on. */
  closeWrite(): Promise<void> {
    return new Promise((resolve) => this.#socket.end(() => resolve()));
  }

  /** Closes both directions: FIN, or RST by the kernel when the peer goes on sending. */
  async close(): Promise<void> {
    this.#socket.destroy();
    await this.#closed;
  }

  /** Breaks the connection off with RST. */
  async reset(): Promise<void> {
    this.#socket.resetAndDestroy();
    await this.#closed;
  }

  /** Puts octets back in front of what is unread. */
  unshift(bytes: Uint8Array): void {
    if (bytes.length > 0) this.#unread.unshift(bytes);
  }

  /** The next octets, or null when the peer has ended. */
  async read(ms = DEFAULT_MS): Promise<Uint8Array | null> {
    const first = this.#unread.shift();
    if (first !== undefined) return first;
    // A read that timed out stays pending: what it brings belongs to the next read.
    this.#pending ??= this.#pull();
    const piece = await within(this.#pending, ms, () => `octets from the peer; ${this.#told()}`);
    this.#pending = null;
    return piece;
  }

  /** Octets up to and with `marker`. */
  async readUntil(marker: string, ms = DEFAULT_MS): Promise<Uint8Array<ArrayBuffer>> {
    const needle = octets(marker);
    const limit = Date.now() + ms;
    let have = this.unread;
    let from = 0;
    while (true) {
      const at = indexOf(have, needle, from);
      if (at >= 0) {
        this.#unread = [];
        this.unshift(have.subarray(at + needle.length));
        return have.slice(0, at + needle.length);
      }
      from = Math.max(0, have.length - needle.length);
      this.#unread = [];
      let piece: Uint8Array | null;
      try {
        piece = await this.read(Math.max(1, limit - Date.now()));
      } catch (error) {
        this.unshift(have);
        throw error;
      }
      if (piece === null) {
        this.unshift(have);
        throw new SocketEndedError(`no ${JSON.stringify(marker)} before ${this.#told()}`);
      }
      have = concat([have, piece]);
    }
  }

  /** Exactly `count` octets. */
  async readExactly(count: number, ms = DEFAULT_MS): Promise<Uint8Array<ArrayBuffer>> {
    const parts: Uint8Array[] = [];
    const limit = Date.now() + ms;
    let missing = count;
    while (missing > 0) {
      const piece = await this.read(Math.max(1, limit - Date.now()));
      if (piece === null) {
        throw new SocketEndedError(`${missing} of ${count} octets missing at ${this.#told()}`);
      }
      parts.push(piece.subarray(0, missing));
      if (piece.length > missing) this.unshift(piece.subarray(missing));
      missing -= Math.min(missing, piece.length);
    }
    return concat(parts);
  }

  /** Waits for the peer's end and returns how it ended; octets that come before are dropped. */
  async waitEnd(ms = DEFAULT_MS): Promise<"fin" | "reset"> {
    const limit = Date.now() + ms;
    this.#unread = [];
    while (await this.read(Math.max(1, limit - Date.now())) !== null) { /* dropped */ }
    if (this.#end === "open") throw new SocketEndedError("closed by the test, not by the peer");
    return this.#end;
  }

  /**
   * Holds the connection for `ms` and fails when an octet comes.
   * @returns how the peer's side stands afterwards; returns early when it ends
   */
  async nothingFollows(ms: number): Promise<End> {
    let piece: Uint8Array | null;
    try {
      piece = await this.read(ms);
    } catch {
      return "open";
    }
    if (piece === null) return this.#end;
    this.unshift(piece);
    throw new Error(`surplus octets: ${JSON.stringify(latin1(this.unread.subarray(0, 300)))}`);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #told(): string {
    const text = latin1(this.transcript);
    return `${this.#end} after ${this.#receivedBytes} octets ${JSON.stringify(text.slice(-400))}`;
  }

  async #pull(): Promise<Uint8Array | null> {
    while (true) {
      const piece = this.#socket.read() as Uint8Array | null;
      if (piece !== null && piece.length > 0) {
        if (this.#receivedBytes < TRANSCRIPT_BYTES) this.#transcript.push(piece);
        this.#receivedBytes += piece.length;
        return piece;
      }
      if (this.#end !== "open") return null;
      if (this.#socket.destroyed) {
        await this.#closed; // an error that comes along tells how it ended
        return null;
      }
      await new Promise<void>((resolve) => (this.#wake = resolve));
    }
  }
}
