/**
 * The socket under nats-core, with the data lane on it.
 * @module
 */

import {
  type ConnectionOptions,
  type Server,
  setTransportFactory,
  type Transport,
} from "@nats-io/nats-core/internal";
import { BufferedWriter } from "../net/buffered_writer.ts";
import { returnBuffer, takeBuffer } from "../net/buffer_pool.ts";
import { LaneSplitter, type LaneTarget } from "./lane_splitter.ts";
import { NATS_CORE_VERSION } from "./nats_internals.ts";
import type { NatsSocket, OpenedSocket } from "./nats_socket.ts";

/** What a link gives to each transport that nats-core makes for it. */
export interface LaneHooks {
  /** Subscriptions that take the lane, by sid. */
  readonly targets: ReadonlyMap<number, LaneTarget>;
  /** Opens the stream to `server`. */
  open(server: Server, signal: AbortSignal): Promise<OpenedSocket>;
  /** Hands bytes to nats-core's parser, which may keep them. */
  parse(bytes: Uint8Array): void;
  /** A message took the lane. */
  received(bytes: number): void;
  handlerFailed(error: unknown): void;
  /** A dial ended without a connection. */
  dialFailed(error: Error): void;
  /**
   * A connection has ended, before or after its handshake with the server.
   * @returns whether nats-core is to hear of it now, and so to dial again
   */
  lost(error: Error | undefined): boolean;
}

/** Connection options with the hooks in them: nats-core hands its options to the transport. */
export type LaneOptions = ConnectionOptions & { readonly natswayLane?: LaneHooks };

/** Low mark of the output: who waits in `drained` goes on here. */
export const LOW_MARK_BYTES = 256 * 1024;
const WRITE_BUFFER_BYTES = 128 * 1024;
const READ_BUFFER_BYTES = 256 * 1024;

/** Lets nats-core make {@link LaneTransport}s. The factory is one per process. */
export function installLaneTransport(): void {
  setTransportFactory({ factory: () => new LaneTransport() });
}

/**
 * One connection attempt and, if it succeeds, one connection. nats-core calls `connect`, iterates
 * once to start the reading, sends its frames, and makes a new transport after each end.
 */
export class LaneTransport implements Transport {
  readonly lang = "nats.js";
  readonly version = NATS_CORE_VERSION;
  closeError?: Error;
  #hooks: LaneHooks | null = null;
  #socket: NatsSocket | null = null;
  #writer: BufferedWriter | null = null;
  #splitter: LaneSplitter | null = null;
  #greeting: Uint8Array = new Uint8Array(0);
  #encrypted = false;
  #ended = false;
  #report: ReturnType<typeof setTimeout> | undefined;
  readonly #abort = new AbortController();
  readonly #closed = Promise.withResolvers<void | Error>();

  get isClosed(): boolean {
    return this.#ended;
  }

  isEncrypted(): boolean {
    return this.#encrypted;
  }

  /**
   * nats-core dials again when it settles. So it does not settle for a dial that failed, which is
   * followed by the next one anyhow: two dials at a time would make two connections.
   */
  closed(): Promise<void | Error> {
    return this.#closed.promise;
  }

  /**
   * Lets nats-core know of the end, in a turn of its own: while the dial that made this connection
   * is still being wound up it would take the news for that of a running dial, and do nothing.
   */
  reportClosed(): void {
    if (this.#ended) this.#report ??= setTimeout(() => this.#closed.resolve(this.closeError), 0);
  }

  /** The output buffer; null before `connect` has succeeded and after the end. */
  get writer(): BufferedWriter | null {
    return this.#ended ? null : this.#writer;
  }

  async connect(server: Server, options: LaneOptions): Promise<void> {
    const hooks = options.natswayLane;
    if (hooks === undefined) throw new Error("this transport serves natsway's own link only");
    this.#hooks = hooks;
    const opened = await hooks.open(server, this.#abort.signal);
    if (this.#ended) {
      opened.socket.close();
      throw new Error("the connection attempt was ended");
    }
    this.#socket = opened.socket;
    this.#greeting = opened.greeting;
    this.#encrypted = opened.encrypted;
    this.#writer = new BufferedWriter(opened.socket, {
      capacityBytes: WRITE_BUFFER_BYTES,
      lowMarkBytes: LOW_MARK_BYTES,
      onError: (error) => this.#end(error),
    });
    this.#splitter = new LaneSplitter({
      targets: hooks.targets,
      // nats-core keeps views of what its parser gets, and the read buffer is used again.
      passOn: (bytes) => hooks.parse(bytes.slice()),
      onMessage: (bytes) => hooks.received(bytes),
      onHandlerError: (error) => hooks.handlerFailed(error),
    });
  }

  /** Reads until the connection ends. Yields nothing: all bytes are dealt with in here, in order. */
  // deno-lint-ignore require-yield -- nats-core starts the reading by iterating
  async *[Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    try {
      await this.#read();
      this.#end();
    } catch (error) {
      this.#end(error instanceof Error ? error : new Error(String(error)));
    }
  }

  async #read(): Promise<void> {
    const socket = this.#socket;
    const splitter = this.#splitter;
    if (socket === null || splitter === null) return;
    let buffer = takeBuffer(Math.max(READ_BUFFER_BYTES, this.#greeting.length));
    buffer.set(this.#greeting);
    let start = 0;
    let end = this.#greeting.length;
    this.#greeting = new Uint8Array(0);
    while (!this.#ended) {
      start = splitter.scan(buffer, start, end);
      const rest = end - start;
      const need = Math.max(splitter.needBytes, rest + 1);
      if (need > buffer.length || (rest === 0 && buffer.length > READ_BUFFER_BYTES)) {
        const other = takeBuffer(Math.max(need, READ_BUFFER_BYTES));
        other.set(buffer.subarray(start, end));
        returnBuffer(buffer);
        buffer = other;
      } else if (rest > 0 && start > 0 && (start + need > buffer.length || rest < start)) {
        buffer.copyWithin(0, start, end);
      } else if (rest > 0) {
        const count = await socket.read(buffer.subarray(end));
        if (count === null) break;
        end += count;
        continue;
      }
      start = 0;
      end = rest;
      const count = await socket.read(end === 0 ? buffer : buffer.subarray(end));
      if (count === null) break;
      end += count;
    }
    returnBuffer(buffer);
  }

  send(frame: Uint8Array): void {
    this.writer?.write(frame);
  }

  close(error?: Error): Promise<void> {
    this.#end(error);
    clearTimeout(this.#report);
    return Promise.resolve();
  }

  disconnect(): void {
    this.#end();
  }

  discard(): void {
    this.#end();
    clearTimeout(this.#report);
  }

  #end(error?: Error): void {
    if (this.#ended) return;
    this.#ended = true;
    if (error !== undefined) this.closeError = error;
    this.#abort.abort();
    this.#splitter?.stop();
    this.#writer?.fail(error ?? new Error("the NATS connection is closed"));
    const opened = this.#socket !== null;
    try {
      this.#socket?.close();
    } catch {
      // The socket had ended by itself.
    }
    if (!opened) {
      if (error !== undefined) this.#hooks?.dialFailed(error);
    } else if (this.#hooks?.lost(error)) {
      this.reportClosed();
    }
  }
}
