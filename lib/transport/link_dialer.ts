/**
 * How a link reaches its servers: URLs, credentials, TLS, and the pace of its attempts.
 * @module
 */

import type { ConnectionOptions, Server } from "@nats-io/nats-core/internal";
import { StartError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { type NatsAuth, natsAuthenticator } from "./auth.ts";
import type { LaneHooks, LaneOptions } from "./lane_transport.ts";
import { type NatsTls, type OpenedSocket, openNatsSocket } from "./nats_socket.ts";
import { type NatsUrl, parseNatsUrl } from "./nats_url.ts";

export interface LinkOptions {
  /** One or more `NATS_URL`s, tried in turn. */
  readonly urls: readonly string[];
  /** Wins over credentials in the URLs. */
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
  readonly #urls: readonly [NatsUrl, ...NatsUrl[]];
  /** Attempts that failed since the last connection: they slow the next ones down. */
  failures = 0;

  /**
   * @throws {TypeError} a URL cannot be read, or there is none.
   * @throws {StartError} the TLS settings do not go together.
   */
  constructor(options: LinkOptions) {
    this.#options = options;
    const [first, ...others] = options.urls.map(parseNatsUrl);
    if (first === undefined) throw new TypeError("a link needs at least one NATS URL");
    this.#urls = [first, ...others];
    const { tls } = options;
    if ((tls?.cert === undefined) !== (tls?.key === undefined)) {
      throw new StartError("NATS_TLS_CERT and NATS_TLS_KEY belong together: set both or neither");
    }
    if (tls?.cert !== undefined && this.#urls.some(({ scheme }) => scheme.startsWith("ws"))) {
      throw new StartError("NATS_TLS_CERT cannot be used over WebSocket: use a tls:// URL");
    }
  }

  get retryDeniedMs(): number {
    return this.#options.retryDeniedMs ?? RETRY_DENIED_MS;
  }

  /** `host:port` of the first URL. */
  get firstServer(): string {
    return this.#urls[0].listen;
  }

  /**
   * Options for nats-core: it tries for ever, also the first time and after refused credentials.
   * @throws {StartError} the credentials cannot be used.
   */
  clientOptions(hooks: LaneHooks, currentServer: () => string): ConnectionOptions {
    const wantsTls = this.#options.tls !== undefined ||
      this.#urls.some(({ scheme }) => scheme === "tls" || scheme === "wss");
    const options: LaneOptions = {
      servers: this.#urls.map(({ listen }) => listen),
      name: this.#options.name ?? "natsway",
      authenticator: natsAuthenticator(this.#options.auth, this.#urls, currentServer),
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

  /** Opens the stream to a server of the URLs, or to one that the cluster made known. */
  open(server: Server, signal: AbortSignal): Promise<OpenedSocket> {
    const { hostname, port, listen, tlsName } = server;
    // One that the cluster made known is reached in the way of the first URL.
    const known = this.#urls.find((url) => url.listen === listen) ?? this.#urls[0];
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
