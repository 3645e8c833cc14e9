/**
 * `NATS_URL`: where a server is and which credentials the URL holds.
 * @module
 */

/** One server of `NATS_URL`. */
export interface NatsUrl {
  /** `tls` for `tls://` and `nats+tls://`; `ws` and `wss` are NATS over WebSocket. */
  readonly scheme: "nats" | "tls" | "ws" | "wss";
  /** Name or address, an IPv6 address without brackets. */
  readonly hostname: string;
  readonly port: number;
  /** Path of a WebSocket URL, `/` by default; without meaning otherwise. */
  readonly path: string;
  /** `host:port` without credentials: for logs and pages. */
  readonly listen: string;
  /** User and password, or a token alone, exactly as written: nothing is percent-decoded. */
  readonly user?: string;
  readonly password?: string;
  readonly token?: string;
}

const SCHEMES = new Map<string, NatsUrl["scheme"]>([
  ["nats", "nats"],
  ["tls", "tls"],
  ["nats+tls", "tls"],
  ["ws", "ws"],
  ["wss", "wss"],
]);
const DEFAULT_PORT = { nats: 4222, tls: 4222, ws: 80, wss: 443 } as const;

/**
 * Reads one URL: `[scheme://][user:password@|token@]host[:port][/path]`, scheme `nats` by default.
 * @throws {TypeError} the text is not such a URL; the message holds no part of the credentials.
 */
export function parseNatsUrl(text: string): NatsUrl {
  const match =
    /^(?:([A-Za-z+]+):\/\/)?(?:(.*)@)?(\[[0-9A-Fa-f:.]+\]|[^\s/@:]+)(?::(\d+))?(\/\S*)?$/
      .exec(text.trim());
  if (match === null) {
    throw new TypeError("cannot read the NATS URL: expected nats://[user:password@]host[:port]");
  }
  const [, schemeText = "nats", credentials, host = "", portText, path = "/"] = match;
  const scheme = SCHEMES.get(schemeText.toLowerCase());
  if (scheme === undefined) {
    throw new TypeError(
      `cannot use the NATS URL scheme ${schemeText}: use nats, tls, nats+tls, ws or wss`,
    );
  }
  const port = portText === undefined ? DEFAULT_PORT[scheme] : Number(portText);
  if (port < 1 || port > 65535) throw new TypeError(`cannot use ${port} as the port of a NATS URL`);
  // nats-core names its servers in the normal form of URL, so this is what they are compared with.
  let normal: string;
  try {
    normal = new URL(`http://${host}/`).hostname;
  } catch {
    throw new TypeError(`cannot use ${JSON.stringify(host)} as the host of a NATS URL`);
  }
  const hostname = normal.startsWith("[") ? normal.slice(1, -1) : normal;
  const listen = `${normal}:${port}`;
  return { scheme, hostname, port, path, listen, ...readUserInfo(credentials) };
}

function readUserInfo(text: string | undefined): Pick<NatsUrl, "user" | "password" | "token"> {
  if (text === undefined || text === "") return {};
  const colon = text.indexOf(":");
  if (colon < 0) return { token: text };
  return { user: text.slice(0, colon), password: text.slice(colon + 1) };
}
