/**
 * Moves bytes between the socket of a tunnel and the flow that carries them, both ways.
 * @module
 */
import type { TunnelSocket } from "../net/tunnel_socket.ts";
import type { ByteFlow, ByteSink } from "./byte_flow.ts";
import type { Deadline, DeadlinesByLength } from "./deadlines.ts";
import type { LaneEnd } from "./lane_types.ts";

export interface TunnelPumpOptions {
  readonly socket: TunnelSocket;
  readonly flow: ByteFlow;
  /** Bytes that the flow took from the socket, and brought to it, so far. */
  readonly onBytes: (read: number, written: number) => void;
  /** How long nothing may pass in either direction, in ms; 0 for ever. */
  readonly idleMs: number;
  readonly deadlines: DeadlinesByLength;
  /** Called once, when the flow has ended and the socket is dealt with. */
  readonly onEnd: (end: LaneEnd) => void;
}

/** What is read ahead at most while the flow takes nothing. */
const FILL_BYTES = 64 * 1024;

/** The side of the socket: reads no further than the flow takes, and tells it what the socket took. */
export class TunnelPump implements ByteSink {
  readonly #options: TunnelPumpOptions;
  readonly #socket: TunnelSocket;
  readonly #flow: ByteFlow;
  /** The flow did not take all; it says when it takes more. */
  #waiting = false;
  #offering = false;
  /** A read is in flight; another may have begun it. */
  #reading = false;
  /** The flow was told of the socket's end. */
  #finished = false;
  #read = 0;
  /** Bytes given to the writer, and how many of them the flow was told of. */
  #written = 0;
  #delivered = 0;
  #ended = false;
  #idle: Deadline | null = null;
  #busyAtMs = 0;

  constructor(options: TunnelPumpOptions) {
    this.#options = options;
    this.#socket = options.socket;
    this.#flow = options.flow;
    options.socket.onTaken = () => this.#taken();
    options.socket.onError = () => this.#flow.reset("reset");
    if (options.idleMs > 0) this.#startIdle();
  }

  /** Starts to read; call it once, when the flow may take bytes. */
  start(): void {
    this.#offer();
  }

  data(bytes: Uint8Array): void {
    this.#written += bytes.length;
    this.#socket.writer.write(bytes);
    this.#busy();
  }

  eof(): void {
    this.#busy();
    const { writer } = this.#socket;
    writer.flushed().then(() => this.#ended ? undefined : this.#socket.closeWrite())
      .catch(() => this.#flow.reset("reset"));
  }

  room(): void {
    this.#waiting = false;
    if (!this.#offering) this.#offer();
  }

  ended(end: LaneEnd): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#idle?.cancel();
    if (end.reason === "ok") void this.#closeOrderly();
    else this.#socket.reset();
    this.#options.onEnd(end);
  }

  #offer(): void {
    const { reader } = this.#socket;
    while (reader.unread > 0 && !this.#waiting && !this.#ended) {
      this.#waiting = this.#offering = true; // `room` may come before this is over
      const size = this.#flow.offer(reader.buffer, reader.start, reader.end);
      this.#offering = false;
      if (this.#ended) return;
      reader.start += size;
      this.#read += size;
      this.#busy();
      if (reader.unread === 0) this.#waiting = false;
    }
    this.#fill();
  }

  /** Reads on, also while the flow takes nothing: what waits together goes in one frame. */
  #fill(): void {
    const { reader } = this.#socket;
    if (this.#ended || this.#reading) return;
    if (reader.ended) {
      if (reader.unread > 0 || this.#finished) return;
      this.#finished = true;
      this.#flow.finish();
    } else if (reader.unread < FILL_BYTES) {
      this.#reading = true;
      reader.more().then(this.#onRead, this.#onFailed);
    }
  }

  readonly #onRead = (): void => {
    this.#reading = false;
    if (!this.#ended) this.#offer();
  };

  readonly #onFailed = (): void => {
    if (!this.#ended) this.#flow.reset("reset");
  };

  #taken(): void {
    const taken = this.#written - this.#socket.writer.pendingBytes;
    if (taken <= this.#delivered) return;
    const bytes = taken - this.#delivered;
    this.#delivered = taken;
    this.#flow.delivered(bytes);
  }

  /** Both directions are complete; the socket has all, or takes the last of it. */
  async #closeOrderly(): Promise<void> {
    try {
      await this.#socket.writer.flushed();
      await this.#socket.closeWrite();
    } catch {
      // It has left with the last byte.
    }
    this.#socket.close();
  }

  #busy(): void {
    this.#options.onBytes(this.#read, this.#written);
    if (this.#idle !== null) this.#busyAtMs = performance.now();
  }

  #startIdle(): void {
    this.#busyAtMs = performance.now();
    this.#waitIdle(this.#options.idleMs);
  }

  /** Ends a tunnel that nothing passed through; what passed meanwhile starts the wait anew. */
  #waitIdle(ms: number): void {
    this.#idle = this.#options.deadlines.start(ms, () => {
      const left = this.#busyAtMs + this.#options.idleMs - performance.now();
      if (left > 0) this.#waitIdle(left);
      else this.#flow.reset("idle_timeout");
    });
  }
}
