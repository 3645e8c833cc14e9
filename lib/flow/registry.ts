/**
 * The one owner of all live flows, and of the counters for those that ended. Pages and metrics only
 * read it.
 * @module
 */
import { type FailureCode, FAILURES, FlowError } from "../errors.ts";
import { Bag } from "./bag.ts";
import type { Logger } from "../logger.ts";

/** A request, or a tunnel. */
export type FlowKind = "http" | "tcp";
/** `waiting` for the first event or the target's head; `open` once there is one. */
export type FlowState = "waiting" | "open" | "ended";
/** How a flow ended: `ok`, or the failure's code. */
export type FlowEnd = "ok" | FailureCode;

/** Ends that are everyday: nobody has to look into them. */
const QUIET: ReadonlySet<FlowEnd> = new Set(["ok", "canceled", "reset"]);

/** One request with its response. Only its role changes it, only the registry ends it. */
export class Flow {
  state: FlowState = "waiting";
  /** SERVICE_ID of the process at the other end, once known. */
  peer = "";
  /** Status that the client got, 0 before. */
  status = 0;
  /** Body octets from the client towards the target. */
  sentBytes = 0;
  /** Body octets from the target towards the client. */
  receivedBytes = 0;
  end: FlowEnd | null = null;
  bagIndex = -1;

  constructor(
    readonly id: string,
    readonly kind: FlowKind,
    /** Method and target without its query, for logs and pages. */
    readonly method: string,
    readonly target: string,
    /** `performance.now()` at the start. */
    readonly startedAtMs: number,
  ) {}
}

/** Live flows, bounded by `maxFlows`. */
export class FlowRegistry {
  /** A set: two executions of one id are two flows. */
  readonly #flows = new Bag<Flow>();
  readonly #ends = new Map<FlowEnd, number>();
  readonly #maxFlows: number;
  readonly #logger: Logger;
  #opened = 0;
  #waiters: (() => void)[] = [];

  constructor(options: { maxFlows: number; logger: Logger }) {
    this.#maxFlows = options.maxFlows;
    this.#logger = options.logger;
  }

  /** Number of live flows. */
  get size(): number {
    return this.#flows.size;
  }

  /** Flows opened since the start, refused ones included. */
  get opened(): number {
    return this.#opened;
  }

  /** Flows that ended in a failure; a client's leaving is none. */
  get failed(): number {
    let failed = 0;
    for (const [end, count] of this.#ends) if (end !== "ok" && end !== "canceled") failed += count;
    return failed;
  }

  /** How many flows ended, by the way they ended. */
  ends(): ReadonlyMap<FlowEnd, number> {
    return this.#ends;
  }

  /** The live flows, oldest first. Sorts them: not for the hot path. */
  live(): Iterable<Flow> {
    return [...this.#flows].sort((a, b) => a.startedAtMs - b.startedAtMs);
  }

  /**
   * Enters a new flow.
   * @throws {FlowError} `overloaded`: as many flows as MAX_FLOWS allows are live; refused.
   */
  open(id: string, kind: FlowKind, method: string, target: string): Flow {
    if (this.#flows.size >= this.#maxFlows) {
      const text = `${this.#maxFlows} flows are live; MAX_FLOWS allows no more`;
      this.refuse(id, kind, method, target, "overloaded", text);
      throw new FlowError("overloaded", text);
    }
    const flow = this.#make(id, kind, method, target);
    this.#flows.add(flow);
    return flow;
  }

  /** What never became a live flow: counted and logged as one that was answered with that failure. */
  refuse(
    id: string,
    kind: FlowKind,
    method: string,
    target: string,
    code: FailureCode,
    detail: string,
  ): void {
    const flow = this.#make(id, kind, method, target);
    flow.status = FAILURES[code].http;
    flow.end = code;
    flow.state = "ended";
    this.#count(code);
    this.#log(flow, code, detail);
  }

  #make(id: string, kind: FlowKind, method: string, target: string): Flow {
    this.#opened++;
    const query = target.indexOf("?");
    const shown = query < 0 ? target : target.slice(0, query);
    return new Flow(id, kind, method, shown, performance.now());
  }

  /** Ends a flow, once: counts it and writes its one line. `detail` says more about a failure. */
  close(flow: Flow, end: FlowEnd, detail?: string): void {
    if (flow.end !== null) return;
    flow.end = end;
    flow.state = "ended";
    this.#flows.delete(flow);
    this.#count(end);
    this.#log(flow, end, detail);
    if (this.#flows.size === 0) {
      for (const waiter of this.#waiters.splice(0)) waiter();
    }
  }

  /** Resolves when no flow is live. */
  idle(): Promise<void> {
    if (this.#flows.size === 0) return Promise.resolve();
    return new Promise((resolve) => this.#waiters.push(resolve));
  }

  #count(end: FlowEnd): void {
    this.#ends.set(end, (this.#ends.get(end) ?? 0) + 1);
  }

  #log(flow: Flow, end: FlowEnd, detail: string | undefined): void {
    const level = QUIET.has(end) ? "debug" : "warning";
    if (!this.#logger.enabled(level)) return;
    const fields = {
      request_id: flow.id,
      kind: flow.kind,
      code: end,
      method: flow.method,
      target: flow.target,
      status: flow.status,
      peer: flow.peer,
      sent_bytes: flow.sentBytes,
      received_bytes: flow.receivedBytes,
      ms: Math.round(performance.now() - flow.startedAtMs),
      detail,
    };
    if (level === "debug") this.#logger.debug("flow closed", fields);
    else this.#logger.warn("flow closed", fields);
  }
}
