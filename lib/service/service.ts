/**
 * One role, wired together: start, ready, drain, stop.
 * @module
 */
import type { Config } from "../config/settings.ts";
import { VERSION } from "../config/version.ts";
import { StartError } from "../errors.ts";
import { newId } from "../flow/ids.ts";
import { MemoryBudget } from "../flow/memory_budget.ts";
import { FlowRegistry } from "../flow/registry.ts";
import { serveLocal } from "../ingress/local.ts";
import type { Logger } from "../logger.ts";
import { withFields } from "../observe/log.ts";
import { localRoutes, type ServiceView } from "../observe/routes.ts";
import { planePatterns } from "../protocol/subjects.ts";
import type { Receiver } from "../receiver/receiver.ts";
import type { Requester } from "../requester/requester.ts";
import { type AutoTransport, connectTransport } from "../transport/jetstream/auto_transport.ts";
import { type Duplicate, duplicateError, Presence } from "../transport/presence.ts";
import { HttpEntry, PROXY_LOCKED } from "./http_entry.ts";
import { Ports } from "./ports.ts";
import { makeReceiver, makeRequester, type RoleParts, rootsOf } from "./roles.ts";
import { transportOptions } from "./transport_options.ts";

/** Longest that a stop waits for closing sockets once the work is over. */
const CLOSE_MS = 2_000;
/** How long peers may take to be told of the end at once. */
const ABORT_MS = 250;

/** A role that runs. */
export class Service {
  readonly #config: Config;
  readonly #logger: Logger;
  readonly #transport: AutoTransport;
  readonly #registry: FlowRegistry;
  readonly #presence: Presence;
  readonly #requester: Requester | null;
  readonly #receiver: Receiver | null;
  readonly #ports: Ports;
  readonly #failed = Promise.withResolvers<StartError>();
  #stopping = false;
  #wasReady = false;
  #subscribed = false;
  /** Nobody else has the SERVICE_ID, as far as can be told. */
  #unique = false;
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
    // The ports first: a process that cannot have them must not join the pool.
    this.#ports = this.#listen();
    try {
      this.#transport = this.#connect();
    } catch (error) {
      void this.#ports.close();
      throw error;
    }
    const instance = newId();
    this.#presence = this.#announce(instance);
    const parts: RoleParts = {
      config,
      transport: this.#transport,
      registry: this.#registry,
      budget: new MemoryBudget({ totalBytes: config.flowMemoryBytes, maxFlows: config.maxFlows }),
      logger: this.#logger,
      instance,
      ping: (peer) => this.#presence.ping(peer),
    };
    this.#requester = role === "requester" ? makeRequester(parts, () => this.#runtime()) : null;
    this.#receiver = role === "receiver" ? makeReceiver(parts, () => this.#ports.all()) : null;
    this.#transport.onConnection((connected) => this.#connectionChanged(connected));
    this.#transport.onReadiness(() => this.#reportReadiness());
    void this.#transport.failed.then((error) => this.#failed.resolve(error));
    this.#connectionChanged(this.#transport.connected);
  }

  /** `host:port` of the HTTP port. */
  get address(): { hostname: string; port: number } {
    return this.#ports.http;
  }

  /** Resolves when this process may not go on: another live one has its SERVICE_ID. */
  get failed(): Promise<StartError> {
    return this.#failed.promise;
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
      : !this.#unique
      ? "asking whether SERVICE_ID is free"
      : !this.#subscribed
      ? "subscribing"
      : transport.notReady ?? deniedReason(transport.planesDenied);
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

  /** Breaks everything off at once: what is under way ends visibly, here and at the peers. */
  async abort(): Promise<void> {
    this.#requester?.stop();
    this.#receiver?.stop();
    await within(ABORT_MS, this.#transport.flush().catch(() => {}));
  }

  async #stop(graceMs: number): Promise<void> {
    this.#logger.info("stopping", { flows: this.#registry.size, grace_ms: graceMs });
    this.#stopping = true;
    this.#reportReadiness();
    this.#presence.drain();
    this.#ports.drainTunnels();
    await within(CLOSE_MS, this.#receiver?.drain() ?? Promise.resolve());
    const cut = await within(graceMs, this.#registry.idle());
    if (cut) this.#logger.warn("grace is over", { flows: this.#registry.size });
    this.#requester?.stop();
    this.#receiver?.stop();
    this.#ports.drain();
    await within(CLOSE_MS, this.#ports.closed());
    await this.#ports.close();
    this.#presence.stop();
    await this.#transport.close();
    this.#logger.info("stopped");
  }

  #listen(): Ports {
    const config = this.#config;
    const app = localRoutes({
      view: () => this.view(),
      inspect: () => this.#transport.inspect(),
      access: config.observabilityAccess,
      token: config.observabilityToken,
    });
    const entry = new HttpEntry({
      app,
      localRoutes: config.adminListen === null,
      proxyLocked: config.proxyAuthEnabled,
      requester: () => this.#requester,
      stopping: () => this.#stopping,
      logger: this.#logger,
    });
    if (config.serviceRole === "requester" && config.proxyAuthEnabled) {
      // Who wants a proxy is told why there is none; for all others it is as it should be.
      if (config.socks5Enabled) this.#logger.warn(PROXY_LOCKED);
      else this.#logger.info(PROXY_LOCKED);
    }
    return new Ports(config, this.#logger, {
      http: (request) => entry.handle(request),
      admin: (request) => void serveLocal(app, request),
      // There is a requester wherever these ports are; no connection is accepted before this turn ends.
      open: (target, client) => this.#requester!.openSession(target, client),
    });
  }

  #connect(): AutoTransport {
    return connectTransport(transportOptions(this.#config, this.#logger));
  }

  /** Answers who asks for this process, and finds out whether another one has its SERVICE_ID. */
  #announce(instance: string): Presence {
    const { serviceRole: role, serviceId, maxFlows, listenSubject, natsQueueGroup } = this.#config;
    const planes = planePatterns(rootsOf(this.#config), serviceId);
    const registry = this.#registry;
    const presence = new Presence({
      link: this.#transport.link,
      logger: this.#logger,
      version: VERSION,
      role,
      serviceId,
      instance,
      startedAtMs: Date.now(),
      endpoints: role === "receiver"
        ? [{ name: "requests", subject: listenSubject, queueGroup: natsQueueGroup }]
        : [{ name: "responses", subject: planes.responses[0]!, queueGroup: "" }],
      load: () => ({
        flows: registry.size,
        maxFlows,
        requests: registry.opened,
        errors: registry.failed,
      }),
    });
    presence.onPong = (peer) => {
      this.#requester?.peerAnswered(peer);
      this.#receiver?.peerAnswered(peer);
    };
    const refuse = (other: Duplicate) =>
      this.#failed.resolve(duplicateError({ role, serviceId, instance }, other));
    presence.onDuplicate = refuse;
    presence.start();
    void presence.checkUnique().then((other) => {
      if (other !== null) refuse(other);
      else if (!this.#stopping) this.#join();
    });
    return presence;
  }

  /** Begins to listen: not before it is known that no other process does on the same subjects. */
  #join(): void {
    this.#unique = true;
    this.#requester?.start();
    this.#receiver?.start();
    this.#connectionChanged(this.#transport.connected);
  }

  /** What a request is told while this process is not in service. */
  #runtime(): { state: string; details: Record<string, unknown> } {
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
  }

  /** In service only once the server has taken the subscriptions: a round trip behind them tells. */
  #connectionChanged(connected: boolean): void {
    this.#subscribed = false;
    this.#reportReadiness();
    if (!connected || !this.#unique) return;
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
