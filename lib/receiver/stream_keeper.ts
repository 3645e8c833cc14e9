/**
 * Keeps the streams to Ruby requesters alive: they give a response up that brings nothing for their
 * STREAM_RESPONSE_TIMEOUT (wire-protocol.md section 11). Natsway peers watch over each other in the lanes.
 * @module
 */
import type { Transport } from "../transport/types.ts";
import type { Executions } from "./executions.ts";

/** A third of the default STREAM_RESPONSE_TIMEOUT: a peer may have a limit where this side has none. */
const DEFAULT_KEEP_MS = 10_000;
const SHORTEST_PERIOD_MS = 50;

/** One for a receiver. */
export class StreamKeeper {
  readonly #transport: Transport;
  readonly #executions: Executions;
  readonly #periodMs: number;
  #timer: ReturnType<typeof setInterval> | undefined;

  /** @param streamTimeoutMs STREAM_RESPONSE_TIMEOUT; 0 for no limit here */
  constructor(transport: Transport, executions: Executions, streamTimeoutMs: number) {
    this.#transport = transport;
    this.#executions = executions;
    const period = streamTimeoutMs > 0 ? streamTimeoutMs / 3 : DEFAULT_KEEP_MS;
    this.#periodMs = Math.max(SHORTEST_PERIOD_MS, period);
  }

  start(): void {
    this.#timer = setInterval(() => this.#keep(), this.#periodMs);
    Deno.unrefTimer(this.#timer);
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  #keep(): void {
    if (!this.#transport.connected) return;
    for (const execution of [...this.#executions.all()]) execution.keepAlive();
  }
}
