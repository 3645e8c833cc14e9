/**
 * What natsway listens on and is connected to, as addresses: a bridge must not lead back into itself.
 * @module
 */
import { formatIp, type IpAddress, ipNetwork, isInNetwork, parseIp } from "./ip_address.ts";
import { lookupAddresses, type Resolve } from "./resolve.ts";
import type { OwnTargets } from "./target_policy.ts";

/** An address as a setting or a listener has it. */
export interface OwnAddress {
  /** Name, or IP address without brackets. */
  readonly hostname: string;
  readonly port: number;
}

export interface OwnAddressesOptions {
  /** Listeners of this process, with the ports that they have got. Asked each time. */
  readonly listeners: () => readonly OwnAddress[];
  /** NATS servers: of NATS_URL, and those that the server told of. Asked each time. */
  readonly servers: () => readonly OwnAddress[];
  /** @default {lookupAddresses} */
  readonly resolve?: Resolve;
  /** Addresses of this machine. @default Deno.networkInterfaces */
  readonly interfaces?: () => readonly string[];
}

const LOOPBACK = [ipNetwork("127.0.0.0", 8), ipNetwork("::1", 128)];

/**
 * Answers from what `refresh` has found, and from the interfaces as they are now. A listener on `0.0.0.0`
 * or `::` is reached at every address of this machine. A NATS server on this machine may listen on all of
 * them, whatever NATS_URL says, so its port is closed on all. Address translation is not seen.
 */
export class OwnAddresses implements OwnTargets {
  readonly #options: OwnAddressesOptions;
  /** Addresses of names; a name that did not resolve keeps what it had. */
  readonly #found = new Map<string, readonly IpAddress[]>();

  constructor(options: OwnAddressesOptions) {
    this.#options = options;
  }

  /** Looks all names up. To be called at start and after each connection to NATS; never rejects. */
  async refresh(): Promise<void> {
    const { listeners, servers, resolve = lookupAddresses } = this.#options;
    const names = new Set([...listeners(), ...servers()].map(({ hostname }) => hostname));
    await Promise.all(
      [...names].filter((name) => parseIp(name) === null).map(async (name) => {
        try {
          this.#found.set(name, (await resolve(name)).flatMap((text) => parseIp(text) ?? []));
        } catch {
          // A name that does not resolve now leads nowhere new.
        }
      }),
    );
  }

  hasName(name: string, port: number): boolean {
    const { listeners, servers } = this.#options;
    return [...listeners(), ...servers()].some((own) =>
      own.port === port && own.hostname.toLowerCase().replace(/\.$/, "") === name
    );
  }

  hasAddress(address: IpAddress, port: number): boolean {
    const { listeners, servers } = this.#options;
    const target = connectedTo(address);
    const reaches = (own: IpAddress) =>
      isUnspecified(own) ? this.#isLocal(target) : same(own, target);
    return this.#addressesAt(listeners(), port).some(reaches) ||
      this.#addressesAt(servers(), port).some((own) =>
        reaches(own) || (this.#isLocal(target) && this.#isLocal(own))
      );
  }

  #addressesAt(all: readonly OwnAddress[], port: number): IpAddress[] {
    return all.filter((own) => own.port === port).flatMap(({ hostname }) =>
      parseIp(hostname) ?? this.#found.get(hostname) ?? []
    );
  }

  #isLocal(address: IpAddress): boolean {
    if (LOOPBACK.some((network) => isInNetwork(address, network))) return true;
    const { interfaces = interfaceAddresses } = this.#options;
    const shown = formatIp(address);
    return interfaces().some((text) => {
      const local = parseIp(text);
      return local !== null && formatIp(local) === shown;
    });
  }
}

function interfaceAddresses(): string[] {
  return Deno.networkInterfaces().map(({ address }) => address.replace(/%.*$/, ""));
}

function isUnspecified({ bits }: IpAddress): boolean {
  return bits === 0n;
}

/** A connection to 0.0.0.0 or :: goes to this machine's loopback address. */
function connectedTo(address: IpAddress): IpAddress {
  return isUnspecified(address)
    ? { version: address.version, bits: address.version === 4 ? 0x7f00_0001n : 1n }
    : address;
}

function same(a: IpAddress, b: IpAddress): boolean {
  return a.version === b.version && a.bits === b.bits;
}
