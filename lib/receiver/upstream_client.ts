/**
 * Keep-alive connections to one upstream, the last used first.
 * @module
 */
import { FlowError } from "../errors.ts";
import { Deadlines } from "../flow/deadlines.ts";
import { dial, type Target } from "./dial.ts";
import { UpstreamConnection } from "./upstream_connection.ts";

export interface UpstreamClientOptions {
  readonly target: Target;
  readonly connectTimeoutMs: number;
  readonly maxHeaderBytes: number;
}

/** Idle connections that are kept at most. */
const MAX_IDLE = 512;
/** How long an idle connection is kept: shorter than common servers keep theirs. */
const IDLE_MS = 50_000;

interface Idle {
  readonly connection: UpstreamConnection;
  readonly deadline: { cancel(): void };
  /** `performance.now()` when it came back. */
  readonly sinceMs: number;
}

/** Lends connections to exchanges. */
export class UpstreamClient {
  readonly #options: UpstreamClientOptions;
  readonly #idle: Idle[] = [];
  readonly #deadlines = new Deadlines(IDLE_MS);
  #closed = false;

  constructor(options: UpstreamClientOptions) {
    this.#options = options;
  }

  /** Idle connections now. */
  get idle(): number {
    return this.#idle.length;
  }

  /**
   * The idle connection that was used last, or undefined.
   * @param maxIdleMs longest that it may have been idle: an upstream closes idle connections at its
   *   own time, and a request that crosses its end of input must not be sent twice if it is unsafe
   */
  reuse(maxIdleMs: number): UpstreamConnection | undefined {
    const oldest = performance.now() - maxIdleMs;
    for (let entry = this.#idle.at(-1); entry !== undefined; entry = this.#idle.at(-1)) {
      if (entry.sinceMs < oldest) return undefined;
      this.#idle.pop();
      entry.deadline.cancel();
      if (!entry.connection.closed) return entry.connection;
    }
    return undefined;
  }

  /**
   * A fresh connection.
   * @throws {FlowError} as `dial`
   */
  async open(signal: AbortSignal): Promise<UpstreamConnection> {
    const { target, connectTimeoutMs, maxHeaderBytes } = this.#options;
    const socket = await dial(target, connectTimeoutMs, signal);
    if (this.#closed || signal.aborted) {
      socket.close();
      throw new FlowError("canceled", "The call was cancelled");
    }
    return new UpstreamConnection(socket, maxHeaderBytes);
  }

  /** Takes a connection back: kept when another exchange may follow, else closed. */
  release(connection: UpstreamConnection): void {
    if (this.#closed || !connection.reusable || this.#idle.length >= MAX_IDLE) {
      connection.close();
      return;
    }
    const entry: Idle = {
      connection,
      sinceMs: performance.now(),
      deadline: this.#deadlines.start(() => {
        connection.close();
        this.#forget(entry);
      }),
    };
    this.#idle.push(entry);
    connection.watchIdle(() => {
      entry.deadline.cancel();
      this.#forget(entry);
    });
  }

  /** Closes the idle connections; those lent are closed when they come back. */
  close(): void {
    this.#closed = true;
    for (const { connection } of this.#idle.splice(0)) connection.close();
    this.#deadlines.close();
  }

  #forget(entry: Idle): void {
    const index = this.#idle.lastIndexOf(entry);
    if (index >= 0) this.#idle.splice(index, 1);
  }
}
