/**
 * The address and the configuration file of the embedded nats-server.
 * @module
 */
import { StartError } from "../errors.ts";

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

export interface ServerConfig {
  readonly listen: ListenAddress;
  /** Unique: it tells our server from a foreign one. */
  readonly serverName: string;
  /** Folder in which the server says which ports it has. */
  readonly portsDir: string;
}

/** Text of the configuration file: core NATS only, no monitoring port, dead clients found in 30 s. */
export function configText(config: ServerConfig): string {
  const { host, port } = config.listen;
  return [
    "# Written by natsway at each start.",
    `host: ${quoted(host)}`,
    `port: ${port === 0 ? -1 : port}`,
    `server_name: ${quoted(config.serverName)}`,
    `ports_file_dir: ${quoted(config.portsDir)}`,
    'ping_interval: "10s"',
    "ping_max: 2",
    "logtime: false",
    "",
  ].join("\n");
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
