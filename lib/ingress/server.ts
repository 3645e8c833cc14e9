/**
 * The HTTP port: accepts connections and keeps count of them.
 * @module
 */
import { errorText, StartError } from "../errors.ts";
import { Bag } from "../flow/bag.ts";
import { Deadlines } from "../flow/deadlines.ts";
import type { Logger } from "../logger.ts";
import { ClientConnection, type ConnectionOptions, type RequestHandler } from "./connection.ts";

export interface HttpServerOptions {
  readonly hostname: string;
  /** 0 takes any free port. */
  readonly port: number;
  /** For the message when the port cannot be had: `requester`, `receiver`, … */
  readonly role: string;
  /** The setting that named the address, for the same message. */
  readonly setting: string;
  readonly maxConnections: number;
  readonly maxHeaderBytes: number;
  readonly headerTimeoutMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly handler: RequestHandler;
  readonly logger: Logger;
}

/** How long a client that ended its input is still waited for. */
const HALF_CLOSE_MS = 1_000;
/** How long input is thrown away before a close. */
const LINGER_MS = 1_000;
/** Pause after an accept that failed for want of descriptors. */
const ACCEPT_RETRY_MS = 100;

/** A listening HTTP/1.1 server on `Deno.listen`. */
export class HttpServer {
  readonly #listener: Deno.TcpListener;
  readonly #connections = new Bag<ClientConnection>();
  readonly #options: ConnectionOptions;
  readonly #maxConnections: number;
  readonly #logger: Logger;
  readonly #deadlines: Deadlines[];
  readonly #accepting: Promise<void>;
  #stopping = false;
  #waiters: (() => void)[] = [];

  /**
   * Listens at once.
   * @throws {StartError} the address cannot be had; names the role and the address
   */
  constructor(options: HttpServerOptions) {
    this.#listener = listen(options);
    const deadline = (ms: number) => new Deadlines(ms);
    this.#options = {
      maxHeaderBytes: options.maxHeaderBytes,
      headerDeadlines: deadline(options.headerTimeoutMs),
      idleDeadlines: deadline(options.keepaliveTimeoutMs),
      halfCloseDeadlines: deadline(HALF_CLOSE_MS),
      lingerDeadlines: deadline(LINGER_MS),
      handler: options.handler,
      onRefused: ({ status, code, reason }) =>
        options.logger.info("request refused", { status, code, detail: reason }),
    };
    this.#deadlines = [
      this.#options.headerDeadlines,
      this.#options.idleDeadlines,
      this.#options.halfCloseDeadlines,
      this.#options.lingerDeadlines,
    ];
    this.#maxConnections = options.maxConnections;
    this.#logger = options.logger;
    this.#accepting = this.#accept();
  }

  get hostname(): string {
    return this.#listener.addr.hostname;
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Open client connections. */
  get connections(): number {
    return this.#connections.size;
  }

  /** Takes no new connection and closes the idle ones; the others close after their response. */
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
    for (const deadlines of this.#deadlines) deadlines.close();
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
        this.#logger.warn("cannot accept a connection", { error: errorText(error) });
        await new Promise((resolve) => setTimeout(resolve, ACCEPT_RETRY_MS));
        continue;
      }
      this.#serve(socket);
    }
  }

  #serve(socket: Deno.TcpConn): void {
    if (this.#stopping || this.#connections.size >= this.#maxConnections) {
      if (!this.#stopping) {
        this.#logger.warn("connection refused", {
          limit: this.#maxConnections,
          setting: "MAX_CONNECTIONS",
        });
      }
      socket.close();
      return;
    }
    socket.setNoDelay(true);
    const connection = new ClientConnection(socket, socket.remoteAddr.hostname, this.#options);
    this.#connections.add(connection);
    connection.run().finally(() => {
      this.#connections.delete(connection);
      if (this.#connections.size === 0) {
        for (const waiter of this.#waiters.splice(0)) waiter();
      }
    });
  }
}

function listen(options: HttpServerOptions): Deno.TcpListener {
  const { hostname, port, role, setting } = options;
  try {
    return Deno.listen({ hostname, port });
  } catch (error) {
    const shown = hostname.includes(":") ? `[${hostname}]` : hostname;
    const reason = error instanceof Deno.errors.AddrInUse
      ? "the address is in use; stop the other program or choose another " + setting
      : errorText(error);
    throw new StartError(`cannot listen for HTTP as ${role} on ${shown}:${port}: ${reason}`, {
      cause: error,
    });
  }
}
