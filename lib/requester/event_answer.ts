/**
 * An answer in JSON events, as Ruby receivers give it (wire-protocol.md sections 6 and 9).
 * @module
 */
import { type FailureCode, isFailureCode } from "../errors.ts";
import type { Flow, FlowEnd } from "../flow/registry.ts";
import { FieldId, fieldIdOf, isHopByHop, isToken } from "../http1/field.ts";
import { parseFieldBlock } from "../http1/parse.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import type { EventHeaders, ResponseEvent } from "../protocol/events.ts";
import { isObject, parseJson } from "../protocol/json.ts";

/** What the answer needs of its exchange. */
export interface EventAnswerHost {
  readonly flow: Flow;
  readonly response: ResponseWriter;
  /** The `Via` line of responses, or `""`. */
  readonly viaLine: string;
  /** Binds the exchange to a peer that speaks events. */
  bind(serviceId: string): void;
  /** The head is written; the media type with its parameters, `""` for none. */
  onHead(contentType: string): void;
  startCredit(): void;
  /** Fails; where `cancel` is set the receiver is told to stop. */
  fail(code: FailureCode, message: string, options?: { detail?: string; cancel?: boolean }): void;
  finish(end: FlowEnd, detail?: string): void;
  /** Whether more waits for the client than may; the flow has failed then. */
  overCredit(): boolean;
  /**
   * The receiver does not know the operation, so nothing has run. True when the exchange sends the
   * request again: this answer is then of no more interest.
   */
  sendAgain(): boolean;
}

type ResponseStartEvent = Extract<ResponseEvent, { type: "response_start" }>;

/** How a receiver without natsway's operations answers one of them. */
const UNKNOWN_OPERATION = /^No handler registered for operation=/;
const MAX_REFUSAL_BYTES = 4096;

/** Takes the events of one flow in their order. */
export class EventAnswer {
  readonly #host: EventAnswerHost;
  #started = false;
  #streaming = false;
  /** Head of a buffered answer that has not been written yet: a failure may still come. */
  #held: ResponseStartEvent | null = null;
  /** Body of what may be the refusal of an unknown operation; null when it is not. */
  #refusal: Uint8Array | null = null;

  constructor(host: EventAnswerHost) {
    this.#host = host;
  }

  /** Takes one event. */
  take(event: ResponseEvent): void {
    if (!this.#started && event.type !== "response_start") {
      const name = event.type === "other" ? event.name : event.type;
      this.#host.fail("target_broken", `Expected response_start, got ${name}`);
      return;
    }
    switch (event.type) {
      case "response_start":
        this.#start(event);
        return;
      case "response_chunk":
        this.#chunk(event.body);
        return;
      case "response_end":
        this.#end();
        return;
      case "response_error": {
        const code = isFailureCode(event.code) ? event.code : "target_broken";
        this.#host.fail(code, "Unexpected event response_error", { detail: event.error });
        return;
      }
      case "other":
        this.#host.fail("target_broken", `Unexpected event ${event.name}`, { cancel: true });
    }
  }

  #start(start: ResponseStartEvent): void {
    if (this.#started) {
      this.#host.fail("target_broken", "Unexpected event response_start", { cancel: true });
      return;
    }
    this.#started = true;
    this.#host.bind(start.receiverServiceId);
    this.#host.flow.status = start.status;
    this.#streaming = start.streaming;
    this.#held = start;
    if (start.streaming) {
      this.#writeHead(-1);
      this.#host.startCredit();
    } else if (start.status === 503 && start.requestId === null) this.#refusal = new Uint8Array(0);
  }

  #chunk(body: Uint8Array): void {
    const refusal = this.#refusal;
    if (refusal !== null && refusal.length + body.length <= MAX_REFUSAL_BYTES) {
      this.#refusal = new Uint8Array(refusal.length + body.length);
      this.#refusal.set(refusal);
      this.#refusal.set(body, refusal.length);
      return;
    }
    this.#refusal = null;
    this.#writeHead(-1);
    if (refusal !== null) this.#body(refusal);
    this.#body(body);
  }

  #body(body: Uint8Array): void {
    const { flow, response, finish } = this.#host;
    if (response.ended) return;
    flow.receivedBytes += body.length;
    response.body(body);
    if (this.#host.overCredit() || !response.ended) return;
    finish("target_broken", "The body is longer than its Content-Length");
  }

  #end(): void {
    const refusal = this.#refusal;
    if (refusal !== null && isUnknownOperation(refusal) && this.#host.sendAgain()) return;
    this.#writeHead(refusal?.length ?? 0);
    if (refusal !== null) this.#body(refusal);
    if (this.#host.response.ended) return;
    this.#host.response.end();
    this.#host.finish("ok");
  }

  #writeHead(completeLength: number): void {
    const start = this.#held;
    if (start === null) return;
    this.#held = null;
    const { block, contentLength } = fieldBlock(start.headers);
    this.#host.onHead(contentTypeOf(start.headers));
    this.#host.response.start({
      status: start.status,
      fields: parseFieldBlock(block, 0, block.length),
      lines: this.#host.viaLine,
      declaredLength: this.#streaming ? -1 : contentLength,
      completeLength,
    });
  }
}

function contentTypeOf(headers: EventHeaders): string {
  for (const [name, content] of Object.entries(headers)) {
    if (name.toLowerCase() === "content-type") return String(content);
  }
  return "";
}

function isUnknownOperation(body: Uint8Array): boolean {
  const value = parseJson(body);
  return isObject(value) && typeof value.error === "string" && UNKNOWN_OPERATION.test(value.error);
}

const encoder = new TextEncoder();
// deno-lint-ignore no-control-regex -- exactly the octets that no field value may hold
const CONTROL = /[\x00-\x08\x0a-\x1f\x7f]/;

/** The headers of a JSON event as field lines; what is no field of HTTP is left out. */
function fieldBlock(headers: EventHeaders): { block: Uint8Array; contentLength: number } {
  let text = "";
  let contentLength = -1;
  for (const [name, content] of Object.entries(headers)) {
    const id = fieldIdOf(name);
    if (!isToken(name) || isHopByHop(id)) continue;
    for (const value of typeof content === "string" ? [content] : content) {
      if (CONTROL.test(value)) continue;
      if (id !== FieldId.ContentLength) text += `${name}: ${value.trim()}\r\n`;
      else if (/^\d{1,15}$/.test(value)) contentLength = Number(value);
    }
  }
  return { block: encoder.encode(text), contentLength };
}
