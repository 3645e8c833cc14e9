/**
 * Binary frames between natsway peers (extensions.md sections 3 and 4). Integers are big-endian.
 *
 * ```text
 * every frame   type u8 | flags u8 | epoch 8 octets | offset u64
 * data          ... | body
 * data + HEAD   ... | status u16 | info length u16 | fields length u32 | declared length u64
 *                   | reason length u8 | reason | info (JSON) | field lines, each with CRLF | body
 * eof           ... | trailer lines, each with CRLF
 * close         ... | reason (ASCII)
 * probe         ... | serial u32 | service id (ASCII)
 * window        ... | limit u64 | serial u32
 * gone          ... | reason (ASCII)
 * ```
 *
 * A lane numbers what it carries from 0. The final head takes one number, so body octet k has number
 * k + 1. `eof` and `close` take one number each. FIN in a data frame is an `eof` right behind its body.
 * `offset` is the number of a data frame's first octet (of the head in a HEAD frame), the number of
 * `eof` and `close`, what was `sent` in a probe, `next` in a window, and 0 in `gone`, which stands
 * outside of the sequence: whoever sends it has the flow no longer. RESEND in a window asks for all from
 * `next` on.
 * A declared length of 2^64 - 1 means that none was declared; an empty reason, the usual phrase.
 * The first octet is never `{`, so a frame and a JSON event cannot be taken for each other.
 * @module
 */

export const FrameType = { Data: 1, Eof: 2, Close: 3, Probe: 4, Window: 5, Gone: 6 } as const;
export const FrameFlag = { Head: 1, Fin: 2, Resend: 4 } as const;

/** Octets before whatever is particular to a type. */
export const FRAME_HEADER_BYTES = 18;
/** Octets of a HEAD frame before the reason. */
export const HEAD_FRAME_BYTES = FRAME_HEADER_BYTES + 17;
export const EPOCH_BYTES = 8;
const MAX_INFO_BYTES = 4096;
const MAX_REASON_BYTES = 64;
const NOT_DECLARED = 0xffff_ffff;

/** A frame is malformed; the message says how, never with its content. */
export class FrameError extends Error {
  override readonly name = "FrameError";
}

/** One decoded frame. All arrays are views of the input. */
export type Frame =
  | {
    readonly type: typeof FrameType.Data;
    readonly epoch: Uint8Array;
    readonly offset: number;
    readonly fin: boolean;
    readonly head: FrameHead | null;
    readonly body: Uint8Array;
  }
  | {
    readonly type: typeof FrameType.Eof;
    readonly epoch: Uint8Array;
    readonly offset: number;
    /** Field lines, as in a head; empty for a lane without trailers. */
    readonly trailers: Uint8Array;
  }
  | {
    readonly type: typeof FrameType.Close;
    readonly epoch: Uint8Array;
    readonly offset: number;
    readonly reason: string;
  }
  | {
    readonly type: typeof FrameType.Gone;
    readonly epoch: Uint8Array;
    readonly reason: string;
  }
  | {
    readonly type: typeof FrameType.Probe;
    readonly epoch: Uint8Array;
    /** First number that the sender has not sent yet. */
    readonly sent: number;
    readonly serial: number;
    readonly serviceId: string;
  }
  | {
    readonly type: typeof FrameType.Window;
    readonly epoch: Uint8Array;
    /** First number that the consumer does not have. */
    readonly next: number;
    /** First number that the sender may not send. */
    readonly limit: number;
    /** Largest serial of a probe that the consumer has seen on this lane, 0 for none. */
    readonly serial: number;
    /** Something from `next` on is missing. */
    readonly resend: boolean;
  };

/** The head of a response. */
export interface FrameHead {
  readonly status: number;
  /** Reason phrase where it is not the usual one of the status, at most 255 octets. */
  readonly reason: Uint8Array;
  /** JSON about the peer, as bytes: the same for all its flows but for failures, so it can be kept. */
  readonly info: Uint8Array;
  /** Field lines in their order, each `name: value CRLF`. */
  readonly fields: Uint8Array;
  /** Body length that the origin declared, in bytes, or -1. */
  readonly declaredLength: number;
}

/** Whether a payload is a frame; everything else is a JSON event. */
export function isFrame(payload: Uint8Array): boolean {
  const type = payload[0]!;
  return type >= FrameType.Data && type <= FrameType.Gone;
}

/** Prefixes up to this are made in a buffer that all share; a typed array of its own costs more. */
const SHARED_BYTES = 16 * 1024;
const shared = new Uint8Array(SHARED_BYTES);

/** Room for a prefix, which is copied before the next one is made. */
function sharedRoom(bytes: number): Uint8Array {
  return bytes <= SHARED_BYTES ? shared.subarray(0, bytes) : new Uint8Array(bytes);
}

function start(
  bytes: number,
  type: number,
  flags: number,
  epoch: Uint8Array,
  offset: number,
): Uint8Array {
  const frame = new Uint8Array(bytes);
  fill(frame, type, flags, epoch, offset);
  return frame;
}

function fill(
  frame: Uint8Array,
  type: number,
  flags: number,
  epoch: Uint8Array,
  offset: number,
): void {
  frame[0] = type;
  frame[1] = flags;
  for (let i = 0; i < EPOCH_BYTES; i++) frame[2 + i] = epoch[i]!;
  writeU64(frame, 10, offset);
}

/** All of a HEAD frame but its body, which is published behind it. Good until the next prefix. */
export function encodeHeadPrefix(
  epoch: Uint8Array,
  head: FrameHead,
  fin: boolean,
): Uint8Array {
  const { info, fields } = head;
  const reason = head.reason.length > 255 ? head.reason.subarray(0, 255) : head.reason;
  const flags = FrameFlag.Head | (fin ? FrameFlag.Fin : 0);
  const infoStart = HEAD_FRAME_BYTES + reason.length;
  const size = infoStart + info.length + fields.length;
  const frame = sharedRoom(size);
  fill(frame, FrameType.Data, flags, epoch, 0);
  writeU16(frame, 18, head.status);
  writeU16(frame, 20, info.length);
  writeU32(frame, 22, fields.length);
  if (head.declaredLength < 0) frame.fill(0xff, 26, 34);
  else writeU64(frame, 26, head.declaredLength);
  frame[34] = reason.length;
  frame.set(reason, HEAD_FRAME_BYTES);
  frame.set(info, infoStart);
  frame.set(fields, infoStart + info.length);
  return frame;
}

/**
 * All of a data frame but its body. `offset` is the number of the body's first octet. Good until the
 * next prefix.
 */
export function encodeDataPrefix(epoch: Uint8Array, offset: number, fin: boolean): Uint8Array {
  const frame = sharedRoom(FRAME_HEADER_BYTES);
  fill(frame, FrameType.Data, fin ? FrameFlag.Fin : 0, epoch, offset);
  return frame;
}

/** The end of one direction; `trailers` are field lines. */
export function encodeEof(epoch: Uint8Array, offset: number, trailers?: Uint8Array): Uint8Array {
  const size = FRAME_HEADER_BYTES + (trailers?.length ?? 0);
  const frame = start(size, FrameType.Eof, 0, epoch, offset);
  if (trailers !== undefined) frame.set(trailers, FRAME_HEADER_BYTES);
  return frame;
}

/** The end of a flow that is not the end of its message. */
export function encodeClose(epoch: Uint8Array, offset: number, reason: string): Uint8Array {
  return withReason(FrameType.Close, epoch, offset, reason);
}

/** The flow is not there, or no longer: nothing of it will be answered. */
export function encodeGone(epoch: Uint8Array, reason: string): Uint8Array {
  return withReason(FrameType.Gone, epoch, 0, reason);
}

function withReason(type: number, epoch: Uint8Array, offset: number, reason: string): Uint8Array {
  const text = ascii(reason).subarray(0, MAX_REASON_BYTES);
  const frame = start(FRAME_HEADER_BYTES + text.length, type, 0, epoch, offset);
  frame.set(text, FRAME_HEADER_BYTES);
  return frame;
}

/** Asks the consumer of a lane for its window. */
export function encodeProbe(
  epoch: Uint8Array,
  sent: number,
  serial: number,
  serviceId: string,
): Uint8Array {
  const id = ascii(serviceId);
  const frame = start(FRAME_HEADER_BYTES + 4 + id.length, FrameType.Probe, 0, epoch, sent);
  writeU32(frame, FRAME_HEADER_BYTES, serial);
  frame.set(id, FRAME_HEADER_BYTES + 4);
  return frame;
}

/** Tells the sender of a lane what has arrived and how far it may go. */
export function encodeWindow(
  epoch: Uint8Array,
  next: number,
  limit: number,
  serial: number,
  resend = false,
): Uint8Array {
  const flags = resend ? FrameFlag.Resend : 0;
  const frame = start(FRAME_HEADER_BYTES + 12, FrameType.Window, flags, epoch, next);
  writeU64(frame, FRAME_HEADER_BYTES, limit);
  writeU32(frame, FRAME_HEADER_BYTES + 8, serial);
  return frame;
}

/**
 * Reads one frame.
 * @throws {FrameError} short, unknown type or flags, a length that does not fit the payload, or a
 *   number over 2^53 - 1.
 */
export function decodeFrame(bytes: Uint8Array): Frame {
  if (bytes.length < FRAME_HEADER_BYTES) throw new FrameError("frame is shorter than its header");
  const type = bytes[0]!;
  const flags = bytes[1]!;
  const epoch = bytes.subarray(2, 2 + EPOCH_BYTES);
  const offset = readU64(bytes, 10);
  switch (type) {
    case FrameType.Data:
      return decodeData(bytes, flags, epoch, offset);
    case FrameType.Eof:
      if (flags !== 0) throw new FrameError("frame has unknown flags");
      return { type, epoch, offset, trailers: bytes.subarray(FRAME_HEADER_BYTES) };
    case FrameType.Close:
      return { type, epoch, offset, reason: reasonText(bytes, flags) };
    case FrameType.Gone:
      return { type, epoch, reason: reasonText(bytes, flags) };
    case FrameType.Probe:
      if (flags !== 0) throw new FrameError("frame has unknown flags");
      if (bytes.length < FRAME_HEADER_BYTES + 5 || bytes.length > FRAME_HEADER_BYTES + 4 + 64) {
        throw new FrameError("probe frame has a wrong length");
      }
      return {
        type,
        epoch,
        sent: offset,
        serial: readU32(bytes, FRAME_HEADER_BYTES),
        serviceId: asciiText(bytes, FRAME_HEADER_BYTES + 4),
      };
    case FrameType.Window:
      if ((flags & ~FrameFlag.Resend) !== 0) throw new FrameError("frame has unknown flags");
      if (bytes.length !== FRAME_HEADER_BYTES + 12) {
        throw new FrameError("window frame has a wrong length");
      }
      return {
        type,
        epoch,
        next: offset,
        limit: readU64(bytes, FRAME_HEADER_BYTES),
        serial: readU32(bytes, FRAME_HEADER_BYTES + 8),
        resend: flags !== 0,
      };
    default:
      throw new FrameError("frame has an unknown type");
  }
}

function reasonText(bytes: Uint8Array, flags: number): string {
  if (flags !== 0) throw new FrameError("frame has unknown flags");
  if (bytes.length > FRAME_HEADER_BYTES + MAX_REASON_BYTES) {
    throw new FrameError("close frame has too long a reason");
  }
  return asciiText(bytes, FRAME_HEADER_BYTES);
}

function decodeData(bytes: Uint8Array, flags: number, epoch: Uint8Array, offset: number): Frame {
  if ((flags & ~(FrameFlag.Head | FrameFlag.Fin)) !== 0) {
    throw new FrameError("frame has unknown flags");
  }
  const fin = (flags & FrameFlag.Fin) !== 0;
  if ((flags & FrameFlag.Head) === 0) {
    const body = bytes.subarray(FRAME_HEADER_BYTES);
    return { type: FrameType.Data, epoch, offset, fin, head: null, body };
  }
  if (bytes.length < HEAD_FRAME_BYTES) {
    throw new FrameError("head frame is shorter than its header");
  }
  if (offset !== 0) throw new FrameError("head frame does not start its lane");
  const status = readU16(bytes, 18);
  const infoLength = readU16(bytes, 20);
  const fieldsLength = readU32(bytes, 22);
  if (infoLength > MAX_INFO_BYTES) throw new FrameError("head frame has too long an info");
  const infoStart = HEAD_FRAME_BYTES + bytes[34]!;
  const fieldsStart = infoStart + infoLength;
  const bodyStart = fieldsStart + fieldsLength;
  if (bodyStart > bytes.length) throw new FrameError("head frame is shorter than its parts");
  if (status < 100 || status > 999) throw new FrameError("head frame has an impossible status");
  const undeclared = readU32(bytes, 26) === NOT_DECLARED && readU32(bytes, 30) === NOT_DECLARED;
  const head = {
    status,
    reason: bytes.subarray(HEAD_FRAME_BYTES, infoStart),
    info: bytes.subarray(infoStart, fieldsStart),
    fields: bytes.subarray(fieldsStart, bodyStart),
    declaredLength: undeclared ? -1 : readU64(bytes, 26),
  };
  const body = bytes.subarray(bodyStart);
  return { type: FrameType.Data, epoch, offset, fin, head, body };
}

/** Whether two epochs, or other short byte strings, are equal. */
export function sameBytes(a: Uint8Array, b: Uint8Array): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

function writeU16(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 8;
  bytes[at + 1] = value;
}

function writeU32(bytes: Uint8Array, at: number, value: number): void {
  bytes[at] = value >>> 24;
  bytes[at + 1] = value >>> 16;
  bytes[at + 2] = value >>> 8;
  bytes[at + 3] = value;
}

function writeU64(bytes: Uint8Array, at: number, value: number): void {
  writeU32(bytes, at, Math.floor(value / 0x1_0000_0000));
  writeU32(bytes, at + 4, value >>> 0);
}

function readU16(bytes: Uint8Array, at: number): number {
  return bytes[at]! * 0x100 + bytes[at + 1]!;
}

function readU32(bytes: Uint8Array, at: number): number {
  return readU16(bytes, at) * 0x1_0000 + readU16(bytes, at + 2);
}

function readU64(bytes: Uint8Array, at: number): number {
  const value = readU32(bytes, at) * 0x1_0000_0000 + readU32(bytes, at + 4);
  if (!Number.isSafeInteger(value)) throw new FrameError("frame has a number over 2^53 - 1");
  return value;
}

function ascii(text: string): Uint8Array {
  const bytes = new Uint8Array(text.length);
  for (let i = 0; i < text.length; i++) bytes[i] = text.charCodeAt(i) & 0x7f;
  return bytes;
}

function asciiText(bytes: Uint8Array, from: number): string {
  let text = "";
  for (let i = from; i < bytes.length; i++) {
    const octet = bytes[i]!;
    if (octet < 0x21 || octet > 0x7e) throw new FrameError("frame has text that is not ASCII");
    text += String.fromCharCode(octet);
  }
  return text;
}
