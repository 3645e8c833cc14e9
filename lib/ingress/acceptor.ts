/**
 * What all listeners have in common: accepting within a limit, draining and closing.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import { Bag, type BagItem } from "../flow/bag.ts";
import type { Deadlines } from "../flow/deadlines.ts";
import type { Logger } from "../logger.ts";
import type { ConnectionLimit } from "./connection_limit.ts";

/** One client connection of a listener. */
export interface ServedConnection extends BagItem {
  /** Serves until the socket is closed. Never rejects. */
  run(): Promise<void>;
  /** Closes as soon as nothing is under way: now, or later by itself. */
  drain(): void;
  /** Closes now, whatever is under way. */
  close(): void;
}

/** Where to listen, and what messages say about it. */
export interface ListenOptions {
  readonly hostname: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** For the message when the port cannot be had: `requester`, `receiver`, … */
  readonly role: string;
  /** The setting that named the address, for the same message. */
  readonly setting: string;
}

export interface AcceptorOptions extends ListenOptions {
  /** What comes in here, for the same message: `HTTP`, `SOCKS5`, … */
  readonly purpose: string;
  readonly limit: ConnectionLimit;
  /** Makes the connection of a socket that was accepted; it must not throw. */
  readonly connect: (socket: Deno.TcpConn) => ServedConnection;
  /** What the connections share; closed with the last of them. */
  readonly deadlines: readonly Deadlines[];
  readonly logger: Logger;
}

/** Pause after an accept that failed for want of descriptors. */
const ACCEPT_RETRY_MS = 100;

/** A listening TCP port with its connections. */
export class Acceptor {
  readonly #options: AcceptorOptions;
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Bag<ServedConnection>();
  readonly #accepting: Promise<void>;
  #stopping = false;
  #waiters: (() => void)[] = [];

  /**
   * Listens at once.
   * @throws {StartError} the address cannot be had; names the role, the address and the setting
   */
  constructor(options: AcceptorOptions) {
    this.#options = options;
    this.#listener = listen(options);
    this.#accepting = this.#accept();
  }

  get hostname(): string {
    return this.#listener.addr.hostname;
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Open connections of this listener. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Takes no new connection and closes the idle ones; the others close when their work is over. */
  drain(): void {
    if (this.#stopping) return;
    this.#stopping = true;
    this.#listener.close();
    for (const connection of this.#connections) connection.drain();
  }

  /** Resolves when no connection is open; call `drain` before. */
  async closed(): Promise<void> {
    await this.#accepting;
    if (this.#connections.size > 0) {
      await new Promise<void>((resolve) => this.#waiters.push(resolve));
    }
    for (const deadlines of this.#options.deadlines) deadlines.close();
  }

  /** Closes every connection now. */
  async close(): Promise<void> {
    this.drain();
    for (const connection of this.#connections) connection.close();
    await this.closed();
  }

  async #accept(): Promise<void> {
    while (!this.#stopping) {
      let socket: Deno.TcpConn;
      try {
        socket = await this.#listener.accept();
      } catch (error) {
        if (this.#stopping) return;
        // Out of descriptors, or the client was gone already: the next accept may work.
        this.#options.logger.warn("cannot accept a connection", { error: errorText(error) });
        await new Promise((resolve) => setTimeout(resolve, ACCEPT_RETRY_MS));
        continue;
      }
      this.#serve(socket);
    }
  }

  #serve(socket: Deno.TcpConn): void {
    const { limit, logger, connect } = this.#options;
    if (this.#stopping || !limit.take()) {
      if (!this.#stopping) {
        logger.warn("connection refused", { limit: limit.max, setting: "MAX_CONNECTIONS" });
      }
      socket.close();
      return;
    }
    try {
      socket.setNoDelay(true);
    } catch {
      // Some systems refuse that on a connection that is gone: its first read will tell.
    }
    const connection = connect(socket);
    this.#connections.add(connection);
    connection.run().finally(() => {
      limit.release();
      this.#connections.delete(connection);
      if (this.#connections.size === 0) {
        for (const waiter of this.#waiters.splice(0)) waiter();
      }
    });
  }
}

function listen(options: AcceptorOptions): Deno.TcpListener {
  const { hostname, port, purpose, role, setting } = options;
  try {
    return Deno.listen({ hostname, port });
  } catch (error) {
    const shown = hostname.includes(":") ? `[${hostname}]` : hostname;
    const reason = error instanceof Deno.errors.AddrInUse
      ? "the address is in use; stop the other program or change " + setting
      : `${errorText(error)} (${setting})`;
    throw new StartError(`cannot listen for ${purpose} as ${role} on ${shown}:${port}: ${reason}`, {
      cause: error,
    });
  }
}
