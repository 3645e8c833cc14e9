/**
 * A clock that the test moves, a wire that keeps what was published, and a session in the contract's
 * form between them.
 * @module
 */
import { MessageTooLargeError } from "../../lib/errors.ts";
import { ContractFlow } from "../../lib/flow/contract_flow.ts";
import type {
  ContractClock,
  ContractFlowOptions,
  ContractWire,
} from "../../lib/flow/contract_flow_types.ts";
import type { Deadline } from "../../lib/flow/deadlines.ts";
import { encodeNatsHeaders, natsHeader } from "../../lib/protocol/nats_headers.ts";
import type { Inbound, PublishOptions } from "../../lib/transport/types.ts";
import { concat } from "../helpers/bytes.ts";
import { RecordedApp } from "./lane_rig.ts";

export const ID = "77de".repeat(8);
/** Sizes of a server with `max_payload` 2000. */
export const SIZES = { chunk: 1000, initial: 32_000, batch: 8000, cap: 128_000 };
export const CREDIT_TIMEOUT_MS = 30_000;
export const UPSTREAM = `proxy.sessions.upstream.worker-1.${ID}`;
export const DOWNSTREAM = `proxy.sessions.downstream.edge-a.${ID}`;
export const EVENTS = `proxy.responses.edge-a.${ID}`;

interface Wait extends Deadline {
  readonly at: number;
  readonly run: () => void;
}

/** Time passes when the test says so. */
export class TestClock implements ContractClock {
  readonly #waits = new Set<Wait>();
  nowMs = 0;

  start(durationMs: number, run: () => void): Deadline {
    const waits = this.#waits;
    const wait: Wait = { at: this.nowMs + durationMs, run, cancel: () => void waits.delete(wait) };
    waits.add(wait);
    return wait;
  }

  /** Waits that are still running. */
  get running(): number {
    return this.#waits.size;
  }

  pass(ms: number): void {
    const end = this.nowMs + ms;
    for (;;) {
      const due = [...this.#waits].filter((wait) => wait.at <= end).sort((a, b) => a.at - b.at)[0];
      if (due === undefined) break;
      this.nowMs = due.at;
      due.cancel();
      due.run();
    }
    this.nowMs = end;
  }
}

export interface Published {
  readonly subject: string;
  readonly headers: Uint8Array | null;
  readonly data: Uint8Array;
}

const decoder = new TextDecoder();

/** Keeps what is published, and cancels as `cancel <reason>`. */
export class RecordedContractWire implements ContractWire {
  readonly published: Published[] = [];
  readonly cancels: string[] = [];
  ready = true;
  connected = true;
  maxBytes = Infinity;

  publish(subject: string, parts: readonly Uint8Array[], options: PublishOptions = {}): boolean {
    if (!this.connected) return false;
    const data = concat([...parts]);
    if (data.length > this.maxBytes) throw new MessageTooLargeError(data.length, this.maxBytes);
    this.published.push({ subject, headers: options.headers ?? null, data });
    return true;
  }

  cancel(reason: string): void {
    this.cancels.push(reason);
  }

  /** What was published since the last call, in short: `session_data 10`, `credit 100`, or the event. */
  take(): string[] {
    return this.published.splice(0).map(({ headers, data }) => {
      const type = headers === null ? null : natsHeader(headers, "Nats-Frame-Type");
      if (type === null) return `event ${decoder.decode(data)}`;
      if (type.startsWith("session_data")) return `${type} ${data.length}`;
      if (type === "session_close") return decoder.decode(data);
      return `credit ${(JSON.parse(decoder.decode(data)) as { bytes: number }).bytes}`;
    });
  }
}

/** A message as the transport brings it. */
export function inbound(data: Uint8Array, frameType: string | null): Inbound {
  return {
    token: ID,
    data,
    reply: "",
    headers: frameType === null
      ? null
      : encodeNatsHeaders([["Nats-Session-Id", ID], ["Nats-Frame-Type", frameType]]),
  };
}

export interface ContractRig {
  readonly flow: ContractFlow;
  readonly app: RecordedApp;
  readonly wire: RecordedContractWire;
  readonly clock: TestClock;
  /** Log lines of level warning. */
  readonly warnings: string[];
  /** Bytes of the peer, in the frame that the side expects. */
  data(bytes: Uint8Array): void;
  /** Credit of the peer. */
  credit(bytes: number): void;
}

/** A flow of `side` before `open`. */
export function contractRig(
  side: "requester" | "receiver",
  options: Partial<ContractFlowOptions> = {},
): ContractRig {
  const app = new RecordedApp();
  const wire = new RecordedContractWire();
  const clock = new TestClock();
  const warnings: string[] = [];
  const requester = side === "requester";
  const flow = new ContractFlow({
    side,
    id: ID,
    serviceId: requester ? "edge-a" : "worker-1",
    subject: requester ? UPSTREAM : DOWNSTREAM,
    eventSubject: requester ? "" : EVENTS,
    traceHeaders: null,
    wire,
    sink: app,
    clock,
    sizes: SIZES,
    creditTimeoutMs: CREDIT_TIMEOUT_MS,
    logger: {
      debug: () => {},
      info: () => {},
      warn: (message) => void warnings.push(message),
      error: () => {},
      enabled: () => true,
    },
    ...options,
  });
  const direction = requester ? "upstream" : "downstream";
  return {
    flow,
    app,
    wire,
    clock,
    warnings,
    data: (bytes) =>
      flow.receive(inbound(bytes, requester ? "session_data_downstream" : "session_data")),
    credit: (bytes) => {
      const grant = { type: "flow_credit", request_id: ID, direction, bytes, service_id: "peer" };
      const data = new TextEncoder().encode(JSON.stringify(grant));
      flow.receive(inbound(data, `session_credit_${direction}`));
    },
  };
}

/** A flow that was opened and has `credit`; nothing of that is in the wire's record any more. */
export function openRig(
  side: "requester" | "receiver",
  options: Partial<ContractFlowOptions> = {},
  credit = SIZES.initial,
): ContractRig {
  const rig = contractRig(side, options);
  rig.flow.open();
  if (credit > 0) rig.credit(credit);
  rig.wire.take();
  return rig;
}
