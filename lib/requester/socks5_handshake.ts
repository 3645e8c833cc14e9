/**
 * The handshake of a SOCKS5 client (RFC 1928, http-surface.md section 5): octets in, answers and a
 * target out. It is fed and never reads; the octets behind the request belong to the tunnel.
 * @module
 */
import {
  ADDRESS_BYTES,
  AddressType,
  Command,
  encodeMethod,
  encodeReply,
  encodeSocks4Refusal,
  Method,
  PORT_BYTES,
  Reply,
  REQUEST_HEADER_BYTES,
  showIpv4,
  showIpv6,
  SOCKS4_VERSION,
  SOCKS5_VERSION,
} from "./socks5_messages.ts";
import { isHostName, isIpv6Literal } from "./target_host.ts";

/** `locked`: no client is let in, as long as PROXY_AUTH_ENABLED is on and there are no users. */
export type Socks5Auth = "none" | "locked";

/** How a handshake ended. */
export type Socks5Outcome =
  | { readonly kind: "target"; readonly host: string; readonly port: number }
  /** The connection is to be closed when the answers are sent; there may be none. */
  | { readonly kind: "refused"; readonly reason: string };

/** Version and count of methods. */
const GREETING_HEADER_BYTES = 2;
const MAX_METHODS = 255;
const MAX_NAME_BYTES = 255;
/** The longest message: a request with a name. */
const MAX_MESSAGE_BYTES = Math.max(
  GREETING_HEADER_BYTES + MAX_METHODS,
  REQUEST_HEADER_BYTES + 1 + MAX_NAME_BYTES + PORT_BYTES,
);
/** No answer: the connection is closed without a word. */
const NO_ANSWER = new Uint8Array(0);

const utf8 = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true });

/** One handshake. It holds at most one message, whatever it is fed. */
export class Socks5Handshake {
  readonly #auth: Socks5Auth;
  /** The message under way. */
  readonly #message = new Uint8Array(MAX_MESSAGE_BYTES);
  #length = 0;
  /** Octets after which `#step` can say more. */
  #needed = 1;
  #step: () => void = () => this.#greetingVersion();
  #answers: Uint8Array[] = [];
  #outcome: Socks5Outcome | null = null;

  constructor(options: { readonly auth: Socks5Auth }) {
    this.#auth = options.auth;
  }

  /** Null as long as octets are missing. */
  get outcome(): Socks5Outcome | null {
    return this.#outcome;
  }

  /** Where the client wants to go, once it has said so. */
  get target(): { readonly host: string; readonly port: number } | null {
    const outcome = this.#outcome;
    return outcome?.kind === "target" ? { host: outcome.host, port: outcome.port } : null;
  }

  /**
   * Takes what the client sent.
   * @returns how many octets belong to the handshake; the others stand behind its end
   */
  push(bytes: Uint8Array): number {
    let at = 0;
    while (this.#outcome === null && at < bytes.length) {
      const count = Math.min(this.#needed - this.#length, bytes.length - at);
      this.#message.set(bytes.subarray(at, at + count), this.#length);
      this.#length += count;
      at += count;
      if (this.#length === this.#needed) this.#step();
    }
    return at;
  }

  /** What is to be sent to the client now, in order; each octet is given once. */
  takeAnswers(): Uint8Array[] {
    const answers = this.#answers;
    this.#answers = [];
    return answers;
  }

  #await(needed: number, step: () => void): void {
    this.#needed = needed;
    this.#step = step;
  }

  #greetingVersion(): void {
    const version = this.#message[0];
    if (version === SOCKS4_VERSION) {
      this.#refuse(encodeSocks4Refusal(), "SOCKS4 is not served, SOCKS5 is");
    } else if (version !== SOCKS5_VERSION) {
      this.#refuse(NO_ANSWER, "not a SOCKS5 client");
    } else this.#await(GREETING_HEADER_BYTES, () => this.#greetingCount());
  }

  #greetingCount(): void {
    const count = this.#message[1]!;
    if (count === 0) this.#greeting();
    else this.#await(GREETING_HEADER_BYTES + count, () => this.#greeting());
  }

  #greeting(): void {
    const methods = this.#message.subarray(GREETING_HEADER_BYTES, this.#length);
    if (this.#auth === "locked") {
      const reason = "PROXY_AUTH_ENABLED is on and there are no users: SOCKS5 is shut";
      this.#refuse(encodeMethod(Method.NoneAcceptable), reason);
    } else if (!methods.includes(Method.None)) {
      const reason = "the client does not offer to come without authentication";
      this.#refuse(encodeMethod(Method.NoneAcceptable), reason);
    } else {
      this.#answers.push(encodeMethod(Method.None));
      this.#length = 0;
      this.#await(REQUEST_HEADER_BYTES, () => this.#requestHeader());
    }
  }

  /** The reserved octet is not looked at. */
  #requestHeader(): void {
    const [version, command, , type] = this.#message;
    if (version !== SOCKS5_VERSION) {
      this.#refuse(encodeReply(Reply.GeneralFailure), "the request is not of SOCKS5");
    } else if (command !== Command.Connect) {
      const reason = command === Command.Bind
        ? "BIND is not served"
        : command === Command.UdpAssociate
        ? "UDP is not carried"
        : "an unknown command";
      this.#refuse(encodeReply(Reply.CommandNotSupported), reason);
    } else if (type === AddressType.Name) {
      this.#await(REQUEST_HEADER_BYTES + 1, () => this.#nameLength());
    } else if (type === AddressType.Ipv4 || type === AddressType.Ipv6) {
      const end = REQUEST_HEADER_BYTES + ADDRESS_BYTES[type];
      this.#await(end + PORT_BYTES, () => {
        const octets = this.#message.subarray(REQUEST_HEADER_BYTES, end);
        this.#finish(type === AddressType.Ipv4 ? showIpv4(octets) : showIpv6(octets));
      });
    } else this.#refuse(encodeReply(Reply.AddressTypeNotSupported), "an unknown type of address");
  }

  #nameLength(): void {
    const start = REQUEST_HEADER_BYTES + 1;
    const end = start + this.#message[REQUEST_HEADER_BYTES]!;
    this.#await(end + PORT_BYTES, () => {
      const host = this.#nameOf(this.#message.subarray(start, end));
      // Nothing has been looked up: it is the request that is wrong, not the host that is missing.
      if (host === null) this.#refuse(encodeReply(Reply.GeneralFailure), "the name is no host");
      else this.#finish(host);
    });
  }

  /** Text that may name a host, or an IP address that was sent as a name. */
  #nameOf(octets: Uint8Array): string | null {
    try {
      const text = utf8.decode(octets);
      return isHostName(text) || isIpv6Literal(text) ? text : null;
    } catch {
      return null;
    }
  }

  /** The port stands at the end of the request. */
  #finish(host: string): void {
    const port = this.#message[this.#length - 2]! * 256 + this.#message[this.#length - 1]!;
    if (port === 0) this.#refuse(encodeReply(Reply.GeneralFailure), "no port 0 can be reached");
    else this.#outcome = { kind: "target", host, port };
  }

  #refuse(answer: Uint8Array, reason: string): void {
    if (answer.length > 0) this.#answers.push(answer);
    this.#outcome = { kind: "refused", reason };
  }
}
