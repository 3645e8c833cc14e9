/**
 * One end of a tunnel: a byte stream in both directions that can be half-closed, closed and reset.
 * @module
 */
import { BufferedWriter } from "./buffered_writer.ts";
import { resetConnection } from "./reset.ts";
import { SocketReader } from "./socket_reader.ts";

/** What a tunnel's pump needs of a socket. Octets that `reader` holds already belong to the tunnel. */
export interface TunnelSocket {
  readonly reader: SocketReader;
  readonly writer: BufferedWriter;
  /** Called after each write that the socket took, when `writer.pendingBytes` has become less. */
  onTaken: (() => void) | null;
  /** Called once when a write fails. */
  onError: (() => void) | null;
  /** Half-close: nothing more will be written. Call it when all is flushed. Rejects on a broken socket. */
  closeWrite(): Promise<void>;
  /** Closes both directions. More calls do nothing. */
  close(): void;
  /** Closes so that the other end sees a broken stream. More calls do nothing. */
  reset(): void;
}

/** A TCP connection as the end of a tunnel. */
export class TcpTunnelSocket implements TunnelSocket {
  readonly #socket: Deno.TcpConn;
  readonly reader: SocketReader;
  readonly writer: BufferedWriter;
  onTaken: (() => void) | null = null;
  onError: (() => void) | null = null;
  #closed = false;
  #shut: Promise<void> | null = null;

  constructor(socket: Deno.TcpConn) {
    this.#socket = socket;
    this.reader = new SocketReader(socket);
    this.writer = new BufferedWriter(socket, {
      onTaken: () => this.onTaken?.(),
      onError: () => this.onError?.(),
    });
  }

  closeWrite(): Promise<void> {
    return this.#shut ??= this.#socket.closeWrite();
  }

  close(): void {
    this.#end(() => {
      try {
        this.#socket.close();
      } catch {
        // The other side was faster.
      }
    });
  }

  reset(): void {
    this.#end(() => resetConnection(this.#socket));
  }

  #end(close: () => void): void {
    if (this.#closed) return;
    this.#closed = true;
    this.onTaken = this.onError = null;
    this.writer.fail(new Error("the connection is closed"));
    close();
    this.reader.close();
  }
}
