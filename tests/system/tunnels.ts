/**
 * Tunnels by CONNECT, and targets that send and check long streams.
 * @module
 */
import { concat, latin1, octets } from "../helpers/bytes.ts";
import { parseHead } from "../helpers/http_message.ts";
import type { Settings } from "../helpers/natsway.ts";
import { SocketEndedError, TestSocket } from "../helpers/socket.ts";
import { Checker, octetsAt } from "./octet_stream.ts";

/** A requester that serves CONNECT. */
export const OPEN_PROXY: Settings = { PROXY_AUTH_ENABLED: "false" };

/** The octets of a CONNECT. */
export function connectOctets(authority: string, fields: readonly string[] = []): string {
  return [`CONNECT ${authority} HTTP/1.1`, `Host: ${authority}`, ...fields, "", ""].join("\r\n");
}

/** The client's end of a tunnel, or the socket that was refused one. */
export class Tunnel implements AsyncDisposable {
  constructor(readonly socket: TestSocket, readonly head: string) {}

  get status(): number {
    return Number(parseHead(this.head).startLine.split(" ")[1]);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.socket.close();
  }
}

export interface TunnelOptions {
  /** Sent right behind the head, in the same write. */
  readonly early?: Uint8Array;
  readonly ms?: number;
}

/** Sends a CONNECT and waits for the head of the answer, whatever it says. */
export async function askTunnel(
  port: number,
  authority: string,
  { early = new Uint8Array(0), ms = 10_000 }: TunnelOptions = {},
): Promise<Tunnel> {
  const socket = await TestSocket.connect(port);
  try {
    const sending = socket.write(concat([octets(connectOctets(authority)), early]));
    const head = latin1(await socket.readUntil("\r\n\r\n", ms));
    await sending;
    return new Tunnel(socket, head);
  } catch (error) {
    await socket.close();
    throw error;
  }
}

/** A tunnel to this port of 127.0.0.1. @throws {Error} it was refused */
export async function openTunnel(
  port: number,
  targetPort: number,
  options: TunnelOptions = {},
): Promise<TestSocket> {
  const tunnel = await askTunnel(port, `127.0.0.1:${targetPort}`, options);
  if (tunnel.status === 200) return tunnel.socket;
  const body = latin1(await tunnel.socket.read() ?? new Uint8Array(0));
  await tunnel.socket.close();
  throw new Error(`no tunnel: ${tunnel.head}${body}`);
}

export interface SendOptions {
  /** Called before each write with the octets sent so far; what it returns is awaited. */
  readonly before?: (sent: number) => unknown;
}

/** Writes the first `bytes` octets of stream `seed`. */
export async function sendStream(
  socket: TestSocket,
  seed: number,
  bytes: number,
  { before }: SendOptions = {},
): Promise<void> {
  for (let at = 0; at < bytes;) {
    const waited = before?.(at);
    if (waited !== undefined) await waited;
    const piece = octetsAt(seed, at, bytes - at);
    await socket.write(piece);
    at += piece.length;
  }
}

export interface CheckOptions {
  /** Longest wait for the next octets. @default {30000} */
  readonly ms?: number;
  /** Called with the octets received so far; what it returns is awaited. */
  readonly onBytes?: (received: number) => unknown;
}

/**
 * Reads exactly `bytes` octets, which must be those of stream `seed`; what follows stays unread.
 * @throws {SocketEndedError} the peer ended before
 */
export async function checkStream(
  socket: TestSocket,
  seed: number,
  bytes: number,
  { ms = 30_000, onBytes }: CheckOptions = {},
): Promise<void> {
  const checker = new Checker(seed);
  while (checker.bytes < bytes) {
    const piece = await socket.read(ms);
    if (piece === null) {
      throw new SocketEndedError(`${socket.end} after ${checker.bytes} of ${bytes} octets`);
    }
    const mine = Math.min(piece.length, bytes - checker.bytes);
    checker.take(piece.subarray(0, mine));
    if (mine < piece.length) socket.unshift(piece.subarray(mine));
    const waited = onBytes?.(checker.bytes);
    if (waited !== undefined) await waited;
  }
}

/** A target that sends back what comes, until the peer's end. */
export async function echo(connection: TestSocket): Promise<void> {
  for (;;) {
    const piece = await connection.read(600_000);
    if (piece === null) break;
    await connection.write(piece);
  }
  if (connection.end === "fin") await connection.closeWrite();
}
