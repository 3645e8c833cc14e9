/**
 * Byte streams to a NATS server: TCP, TLS, mutual TLS and WebSocket look the same from here on.
 * @module
 */

import { lookup } from "node:dns/promises";
import { isIP } from "node:net";
import type { NatsAddress } from "../config/addresses.ts";
import { dialNode, type MutualTls, NodeStream, startMutualTls } from "./node_stream.ts";
import { openWebSocket } from "./ws_socket.ts";

/** What the lane reads from and writes to. One read and one write may be in flight at a time. */
export interface NatsSocket {
  /** Fills a beginning of `into`; null at the end of the stream. */
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  /** Ends both directions at once; pending reads and writes settle. May be called again. */
  close(): void;
}

/** PEM texts and how TLS is begun. */
export interface NatsTls {
  /** Authorities to trust besides the built-in ones. */
  readonly ca?: string;
  /** Client certificate and its key: both or neither. */
  readonly cert?: string;
  readonly key?: string;
  /** TLS before the server's INFO (`handshake_first` of nats-server). */
  readonly handshakeFirst?: boolean;
}

/** An open stream and what the server has said already, INFO included when it came. */
export interface OpenedSocket {
  readonly socket: NatsSocket;
  readonly greeting: Uint8Array;
  readonly encrypted: boolean;
}

export interface OpenOptions {
  readonly server: Pick<NatsAddress, "scheme" | "hostname" | "port" | "path">;
  /** Name in the certificate, when it is not `server.hostname`. */
  readonly tlsName?: string;
  readonly tls?: NatsTls;
  /** Ends the attempt. */
  readonly signal: AbortSignal;
}

const MAX_INFO_BYTES = 1024 * 1024;

/**
 * Opens the stream. TLS is used when the URL or the TLS settings ask for it, and when the server
 * requires it; it is never given up because the server says that it has none.
 */
export async function openNatsSocket(options: OpenOptions): Promise<OpenedSocket> {
  const { server, tls, signal } = options;
  if (server.scheme === "ws" || server.scheme === "wss") {
    if (tls?.cert !== undefined) {
      throw new Error("a client certificate cannot be used over WebSocket: use a tls:// URL");
    }
    const socket = await openWebSocket(server, tls?.ca, signal);
    return { socket, greeting: new Uint8Array(0), encrypted: server.scheme === "wss" };
  }
  const tlsName = options.tlsName || server.hostname;
  const wanted = server.scheme === "tls" || tls !== undefined;
  const conn = await dial(server.hostname, server.port, tls?.cert !== undefined, signal);
  // Whatever is waited for below ends with the socket.
  let current: NatsSocket = conn;
  const abort = () => closeQuietly(current);
  signal.addEventListener("abort", abort);
  try {
    if (tls?.handshakeFirst) {
      current = await startTls(conn, tlsName, tls, signal);
      return { socket: current, greeting: await readInfo(current), encrypted: true };
    }
    const greeting = await readInfo(conn);
    const info = parseInfo(greeting);
    if (wanted && !info.tls_required && !info.tls_available) {
      throw new Error("TLS is asked for and the NATS server has none");
    }
    if (!wanted && !info.tls_required) return { socket: conn, greeting, encrypted: false };
    if (info.tls_verify && tls?.cert === undefined) {
      throw new Error("the NATS server wants a client certificate: set NATS_TLS_CERT and _KEY");
    }
    current = await startTls(conn, tlsName, tls, signal);
    return { socket: current, greeting, encrypted: true };
  } catch (error) {
    closeQuietly(current);
    throw error;
  } finally {
    signal.removeEventListener("abort", abort);
  }
}

/** Tries every address of the name: a server often listens on one family only. */
async function dial(
  hostname: string,
  port: number,
  mutualTls: boolean,
  signal: AbortSignal,
): Promise<Deno.TcpConn | NodeStream> {
  const addresses = isIP(hostname) !== 0
    ? [hostname]
    : (await lookup(hostname, { all: true })).map(({ address }) => address);
  let failure: unknown = new Error(`${hostname} has no address`);
  for (const address of addresses) {
    signal.throwIfAborted();
    try {
      if (mutualTls) return await dialNode(address, port, signal);
      const conn = await Deno.connect({ hostname: address, port, signal });
      conn.setNoDelay(true);
      return conn;
    } catch (error) {
      failure = error;
    }
  }
  throw failure;
}

async function startTls(
  conn: Deno.TcpConn | NodeStream,
  tlsName: string,
  tls: NatsTls | undefined,
  signal: AbortSignal,
): Promise<NatsSocket> {
  if (conn instanceof NodeStream) {
    return await startMutualTls(conn, tlsName, tls as MutualTls, signal);
  }
  const caCerts = tls?.ca === undefined ? {} : { caCerts: [tls.ca] };
  const secure = await Deno.startTls(conn, { hostname: tlsName, ...caCerts });
  try {
    await secure.handshake();
  } catch (error) {
    closeQuietly(secure);
    throw error;
  }
  return secure;
}

/** A socket that TLS has taken over, or that has ended by itself, is no failure here. */
function closeQuietly(socket: NatsSocket): void {
  try {
    socket.close();
  } catch {
    // See above.
  }
}

/** Reads until the first line is whole; what came behind it is kept. */
async function readInfo(socket: NatsSocket): Promise<Uint8Array> {
  let bytes = new Uint8Array(0);
  const chunk = new Uint8Array(16 * 1024);
  while (bytes.indexOf(0x0a) < 0) {
    if (bytes.length > MAX_INFO_BYTES) throw new Error("the server's first line does not end");
    const count = await socket.read(chunk);
    if (count === null) throw new Error("the server closed the connection before its INFO");
    const joined = new Uint8Array(bytes.length + count);
    joined.set(bytes);
    joined.set(chunk.subarray(0, count), bytes.length);
    bytes = joined;
  }
  return bytes;
}

interface TlsInfo {
  readonly tls_required?: boolean;
  readonly tls_available?: boolean;
  readonly tls_verify?: boolean;
}

function parseInfo(greeting: Uint8Array): TlsInfo {
  const line = new TextDecoder().decode(greeting.subarray(0, greeting.indexOf(0x0a)));
  const match = /^INFO\s+(\{.*\})\s*$/i.exec(line);
  if (match?.[1] === undefined) throw new Error("no NATS server: its first line is no INFO");
  try {
    return JSON.parse(match[1]) as TlsInfo;
  } catch {
    throw new Error("no NATS server: its INFO is no JSON");
  }
}
