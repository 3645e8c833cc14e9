/**
 * The two sides of a tunnel's flow as its socket and its carrier see each other, whichever form the
 * peer understands: lanes between natsway peers, the contract's sessions with nats-proxy.
 * @module
 */
import type { LaneEnd } from "./lane_types.ts";

/** Carries bytes in both directions. {@linkcode LaneFlow} is one. */
export interface ByteFlow {
  /**
   * Takes what it may of `buffer[start..end)` and returns how much that is; the bytes are copied. When
   * it is not all, {@linkcode ByteSink.room} is called as soon as there is room again.
   */
  offer(buffer: Uint8Array, start: number, end: number): number;
  /** The socket has said all: half-close. */
  finish(): void;
  /** The socket has taken `bytes` more of what {@linkcode ByteSink.data} brought. */
  delivered(bytes: number): void;
  /** Ends the flow for the peer too. Does nothing on an ended flow. */
  reset(reason: string): void;
}

/** What a flow tells its socket. It may call the flow from within any of these. */
export interface ByteSink {
  /** Bytes in their order, each once. A view, good until this returns. */
  data(bytes: Uint8Array): void;
  /** The other end has said all. */
  eof(): void;
  /** After an `offer` that was not taken whole: more may be offered now. */
  room(): void;
  /** Last call. Unless the reason is `ok` the socket is to be reset, whatever is still buffered. */
  ended(end: LaneEnd): void;
}
