/**
 * What may be the host of a target, as clients write it. Whether there is such a host is the receiver's
 * to find out.
 * @module
 */

/** A name or an IPv4 address: none of the octets that separate the parts of a URL. */
// deno-lint-ignore no-control-regex -- control characters are what must be refused
const NAME = /^[^\s\x00-\x1f\x7f:/?#@[\]\\]{1,255}$/;
const IPV6_CHARACTERS = /^[0-9A-Fa-f:.]{2,45}$/;
const ZONE = /^[\w.~-]{1,32}$/;

/** Whether `text` can be the name of a host, or an IPv4 address. */
export function isHostName(text: string): boolean {
  return NAME.test(text);
}

/** Whether `text` is an IPv6 address without brackets; a zone (`%eth0`) may follow it (RFC 4007). */
export function isIpv6Literal(text: string): boolean {
  const [address = "", zone, ...rest] = text.split("%");
  if (rest.length > 0 || (zone !== undefined && !ZONE.test(zone))) return false;
  return IPV6_CHARACTERS.test(address) && URL.canParse(`http://[${address}]/`);
}
