/**
 * A requester on a transport in memory, and the answers of a receiver as octets.
 * @module
 */
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { FlowRegistry } from "../../lib/flow/registry.ts";
import type { BodyResult } from "../../lib/ingress/request_body.ts";
import { encodeDataPrefix, encodeHeadPrefix } from "../../lib/protocol/frames.ts";
import { encodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { Requester, type RequesterOptions } from "../../lib/requester/requester.ts";
import { concat, octets } from "./bytes.ts";
import { ingressRequest, type MemoryClient } from "./unit_client.ts";
import { MemoryLogger, MemoryTransport, type Published } from "./unit_transport.ts";

/** Epochs of two executions. */
export const EPOCH: Uint8Array = octets("\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8");
export const FOREIGN: Uint8Array = octets("\xb1\xb2\xb3\xb4\xb5\xb6\xb7\xb8");

/** A request under way. */
export interface Sent {
  readonly client: MemoryClient;
  readonly id: string;
  readonly replyTo: string;
  readonly message: Published;
}

/** See the module. */
export class RequesterRig implements Disposable {
  readonly transport = new MemoryTransport();
  readonly logger = new MemoryLogger();
  readonly registry: FlowRegistry;
  readonly budget: MemoryBudget;
  readonly requester: Requester;

  constructor(options: Partial<RequesterOptions> & { maxFlows?: number } = {}) {
    this.registry = new FlowRegistry({ maxFlows: options.maxFlows ?? 100, logger: this.logger });
    const totalBytes = 64 * 2 ** 20;
    this.budget = options.budget ??
      new MemoryBudget({ totalBytes, maxFlows: options.maxFlows ?? 100 });
    this.requester = new Requester({
      maxHeaderBytes: 65_536,
      transport: this.transport,
      registry: this.registry,
      logger: this.logger,
      roots: { request: "to.proxy", response: "from.proxy" },
      serviceId: "edge-a",
      instance: "i-edge-a",
      responseTimeoutMs: 60_000,
      streamTimeoutMs: 60_000,
      peerTimeoutMs: 60_000,
      idleTimeoutMs: 0,
      budget: this.budget,
      ping: null,
      inlineBodyBytes: 65_536,
      maxBodyBytes: 0,
      frameBytes: 131_072,
      peers: "natsway",
      forwardedHeaders: "off",
      via: null,
      runtime: () => ({ state: "booting", details: { state: "booting" } }),
      ...options,
    });
    this.requester.start();
  }

  /** Hands a request in; what it publishes is `rig.transport`'s to tell. */
  handle(text: string, body?: BodyResult): MemoryClient {
    const { request, client } = ingressRequest(text, body === undefined ? {} : { body });
    this.requester.handle(request);
    return client;
  }

  /** Hands a request without a body in, which must be published. */
  send(text = "GET /x HTTP/1.1\r\nHost: a\r\n\r\n"): Sent {
    const before = this.transport.all.length;
    const client = this.handle(text);
    const message = this.transport.all[before];
    if (message === undefined) throw new Error("nothing was published");
    const { request_id: id, reply_to: replyTo } = message.json;
    return { client, id, replyTo, message };
  }

  /** An event or a frame comes for the flow. */
  answer(sent: Sent, payload: Uint8Array | object | string): void {
    const data = payload instanceof Uint8Array || typeof payload === "string"
      ? payload
      : JSON.stringify(payload);
    this.transport.deliver("responses", sent.id, data);
  }

  /** The server's word that nobody listens. */
  noResponders(sent: Sent): void {
    this.transport.deliver("responses", sent.id, "", { headers: "NATS/1.0 503\r\n\r\n" });
  }

  /** How the only flow ended. */
  get end(): string {
    return [...this.registry.ends().keys()].join();
  }

  [Symbol.dispose](): void {
    this.requester.stop();
  }
}

/** What a HEAD frame of a receiver says. */
export interface HeadFrame {
  readonly status?: number;
  readonly fields?: string;
  readonly body?: string;
  readonly fin?: boolean;
  readonly declaredLength?: number;
  readonly epoch?: Uint8Array;
  readonly serviceId?: string;
  readonly code?: string | null;
  readonly info?: Uint8Array;
}

/** A HEAD frame of `worker-1`, a whole 200 response unless told otherwise. */
export function headFrame(options: HeadFrame = {}): Uint8Array {
  const peer = { instance: "i-w", features: ["raw"], maxMsg: 1_048_576, ttlMs: 0, window: 0 };
  const head = {
    status: options.status ?? 200,
    reason: octets(""),
    info: options.info ?? encodeResponseInfo({
      receiverServiceId: options.serviceId ?? "worker-1",
      peer,
      code: options.code ?? null,
    }),
    fields: octets(options.fields ?? "Date: D\r\n"),
    declaredLength: options.declaredLength ?? -1,
  };
  const prefix = encodeHeadPrefix(options.epoch ?? EPOCH, head, options.fin ?? true);
  return concat([prefix, octets(options.body ?? "")]);
}

/** A data frame; body octet `k` has number `k + 1`. */
export function dataFrame(
  offset: number,
  body: string,
  options: { fin?: boolean; epoch?: Uint8Array } = {},
): Uint8Array {
  const prefix = encodeDataPrefix(options.epoch ?? EPOCH, offset, options.fin ?? false);
  return concat([prefix, octets(body)]);
}
