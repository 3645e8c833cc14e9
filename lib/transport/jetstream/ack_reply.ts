/**
 * What the reply subject of a pulled message says about it (NATS ADR-15):
 *
 * ```text
 * $JS.ACK.<stream>.<consumer>.<delivered>.<stream seq>.<consumer seq>.<time in ns>.<pending>
 * $JS.ACK.<domain>.<account hash>.<stream>.<consumer>. ... .<pending>[.<random>]
 * ```
 * @module
 */

/** Facts of one delivery. */
export interface AckReply {
  /** `""` when the server has none. */
  readonly domain: string;
  readonly stream: string;
  readonly consumer: string;
  /** How often it was delivered, this time included: 1 and up. */
  readonly delivered: number;
  readonly streamSeq: number;
  readonly consumerSeq: number;
  /** When the server stored it, by the server's wall clock, in ms since 1970 with fractions. */
  readonly timeMs: number;
  /** Messages that wait behind it. */
  readonly pending: number;
}

const PREFIX = "$JS.ACK.";
const OLD_TOKENS = 9;
/** From so many tokens on the subject has domain and account hash. */
const NEW_TOKENS = 11;
const NS_PER_MS = 1_000_000;
const NO_DOMAIN = "_";

/** Reads a reply subject; null when it is none of a pulled message. */
export function parseAckReply(subject: string): AckReply | null {
  if (!subject.startsWith(PREFIX)) return null;
  const tokens = subject.split(".");
  const at = tokens.length === OLD_TOKENS ? 2 : tokens.length >= NEW_TOKENS ? 4 : 0;
  if (at === 0) return null;
  const [stream, consumer, ...numbers] = tokens.slice(at, at + 7);
  if (!stream || !consumer || !numbers.every(isNumber)) return null;
  const [delivered, streamSeq, consumerSeq, timeNs, pending] = numbers as [
    string,
    string,
    string,
    string,
    string,
  ];
  const domain = at === 4 ? tokens[2] as string : NO_DOMAIN;
  return {
    domain: domain === NO_DOMAIN ? "" : domain,
    stream,
    consumer,
    delivered: Number(delivered),
    streamSeq: Number(streamSeq),
    consumerSeq: Number(consumerSeq),
    timeMs: nsToMs(timeNs),
    pending: Number(pending),
  };
}

function isNumber(token: string): boolean {
  return /^[0-9]{1,20}$/.test(token);
}

/** Nanoseconds of today have more digits than a number holds: they are cut before the division. */
function nsToMs(ns: string): number {
  if (ns.length <= 6) return Number(ns) / NS_PER_MS;
  return Number(ns.slice(0, -6)) + Number(ns.slice(-6)) / NS_PER_MS;
}
