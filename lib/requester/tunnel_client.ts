/**
 * A client that has said where it wants to go: from the open of the session to the end of its socket.
 * SOCKS5, forwards and `natsway stdio` have it in common.
 * @module
 */
import type { FailureCode } from "../errors.ts";
import type { Deadlines } from "../flow/deadlines.ts";
import { TcpTunnelSocket, type TunnelSocket } from "../net/tunnel_socket.ts";
import type {
  OpenSession,
  SessionBind,
  SessionClient,
  SessionHandle,
  SessionTarget,
} from "./session_types.ts";

/** A client's TCP connection that tells when it has been closed, by whomever. */
export class ClientTunnelSocket extends TcpTunnelSocket {
  readonly #closed = Promise.withResolvers<void>();

  /** Resolves once the socket is closed or reset. */
  get closed(): Promise<void> {
    return this.#closed.promise;
  }

  override close(): void {
    super.close();
    this.#closed.resolve();
  }

  override reset(): void {
    super.reset();
    this.#closed.resolve();
  }
}

export interface TunnelClientOptions {
  readonly socket: TunnelSocket;
  readonly open: OpenSession;
  readonly target: SessionTarget;
  /** What the client is told before the tunnel begins. @default {nothing} */
  readonly reply?: (bind: SessionBind) => Uint8Array;
  /** There is no session: answers the client and ends the socket. */
  readonly onFailed: (code: FailureCode, message: string) => void;
}

/** Most octets that are read ahead while a client waits. */
const READ_AHEAD_BYTES = 64 * 1024;

/**
 * Opens a session and watches the socket while it waits: a client that breaks off gives the session up,
 * one that only ends its input does not. Once there is a session the socket belongs to it.
 */
export class TunnelClient implements SessionClient {
  readonly #options: TunnelClientOptions;
  readonly #handle: SessionHandle;
  #waiting = true;

  constructor(options: TunnelClientOptions) {
    this.#options = options;
    options.socket.onError = () => this.close();
    this.#handle = options.open(options.target, this);
    void this.#watch();
  }

  established(bind: SessionBind): TunnelSocket | null {
    if (!this.#waiting) return null;
    this.#waiting = false;
    const { socket, reply } = this.#options;
    socket.onError = null;
    if (reply !== undefined) socket.writer.write(reply(bind));
    return socket;
  }

  failed(code: FailureCode, message: string): void {
    if (!this.#waiting) return;
    this.#waiting = false;
    this.#options.socket.onError = null;
    this.#options.onFailed(code, message);
  }

  /** Ends all of it now: the client sees a broken stream. */
  close(): void {
    if (this.#waiting) {
      this.#waiting = false;
      this.#handle.abandon();
    }
    this.#options.socket.reset();
  }

  async #watch(): Promise<void> {
    const { reader } = this.#options.socket;
    try {
      while (this.#waiting && reader.unread < READ_AHEAD_BYTES) {
        if (!await reader.more()) return;
      }
    } catch {
      if (this.#waiting) this.close();
    }
  }
}

/** Most octets that are thrown away before a close. */
const LINGER_BYTES = 8 * 1024 * 1024;

/**
 * Sends what is pending and the end of output, then throws away what still comes in, for as long as a
 * deadline of `linger` and for 8 MiB: closing with unread input would reset the connection, and a reset
 * could take the answer with it. Never rejects; the socket is closed afterwards.
 */
export async function closeOrderly(socket: TunnelSocket, linger: Deadlines): Promise<void> {
  const { reader, writer } = socket;
  const deadline = linger.start(() => socket.close());
  try {
    await writer.flushed();
    await socket.closeWrite();
    for (let dropped = 0; dropped < LINGER_BYTES;) {
      dropped += reader.unread;
      reader.start = reader.end;
      if (!await reader.more()) break;
    }
  } catch {
    // The client has left; nothing more can be done for it.
  } finally {
    deadline.cancel();
    socket.close();
  }
}
