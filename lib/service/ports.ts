/**
 * What a process listens on: opened before it joins a pool, drained and closed with it.
 * @module
 */
import type { Config } from "../config/settings.ts";
import { ConnectionLimit } from "../ingress/connection_limit.ts";
import type { IngressRequest } from "../ingress/connection.ts";
import { HttpServer } from "../ingress/server.ts";
import type { Logger } from "../logger.ts";
import { ForwardServer } from "../requester/forward_server.ts";
import { type OpenSession, showAuthority } from "../requester/session_types.ts";
import { Socks5Server } from "../requester/socks5_server.ts";

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
  /** For SOCKS5 and forwards. */
  readonly open: OpenSession;
}

/** All listeners of one process. */
export class Ports {
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #open: Port[] = [];
  /** Those of them whose clients get tunnels: SOCKS5 and forwards. */
  readonly #tunnels: Port[] = [];
  /** MAX_CONNECTIONS is for all listeners together. */
  readonly #limit: ConnectionLimit;

  /**
   * Listens at once.
   * @throws {StartError} an address cannot be had; nothing stays open
   */
  constructor(config: Config, logger: Logger, handlers: PortHandlers) {
    this.#config = config;
    this.#logger = logger;
    this.#limit = new ConnectionLimit(config.maxConnections);
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

  /** Takes no new SOCKS5 client and no new connection of a forward; open tunnels go on. */
  drainTunnels(): void {
    for (const port of this.#tunnels) port.drain();
  }

  async closed(): Promise<void> {
    await Promise.all(this.#open.map((port) => port.closed()));
  }

  async close(): Promise<void> {
    await Promise.all(this.#open.map((port) => port.close()));
  }

  #listen(handlers: PortHandlers): void {
    const { listenHost, port, adminListen, serviceRole } = this.#config;
    this.#add("listening", this.#serve("PORT", listenHost, port, handlers.http));
    if (adminListen !== null) {
      const { hostname, port: adminPort } = adminListen;
      // A full house must not lock the operator out.
      const own = new ConnectionLimit(this.#config.maxConnections);
      const admin = this.#serve("ADMIN_LISTEN", hostname, adminPort, handlers.admin, own);
      this.#add("listening for local routes", admin);
    }
    if (serviceRole === "requester") this.#listenForTunnels(handlers.open);
  }

  #listenForTunnels(open: OpenSession): void {
    const config = this.#config;
    const shared = { role: config.serviceRole, limit: this.#limit, open, logger: this.#logger };
    if (config.socks5Enabled) {
      const socks5 = new Socks5Server({
        ...shared,
        hostname: config.socks5ListenHost,
        port: config.socks5ListenPort,
        setting: "SOCKS5_LISTEN_PORT",
        auth: config.proxyAuthEnabled ? "locked" : "none",
        handshakeTimeoutMs: config.handshakeTimeoutMs,
      });
      this.#addTunnels("listening for SOCKS5", socks5);
    }
    for (const forward of config.forwards) {
      const target = showAuthority(forward.targetHost, forward.targetPort);
      const server = new ForwardServer({ ...shared, forward });
      this.#addTunnels("listening for a forward", server, { target });
    }
  }

  #addTunnels(text: string, port: Port, more: { target?: string } = {}): void {
    this.#tunnels.push(port);
    this.#add(text, port, more);
  }

  #add(text: string, port: Port, more: { target?: string } = {}): void {
    this.#open.push(port);
    this.#logger.info(text, { address: showAuthority(port.hostname, port.port), ...more });
  }

  #serve(
    setting: string,
    hostname: string,
    port: number,
    handler: (request: IngressRequest) => void,
    limit = this.#limit,
  ): HttpServer {
    const { serviceRole: role, maxHeaderBytes } = this.#config;
    const { headerTimeoutMs, keepaliveTimeoutMs } = this.#config;
    return new HttpServer({
      hostname,
      port,
      role,
      setting,
      limit,
      maxHeaderBytes,
      headerTimeoutMs,
      keepaliveTimeoutMs,
      handler,
      logger: this.#logger,
    });
  }
}
