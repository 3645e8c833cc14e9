/**
 * What a status message on the inbox of a pull means (NATS ADR-13).
 * @module
 */

import { natsHeader, natsStatus } from "../../protocol/nats_headers.ts";

/** One status, sorted by what has to be done. */
export type PullStatus =
  /** The pull lives on. */
  | { readonly kind: "heartbeat" }
  /** The pull is over, as pulls are; so many messages and bytes of it were not used. */
  | {
    readonly kind: "ended";
    readonly unusedMessages: number;
    readonly unusedBytes: number;
    readonly text: string;
  }
  /** The consumer has as many pulls as it takes, or this one asks for too much: later. */
  | { readonly kind: "busy"; readonly text: string }
  /** The server did not take the pull. */
  | { readonly kind: "refused"; readonly text: string }
  /** The consumer or its server is not what it was: look at it before the next pull. */
  | { readonly kind: "gone"; readonly text: string };

const HEARTBEAT = 100;
const NO_MESSAGES = 404;
const TIMEOUT = 408;
const CONFLICT = 409;
const NO_RESPONDERS = 503;

const decoder = new TextDecoder();

/** Ends of a pull that say nothing of the consumer. */
const ORDINARY = ["message size exceeds maxbytes", "batch completed"];
const GONE = [
  "consumer deleted",
  "stream deleted",
  "leadership change",
  "server shutdown",
  "consumer is push based",
];

/** Reads a header block; null when it has no status, so that the message is a stored one. */
export function parsePullStatus(headers: Uint8Array): PullStatus | null {
  const status = natsStatus(headers);
  if (status === null) return null;
  if (status === HEARTBEAT) return { kind: "heartbeat" };
  const text = description(headers);
  const named = `${status} ${text}`.trimEnd();
  const lower = text.toLowerCase();
  if (status === NO_RESPONDERS) return { kind: "gone", text: "503 nobody answers pulls" };
  if (status === CONFLICT && GONE.some((one) => lower.startsWith(one))) {
    return { kind: "gone", text: named };
  }
  if (status === CONFLICT && lower.startsWith("exceeded ")) return { kind: "busy", text: named };
  const ordinary = status === NO_MESSAGES || status === TIMEOUT ||
    (status === CONFLICT && ORDINARY.some((one) => lower.startsWith(one)));
  if (!ordinary) return { kind: "refused", text: named };
  return {
    kind: "ended",
    unusedMessages: count(headers, "Nats-Pending-Messages"),
    unusedBytes: count(headers, "Nats-Pending-Bytes"),
    text: named,
  };
}

function description(headers: Uint8Array): string {
  const end = headers.indexOf(0x0d);
  // "NATS/1.0 409 " and then the text.
  return decoder.decode(headers.subarray(13, end < 0 ? headers.length : end)).trim();
}

function count(headers: Uint8Array, name: string): number {
  const value = Number(natsHeader(headers, name) ?? "0");
  return Number.isSafeInteger(value) && value >= 0 ? value : 0;
}
