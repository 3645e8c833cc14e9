/**
 * The messages of SOCKS5 (RFC 1928) and what natsway answers with.
 *
 * ```text
 * greeting      version 5 | count n | n methods             ->  version 5 | method
 * request       version 5 | command | 0 | address | port    ->  version 5 | reply | 0 | address | port
 * address       1 | 4 octets    or    3 | length | name    or    4 | 16 octets
 * ```
 * @module
 */
import { isIpv6Literal } from "./target_host.ts";

/** First octet of each message. */
export const SOCKS5_VERSION = 5;
/** First octet of a request by SOCKS4 and SOCKS4a, which natsway refuses. */
export const SOCKS4_VERSION = 4;

/** How a client proves who it is (RFC 1928 section 3). */
export const Method = { None: 0x00, NoneAcceptable: 0xff } as const;

/** What a client asks for (section 4). UDP is not carried and nothing is bound. */
export const Command = { Connect: 1, Bind: 2, UdpAssociate: 3 } as const;

/** Form of an address (section 5). */
export const AddressType = { Ipv4: 1, Name: 3, Ipv6: 4 } as const;

/** What becomes of a request (section 6). Failures of sessions have theirs in `FAILURES`. */
export const Reply = {
  Succeeded: 0,
  GeneralFailure: 1,
  CommandNotSupported: 7,
  AddressTypeNotSupported: 8,
} as const;

/** Octets of an IPv4 and of an IPv6 address. */
export const ADDRESS_BYTES = { [AddressType.Ipv4]: 4, [AddressType.Ipv6]: 16 } as const;
export const PORT_BYTES = 2;

const SOCKS4_REPLY_VERSION = 0;
const SOCKS4_REJECTED = 91;
const RESERVED = 0;
/** Version, command or reply, reserved octet, address type. */
export const REQUEST_HEADER_BYTES = 4;

/** The answer to a greeting. */
export function encodeMethod(method: number): Uint8Array {
  return Uint8Array.of(SOCKS5_VERSION, method);
}

/** "Request rejected" of SOCKS4; the port and the address behind it mean nothing. */
export function encodeSocks4Refusal(): Uint8Array {
  return Uint8Array.of(SOCKS4_REPLY_VERSION, SOCKS4_REJECTED, 0, 0, 0, 0, 0, 0);
}

/**
 * The answer to a request.
 * @param code a code of section 6
 * @param host IP address of the connection to the target; anything else becomes `0.0.0.0:0`
 */
export function encodeReply(code: number, host: string | null = null, port = 0): Uint8Array {
  const ipv4 = host === null ? null : ipv4Octets(host);
  const ipv6 = host === null || ipv4 !== null ? null : ipv6Octets(host);
  const type = ipv6 === null ? AddressType.Ipv4 : AddressType.Ipv6;
  const address = ipv6 ?? ipv4 ?? [0, 0, 0, 0];
  const shownPort = ipv6 === null && ipv4 === null ? 0 : port;
  return Uint8Array.of(
    SOCKS5_VERSION,
    code,
    RESERVED,
    type,
    ...address,
    shownPort >> 8,
    shownPort & 0xff,
  );
}

/** The text of an IPv4 address. */
export function showIpv4(octets: Uint8Array): string {
  return octets.join(".");
}

/** The text of an IPv6 address, shortened (RFC 5952) and without brackets. */
export function showIpv6(octets: Uint8Array): string {
  const groups: string[] = [];
  for (let i = 0; i < octets.length; i += 2) {
    groups.push((octets[i]! * 256 + octets[i + 1]!).toString(16));
  }
  return canonicalIpv6(groups.join(":"));
}

function canonicalIpv6(text: string): string {
  return new URL(`http://[${text}]/`).hostname.slice(1, -1);
}

function ipv4Octets(text: string): number[] | null {
  if (!/^\d{1,3}(\.\d{1,3}){3}$/.test(text)) return null;
  const octets = text.split(".").map(Number);
  return octets.every((octet) => octet <= 255) ? octets : null;
}

function ipv6Octets(text: string): number[] | null {
  if (!isIpv6Literal(text)) return null;
  // A reply has no place for a zone.
  const [head = "", tail] = canonicalIpv6(text.replace(/%.*/s, "")).split("::");
  const groups = (part: string) => part === "" ? [] : part.split(":");
  const front = groups(head);
  const back = groups(tail ?? "");
  const gap = Array<string>(8 - front.length - back.length).fill("0");
  return [...front, ...gap, ...back].flatMap((group) => {
    const value = Number.parseInt(group, 16);
    return [value >> 8, value & 0xff];
  });
}
