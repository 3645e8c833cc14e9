/**
 * How a link reaches its servers: addresses, credentials, TLS, and the pace of its attempts.
 * @module
 */

import type { ConnectionOptions, Server } from "@nats-io/nats-core/internal";
import type { NatsAddress } from "../config/addresses.ts";
import { StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { type NatsAuth, natsAuthenticator } from "./auth.ts";
import type { LaneHooks, LaneOptions } from "./lane_transport.ts";
import { type NatsTls, type OpenedSocket, openNatsSocket } from "./nats_socket.ts";

export interface LinkOptions {
  /** At least one; tried in turn. */
  readonly servers: readonly NatsAddress[];
  /** Wins over the credentials of `servers`. */
  readonly auth?: NatsAuth;
  readonly tls?: NatsTls;
  /** Name of the connection on the server's pages. @default {"natsway"} */
  readonly name?: string;
  /** Between two pings, in ms; two without an answer end the connection. @default {5000} */
  readonly pingIntervalMs?: number;
  /** Longest time for one attempt: TCP, TLS, INFO, CONNECT and PONG. @default {5000} */
  readonly connectTimeoutMs?: number;
  /**
   * Between two attempts at a subscription that the server refused, in ms: permissions change without
   * a restart. @default {30000}
   */
  readonly retryDeniedMs?: number;
  readonly logger: Logger;
}

const PING_INTERVAL_MS = 5000;
const CONNECT_TIMEOUT_MS = 5000;
const RETRY_DENIED_MS = 30_000;
const FIRST_RETRY_MS = 250;
const LAST_RETRY_MS = 2000;

/** The part of a link that is asked at each attempt. */
export class LinkDialer {
  readonly #options: LinkOptions;
  readonly #servers: readonly [NatsAddress, ...NatsAddress[]];
  /** Attempts that failed since the last connection: they slow the next ones down. */
  failures = 0;

  /**
   * @throws {TypeError} there is no server.
   * @throws {StartError} the TLS settings do not go together.
   */
  constructor(options: LinkOptions) {
    this.#options = options;
    const [first, ...others] = options.servers;
    if (first === undefined) throw new TypeError("a link needs at least one NATS server");
    this.#servers = [first, ...others];
    const { tls } = options;
    if ((tls?.cert === undefined) !== (tls?.key === undefined)) {
      throw new StartError("NATS_TLS_CERT and NATS_TLS_KEY belong together: set both or neither");
    }
    if (tls !== undefined && this.#servers.some(({ scheme }) => scheme === "ws")) {
      throw new StartError("NATS_TLS_* asks for TLS, which a ws:// URL has not: use a wss:// URL");
    }
    if (tls?.cert !== undefined && this.#servers.some(({ scheme }) => scheme === "wss")) {
      throw new StartError("NATS_TLS_CERT cannot be used over WebSocket: use a tls:// URL");
    }
  }

  get retryDeniedMs(): number {
    return this.#options.retryDeniedMs ?? RETRY_DENIED_MS;
  }

  /** `host:port` of the first server. */
  get firstServer(): string {
    return this.#servers[0].authority;
  }

  /**
   * Options for nats-core: it tries for ever, also the first time and after refused credentials.
   * @throws {StartError} the credentials cannot be used.
   */
  clientOptions(hooks: LaneHooks, currentServer: () => string): ConnectionOptions {
    const wantsTls = this.#options.tls !== undefined ||
      this.#servers.some(({ scheme }) => scheme === "tls" || scheme === "wss");
    const options: LaneOptions = {
      servers: this.#servers.map(({ authority }) => authority),
      name: this.#options.name ?? "natsway",
      authenticator: natsAuthenticator(this.#options.auth, this.#servers, currentServer),
      ...(wantsTls ? { tls: {} } : {}),
      timeout: this.#options.connectTimeoutMs ?? CONNECT_TIMEOUT_MS,
      pingInterval: this.#options.pingIntervalMs ?? PING_INTERVAL_MS,
      maxPingOut: 2,
      maxReconnectAttempts: -1,
      waitOnFirstConnect: true,
      ignoreAuthErrorAbort: true,
      noRandomize: true,
      noAsyncTraces: true,
      reconnectDelayHandler: () => this.retryMs(),
      natswayLane: hooks,
    };
    return options;
  }

  /** Opens the stream to one of the servers, or to one that the cluster made known. */
  open(server: Server, signal: AbortSignal): Promise<OpenedSocket> {
    const { hostname, port, listen, tlsName } = server;
    // One that the cluster made known is reached in the way of the first one.
    const known = this.#servers.find((one) => one.authority === listen) ?? this.#servers[0];
    return openNatsSocket({
      server: { scheme: known.scheme, hostname, port, path: known.path },
      ...(tlsName === "" ? {} : { tlsName }),
      ...(this.#options.tls === undefined ? {} : { tls: this.#options.tls }),
      signal,
    });
  }

  /** Time before the same server is tried again: 250 ms, doubled up to 2 s, less up to a quarter. */
  retryMs(): number {
    const step = Math.min(
      LAST_RETRY_MS,
      FIRST_RETRY_MS * 2 ** Math.min(Math.max(this.failures - 1, 0), 10),
    );
    return Math.round(step * (0.75 + Math.random() / 4));
  }
}
