/**
 * Which targets tunnels and proxy requests may reach (configuration.md section 8, TARGET_ALLOW).
 * @module
 */
import type { TargetRule } from "../config/target_rules.ts";
import { FlowError } from "../errors.ts";
import {
  type IpAddress,
  ipForms,
  type IpNetwork,
  ipNetwork,
  isInNetwork,
  parseIp,
} from "./ip_address.ts";

/** What natsway itself listens on and is connected to. */
export interface OwnTargets {
  /** @param name in lower case, without a final dot */
  hasName(name: string, port: number): boolean;
  hasAddress(address: IpAddress, port: number): boolean;
}

export interface TargetPolicyOptions {
  /** TARGET_ALLOW; empty for no restriction. */
  readonly allow: readonly TargetRule[];
  /** TARGET_DENY. */
  readonly deny: readonly TargetRule[];
  readonly own: OwnTargets;
}

/** Networks that are denied unless TARGET_ALLOW says otherwise. */
const DENIED_NETWORKS: readonly (readonly [string, IpNetwork])[] = ([
  ["unspecified", "0.0.0.0", 8],
  ["loopback", "127.0.0.0", 8],
  ["link-local", "169.254.0.0", 16],
  ["multicast", "224.0.0.0", 4],
  ["broadcast", "255.255.255.255", 32],
  ["cloud metadata", "100.100.100.200", 32],
  ["cloud metadata", "168.63.129.16", 32],
  ["cloud metadata", "192.0.0.192", 32],
  ["unspecified", "::", 128],
  ["loopback", "::1", 128],
  ["link-local", "fe80::", 10],
  ["multicast", "ff00::", 8],
  ["cloud metadata", "fd00:ec2::254", 128],
  ["cloud metadata", "fd00:ec2::23", 128],
  ["cloud metadata", "fd20:ce::254", 128],
  // Where in it the IPv4 address stands is known to the network alone (RFC 8215).
  ["local NAT64", "64:ff9b:1::", 48],
] as const).map(([what, address, prefixBits]) => [what, ipNetwork(address, prefixBits)]);

/** Names that are denied unless TARGET_ALLOW is set; what they resolve to would be too. */
const DENIED_NAMES: ReadonlyMap<string, string> = new Map([
  ["localhost", "loopback"],
  ["metadata.google.internal", "cloud metadata"],
  ["metadata.goog", "cloud metadata"],
  ["metadata.azure.internal", "cloud metadata"],
  ["instance-data.ec2.internal", "cloud metadata"],
]);

/**
 * Decides in this order: own listeners and NATS servers are denied; TARGET_DENY; TARGET_ALLOW, which if
 * set lets nothing else pass; the built-in list. Holds no state, looks nothing up.
 */
export class TargetPolicy {
  readonly #allow: readonly Matcher[];
  readonly #deny: readonly Matcher[];
  readonly #own: OwnTargets;

  constructor({ allow, deny, own }: TargetPolicyOptions) {
    this.#allow = allow.map((rule) => new Matcher(rule));
    this.#deny = deny.map((rule) => new Matcher(rule));
    this.#own = own;
  }

  /**
   * What can be said before a name is looked up. Addresses pass here: `checkAddress` judges them.
   * @param host as `canonicalTargetHost` gives it
   * @throws {FlowError} `target_denied`
   */
  checkName(host: string, port: number): void {
    if (parseIp(host) !== null) return;
    const name = bareName(host);
    if (this.#own.hasName(name, port)) throw denied(host, port, OWN);
    if (this.#deny.some((rule) => rule.hasName(name, port))) throw denied(host, port, DENY);
    if (this.#allow.length > 0) {
      const open = this.#allow.some((rule) => rule.hasName(name, port) || rule.hasNetworkFor(port));
      if (!open) throw denied(host, port, NOT_ALLOWED);
      return;
    }
    const what = DENIED_NAMES.get(name.endsWith(".localhost") ? "localhost" : name);
    if (what !== undefined) throw denied(host, port, builtIn(what));
  }

  /**
   * Judges one address that would be connected to.
   * @param host what the client asked for, as in `checkName`; rules with a name look at it
   * @throws {FlowError} `target_denied`; also when `address` is none
   */
  checkAddress(host: string, address: string, port: number): void {
    const ip = parseIp(address);
    if (ip === null) throw denied(host, port, "its address has a form that cannot be judged");
    const forms = ipForms(ip);
    const matches = (rule: Matcher) => forms.some((form) => rule.hasAddress(form, port));
    if (forms.some((form) => this.#own.hasAddress(form, port))) throw denied(host, port, OWN);
    if (this.#deny.some(matches)) throw denied(host, port, DENY);
    if (this.#allow.length > 0) {
      const name = bareName(host);
      if (this.#allow.some((rule) => rule.hasName(name, port) || matches(rule))) return;
      throw denied(host, port, NOT_ALLOWED);
    }
    for (const [what, network] of DENIED_NETWORKS) {
      if (forms.some((form) => isInNetwork(form, network))) throw denied(host, port, builtIn(what));
    }
  }
}

const OWN = "natsway's own listeners and its NATS servers are no targets";
const DENY = "TARGET_DENY names it";
const NOT_ALLOWED = "TARGET_ALLOW does not name it";
const builtIn = (what: string) => `${what} addresses need a rule in TARGET_ALLOW`;

function denied(host: string, port: number, why: string): FlowError {
  const where = host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
  return new FlowError("target_denied", `The receiver may not connect to ${where}: ${why}`);
}

function bareName(host: string): string {
  return host.toLowerCase().replace(/\.$/, "");
}

/** One rule, ready to be asked. */
class Matcher {
  readonly #rule: TargetRule;
  readonly #network: IpNetwork | null;

  constructor(rule: TargetRule) {
    this.#rule = rule;
    const { host } = rule;
    this.#network = host.kind === "network" ? ipNetwork(host.address, host.prefixBits) : null;
  }

  hasName(name: string, port: number): boolean {
    const { host } = this.#rule;
    if (host.kind === "network" || !this.#hasPort(port)) return false;
    return host.kind === "name" ? name === host.name : name.endsWith(`.${host.name}`);
  }

  hasNetworkFor(port: number): boolean {
    return this.#network !== null && this.#hasPort(port);
  }

  hasAddress(address: IpAddress, port: number): boolean {
    return this.#network !== null && this.#hasPort(port) && isInNetwork(address, this.#network);
  }

  #hasPort(port: number): boolean {
    const { ports } = this.#rule;
    return ports.length === 0 || ports.some(({ first, last }) => first <= port && port <= last);
  }
}
