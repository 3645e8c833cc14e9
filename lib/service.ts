/**
 * One role, wired together: start, ready, drain, stop.
 * @module
 */
import type { Config } from "./config/settings.ts";
import { FlowRegistry } from "./flow/registry.ts";
import { newId } from "./flow/ids.ts";
import { answerError, answerFailure } from "./ingress/answers.ts";
import type { IngressRequest } from "./ingress/connection.ts";
import { isLocalTarget, type LocalApp, serveLocal } from "./ingress/local.ts";
import { HttpServer } from "./ingress/server.ts";
import type { Logger } from "./logger.ts";
import { localRoutes, type ServiceView } from "./observe/routes.ts";
import { withFields } from "./observe/log.ts";
import { planePatterns, type Roots } from "./protocol/subjects.ts";
import { Receiver } from "./receiver/receiver.ts";
import { Requester } from "./requester/requester.ts";
import { linkSettings } from "./transport/settings.ts";
import { connectCore, type CoreTransport } from "./transport/core.ts";

/** Longest that a stop waits for closing sockets once the work is over. */
const CLOSE_MS = 2_000;

/** A role that runs. */
export class Service {
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #transport: CoreTransport;
  readonly #registry: FlowRegistry;
  readonly #requester: Requester | null;
  readonly #receiver: Receiver | null;
  readonly #servers: HttpServer[] = [];
  readonly #app: LocalApp;
  #stopping = false;
  #wasReady = false;
  #subscribed = false;
  /** Counts connections, so that a late answer of an earlier one is not taken for this one's. */
  #connection = 0;
  #stopped: Promise<void> | null = null;
  #readyWaiters: (() => void)[] = [];

  /**
   * Listens and begins to connect.
   * @throws {StartError} an address cannot be had, or credentials or certificates cannot be used
   */
  constructor(config: Config, logger: Logger) {
    const role = config.serviceRole;
    this.#config = config;
    this.#logger = withFields(logger, { role, service_id: config.serviceId });
    this.#registry = new FlowRegistry({ maxFlows: config.maxFlows, logger: this.#logger });
    this.#app = localRoutes({
      view: () => this.view(),
      access: config.observabilityAccess,
      token: config.observabilityToken,
    });
    // The port first: a process that cannot have it must not join the pool.
    this.#listen();
    try {
      this.#transport = this.#connect();
    } catch (error) {
      for (const server of this.#servers) void server.close();
      throw error;
    }
    const roots: Roots = { request: config.requestRoot, response: config.responseRoot };
    const instance = newId();
    this.#requester = role === "requester" ? this.#makeRequester(roots, instance) : null;
    this.#receiver = role === "receiver" ? this.#makeReceiver(roots, instance) : null;
    this.#requester?.start();
    this.#receiver?.start();
    this.#transport.onConnection((connected) => this.#connectionChanged(connected));
    this.#connectionChanged(this.#transport.connected);
  }

  /** `host:port` of the HTTP port. */
  get address(): { hostname: string; port: number } {
    const { hostname, port } = this.#servers[0]!;
    return { hostname, port };
  }

  /** Resolves when the role is in service for the first time. */
  ready(): Promise<void> {
    if (this.view().reason === null) return Promise.resolve();
    return new Promise((resolve) => this.#readyWaiters.push(resolve));
  }

  /** A snapshot for pages. */
  view(): ServiceView {
    const { serviceRole: role, serviceId } = this.#config;
    const transport = this.#transport.status();
    const reason = this.#stopping
      ? "stopping"
      : !transport.connected
      ? `not connected to NATS: ${transport.lastError ?? "connecting"}`
      : !this.#subscribed
      ? "subscribing"
      : deniedReason(transport.planesDenied);
    const serving = reason === null;
    return {
      role,
      serviceId,
      state: this.#stopping ? "stopped" : this.#wasReady ? "ready" : serving ? "ready" : "booting",
      reason,
      transport,
      bridgeInbound: serving && role === "receiver",
      bridgeOutbound: serving && role === "requester",
      flows: this.#registry.size,
    };
  }

  /**
   * Stops in order: not ready, out of the pool, running work finished within `graceMs`, the rest broken
   * off visibly, everything closed. More calls wait for the first.
   */
  stop(graceMs = this.#config.shutdownGraceMs): Promise<void> {
    return this.#stopped ??= this.#stop(graceMs);
  }

  async #stop(graceMs: number): Promise<void> {
    this.#logger.info("stopping", { flows: this.#registry.size, grace_ms: graceMs });
    this.#stopping = true;
    this.#reportReadiness();
    await within(CLOSE_MS, this.#receiver?.drain() ?? Promise.resolve());
    const cut = await within(graceMs, this.#registry.idle());
    if (cut) this.#logger.warn("grace is over", { flows: this.#registry.size });
    this.#requester?.stop();
    this.#receiver?.stop();
    for (const server of this.#servers) server.drain();
    await within(CLOSE_MS, Promise.all(this.#servers.map((server) => server.closed())));
    for (const server of this.#servers) await server.close();
    await this.#transport.close();
    this.#logger.info("stopped");
  }

  #listen(): void {
    const { listenHost, port, adminListen } = this.#config;
    const main = this.#serve("PORT", listenHost, port, (request) => this.#handle(request));
    this.#logger.info("listening", { address: showAddress(main.hostname, main.port) });
    if (adminListen === null) return;
    const admin = this.#serve(
      "ADMIN_LISTEN",
      adminListen.hostname,
      adminListen.port,
      (request) => void serveLocal(this.#app, request),
    );
    this.#logger.info("listening for local routes", {
      address: showAddress(admin.hostname, admin.port),
    });
  }

  #serve(
    setting: string,
    hostname: string,
    port: number,
    handler: (request: IngressRequest) => void,
  ): HttpServer {
    const { serviceRole: role, maxConnections, maxHeaderBytes } = this.#config;
    const { headerTimeoutMs, keepaliveTimeoutMs } = this.#config;
    const logger = this.#logger;
    let server: HttpServer;
    try {
      server = new HttpServer({
        hostname,
        port,
        role,
        setting,
        maxConnections,
        maxHeaderBytes,
        headerTimeoutMs,
        keepaliveTimeoutMs,
        handler,
        logger,
      });
    } catch (error) {
      for (const open of this.#servers) void open.close();
      throw error;
    }
    this.#servers.push(server);
    return server;
  }

  /** Classifies a request by http-surface.md section 1. */
  #handle(request: IngressRequest): void {
    const { head, response } = request;
    const { target, method } = head;
    const proxied = method === "CONNECT" || /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(target);
    if (this.#requester === null && (proxied || !this.#isLocal(target))) {
      if (method === "CONNECT") response.closeAfter();
      answerFailure(response, "no_receiver", "A receiver's port serves local routes only");
      return;
    }
    if (proxied) {
      this.#refuseProxy(request);
      return;
    }
    if (!target.startsWith("/") && !(target === "*" && method === "OPTIONS")) {
      answerError(response, 400, "The request target is neither a path nor a URL", "bad_request");
      return;
    }
    if (this.#isLocal(target) || this.#requester === null) {
      void serveLocal(this.#app, request);
      return;
    }
    if (this.#stopping) {
      response.closeAfter();
      answerFailure(response, "stopping", "natsway is stopping");
      return;
    }
    this.#requester.handle(request);
  }

  #isLocal(target: string): boolean {
    return this.#config.adminListen === null && isLocalTarget(target);
  }

  /** Proxy traffic is not served yet; while PROXY_AUTH_ENABLED is on this looks as under its lock. */
  #refuseProxy(request: IngressRequest): void {
    const { response, head } = request;
    if (head.method === "CONNECT" || head.framing.kind !== "none") response.closeAfter();
    if (this.#config.proxyAuthEnabled) response.answer(404, "text/plain", "Not Found");
    else {
      const message = "This version does not serve proxy requests";
      answerError(response, 501, message, "not_implemented");
    }
  }

  #connect(): CoreTransport {
    const config = this.#config;
    const roots: Roots = { request: config.requestRoot, response: config.responseRoot };
    return connectCore({
      ...linkSettings(config),
      logger: this.#logger,
      backendReason: config.natsMode === "core"
        ? "NATS_MODE=core"
        : "this version carries Core only",
      subjects: {
        requests: config.listenSubject,
        queueGroup: config.natsQueueGroup,
        ...planePatterns(roots, config.serviceId),
      },
    });
  }

  #makeRequester(roots: Roots, instance: string): Requester {
    const config = this.#config;
    return new Requester({
      ...config,
      transport: this.#transport,
      registry: this.#registry,
      logger: this.#logger,
      roots,
      instance,
      via: config.via ? `natsway-${instance.slice(0, 8)}` : null,
      runtime: () => {
        const { state, role, transport, reason, bridgeInbound, bridgeOutbound } = this.view();
        const details = {
          state,
          role,
          backend: transport.backend,
          error: reason,
          bridge_inbound: bridgeInbound,
          bridge_outbound: bridgeOutbound,
        };
        return { state, details };
      },
    });
  }

  #makeReceiver(roots: Roots, instance: string): Receiver {
    const config = this.#config;
    return new Receiver({
      ...config,
      transport: this.#transport,
      registry: this.#registry,
      logger: this.#logger,
      roots,
      instance,
      upstream: config.upstreamUrl,
      maxInflight: config.receiverMaxInflight,
    });
  }

  /** In service only once the server has taken the subscriptions: a round trip behind them tells. */
  #connectionChanged(connected: boolean): void {
    this.#subscribed = false;
    this.#reportReadiness();
    if (!connected) return;
    const connection = ++this.#connection;
    this.#transport.flush().then(() => {
      if (connection !== this.#connection || !this.#transport.connected) return;
      this.#subscribed = true;
      this.#reportReadiness();
    }, () => {
      // The connection is gone again; the next one reports itself.
    });
  }

  #reportReadiness(): void {
    const { reason, transport } = this.view();
    const ready = reason === null;
    if (ready === this.#wasReady) return;
    this.#wasReady = ready;
    if (!ready) {
      if (this.#stopping) this.#logger.info("not ready", { reason });
      else this.#logger.warn("not ready", { reason });
      return;
    }
    const { backend, backendReason, server } = transport;
    this.#logger.info("ready", { backend, backend_reason: backendReason, server });
    for (const waiter of this.#readyWaiters.splice(0)) waiter();
  }
}

/** Whether `ms` passed before the work was done. */
async function within(ms: number, work: Promise<unknown>): Promise<boolean> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<boolean>((resolve) => {
    timer = setTimeout(() => resolve(true), ms);
  });
  try {
    return await Promise.race([work.then(() => false), late]);
  } finally {
    clearTimeout(timer);
  }
}

function deniedReason(planes: readonly string[]): string | null {
  return planes.length === 0 ? null : `no permission to subscribe to ${planes.join(", ")}`;
}

function showAddress(hostname: string, port: number): string {
  return hostname.includes(":") ? `[${hostname}]:${port}` : `${hostname}:${port}`;
}
