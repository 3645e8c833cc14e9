/**
 * IP addresses as numbers, so that two spellings of one address cannot be judged in two ways.
 * @module
 */

/** An address of either family. */
export interface IpAddress {
  readonly version: 4 | 6;
  /** 32 or 128 bits. */
  readonly bits: bigint;
}

/** All addresses that share their first `prefixBits` bits. */
export interface IpNetwork extends IpAddress {
  readonly prefixBits: number;
}

const LOW_32 = 0xffff_ffffn;
/** ::ffff:0:0/96 without its last 32 bits (RFC 4291 §2.5.5.2). */
const MAPPED = 0xffffn;
/** ::ffff:0:0:0/96, IPv4-translated (RFC 7915's predecessor, RFC 2765 §2.1). */
const TRANSLATED = 0xffff_0000n;
/** 64:ff9b::/96 (RFC 6052 §2.1). */
const NAT64 = 0x0064_ff9b_0000_0000_0000_0000n;
/** 2002::/16 (RFC 3056 §2). */
const SIX_TO_FOUR = 0x2002n;
/** 2001::/32 (RFC 4380 §4). */
const TEREDO = 0x2001_0000n;

/**
 * Reads an address in its standard form: four decimal numbers without leading zeros, or RFC 4291 §2.2.
 * An IPv4-mapped IPv6 address gives the IPv4 address, since a connection to it goes there. Null for
 * everything else: forms that only some programs take (`127.1`, `0x7f.1`), and zones (`fe80::1%eth0`).
 */
export function parseIp(text: string): IpAddress | null {
  const four = parseIpv4(text);
  if (four !== null) return { version: 4, bits: four };
  const six = parseIpv6(text);
  if (six === null) return null;
  return six >> 32n === MAPPED ? { version: 4, bits: six & LOW_32 } : { version: 6, bits: six };
}

/** The standard form that all programs read alike; `::` is not used. */
export function formatIp({ version, bits }: IpAddress): string {
  if (version === 4) return [24n, 16n, 8n, 0n].map((at) => (bits >> at) & 0xffn).join(".");
  const groups = [112n, 96n, 80n, 64n, 48n, 32n, 16n, 0n].map((at) => (bits >> at) & 0xffffn);
  return groups.map((group) => group.toString(16)).join(":");
}

/**
 * A network from an address and the length of its prefix; bits behind the prefix do not count. A prefix
 * of 96 bits or more of mapped addresses is an IPv4 network.
 * @throws {RangeError} `address` is none, or `prefixBits` is over its length
 */
export function ipNetwork(address: string, prefixBits: number): IpNetwork {
  const four = parseIpv4(address);
  const six = parseIpv6(address);
  const length = four !== null ? 32 : 128;
  if ((four === null && six === null) || prefixBits < 0 || prefixBits > length) {
    throw new RangeError(`${address}/${prefixBits} is no network`);
  }
  if (four !== null) return { version: 4, bits: four, prefixBits };
  const bits = six as bigint;
  return bits >> 32n === MAPPED && prefixBits >= 96
    ? { version: 4, bits: bits & LOW_32, prefixBits: prefixBits - 96 }
    : { version: 6, bits, prefixBits };
}

/** Whether the address is in the network; never across families. */
export function isInNetwork(address: IpAddress, network: IpNetwork): boolean {
  const behind = BigInt((network.version === 4 ? 32 : 128) - network.prefixBits);
  return address.version === network.version && address.bits >> behind === network.bits >> behind;
}

/**
 * The address itself, then each IPv4 address inside it: a gateway or a tunnel may carry a connection to
 * that one.
 */
export function ipForms(address: IpAddress): readonly IpAddress[] {
  if (address.version === 4) return [address];
  return [address, ...ipv4Inside(address.bits).map((bits) => ({ version: 4 as const, bits }))];
}

function ipv4Inside(bits: bigint): bigint[] {
  const upper = bits >> 32n;
  const low = bits & LOW_32;
  // IPv4-compatible (RFC 4291 §2.5.5.1), but :: and ::1 are addresses of their own.
  if (upper === 0n) return low > 1n ? [low] : [];
  if (upper === TRANSLATED || upper === NAT64) return [low];
  if (bits >> 112n === SIX_TO_FOUR) return [(bits >> 80n) & LOW_32];
  // The server, and the client with its bits turned over (RFC 4380 §4).
  if (bits >> 96n === TEREDO) return [(bits >> 64n) & LOW_32, low ^ LOW_32];
  return [];
}

function parseIpv4(text: string): bigint | null {
  const match = /^(\d{1,3})\.(\d{1,3})\.(\d{1,3})\.(\d{1,3})$/.exec(text);
  if (match === null) return null;
  let bits = 0n;
  for (const part of match.slice(1)) {
    if (Number(part) > 255 || (part.length > 1 && part.startsWith("0"))) return null;
    bits = bits << 8n | BigInt(part);
  }
  return bits;
}

function parseIpv6(text: string): bigint | null {
  if (!text.includes(":")) return null;
  // An IPv4 tail becomes its two groups.
  const tail = /^(.*:)([\d.]*\.[\d.]*)$/.exec(text);
  const four = tail === null ? null : parseIpv4(tail[2] ?? "");
  if (tail !== null && four === null) return null;
  const plain = four === null
    ? text
    : `${tail?.[1]}${(four >> 16n).toString(16)}:${(four & 0xffffn).toString(16)}`;
  const halves = plain.split("::");
  if (halves.length > 2) return null;
  const [head = [], rest = []] = halves.map((half) => half === "" ? [] : half.split(":"));
  const missing = 8 - head.length - rest.length;
  if (halves.length === 2 ? missing < 1 : missing !== 0) return null;
  let bits = 0n;
  for (const group of [...head, ...Array<string>(missing).fill("0"), ...rest]) {
    if (!/^[0-9A-Fa-f]{1,4}$/.test(group)) return null;
    bits = bits << 16n | BigInt(`0x${group}`);
  }
  return bits;
}
