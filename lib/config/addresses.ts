/**
 * Settings that are URLs and addresses.
 * @module
 */
import { type Kind, RefusedError } from "./kinds.ts";

/** A TCP address. */
export interface HostPort {
  /** Name or address; an IPv6 address has no brackets here. */
  readonly hostname: string;
  readonly port: number;
  /** `host:port`, IPv6 in brackets. */
  readonly authority: string;
}

/** The base URL of a receiver's upstream. */
export interface UpstreamUrl {
  readonly href: string;
  /** Name or address; an IPv6 address has no brackets here. */
  readonly hostname: string;
  readonly port: number;
  /** As a Host field wants it: IPv6 in brackets, the default port left out. */
  readonly authority: string;
  /** Path that goes before every target, octets as given, no slash at the end; `""` for none. */
  readonly prefix: string;
}

/** One NATS server with what its URL says about credentials. */
export interface NatsAddress {
  /** `tls` for `tls://` and `nats+tls://`; `ws` and `wss` are NATS over WebSocket. */
  readonly scheme: "nats" | "tls" | "ws" | "wss";
  /** Name or address; an IPv6 address has no brackets here. */
  readonly hostname: string;
  readonly port: number;
  /** Path and query of a WebSocket URL; `/` where there is none, and for the other schemes. */
  readonly path: string;
  /** `host:port`, IPv6 in brackets, in the form in which nats-core compares its servers. */
  readonly authority: string;
  /** User and password, or a token alone, as written: nothing is percent-decoded. */
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
  /**
   * The embedded server of this process, since NATS_URL is not given. Which port it has may be known
   * only when it runs; until then this is the one that the settings name.
   */
  readonly embedded?: true;
}

const NATS_PORTS = { nats: 4222, tls: 4222, ws: 80, wss: 443 } as const;

/** Takes every user part out of a text that should be a URL or a list of them. */
export function withoutUserPart(text: string): string {
  const at = text.lastIndexOf("@");
  if (at < 0) return text;
  const scheme = /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.exec(text)?.[0] ?? "";
  return `${scheme}${text.slice(at + 1)}`;
}

/** `host:port`, with brackets around an IPv6 address. */
export function formatHostPort(hostname: string, port: number): string {
  return `${formatHost(hostname)}:${port}`;
}

function formatHost(hostname: string): string {
  return hostname.includes(":") ? `[${hostname}]` : hostname;
}

/** A host as the WHATWG URL rules read it (IDNA, IPv4 forms), without brackets, or null. */
export function canonicalHost(text: string): string | null {
  if (!/^([^\s:/?#@[\]\\,%]+|\[[0-9A-Fa-f:.]+\])$/.test(text)) return null;
  const url = URL.canParse(`http://${text}/`) ? new URL(`http://${text}/`) : null;
  return url === null || url.hostname === "" ? null : url.hostname.replace(/^\[|\]$/g, "");
}

/** Splits `host[:port]`; null when it is not that. */
function parseAuthority(text: string, defaultPort: number | null): HostPort | null {
  const match = /^(.+?)(?::(\d{1,5}))?$/.exec(text);
  const hostname = canonicalHost(match?.[1] ?? "");
  const port = match?.[2] === undefined ? defaultPort : Number(match[2]);
  if (hostname === null || port === null || port > 65535) return null;
  return Object.freeze({ hostname, port, authority: formatHostPort(hostname, port) });
}

/** An address to listen on, `host:port`. */
export const hostPort: Kind<HostPort> = {
  placeholder: "host:port",
  accepted: "host:port, an IPv6 address in brackets, port from 0 to 65535 (0: any free port)",
  parse(text) {
    const parsed = parseAuthority(text, null);
    if (parsed === null) throw new RefusedError("");
    return parsed;
  },
  show: (value) => value.authority,
};

/** A host to listen on, without a port. The value has no brackets. */
export const host: Kind<string> = {
  placeholder: "host",
  accepted: "a name or an address, without a port",
  parse(text) {
    const bare = /^[0-9A-Fa-f.]*:[0-9A-Fa-f:.]*$/.test(text) ? `[${text}]` : text;
    const hostname = canonicalHost(bare);
    if (hostname === null) throw new RefusedError("");
    return hostname;
  },
  show: (value) => value,
};

/** `http://host[:port][/prefix]` (RFC 3986); user part, query and fragment have no meaning here. */
export const upstreamUrl: Kind<UpstreamUrl> = {
  placeholder: "url",
  accepted: "http://host[:port][/prefix] without user part, query and fragment",
  mayHoldUserPart: true,
  parse(text) {
    const match = /^([A-Za-z][A-Za-z0-9+.-]*):\/\/([^/?#]*)([^?#]*)(.*)$/s.exec(text);
    const [, scheme = "", authority = "", path = "", rest = ""] = match ?? [];
    if (/^https$/i.test(scheme)) {
      throw new RefusedError("https upstreams are not yet in this version");
    }
    const parsed = /^http$/i.test(scheme) ? parseAuthority(authority, 80) : null;
    if (parsed === null || rest !== "" || parsed.port === 0) throw new RefusedError("");
    if (!/^(\/|[A-Za-z0-9._~!$&'()*+,;=:@-]|%[0-9A-Fa-f]{2})*$/.test(path)) {
      throw new RefusedError("the path has characters that must be percent-encoded");
    }
    const { hostname, port } = parsed;
    const host = port === 80 ? formatHost(hostname) : parsed.authority;
    const prefix = path.replace(/\/+$/, "");
    const href = `http://${host}${prefix === "" ? "/" : prefix}`;
    return Object.freeze({ href, hostname, port, authority: host, prefix });
  },
  show: (value) => value.href,
};

/**
 * One or more NATS servers; without a scheme it is `nats`. Passwords are not percent-decoded and may
 * hold a comma: as soon as there is a user part, a comma separates only where a scheme follows. A
 * user part without a colon is a token (section 2).
 */
export const natsUrls: Kind<readonly NatsAddress[]> = {
  placeholder: "urls",
  accepted: "nats://[user:password@|token@]host[:port], tls:// for TLS, ws:// or wss:// for " +
    "WebSocket; several with a comma",
  repeatable: true,
  mayHoldUserPart: true,
  parse(text) {
    const comma = text.includes("@") ? /\s*,\s*(?=[a-z+]+:\/\/)/i : /\s*,\s*/;
    return Object.freeze(text.trim().split(comma).map(parseNatsUrl));
  },
  show: (value) => value.map(natsUrlText),
};

/** The URL of a NATS server without user part and query: what logs and pages may show. */
export function natsUrlText({ scheme, authority, path }: NatsAddress): string {
  return `${scheme}://${authority}${path === "/" ? "" : path.replace(/\?.*/s, "")}`;
}

/** A server that is reached by plain NATS, without credentials. */
export function natsAddress(hostname: string, port: number): NatsAddress {
  const authority = formatHostPort(hostname, port);
  return Object.freeze({ scheme: "nats", hostname, port, path: "/", authority });
}

function parseNatsUrl(text: string): NatsAddress {
  const full = /^[a-z][a-z0-9+.-]*:\/\//i.test(text) ? text : `nats://${text}`;
  const match = /^(nats|tls|nats\+tls|wss?):\/\/(?:(.*)@)?([^@/]+)(\/[^@#\s]*)?$/is.exec(full);
  if (match === null) throw new RefusedError("");
  const [, schemeText = "", userPart, authorityText = "", path = "/"] = match;
  const scheme = schemeText.toLowerCase().replace("nats+", "") as NatsAddress["scheme"];
  const parsed = parseAuthority(authorityText, NATS_PORTS[scheme]);
  if (parsed === null || parsed.port === 0) throw new RefusedError("");
  if (path !== "/" && !scheme.startsWith("ws")) {
    throw new RefusedError("only a WebSocket URL may have a path");
  }
  const address = { scheme, ...parsed, path };
  if (userPart === undefined) return Object.freeze(address);
  const colon = userPart.indexOf(":");
  if (userPart === "" || colon === 0) throw new RefusedError("the user part is empty");
  return Object.freeze(
    colon < 0
      ? { ...address, token: userPart }
      : { ...address, user: userPart.slice(0, colon), password: userPart.slice(colon + 1) },
  );
}

/** Where releases are downloaded from: an http or https URL without a user part. */
export const downloadUrl: Kind<string> = {
  placeholder: "url",
  accepted: "an http or https URL without a user part",
  mayHoldUserPart: true,
  parse(text) {
    const url = URL.canParse(text) ? new URL(text) : null;
    const web = url?.protocol === "http:" || url?.protocol === "https:";
    if (!web || url?.username !== "" || url.password !== "") throw new RefusedError("");
    return text;
  },
  show: (value) => value,
};
