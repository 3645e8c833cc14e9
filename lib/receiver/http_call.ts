/**
 * Carries out one HTTP request: upstream call out, response back through a responder.
 * @module
 */
import { errorText, FlowError, MessageTooLargeError } from "../errors.ts";
import type { DeadlinesByLength } from "../flow/deadlines.ts";
import type { ResponseHead } from "../http1/head.ts";
import type { HttpPayload } from "../protocol/envelope.ts";
import type { ConnectionGate, Responder } from "./responder.ts";
import type { UpstreamClient } from "./upstream_client.ts";
import { StaleConnectionError, type UpstreamConnection } from "./upstream_connection.ts";

/** Methods that may be sent once more when a kept connection turns out to be dead. */
const IDEMPOTENT = new Set(["GET", "HEAD", "OPTIONS", "TRACE", "PUT", "DELETE"]);
/** An unsafe request takes only a connection that was in use so recently. */
const FRESH_IDLE_MS = 250;

export interface HttpCallOptions {
  readonly client: UpstreamClient;
  readonly request: HttpPayload;
  /** The head to send, from `upstreamHead`. */
  readonly head: string;
  readonly responder: Responder;
  /** Answers wait here while there is no connection to NATS: their requester may still wait too. */
  readonly gate: ConnectionGate;
  /** Time to the response head, in ms. */
  readonly headTimeoutMs: number;
  readonly headDeadlines: DeadlinesByLength;
  /** How long an answer is worth something, in ms. */
  readonly answerTimeoutMs: number;
  /** Called when the response head is there, or the call has failed before. */
  readonly onHead: () => void;
  /** Called once an answer is out: the response head, or a failure. */
  readonly onAnswered: () => void;
}

/** One call. `run` resolves when it is over; it never rejects. */
export class HttpCall {
  readonly #options: HttpCallOptions;
  /** Only while a connection is being opened. */
  #abort: AbortController | null = null;
  #connection: UpstreamConnection | null = null;
  /** Why it was ended from outside. */
  #reason: FlowError | null = null;
  #done = false;

  constructor(options: HttpCallOptions) {
    this.#options = options;
  }

  /** Ends the upstream call now, for that reason unless there is one already. */
  abort(reason: FlowError): void {
    if (this.#done) return;
    this.#reason ??= reason;
    this.#abort?.abort();
    this.#connection?.close();
  }

  /** The failure that ended the call, or null. */
  async run(): Promise<FlowError | null> {
    const { responder, onHead, headTimeoutMs, gate, answerTimeoutMs } = this.#options;
    const deadline = this.#options.headDeadlines.start(headTimeoutMs, () => {
      const text = `No response head from the upstream in ${headTimeoutMs / 1000} s`;
      this.abort(new FlowError("target_timeout", text));
    });
    try {
      const head = await this.#exchange();
      deadline.cancel();
      onHead();
      if (!gate.open) await gate.wait(answerTimeoutMs);
      const piece = this.#connection!.bufferedBody();
      const taken = responder.head(head, piece.buffer, piece.start, piece.end, piece.last);
      this.#options.onAnswered();
      if (taken !== undefined) await taken;
      if (!piece.last) await this.#restOfBody();
      if (responder.lost) throw new FlowError("nats_down", "The connection to NATS was lost");
      this.#options.client.release(this.#connection!);
      return null;
    } catch (error) {
      this.#connection?.close();
      const failure = this.#failure(error);
      if (!responder.headSent && !gate.open) await gate.wait(answerTimeoutMs);
      responder.fail(failure.code, failure.message);
      this.#options.onAnswered();
      return failure;
    } finally {
      deadline.cancel();
      this.#done = true;
      onHead();
    }
  }

  /** Sends the request and reads the head, on a fresh connection if the kept one was dead. */
  async #exchange(): Promise<ResponseHead> {
    const { client, request, head } = this.#options;
    const again = IDEMPOTENT.has(request.method);
    const kept = client.reuse(again ? Infinity : FRESH_IDLE_MS);
    if (kept !== undefined) {
      this.#connection = kept;
      kept.send(head, request.body);
      try {
        return await kept.readHead(request.method);
      } catch (error) {
        kept.close();
        if (!(error instanceof StaleConnectionError) || !again || this.#reason !== null) {
          throw error;
        }
      }
    }
    const abort = new AbortController();
    this.#abort = abort;
    const connection = await client.open(abort.signal);
    this.#abort = null;
    this.#connection = connection;
    connection.send(head, request.body);
    return await connection.readHead(request.method);
  }

  async #restOfBody(): Promise<void> {
    const { responder } = this.#options;
    const connection = this.#connection!;
    for (let last = false; !last;) {
      if (responder.lost) return;
      if (responder.ended) {
        throw new FlowError("canceled", "Nobody waits for the response any more");
      }
      const piece = await connection.readBody();
      const taken = responder.body(piece.buffer, piece.start, piece.end, piece.last);
      if (taken !== undefined) await taken;
      last = piece.last;
    }
  }

  #failure(error: unknown): FlowError {
    if (this.#reason !== null) return this.#reason;
    if (error instanceof FlowError) return error;
    if (error instanceof StaleConnectionError) {
      return new FlowError("target_broken", "The upstream closed before its response", {
        cause: error,
      });
    }
    if (error instanceof MessageTooLargeError) {
      return new FlowError("head_too_large", `The response head does not fit: ${error.message}`);
    }
    return new FlowError("internal", `Unexpected: ${errorText(error)}`, { cause: error });
  }
}
