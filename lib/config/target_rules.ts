/**
 * Rules that name targets of tunnels and proxy requests.
 * @module
 */
import { canonicalHost } from "./addresses.ts";
import { type Kind, quoteItem, RefusedError } from "./kinds.ts";

/** Ports from `first` to `last`, both included. */
export interface PortRange {
  readonly first: number;
  readonly last: number;
}

/** What a rule says of the host. */
export type HostPattern =
  /** This name alone. */
  | { readonly kind: "name"; readonly name: string }
  /** Every name below this one, at any depth, but not the name itself. */
  | { readonly kind: "below"; readonly name: string }
  /** Every address that has the first `prefixBits` bits of `address` (IPv4 or IPv6). */
  | { readonly kind: "network"; readonly address: string; readonly prefixBits: number };

/** One rule of TARGET_ALLOW or TARGET_DENY. Names are in lower case, without a final dot. */
export interface TargetRule {
  readonly host: HostPattern;
  /** Empty for every port. */
  readonly ports: readonly PortRange[];
  /** The rule as it is written. */
  readonly text: string;
}

/** `host-or-cidr[:ports]`, several with a comma. */
export const targetRules: Kind<readonly TargetRule[]> = {
  placeholder: "rules",
  accepted: "host, *.domain, address or CIDR; then :ports for some ports only, as in " +
    "db.internal:5432|6000-6100, with IPv6 in brackets, as in [fd00::/8]:443; several with a comma",
  repeatable: true,
  parse: (text) => Object.freeze(text.trim().split(/\s*,\s*/).map(parseRule)),
  show: (value) => value.map((rule) => rule.text),
};

function parseRule(text: string): TargetRule {
  const refused = () => new RefusedError(`${quoteItem(text)} is no rule`);
  // A bare IPv6 network has at least two colons, and so no room for ports.
  const match = /^\[([^\]]+)\](?::(.+))?$/s.exec(text) ??
    (/:.*:/s.test(text) ? [text, text] : /^([^:]+)(?::(.+))?$/s.exec(text));
  const [, hostText = "", portsText] = match ?? [];
  const isIpv6 = hostText.includes(":");
  const host = isIpv6 ? parseIpv6(hostText) : text.startsWith("[") ? null : parseHost(hostText);
  const ports = portsText === undefined ? [] : parsePorts(portsText);
  if (host === null || ports === null) throw refused();
  const shownHost = showHost(host);
  const shownPorts = ports.map(({ first, last }) =>
    first === last ? `${first}` : `${first}-${last}`
  )
    .join("|");
  return Object.freeze({
    host: Object.freeze(host),
    ports: Object.freeze(ports),
    text: shownPorts === "" ? shownHost : `${isIpv6 ? `[${shownHost}]` : shownHost}:${shownPorts}`,
  });
}

function parseIpv6(text: string): HostPattern | null {
  const [, addressText = "", bitsText = "128"] = /^([0-9A-Fa-f:.]+)(?:\/(\d{1,3}))?$/.exec(text) ??
    [];
  const address = canonicalHost(`[${addressText}]`);
  const prefixBits = Number(bitsText);
  return address === null || prefixBits > 128 ? null : { kind: "network", address, prefixBits };
}

function parseHost(text: string): HostPattern | null {
  const slash = /^(\d+\.\d+\.\d+\.\d+)\/(\d{1,2})$/.exec(text);
  if (slash !== null) {
    const address = canonicalHost(slash[1] ?? "");
    const prefixBits = Number(slash[2]);
    // What is rewritten here was no plain address: 010.0.0.0 means 8.0.0.0 to some.
    if (address === null || address !== slash[1] || prefixBits > 32) return null;
    return { kind: "network", address, prefixBits };
  }
  const below = text.startsWith("*.");
  const name = canonicalHost(below ? text.slice(2) : text)?.replace(/\.$/, "") ?? "";
  if (name === "" || /[*/]/.test(name)) return null;
  if (!/^\d+\.\d+\.\d+\.\d+$/.test(name)) return { kind: below ? "below" : "name", name };
  return below ? null : { kind: "network", address: name, prefixBits: 32 };
}

function parsePorts(text: string): PortRange[] | null {
  const ranges: PortRange[] = [];
  for (const part of text.split("|")) {
    const match = /^(\d{1,5})(?:-(\d{1,5}))?$/.exec(part);
    const first = Number(match?.[1] ?? 0);
    const last = Number(match?.[2] ?? first);
    if (first < 1 || last > 65535 || first > last) return null;
    ranges.push(Object.freeze({ first, last }));
  }
  return ranges;
}

function showHost(host: HostPattern): string {
  if (host.kind === "name") return host.name;
  if (host.kind === "below") return `*.${host.name}`;
  const single = host.address.includes(":") ? 128 : 32;
  return host.prefixBits === single ? host.address : `${host.address}/${host.prefixBits}`;
}
