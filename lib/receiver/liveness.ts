/**
 * Watches over the requesters of the responses under way: credit, probes, signs of life.
 * @module
 */
import { FlowError } from "../errors.ts";
import { readCredit } from "../protocol/credit.ts";
import { decodeFrame, FrameError, FrameType, isFrame, sameBytes } from "../protocol/frames.ts";
import type { Inbound, Transport } from "../transport/types.ts";
import { EventResponder } from "./event_responder.ts";
import type { Executions } from "./executions.ts";
import { FrameResponder } from "./frame_responder.ts";

export interface LivenessOptions {
  readonly transport: Transport;
  readonly executions: Executions;
  readonly peerTimeoutMs: number;
  /** 0 for no limit. */
  readonly streamTimeoutMs: number;
  readonly onBadFrame: (text: string) => void;
}

/** A third of the default STREAM_RESPONSE_TIMEOUT: a peer may have a limit where this side has none. */
const DEFAULT_KEEP_MS = 10_000;
const SHORTEST_PERIOD_MS = 50;

/** One for a receiver. */
export class Liveness {
  readonly #options: LivenessOptions;
  #prober: ReturnType<typeof setInterval> | undefined;
  #keeper: ReturnType<typeof setInterval> | undefined;

  constructor(options: LivenessOptions) {
    this.#options = options;
  }

  /** Probes natsway requesters every third of PEER_TIMEOUT, keeps Ruby streams alive likewise. */
  start(): void {
    const { peerTimeoutMs, streamTimeoutMs } = this.#options;
    this.#prober = every(peerTimeoutMs / 3, () => this.#probe());
    const keepMs = streamTimeoutMs > 0 ? streamTimeoutMs / 3 : DEFAULT_KEEP_MS;
    this.#keeper = every(keepMs, () => this.#keepStreams());
  }

  /** Stops the timers. */
  stop(): void {
    clearInterval(this.#prober);
    clearInterval(this.#keeper);
  }

  /** Credit, and what the requester answers to probes. */
  control(message: Inbound): void {
    const executions = this.#options.executions.get(message.token);
    if (executions.length === 0) return;
    const now = performance.now();
    if (!isFrame(message.data)) {
      const bytes = readCredit(message.data, message.token, "response");
      if (bytes === null) return;
      for (const execution of executions) {
        execution.heardMs = now;
        execution.responder.credit(bytes);
      }
      return;
    }
    try {
      const frame = decodeFrame(message.data);
      const execution = executions.find((one) => sameBytes(one.epoch, frame.epoch));
      if (execution === undefined) return;
      execution.heardMs = now;
      if (frame.type === FrameType.Close) {
        execution.responder.cancel(frame.reason);
        execution.call?.abort(new FlowError("canceled", `Ended by the requester: ${frame.reason}`));
      }
    } catch (error) {
      if (!(error instanceof FrameError)) throw error;
      this.#options.onBadFrame(error.message);
    }
  }

  /** Looks after the responses under way: probes their requesters, ends what nobody waits for. */
  #probe(): void {
    const { peerTimeoutMs, transport, executions } = this.#options;
    if (!transport.connected) return;
    const now = performance.now();
    for (const execution of [...executions.all()]) {
      const { responder } = execution;
      if (!responder.headSent || responder.ended) {
        execution.heardMs = now;
        continue;
      }
      if (responder instanceof FrameResponder) {
        if (now - execution.heardMs > peerTimeoutMs) {
          const text = "The requester has not been heard of within PEER_TIMEOUT";
          const failure = new FlowError("peer_lost", text);
          responder.fail(failure.code, text);
          execution.call?.abort(failure);
        } else responder.probe();
      }
    }
  }

  /** A Ruby requester gives a response up that brings nothing for STREAM_RESPONSE_TIMEOUT. */
  #keepStreams(): void {
    if (!this.#options.transport.connected) return;
    for (const { responder } of [...this.#options.executions.all()]) {
      if (responder instanceof EventResponder) responder.keepAlive();
    }
  }
}

function every(periodMs: number, run: () => void): ReturnType<typeof setInterval> {
  const timer = setInterval(run, Math.max(SHORTEST_PERIOD_MS, periodMs));
  Deno.unrefTimer(timer);
  return timer;
}
