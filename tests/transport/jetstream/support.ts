/**
 * What the tests of the JetStream transport share: a server with a store, an operator, transports.
 * @module
 */

import { type JetStreamManager, jetstreamManager } from "@nats-io/jetstream";
import type { NatsConnection } from "@nats-io/nats-core/internal";
import { planePatterns } from "../../../lib/protocol/subjects.ts";
import { NatsLink } from "../../../lib/transport/link.ts";
import type { Clock } from "../../../lib/transport/jetstream/clock.ts";
import {
  type JetStreamOptions,
  JetStreamTransport,
} from "../../../lib/transport/jetstream/jetstream.ts";
import { type NatsServer, startNats } from "../../helpers/nats_server.ts";
import { EventLog, pause, within } from "../../helpers/wait.ts";
import { RecordingLogger, serversOf, TestLink } from "../support.ts";

/** Roots of the deployments that Ruby peers can share. */
export const ROOTS = { request: "proxy", response: "proxy" };
export const STREAM = "proxy";
export const SECOND_NS = 1_000_000_000;

export interface ServerOptions {
  readonly memory?: boolean;
  /** Subjects of the stream; none: there is no stream at first. @default ["proxy.>"] */
  readonly subjects?: readonly string[] | null;
  readonly config?: string;
}

/** A server with JetStream and a file store, and an operator's connection to it. */
export class JsServer implements AsyncDisposable {
  private constructor(
    readonly server: NatsServer,
    readonly operator: TestLink,
    readonly manager: JetStreamManager,
    readonly folder: string,
  ) {}

  static async start(options: ServerOptions = {}): Promise<JsServer> {
    const folder = await Deno.makeTempDir({ prefix: "natsway-js-" });
    const server = await startNats({
      config: `jetstream { store_dir: "${folder}" }\n${options.config ?? ""}`,
    });
    const operator = new TestLink(server.url);
    await operator.until(true);
    const manager = await jetstreamManager(
      operator.link.connection as unknown as NatsConnection,
      { checkAPI: false },
    );
    const js = new JsServer(server, operator, manager, folder);
    const { subjects = ["proxy.>"], memory = false } = options;
    if (subjects !== null) await js.addStream(subjects, memory);
    return js;
  }

  async addStream(
    subjects: readonly string[] = ["proxy.>"],
    memory = false,
    more: Record<string, unknown> = {},
  ): Promise<void> {
    await this.manager.streams.add(
      {
        name: STREAM,
        subjects: [...subjects],
        storage: memory ? "memory" : "file",
        ...more,
      } as Parameters<JetStreamManager["streams"]["add"]>[0],
    );
  }

  /** Makes a durable as an operator would, with a short `ack_wait`. */
  async addDurable(
    ackWaitMs: number,
    more: Record<string, unknown> = {},
    name = "nats-proxy",
  ): Promise<void> {
    await this.manager.consumers.add(
      STREAM,
      {
        durable_name: name,
        ack_policy: "explicit",
        deliver_policy: "new",
        filter_subject: "proxy.requests.>",
        max_ack_pending: 200,
        max_waiting: 20,
        max_deliver: 3,
        ack_wait: ackWaitMs * 1_000_000,
        ...more,
      } as Parameters<JetStreamManager["consumers"]["add"]>[1],
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.operator[Symbol.asyncDispose]();
    await this.server[Symbol.asyncDispose]();
    await Deno.remove(this.folder, { recursive: true });
  }
}

/** One transport with its log and what it said of its readiness. */
export class Peer implements AsyncDisposable {
  readonly logger = new RecordingLogger();
  readonly transport: JetStreamTransport;
  readonly readiness = new EventLog<string | null>();
  readonly changes = new EventLog<boolean>();

  constructor(url: string, serviceId: string, options: Partial<JetStreamOptions> = {}) {
    const { logger } = this;
    this.transport = new JetStreamTransport({
      link: options.link ?? new NatsLink({ servers: serversOf(url), logger }),
      logger,
      stream: STREAM,
      base: "nats-proxy",
      serviceId,
      responseTimeoutMs: 30_000,
      streamResponseTimeoutMs: 30_000,
      apiPrefix: null,
      subjects: { requests: "proxy.requests.>", ...planePatterns(ROOTS, serviceId) },
      ...options,
    });
    this.transport.onReadiness((reason) => this.readiness.add(reason));
    this.transport.onConnection((connected) => this.changes.add(connected));
  }

  /** Waits until the link is up. */
  async connected(): Promise<void> {
    await this.changes.find((connected) => connected && this.transport.connected, {
      ms: 10_000,
      what: "a connection",
      describe: () => this.logger.text,
    });
  }

  get notReady(): string | null {
    return this.transport.status().notReady;
  }

  /** Waits until the transport is ready (null), or not ready for a reason like that. */
  async until(reason: null | RegExp, ms = 15_000): Promise<void> {
    const fits = (text: string | null) =>
      reason === null ? text === null : text !== null && reason.test(text);
    if (fits(this.notReady)) return;
    await this.readiness.find(fits, {
      ms,
      what: reason === null ? "readiness" : `not ready for ${reason}`,
      from: this.readiness.events.length,
      describe: () => `${this.notReady}\n${this.logger.text}`,
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.transport.close(), 10_000, "the end of close()");
  }
}

/** A clock that can be put forward, as if the process had been stopped. */
export class JumpingClock implements Clock {
  monoJumpMs = 0;
  wallJumpMs = 0;

  monoMs(): number {
    return performance.now() + this.monoJumpMs;
  }

  wallMs(): number {
    return Date.now() + this.wallJumpMs;
  }
}

/** Tries until it succeeds; after `ms` its failure is that of the test. */
export async function eventually(ms: number, attempt: () => Promise<unknown>): Promise<void> {
  const end = performance.now() + ms;
  while (true) {
    try {
      await attempt();
      return;
    } catch (error) {
      if (performance.now() > end) throw error;
      await pause(100);
    }
  }
}
