/**
 * What the parts of the lane engine and their user agree on.
 * @module
 */
import type { FrameHead } from "../protocol/frames.ts";

/** Bytes and bounds of lanes. Defaults of {@linkcode laneSizes}. */
export interface LaneSizes {
  /** Largest body of one data frame. */
  readonly frameBytes: number;
  /** Largest message that both servers take. */
  readonly maxMessageBytes: number;
  /** The first grant is at most this. */
  readonly firstWindowBytes: number;
  /** A window grows to at most this. */
  readonly largestWindowBytes: number;
}

/** The default of FRAME_BYTES. */
const FRAME_BYTES = 128 * 1024;
/** Room for the header of a data frame. */
const FRAME_ROOM_BYTES = 64;

/** The sizes of extensions.md sections 3 and 5 for messages of at most `maxMessageBytes`. */
export function laneSizes(maxMessageBytes: number, frameBytes = FRAME_BYTES): LaneSizes {
  return {
    frameBytes: Math.max(1, Math.min(frameBytes, maxMessageBytes - FRAME_ROOM_BYTES)),
    maxMessageBytes,
    firstWindowBytes: 256 * 1024,
    largestWindowBytes: 4 * 1024 * 1024,
  };
}

/** All waits of the engine, in ms. */
export interface LaneTimes {
  /** PEER_TIMEOUT. */
  readonly peerTimeoutMs: number;
  /** How long a tail may be quiet, and between two probes, pings while unanswered, or first events. */
  readonly probeMs: number;
  /** How long a frame may stay without a window. */
  readonly windowMs: number;
  /** Shortest time between two restarts from the same number. */
  readonly restartMs: number;
  /** Between two pings of a peer that answers. */
  readonly pingMs: number;
  /** A window of which half is used up faster than this grows. */
  readonly growMs: number;
  /** A window of which half lasted longer than this shrinks. */
  readonly shrinkMs: number;
  /** How long an ended flow is remembered. */
  readonly rememberMs: number;
}

/** The waits that belong to a PEER_TIMEOUT; shorter ones than 12 s shorten those that must fit into it. */
export function laneTimes(peerTimeoutMs: number): LaneTimes {
  return {
    peerTimeoutMs,
    probeMs: Math.min(2000, peerTimeoutMs / 6),
    windowMs: Math.min(1000, peerTimeoutMs / 12),
    restartMs: Math.min(1000, peerTimeoutMs / 12),
    pingMs: Math.min(4000, peerTimeoutMs / 3),
    growMs: 500,
    shrinkMs: 10_000,
    rememberMs: 3 * peerTimeoutMs,
  };
}

/** How a flow ended. */
export interface LaneEnd {
  /** `ok`: every byte of both directions arrived; else a failure code, or the reason of a close. */
  readonly reason: string;
  /** The peer said so. */
  readonly byPeer: boolean;
}

/** What a flow tells the socket at its end. It may call the flow from within any of these. */
export interface LaneApp {
  /** The final head of the response lane. Views, good until this returns. */
  head(head: FrameHead): void;
  /** Bytes in their order, each once; what the socket has taken is to be said with `delivered`. */
  data(bytes: Uint8Array): void;
  /** The other end has said all. `trailers` are field lines, mostly none. */
  eof(trailers: Uint8Array): void;
  /** After an `offer` that was not taken whole: more may be offered now. */
  room(): void;
  /** Last call. Unless the reason is `ok` the socket is to be reset, whatever is still buffered. */
  ended(end: LaneEnd): void;
}

/** How a flow speaks to its peer: all goes on one subject. */
export interface LaneWire {
  /**
   * Publishes one frame, to be copied before this returns. `probe`: with the own control subject as reply.
   * What cannot be sent is lost; the engine finds out.
   */
  publish(parts: readonly Uint8Array[], probe: boolean): void;
  /** False while so much waits for the kernel that data should too; then `LaneFlow.pump` is to be called. */
  readonly ready: boolean;
  /** Publishes the first event, where that is no frame (`session_established`, `request_ready`). */
  first(): void;
  /** Cancels the execution of an epoch at its owner, or, with null, whatever the pool runs of this id. */
  cancel(epoch: Uint8Array | null, reason: string): void;
}

/** What a flow is about. */
export interface LaneFlowOptions {
  readonly id: string;
  /** A requester opens the flow and is bound later; a receiver executes it under an epoch of its own. */
  readonly role: "requester" | "receiver";
  /** Of a receiver's execution, 8 octets; null for a requester. */
  readonly epoch: Uint8Array | null;
  /** Whether this side has a lane to send bytes on, and one to receive them on. */
  readonly sends: boolean;
  readonly receives: boolean;
  /** The receiver's lane starts with a response head. */
  readonly responseHead: boolean;
  /** A broken flow is told to the peer by `close` in the lane, or by a cancel (requests over HTTP). */
  readonly closeBy: "lane" | "cancel";
  /** For a receiver: how far its first event may go, from the envelope's `window`. */
  readonly limit: number;
  /** For a requester: the window that its envelope has granted already; absent: the engine decides. */
  readonly granted?: number;
  /** For a requester: how long it waits for the first event. */
  readonly answerTimeoutMs: number;
  readonly sizes: LaneSizes;
  readonly app: LaneApp;
  readonly wire: LaneWire;
}

/** What a first event says about its sender. */
export interface FirstEvent {
  readonly epoch: Uint8Array;
  /** Instance of the receiver, for presence; `""` for unknown. */
  readonly instance: string;
  /** Its `window`: how far this side may go. */
  readonly limit: number;
  /** It is the whole response: a HEAD frame with FIN. */
  readonly whole: boolean;
}
