/**
 * A node:net or node:tls socket with the read and write of a `Deno.Conn`. It is there for mutual
 * TLS alone: `Deno.startTls` takes no client certificate.
 * @module
 */

import { connect as connectTcp, isIP, type Socket } from "node:net";
import { connect as connectTls } from "node:tls";

/** PEM texts of a client that shows its own certificate. */
export interface MutualTls {
  readonly ca?: string;
  readonly cert: string;
  readonly key: string;
}

/** Above so many unread bytes a flowing socket is paused. */
const MAX_UNREAD_BYTES = 256 * 1024;

/**
 * Takes what the socket gives, up to a bound. Before TLS (`flowing` false) it reads only while somebody
 * waits: Deno 2.6 cannot start TLS on a socket while a read of the kernel is pending.
 */
export class NodeStream {
  readonly #socket: Socket;
  readonly #maxUnreadBytes: number;
  readonly #unread: Uint8Array[] = [];
  #unreadBytes = 0;
  #wake: (() => void) | null = null;
  #ended = false;
  #failure: Error | null = null;

  constructor(socket: Socket, flowing: boolean) {
    this.#socket = socket;
    this.#maxUnreadBytes = flowing ? MAX_UNREAD_BYTES : 0;
    if (!flowing) socket.pause();
    socket.on("data", this.#onData);
    socket.on("end", this.#onEnd);
    socket.on("close", this.#onEnd);
    socket.on("error", this.#onError);
  }

  async read(into: Uint8Array): Promise<number | null> {
    while (true) {
      const chunk = this.#unread[0];
      if (chunk !== undefined) {
        const count = Math.min(chunk.length, into.length);
        into.set(count === chunk.length ? chunk : chunk.subarray(0, count));
        if (count < chunk.length) this.#unread[0] = chunk.subarray(count);
        else this.#unread.shift();
        this.#unreadBytes -= count;
        return count;
      }
      if (this.#failure !== null) throw this.#failure;
      if (this.#ended) return null;
      const waiting = new Promise<void>((resolve) => this.#wake = resolve);
      if (this.#socket.isPaused()) this.#socket.resume();
      await waiting;
    }
  }

  write(bytes: Uint8Array): Promise<number> {
    return new Promise((resolve, reject) => {
      if (this.#failure !== null || this.#ended) {
        reject(this.#failure ?? new Error("the connection is closed"));
        return;
      }
      this.#socket.write(bytes, (error) => error ? reject(error) : resolve(bytes.length));
    });
  }

  close(): void {
    this.#ended = true;
    this.#unread.length = 0;
    this.#socket.destroy();
    this.#notify();
  }

  /** Takes the socket back, without listeners, for a handshake on it. */
  release(): Socket {
    this.#socket.off("data", this.#onData);
    this.#socket.off("end", this.#onEnd);
    this.#socket.off("close", this.#onEnd);
    this.#socket.off("error", this.#onError);
    return this.#socket;
  }

  readonly #onData = (chunk: Uint8Array): void => {
    if (this.#ended) return;
    this.#unread.push(chunk);
    this.#unreadBytes += chunk.length;
    if (this.#unreadBytes > this.#maxUnreadBytes) this.#socket.pause();
    this.#notify();
  };

  readonly #onEnd = (): void => {
    this.#ended = true;
    this.#notify();
  };

  readonly #onError = (error: Error): void => {
    this.#failure ??= error;
    this.#notify();
  };

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}

/** Connects without TLS. */
export function dialNode(hostname: string, port: number, signal: AbortSignal): Promise<NodeStream> {
  return settle(connectTcp({ host: hostname, port }), "connect", signal);
}

/** Makes TLS with a client certificate of a connected stream. */
export function startMutualTls(
  stream: NodeStream,
  tlsName: string,
  tls: MutualTls,
  signal: AbortSignal,
): Promise<NodeStream> {
  const socket = connectTls({
    socket: stream.release(),
    host: tlsName,
    // SNI is for names (RFC 6066 section 3); an address is compared with the certificate all the same.
    ...(isIP(tlsName) === 0 ? { servername: tlsName } : {}),
    cert: tls.cert,
    key: tls.key,
    ...(tls.ca === undefined ? {} : { ca: [tls.ca] }),
  });
  return settle(socket, "secureConnect", signal);
}

function settle(
  socket: Socket,
  event: "connect" | "secureConnect",
  signal: AbortSignal,
): Promise<NodeStream> {
  return new Promise((resolve, reject) => {
    const fail = (error?: Error) => {
      finish();
      socket.destroy();
      reject(error ?? new Error("the connection was closed"));
    };
    const abort = () => fail(new Error("the attempt was ended"));
    const closed = () => fail();
    const done = () => {
      finish();
      socket.setNoDelay(true);
      resolve(new NodeStream(socket, event === "secureConnect"));
    };
    const finish = () => {
      socket.off(event, done);
      socket.off("error", fail);
      socket.off("close", closed);
      signal.removeEventListener("abort", abort);
    };
    socket.on(event, done);
    socket.on("error", fail);
    socket.on("close", closed);
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
  });
}
