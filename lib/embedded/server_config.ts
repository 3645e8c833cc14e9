/**
 * The address and the configuration file of the embedded nats-server.
 * @module
 */
import { StartError } from "../errors.ts";
import type { LeafCredentials } from "./leaf_credentials.ts";

/** Where the server listens. */
export interface ListenAddress {
  /** Name or IP address, IPv6 without brackets. */
  readonly host: string;
  /** 0: any free port. */
  readonly port: number;
}

/**
 * Reads `host:port` or `[ipv6]:port`; port 0 or -1 asks for any free port.
 * @throws {StartError}
 */
export function parseListen(text: string): ListenAddress {
  const found = /^(?:\[([0-9a-fA-F:.]+)\]|([A-Za-z0-9.-]+)):(-1|\d{1,5})$/.exec(text);
  const host = found?.[1] ?? found?.[2];
  const port = Number(found?.[3]);
  if (host === undefined || port > 65535) {
    throw new StartError(
      `EMBEDDED_NATS_LISTEN ${text}: accepted is host:port, port 0 for any free one`,
    );
  }
  return { host, port: Math.max(0, port) };
}

/** `host:port` with brackets where IPv6 needs them. */
export function formatAddress({ host, port }: ListenAddress): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}

/** Tells whether only this machine can reach the host. */
export function isLoopback(host: string): boolean {
  return host === "localhost" || host === "::1" || /^127(\.\d{1,3}){3}$/.test(host);
}

/** The host to dial for one that is listened on: "all addresses" includes loopback. */
export function dialHost(host: string): string {
  if (host === "0.0.0.0") return "127.0.0.1";
  return /^[0:]+$/.test(host) ? "::1" : host;
}

/** The JetStream block. */
export interface JetStreamConfig {
  readonly storeDir: string;
  readonly domain: string | null;
}

/** The leafnode listener of a receiver's server that this server becomes a leaf of. */
export interface LeafRemote {
  readonly hostname: string;
  readonly port: number;
  readonly auth:
    | { readonly kind: "nkey"; readonly seed: string }
    | { readonly kind: "user"; readonly user: string; readonly password: string };
}

/** The leafnode listener, and the server that this one connects to. */
export interface LeafnodesConfig {
  readonly listen: ListenAddress;
  readonly credentials: LeafCredentials;
  readonly remote: LeafRemote | null;
}

export interface ServerConfig {
  readonly listen: ListenAddress;
  /** Unique: it tells our server from a foreign one. */
  readonly serverName: string;
  readonly jetstream?: JetStreamConfig | null;
  readonly leafnodes?: LeafnodesConfig | null;
}

/**
 * Text of the configuration file: what is asked for, no monitoring port, no users on the client
 * listener, dead clients found in 30 s. Holds secrets.
 */
export function configText(config: ServerConfig): string {
  const { listen, serverName, jetstream = null, leafnodes = null } = config;
  return [
    "# Written by natsway at each start.",
    `host: ${quoted(listen.host)}`,
    `port: ${listenPort(listen)}`,
    `server_name: ${quoted(serverName)}`,
    'ping_interval: "10s"',
    "ping_max: 2",
    "logtime: false",
    ...(jetstream === null ? [] : jetstreamBlock(jetstream)),
    ...(leafnodes === null ? [] : leafnodesBlock(leafnodes)),
    "",
  ].join("\n");
}

/** nats-server takes -1 for any free port. */
function listenPort({ port }: ListenAddress): number {
  return port === 0 ? -1 : port;
}

function jetstreamBlock({ storeDir, domain }: JetStreamConfig): string[] {
  return [
    "jetstream {",
    `  store_dir: ${quoted(storeDir)}`,
    ...(domain === null ? [] : [`  domain: ${quoted(domain)}`]),
    "}",
  ];
}

function leafnodesBlock({ listen, credentials, remote }: LeafnodesConfig): string[] {
  const address = formatAddress({ host: listen.host, port: listenPort(listen) });
  return [
    "leafnodes {",
    `  listen: ${quoted(address)}`,
    "  authorization {",
    `    user: ${quoted(credentials.user)}`,
    `    password: ${quoted(credentials.password)}`,
    "  }",
    ...(remote === null ? [] : remotesList(remote)),
    "}",
  ];
}

function remotesList({ hostname, port, auth }: LeafRemote): string[] {
  const address = formatAddress({ host: hostname, port });
  // The server decodes what stands before the @ (RFC 3986 section 3.2.1).
  const userPart = auth.kind === "nkey"
    ? ""
    : `${encodeURIComponent(auth.user)}:${encodeURIComponent(auth.password)}@`;
  return [
    "  remotes: [",
    "    {",
    `      url: ${quoted(`nats://${userPart}${address}`)}`,
    ...(auth.kind === "nkey" ? [`      nkey: ${quoted(auth.seed)}`] : []),
    "    }",
    "  ]",
  ];
}

/** A string value: in double quotes nats-server knows `\\`, `\"` and `\xHH`, and no variables. */
export function quoted(text: string): string {
  let result = "";
  for (const char of text) {
    const code = char.charCodeAt(0);
    if (char === "\\" || char === '"') result += `\\${char}`;
    else if (code < 0x20 || code === 0x7f) result += `\\x${code.toString(16).padStart(2, "0")}`;
    else result += char;
  }
  return `"${result}"`;
}
