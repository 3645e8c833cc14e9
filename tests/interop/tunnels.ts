/**
 * Clients that ask natsway's requester for a tunnel, and targets for them.
 * @module
 */
import assert from "node:assert/strict";
import { concat, latin1, octets } from "../helpers/bytes.ts";
import type { Natsway, Settings } from "../helpers/natsway.ts";
import { TestSocket } from "../helpers/socket.ts";
import type { UpstreamConnection } from "../helpers/upstream.ts";

/** Opens the ways in of tunnels, on any free port. */
export const TUNNEL_SETTINGS: Settings = {
  PROXY_AUTH_ENABLED: "false",
  SOCKS5_ENABLED: "true",
  SOCKS5_LISTEN_HOST: "127.0.0.1",
  SOCKS5_LISTEN_PORT: "0",
};

/** Port of the SOCKS5 listener. */
export async function socksPort(requester: Natsway): Promise<number> {
  const line = await requester.event((event) =>
    /socks/i.test(event.message) && /:\d+$/.test(String(event["address"]))
  );
  return Number(/:(\d+)$/.exec(String(line["address"]))?.[1]);
}

/** A tunnel, or the answer that there is none. */
export interface Tunnel extends AsyncDisposable {
  readonly socket: TestSocket;
  /** Status line of CONNECT, or the reply of SOCKS5, octet for octet. */
  readonly answer: string;
}

/** Asks by CONNECT; `early` is sent right behind the head. */
export async function connectTunnel(
  port: number,
  authority: string,
  early: Uint8Array = new Uint8Array(0),
  ms = 10_000,
): Promise<Tunnel> {
  const socket = await TestSocket.connect(port);
  const head = octets(`CONNECT ${authority} HTTP/1.1\r\nHost: ${authority}\r\n\r\n`);
  await socket.write(concat([head, early]));
  const answer = latin1(await socket.readUntil("\r\n\r\n", ms)).split("\r\n")[0] as string;
  return { socket, answer, [Symbol.asyncDispose]: () => socket.close() };
}

/** Asks by SOCKS5 for an IPv4 address, or else for a name. */
export async function socksTunnel(
  port: number,
  host: string,
  targetPort: number,
  ms = 10_000,
): Promise<Tunnel> {
  const socket = await TestSocket.connect(port);
  await socket.write(octets("\x05\x01\x00"));
  assert.deepEqual(await socket.readExactly(2), octets("\x05\x00"));
  const ipv4 = /^\d+\.\d+\.\d+\.\d+$/.test(host);
  const address = ipv4 ? [1, ...host.split(".").map(Number)] : [3, host.length, ...octets(host)];
  await socket.write(new Uint8Array([5, 1, 0, ...address, targetPort >> 8, targetPort & 255]));
  const start = await socket.readExactly(4, ms);
  const rest = await socket.readExactly((start[3] === 4 ? 16 : 4) + 2, ms);
  const answer = latin1(concat([start, rest]));
  return { socket, answer, [Symbol.asyncDispose]: () => socket.close() };
}

/** The reply octet of a SOCKS5 answer. */
export function socksReply(tunnel: Tunnel): number {
  return tunnel.answer.charCodeAt(1);
}

/** A target that sends back what comes, until the peer's end. */
export async function echo(connection: UpstreamConnection): Promise<void> {
  for (;;) {
    const piece = await connection.read(60_000);
    if (piece === null) break;
    await connection.write(piece);
  }
  if (connection.end === "fin") await connection.closeWrite();
}
