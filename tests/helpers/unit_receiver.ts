/**
 * A receiver on a transport in memory, in front of a real upstream on loopback.
 * @module
 */
import { MemoryBudget } from "../../lib/flow/memory_budget.ts";
import { FlowRegistry } from "../../lib/flow/registry.ts";
import { dial } from "../../lib/receiver/dial.ts";
import { Receiver, type ReceiverOptions } from "../../lib/receiver/receiver.ts";
import { encodeWindow, type Frame } from "../../lib/protocol/frames.ts";
import { parseJson } from "../../lib/protocol/json.ts";
import { latin1 } from "./bytes.ts";
import { MemoryLogger, MemoryTransport, type Published } from "./unit_transport.ts";
import { type Script, startUpstream, type Upstream } from "./upstream.ts";

/** The requester of all requests. */
export const EDGE = "edge-a";
const ROOTS = { request: "to.proxy", response: "from.proxy" };

/** What a natsway requester says of itself. */
export function natswayPeer(changes: Record<string, unknown> = {}): Record<string, unknown> {
  return {
    v: 1,
    instance: "i-edge-a",
    features: ["raw"],
    max_msg: 1_048_576,
    ttl_ms: 30_000,
    window: 1_048_576,
    ...changes,
  };
}

/** An envelope; `natsway: undefined` makes it Ruby's. */
export function envelope(
  id: string,
  changes: Record<string, unknown> = {},
): Record<string, unknown> {
  return {
    type: "request",
    request_id: id,
    reply_to: `from.proxy.responses.${EDGE}.${id}`,
    operation: "http_request",
    payload: { method: "GET", path: `/${id}`, headers: { accept: "*/*" }, body: null },
    natsway: natswayPeer(),
    ...changes,
  };
}

type DataFrame = Extract<Frame, { type: 1 }>;

/** See the module. */
export class ReceiverRig implements AsyncDisposable {
  readonly transport = new MemoryTransport();
  readonly logger = new MemoryLogger();
  readonly registry: FlowRegistry;
  readonly budget: MemoryBudget;
  readonly receiver: Receiver;
  /** Null when it was started without one. */
  readonly #upstream: Upstream | null;

  private constructor(
    upstream: Upstream | null,
    options: Partial<ReceiverOptions> & { maxFlows?: number },
  ) {
    this.#upstream = upstream;
    this.registry = new FlowRegistry({ maxFlows: options.maxFlows ?? 100, logger: this.logger });
    const totalBytes = 64 * 2 ** 20;
    this.budget = options.budget ??
      new MemoryBudget({ totalBytes, maxFlows: options.maxFlows ?? 100 });
    this.receiver = new Receiver({
      transport: this.transport,
      registry: this.registry,
      logger: this.logger,
      roots: ROOTS,
      serviceId: "worker-1",
      instance: "i-worker-1",
      upstream: upstream === null ? null : {
        hostname: "127.0.0.1",
        port: upstream.port,
        authority: `127.0.0.1:${upstream.port}`,
        prefix: "",
      },
      upstreamHost: "upstream",
      upstreamTimeoutMs: 0,
      connectTimeoutMs: 5_000,
      responseTimeoutMs: 30_000,
      streamTimeoutMs: 30_000,
      peerTimeoutMs: 30_000,
      idleTimeoutMs: 0,
      budget: this.budget,
      ping: null,
      dialSession: ({ host, port }, signal) => dial({ hostname: host, port }, 5_000, signal),
      maxInflight: 8,
      maxHeaderBytes: 65_536,
      frameBytes: 131_072,
      ...options,
    });
    this.receiver.start();
  }

  /** @param script of the upstream; it answers `METHOD target` without one. `"none"` for no upstream */
  static async start(
    script?: Script | "none",
    options: Partial<ReceiverOptions> & { maxFlows?: number } = {},
  ): Promise<ReceiverRig> {
    return new ReceiverRig(script === "none" ? null : await startUpstream(script), options);
  }

  get upstream(): Upstream {
    if (this.#upstream === null) throw new Error("this rig has no upstream");
    return this.#upstream;
  }

  /** Delivers a message of the request plane. */
  request(
    message: unknown,
    options: Parameters<MemoryTransport["deliver"]>[3] = {},
  ): void {
    const text = typeof message === "string" ? message : JSON.stringify(message);
    this.transport.deliver("requests", "ignored", text, options);
  }

  /** Messages to the reply subject of `id`. */
  answers(id: string): Published[] {
    return this.transport.all.filter((one) => one.subject.endsWith(`.responses.${EDGE}.${id}`));
  }

  /** Waits for the `count`th answer (from 1) of `id`. */
  async answer(id: string, count = 1): Promise<Published> {
    const what = `answer ${count} to ${id}`;
    await this.transport.find(() => this.answers(id).length >= count, what);
    return this.answers(id)[count - 1]!;
  }

  /** Waits for the end of `id`, and gives all of its answers. */
  async whole(id: string): Promise<Published[]> {
    const ends = (one: Published) =>
      one.frame === null
        ? one.json.type === "response_end"
        : one.frame.type === 2 || one.frame.type === 3 || (one.frame.type === 1 && one.frame.fin);
    await this.transport.find(() => this.answers(id).some(ends), `the end of ${id}`);
    return this.answers(id);
  }

  /** Waits for the end of `id` and gives its frames. */
  async frames(id: string): Promise<DataFrame[]> {
    return (await this.whole(id)).map((one) => one.frame as DataFrame);
  }

  /** The requester's word for the lane of a response: it has all below `next`, and takes up to `limit`. */
  window(
    id: string,
    next: number,
    limit: number,
    more: { epoch?: Uint8Array; serial?: number; resend?: boolean } = {},
  ): void {
    const epoch = more.epoch ?? this.answers(id)[0]!.frame!.epoch;
    const frame = encodeWindow(epoch, next, limit, more.serial ?? 0, more.resend ?? false);
    this.transport.deliver("control", id, frame);
  }

  /** A requester that acknowledges at once all that comes, and always takes `ahead` octets more. */
  async takes(id: string, ahead = 1_048_576): Promise<DataFrame[]> {
    for (let seen = 1;; seen++) {
      const { frame } = await this.answer(id, seen);
      if (frame === null) throw new Error("a frame was expected");
      let next = -1;
      if (frame.type === 1) {
        next = Math.max(1, frame.offset + (frame.head === null ? 0 : 1)) + frame.body.length;
        if (frame.head !== null && frame.fin) return this.frames(id); // whole: wants no answer
        if (frame.fin) next++;
      } else if (frame.type === 2 || frame.type === 3) next = frame.offset + 1;
      if (next >= 0) this.window(id, next, next + ahead);
      if (frame.type === 2 || frame.type === 3 || (frame.type === 1 && frame.fin)) break;
    }
    return this.frames(id);
  }

  /** Waits until no flow is live. */
  idle(): Promise<void> {
    return this.registry.idle();
  }

  /** How the flows ended. */
  get ends(): Record<string, number> {
    return Object.fromEntries(this.registry.ends());
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.receiver.stop();
    await this.idle();
    await this.#upstream?.stop();
  }
}

/** The JSON of a head frame's info. */
// deno-lint-ignore no-explicit-any -- a test looks at members of parsed JSON
export function infoOf(frame: DataFrame): any {
  return parseJson(frame.head!.info);
}

/** All body octets of some frames. */
export function bodyOf(frames: readonly DataFrame[]): string {
  return frames.map((frame) => latin1(frame.body)).join("");
}
