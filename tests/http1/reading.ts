/**
 * What a parser made of a connection, in a form in which two parsers can be compared.
 * @module
 */

import { type Message, readConnection } from "./reader.ts";

/** Which end of a connection the octets come from. */
export type Side = "request" | "response";

/** One message as a parser handed it out. */
export interface Heard {
  /** Method and target, or status and reason. */
  readonly start: readonly [string, string];
  /** Such as `1.1`. */
  readonly version: string;
  readonly fields: readonly (readonly [string, string])[];
  readonly body: string;
  readonly trailers: readonly (readonly [string, string])[];
  /** Another message can follow on the connection. */
  readonly keepAlive: boolean;
  /** What follows may be another protocol; then `keepAlive` is false. */
  readonly leavesHttp: boolean;
}

/** What came of a connection, up to the first message behind which it does not go on. */
export interface Reading {
  readonly messages: readonly Heard[];
  /** Head and body so far of the message that was begun last, if it got that far and no further. */
  readonly open: Heard | null;
  /** `unfinished`: the input ended within a message. */
  readonly end: "clean" | "refused" | "unfinished";
  /** What it was refused with, in the parser's own words; else empty. */
  readonly fault: string;
}

/** What is read, and how. */
export interface Input {
  readonly side: Side;
  readonly bytes: Uint8Array;
  /** Of the request that a response answers. @default {"GET"} */
  readonly requestMethod?: string;
  /** Offsets at which the input is cut, ascending. @default {[]} */
  readonly cuts?: readonly number[];
}

/** Where natsway and the oracle part. */
export interface Divergence {
  readonly input: Input;
  /** The whole connection, one code point per octet. */
  readonly text: string;
  readonly ours: Reading;
  readonly theirs: Reading;
  /** The first message that is not the same: complete, or as far as it was read; null if refused. */
  readonly our: Heard | null;
  readonly their: Heard | null;
}

/** Both parsers get this limit, which no input here comes near. */
export const MAX_HEAD_BYTES = 65_536;

/** Cuts that make a piece of each octet. */
export function everyOctet(bytes: Uint8Array): number[] {
  return Array.from(bytes, (_, i) => i);
}

/** Reads a connection with natsway's codec. */
export function readWithNatsway(input: Input): Reading {
  const { messages, status, reason, rest } = readConnection(input.bytes, {
    side: input.side,
    requestMethod: input.requestMethod ?? "GET",
    maxHeadBytes: MAX_HEAD_BYTES,
    maxTrailerBytes: MAX_HEAD_BYTES,
    cuts: input.cuts ?? [],
  });
  const last = messages.at(-1);
  const open = last === undefined || last.complete || status !== 0 ? null : heard(last);
  const isUnfinished = open !== null || beginsHead(input.bytes, rest);
  return upToTheClose({
    messages: messages.filter((message) => message.complete).map(heard),
    open,
    end: status !== 0 ? "refused" : isUnfinished ? "unfinished" : "clean",
    fault: reason,
  });
}

/** Leaves out what came behind the connection's last message. */
export function upToTheClose(reading: Reading): Reading {
  const last = reading.messages.findIndex((message) => !message.keepAlive);
  if (last < 0) return reading;
  return { messages: reading.messages.slice(0, last + 1), open: null, end: "clean", fault: "" };
}

/** Whether the last `count` octets begin a head; empty lines do not. */
function beginsHead(bytes: Uint8Array, count: number): boolean {
  return bytes.subarray(bytes.length - count).some((octet) => octet !== 0x0d && octet !== 0x0a);
}

function heard(message: Message): Heard {
  const { start, minor, fields, body, trailers, keepAlive, leavesHttp } = message;
  return {
    start,
    version: `1.${minor}`,
    fields,
    body,
    trailers: trailers ?? [],
    keepAlive: keepAlive && !leavesHttp,
    leavesHttp,
  };
}
