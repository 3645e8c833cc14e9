/**
 * From the host that a client named to addresses.
 * @module
 */
import { lookup } from "node:dns";
import { formatIp, parseIp } from "./ip_address.ts";

/** Gives the addresses of a name, in the order of the system. Throws when there is none. */
export type Resolve = (name: string) => Promise<readonly string[]>;

/** getaddrinfo of the system: files such as /etc/hosts, then DNS. Takes as long as the system lets it. */
export function lookupAddresses(name: string): Promise<readonly string[]> {
  // Not by node:dns/promises, whose lookup prints a deprecation warning on Deno 2.6.
  return new Promise((resolve, reject) => {
    lookup(name, { all: true, order: "verbatim" }, (error, found) => {
      if (error) reject(error);
      else resolve(found.map(({ address }) => address));
    });
  });
}

/**
 * The one spelling of a host that is judged, looked up and dialled: an address in its standard form, or
 * a name in lower case and IDNA form, with its final dot if it has one. Null for what is neither; what
 * only some programs read as an address (`127.1`) counts as a name, and is judged by what it gives.
 */
export function canonicalTargetHost(host: string): string | null {
  const ip = parseIp(host);
  if (ip !== null) return formatIp(ip);
  // deno-lint-ignore no-control-regex -- the whole of ASCII
  if (/^[\x00-\x7f]*$/.test(host)) return isName(host) ? host.toLowerCase() : null;
  const url = /[/?#@:\\%[\]]/.test(host) || !URL.canParse(`http://${host}`)
    ? null
    : new URL(`http://${host}`);
  return url !== null && isName(url.hostname) ? url.hostname : null;
}

function isName(text: string): boolean {
  return /^[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]+)*\.?$/.test(text) && text.length <= 254;
}
