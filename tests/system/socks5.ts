/**
 * Clients of SOCKS5, octet by octet (RFC 1928).
 * @module
 */
import { latin1, octets } from "../helpers/bytes.ts";
import type { Settings } from "../helpers/natsway.ts";
import { type Rig, type RigOptions, startRig } from "../helpers/rig.ts";
import { TestSocket } from "../helpers/socket.ts";

/** A requester that serves SOCKS5. */
export const OPEN_SOCKS5: Settings = {
  PROXY_AUTH_ENABLED: "false",
  SOCKS5_ENABLED: "true",
  SOCKS5_LISTEN_HOST: "127.0.0.1",
  SOCKS5_LISTEN_PORT: "0",
};

export const GREETING = "\x05\x01\x00";
export const NO_AUTH = "\x05\x00";

/** A bridge whose requester serves SOCKS5. */
export function startSocksRig(options: RigOptions = {}): Promise<Rig> {
  const requesterSettings = { ...OPEN_SOCKS5, ...options.requesterSettings };
  return startRig({ ...options, requesterSettings });
}

/** The SOCKS5 port of a rig. */
export function socksPort(rig: Rig): number {
  const { events } = rig.requester.log;
  const line = events.find((event) => event.message === "listening for SOCKS5");
  const port = /:(\d+)$/.exec(String(line?.["address"]))?.[1];
  if (port === undefined) throw new Error(rig.described("it does not listen for SOCKS5"));
  return Number(port);
}

/** Octets of a port. */
function portOctets(port: number): string {
  return String.fromCharCode(port >> 8, port & 0xff);
}

/** A CONNECT to this address, which may be `127.0.0.1`, `::1` or a name. */
export function connectOctets(host: "127.0.0.1" | "::1" | string, port: number): string {
  const address = host === "127.0.0.1"
    ? "\x01\x7f\x00\x00\x01"
    : host === "::1"
    ? `\x04${"\0".repeat(15)}\x01`
    : `\x03${String.fromCharCode(host.length)}${host}`;
  return `\x05\x01\x00${address}${portOctets(port)}`;
}

/** A failure's reply. */
export function failedWith(code: number): string {
  return `\x05${String.fromCharCode(code)}\x00\x01\x00\x00\x00\x00\x00\x00`;
}

/** One reply of any length. */
export async function readReply(socket: TestSocket, ms = 10_000): Promise<string> {
  const head = await socket.readExactly(4, ms);
  const rest = await socket.readExactly(head[3] === 4 ? 18 : 6, ms);
  return latin1(head) + latin1(rest);
}

/** Greets, waits for the method, then sends the request and `early` behind it in one write. */
export async function askSocks(port: number, request: string, early = ""): Promise<TestSocket> {
  const socket = await TestSocket.connect(port);
  try {
    await socket.write(GREETING);
    const method = latin1(await socket.readExactly(2));
    if (method !== NO_AUTH) throw new Error(`method ${JSON.stringify(method)}`);
    await socket.write(octets(request + early));
    return socket;
  } catch (error) {
    await socket.close();
    throw error;
  }
}

/** A tunnel to this port of 127.0.0.1. */
export async function openSocks(port: number, targetPort: number): Promise<TestSocket> {
  const socket = await askSocks(port, connectOctets("127.0.0.1", targetPort));
  const reply = await readReply(socket);
  if (reply[1] === "\0") return socket;
  await socket.close();
  throw new Error(`no tunnel: ${JSON.stringify(reply)}`);
}
