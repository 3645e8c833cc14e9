/**
 * Encodes PUB and HPUB straight into an output buffer.
 * @module
 */

import type { MsgHdrs, NatsConnectionImpl } from "@nats-io/nats-core/internal";
import type { BufferedWriter } from "../net/buffered_writer.ts";

const BLANK = 0x20;
const DOT = 0x2e;
const STAR = 0x2a;
const GREATER = 0x3e;
const encoder = new TextEncoder();

/**
 * Refuses what may not be published to.
 * @throws {TypeError} empty, or with a blank, a control character, an empty token or a wildcard.
 */
export function checkPublishSubject(subject: string): void {
  let token = 0;
  for (let i = 0; i <= subject.length; i++) {
    const code = i < subject.length ? subject.charCodeAt(i) : DOT;
    if (code <= BLANK || code === 0x7f) refuse(subject);
    if (code !== DOT) continue;
    const bytes = i - token;
    const first = subject.charCodeAt(token);
    if (bytes === 0 || (bytes === 1 && (first === STAR || first === GREATER))) refuse(subject);
    token = i + 1;
  }
}

function refuse(subject: string): never {
  throw new TypeError(
    `cannot publish to ${JSON.stringify(subject.slice(0, 200))}: no such subject`,
  );
}

/**
 * Appends one message to `writer`. Subject and reply must have passed {@link checkPublishSubject}.
 * @param reply reply subject or `""`
 * @param payloadBytes sum of the lengths of `parts`
 */
export function encodePublish(
  writer: BufferedWriter,
  subject: string,
  reply: string,
  headers: Uint8Array | null,
  parts: readonly Uint8Array[],
  payloadBytes: number,
): void {
  const headerBytes = headers === null ? 0 : headers.length;
  // A UTF-16 unit takes at most three octets of UTF-8; 64 is for verb, blanks, sizes and line ends.
  const room = (subject.length + reply.length) * 3 + headerBytes + payloadBytes + 64;
  const start = writer.reserve(room);
  const buffer = writer.buffer;
  let at = start;
  if (headers !== null) buffer[at++] = 0x48;
  buffer[at++] = 0x50;
  buffer[at++] = 0x55;
  buffer[at++] = 0x42;
  buffer[at++] = BLANK;
  at = putText(buffer, at, subject);
  buffer[at++] = BLANK;
  if (reply !== "") {
    at = putText(buffer, at, reply);
    buffer[at++] = BLANK;
  }
  if (headers !== null) {
    at = putNumber(buffer, at, headerBytes);
    buffer[at++] = BLANK;
  }
  at = putNumber(buffer, at, headerBytes + payloadBytes);
  buffer[at++] = 0x0d;
  buffer[at++] = 0x0a;
  if (headers !== null) {
    buffer.set(headers, at);
    at += headerBytes;
  }
  for (const part of parts) {
    buffer.set(part, at);
    at += part.length;
  }
  buffer[at++] = 0x0d;
  buffer[at++] = 0x0a;
  writer.commit(at - start);
}

/**
 * The same on a connection whose transport is not natsway's own (another client of the process has
 * replaced the factory): slower, with the same bytes on the wire.
 */
export function publishWithoutLane(
  connection: NatsConnectionImpl,
  subject: string,
  reply: string,
  headers: Uint8Array | null,
  parts: readonly Uint8Array[],
  payloadBytes: number,
): void {
  const payload = new Uint8Array(payloadBytes);
  let at = 0;
  for (const part of parts) {
    payload.set(part, at);
    at += part.length;
  }
  // nats-core asks a header object for its bytes and for nothing else.
  const block = headers === null ? null : { encode: () => headers.slice() } as unknown as MsgHdrs;
  connection.publish(subject, payload, {
    ...(reply === "" ? {} : { reply }),
    ...(block === null ? {} : { headers: block }),
  });
}

function putText(buffer: Uint8Array, at: number, text: string): number {
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 0x7e) {
      return at + i + encoder.encodeInto(text.slice(i), buffer.subarray(at + i)).written;
    }
    buffer[at + i] = code;
  }
  return at + text.length;
}

function putNumber(buffer: Uint8Array, at: number, value: number): number {
  let digits = 1;
  for (let rest = value; rest > 9; rest = Math.floor(rest / 10)) digits++;
  for (let i = at + digits - 1; i >= at; i--) {
    buffer[i] = 0x30 + value % 10;
    value = Math.floor(value / 10);
  }
  return at + digits;
}
