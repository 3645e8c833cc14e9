/**
 * What the ways in (CONNECT, SOCKS5, forwards, stdio) and the sessions over NATS agree on.
 * @module
 */
import type { FailureCode } from "../errors.ts";
import type { TunnelSocket } from "../net/tunnel_socket.ts";

/** Which way in a client took; it crosses NATS (wire-protocol.md section 4). */
export type IngressKind = "http_connect" | "socks5" | "forward" | "stdio";

/** Where a client wants to go. */
export interface SessionTarget {
  /** A name, or an IP address without brackets. Looked up by the receiver alone. */
  readonly host: string;
  /** 1 to 65535. */
  readonly port: number;
  readonly ingressKind: IngressKind;
}

/** The receiver's end of the connection to the target. */
export interface SessionBind {
  /** IP address as text, or null when the receiver did not say. */
  readonly host: string | null;
  /** 0 when the receiver did not say. */
  readonly port: number;
}

/** A client that waits for its session. Exactly one of the two is called, once, never from within `open`. */
export interface SessionClient {
  /**
   * The target is connected: answers the client, then hands the socket over. Octets that the client
   * sent early stand in its reader. Null when the client has left meanwhile.
   */
  established(bind: SessionBind): TunnelSocket | null;
  /** There is no session; `code` decides the answer (extensions.md section 7). */
  failed(code: FailureCode, message: string): void;
}

/** A session that was opened. */
export interface SessionHandle {
  /** The client has left while it waited: neither method of the client is called any more. */
  abandon(): void;
}

/** Opens a session over NATS. Never throws. */
export type OpenSession = (target: SessionTarget, client: SessionClient) => SessionHandle;

/** `host:port` for people, with brackets around an IPv6 address. */
export function showAuthority(host: string, port: number): string {
  return host.includes(":") ? `[${host}]:${port}` : `${host}:${port}`;
}
