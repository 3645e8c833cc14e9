/**
 * The parts of nats-core that its types keep private and that the data lane needs. They are named
 * here and nowhere else, and looked at once at start, so that another version fails loudly.
 * @module
 */

import {
  type ConnectionOptions,
  NatsConnectionImpl,
  ProtocolHandler,
  type ServerInfo,
  type Status,
  SubscriptionImpl,
  type Transport,
} from "@nats-io/nats-core/internal";
import { StartError } from "../errors.ts";

/** The version that the lane was written against; `deno.json` pins the same. */
export const NATS_CORE_VERSION = "3.4.0";

/** nats-core's protocol handler as the lane uses it. */
export interface NatsProtocol {
  /** True from the first PONG of a connection until its transport has closed. */
  connected: boolean;
  readonly info?: ServerInfo;
  /** What nats-core has queued in this turn. */
  readonly outbound: { readonly byteLength: number };
  readonly parser: { parse(bytes: Uint8Array): void };
  /** Undefined until the first dial. */
  readonly transport: Transport | undefined;
  readonly subscriptions: { readonly subs: Map<number, unknown> };
  readonly closed: Promise<Error | void>;
  /** Ends the dial that is running; only there while one is. */
  readonly connectError?: (error: Error) => void;
  inMsgs: number;
  inBytes: number;
  outMsgs: number;
  outBytes: number;
  /** Hands `outbound` to the transport. */
  flushPending(): void;
  /** Connects; with `waitOnFirstConnect` it tries until it succeeds or `close` is called. */
  dialLoop(): Promise<void>;
  processPing(): void;
  processPong(): void;
  /** Sends a PING; the promise that it is given, or a new one, resolves with its PONG. */
  flush(pong?: Promise<void>): Promise<void>;
  getServer(): { readonly listen: string } | undefined;
  isClosed(): boolean;
  /** Drops the connection and dials again. */
  disconnect(): void;
  close(error?: Error): Promise<void>;
}

/** A connection whose protocol handler is at hand before it is connected. */
export interface NatsClient {
  readonly connection: NatsConnectionImpl;
  readonly protocol: NatsProtocol;
  readonly pings: PingCounts;
}

/** PINGs and PONGs of one client. */
export interface PingCounts {
  sent: number;
  received: number;
  pongs: number;
}

/** Makes a client that does not dial yet. */
export function createNatsClient(options: ConnectionOptions): NatsClient {
  const Connection = NatsConnectionImpl as unknown as new (
    options: ConnectionOptions,
  ) => NatsConnectionImpl;
  const connection = new Connection(options);
  const handler = new ProtocolHandler(connection.options, connection);
  connection.protocol = handler;
  const protocol = handler as unknown as NatsProtocol;
  return { connection, protocol, pings: countPings(protocol) };
}

/** nats-core keeps no count of them, and has them pass through these three. */
function countPings(protocol: NatsProtocol): PingCounts {
  const counts: PingCounts = { sent: 0, received: 0, pongs: 0 };
  const { processPing, processPong, flush } = protocol;
  protocol.processPing = () => {
    counts.received++;
    processPing.call(protocol);
  };
  protocol.processPong = () => {
    counts.pongs++;
    processPong.call(protocol);
  };
  protocol.flush = (pong) => {
    counts.sent++;
    return flush.call(protocol, pong);
  };
  return counts;
}

/** Status events of a client, from now on until it is closed. */
export function natsStatus(client: NatsClient): AsyncIterable<Status> {
  return client.connection.status();
}

/**
 * Looks for everything that {@link NatsProtocol} names.
 * @param make for tests: what makes the client that is looked at
 * @throws {StartError} something is missing: the message names it and the version that has it.
 */
export function checkNatsInternals(
  make: (options: ConnectionOptions) => NatsClient = createNatsClient,
): void {
  let missing: string[];
  try {
    missing = missingInternals(make({ servers: ["127.0.0.1:4222"] }));
  } catch (cause) {
    throw new StartError(complaint("its connection cannot be made"), { cause });
  }
  if (missing.length > 0) throw new StartError(complaint(`it lacks ${missing.join(", ")}`));
}

function complaint(what: string): string {
  return `cannot use this nats-core: ${what}; natsway needs @nats-io/nats-core ${NATS_CORE_VERSION}`;
}

function missingInternals(client: NatsClient): string[] {
  const protocol = client.protocol as unknown as Record<string, unknown>;
  const nested = (name: string, field: string): unknown =>
    (protocol[name] as Record<string, unknown> | undefined)?.[field];
  const subscriber: unknown = SubscriptionImpl.prototype;
  const found: Record<string, boolean> = {
    connected: protocol.connected === false,
    "outbound.byteLength": nested("outbound", "byteLength") === 0,
    "parser.parse": typeof nested("parser", "parse") === "function",
    "subscriptions.subs": nested("subscriptions", "subs") instanceof Map,
    closed: typeof nested("closed", "then") === "function",
    "SubscriptionImpl.getID": typeof (subscriber as { getID?: unknown }).getID === "function",
  };
  for (const name of ["inMsgs", "inBytes", "outMsgs", "outBytes"]) {
    found[name] = protocol[name] === 0;
  }
  for (
    const name of [
      "flushPending",
      "processPing",
      "processPong",
      "flush",
      "dialLoop",
      "getServer",
      "isClosed",
      "disconnect",
      "close",
    ]
  ) {
    found[name] = typeof protocol[name] === "function";
  }
  return Object.keys(found).filter((name) => !found[name]);
}
