/**
 * What a process listens on: opened before it joins a pool, drained and closed with it.
 * @module
 */
import type { Config } from "../config/settings.ts";
import type { IngressRequest } from "../ingress/connection.ts";
import { HttpServer } from "../ingress/server.ts";
import type { Logger } from "../logger.ts";

/** A listener with its connections. */
interface Port {
  readonly hostname: string;
  readonly port: number;
  /** Takes no new connection; those that are idle are closed. */
  drain(): void;
  /** Resolves when no connection is open; after `drain`. */
  closed(): Promise<void>;
  /** Closes everything now. */
  close(): Promise<void>;
}

/** Who takes what comes in. */
export interface PortHandlers {
  readonly http: (request: IngressRequest) => void;
  /** Of ADMIN_LISTEN. */
  readonly admin: (request: IngressRequest) => void;
}

/** All listeners of one process. */
export class Ports {
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #open: Port[] = [];

  /**
   * Listens at once.
   * @throws {StartError} an address cannot be had; nothing stays open
   */
  constructor(config: Config, logger: Logger, handlers: PortHandlers) {
    this.#config = config;
    this.#logger = logger;
    try {
      this.#listen(handlers);
    } catch (error) {
      void this.close();
      throw error;
    }
  }

  /** Where the HTTP port is. */
  get http(): { hostname: string; port: number } {
    const { hostname, port } = this.#open[0]!;
    return { hostname, port };
  }

  /** Where all of them are. */
  all(): { hostname: string; port: number }[] {
    return this.#open.map(({ hostname, port }) => ({ hostname, port }));
  }

  drain(): void {
    for (const port of this.#open) port.drain();
  }

  async closed(): Promise<void> {
    await Promise.all(this.#open.map((port) => port.closed()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#open.map((port) => port.close()));
  }

  #listen(handlers: PortHandlers): void {
    const { listenHost, port, adminListen } = this.#config;
    this.#add("listening", this.#serve("PORT", listenHost, port, handlers.http));
    if (adminListen === null) return;
    const { hostname, port: adminPort } = adminListen;
    const admin = this.#serve("ADMIN_LISTEN", hostname, adminPort, handlers.admin);
    this.#add("listening for local routes", admin);
  }

  #add(text: string, port: Port): void {
    this.#open.push(port);
    this.#logger.info(text, { address: showAddress(port.hostname, port.port) });
  }

  #serve(
    setting: string,
    hostname: string,
    port: number,
    handler: (request: IngressRequest) => void,
  ): HttpServer {
    const { serviceRole: role, maxConnections, maxHeaderBytes } = this.#config;
    const { headerTimeoutMs, keepaliveTimeoutMs } = this.#config;
    return new HttpServer({
      hostname,
      port,
      role,
      setting,
      maxConnections,
      maxHeaderBytes,
      headerTimeoutMs,
      keepaliveTimeoutMs,
      handler,
      logger: this.#logger,
    });
  }
}

/** `host:port`, with brackets around an IPv6 address. */
function showAddress(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
