/**
 * A double of the receiver of nats-proxy (Ruby), written from wire-protocol.md alone. It calls a real
 * upstream with node:http, and notes everything that a Ruby receiver would not have got along with.
 * Sessions (`tcp_stream`) are in `ruby_target.ts`.
 * @module
 */
import assert from "node:assert/strict";
import http from "node:http";
import { EventLog } from "../helpers/wait.ts";
import { type BareMessage, BareNats, exactHeader } from "./bare_nats.ts";
import { isCredit, readCredit } from "./ruby_credit.ts";
import { RubyTargets } from "./ruby_target.ts";
import { isStream, mediaType, METHODS, responseHeaders, upstreamParts } from "./ruby_upstream.ts";
import { RubyWindow } from "./ruby_window.ts";
import {
  chunkEvent,
  type CreditSizes,
  creditSizes,
  type JsonRecord,
  lastToken,
  parseObject,
  parseOrUndefined,
  replySubject,
  type RubyPlace,
  withoutFrom,
} from "./ruby_wire.ts";

export interface RubyReceiverOptions extends RubyPlace {
  readonly upstreamUrl?: string;
  /** @default `<request root>.requests.>` */
  readonly listenSubject?: string;
  /** @default {"nats-proxy"} */
  readonly queueGroup?: string;
  /** STREAM_RESPONSE_TIMEOUT in ms: longest wait for credit. @default {30000} */
  readonly streamTimeoutMs?: number;
}

/** A message of the request plane with what was read from it. */
export interface RubyRequest {
  readonly message: BareMessage;
  readonly envelope: JsonRecord;
  readonly id: string;
  readonly payload: JsonRecord;
  /** Publishes one event where the events of this request go. */
  readonly publish: (event: JsonRecord) => void;
}

const JSON_TYPE = { "content-type": "application/json" };

export class RubyReceiver implements AsyncDisposable {
  readonly #options: RubyReceiverOptions;
  readonly #windows = new Map<string, RubyWindow>();
  readonly #calls = new Set<http.ClientRequest>();
  readonly #agent = new http.Agent({ keepAlive: false });
  readonly nats: BareNats;
  readonly sizes: CreditSizes;
  /** Sessions. */
  readonly targets: RubyTargets;
  /** Every object on the request plane that is no cancel. */
  readonly requests = new EventLog<RubyRequest>();
  /** Cancels as they came, on either subject. */
  readonly cancels = new EventLog<BareMessage>();
  readonly credits = new EventLog<BareMessage>();
  /** Ids of flows that began to wait for credit. */
  readonly creditWaits = new EventLog<string>();
  /** Ids of flows whose last event is out. */
  readonly finished = new EventLog<string>();
  /** What was dropped with a warning. */
  readonly dropped: string[] = [];
  /** What no peer of the contract would have sent. */
  readonly violations: string[] = [];
  /** Takes a request away from the double (returns true), to play a peer with faults. */
  intercept: ((request: RubyRequest) => boolean) | null = null;

  private constructor(nats: BareNats, options: RubyReceiverOptions) {
    this.nats = nats;
    this.#options = options;
    this.sizes = creditSizes(nats.maxPayload);
    this.targets = new RubyTargets({
      nats,
      sizes: this.sizes,
      serviceId: options.serviceId,
      responseRoot: options.responseRoot ?? "from.proxy",
      streamTimeoutMs: options.streamTimeoutMs ?? 30_000,
      violations: this.violations,
      onCreditWait: (id) => this.creditWaits.add(id),
      onFinished: (id) => this.finished.add(id),
      drop: (message, why) => this.#drop(message, why),
    });
  }

  static async start(options: RubyReceiverOptions): Promise<RubyReceiver> {
    const nats = await BareNats.connect(options.port, options);
    const receiver = new RubyReceiver(nats, options);
    const root = options.requestRoot ?? "to.proxy";
    const { serviceId } = options;
    nats.subscribe(
      options.listenSubject ?? `${root}.requests.>`,
      (message) => receiver.#request(message),
      options.queueGroup ?? "nats-proxy",
    );
    receiver.targets.listen(root);
    nats.subscribe(`${root}.cancel.${serviceId}.>`, (message) => receiver.#cancelMessage(message));
    nats.subscribe(`${root}.control.${serviceId}.>`, (message) => receiver.#control(message));
    await nats.flush();
    return receiver;
  }

  /** Flows under way. */
  get live(): number {
    return this.#windows.size + this.targets.live;
  }

  /** The flow's window, while it streams. */
  window(id: string): RubyWindow | undefined {
    return this.#windows.get(id);
  }

  /** Checks what holds for every requester that is natsway: nothing that a Ruby peer trips over. */
  assertContent(): void {
    assert.deepEqual(this.violations, []);
    // Credit for the remainder may find no flow: section 7.
    assert.deepEqual(this.dropped.filter((line) => !line.startsWith("credit of an")), []);
    assert.equal(this.nats.fault, null);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const window of this.#windows.values()) window.close("the double ends");
    for (const call of this.#calls) call.destroy();
    this.#agent.destroy();
    await this.targets.close();
    await this.nats.close();
  }

  #drop(message: BareMessage, why: string): void {
    this.dropped.push(`${why}: ${message.subject}`);
  }

  #request(message: BareMessage): void {
    const value = parseOrUndefined(message.data);
    if (value === undefined) return this.#drop(message, "not JSON");
    const envelope = parseObject(message.data);
    const reply = replySubject(message, envelope);
    const refuse = (subject: string | null, status: number, error: string) => {
      if (subject === null) this.#drop(message, error);
      else this.#errorReply((event) => this.#publish(subject, event, message), status, error, {});
    };
    if (envelope === null) return refuse(reply, 400, "Invalid request envelope");
    const subject = reply === null ? null : withoutFrom(reply);
    const type = envelope["type"] ?? "";
    if (type === "cancel") return this.#cancel(message, envelope);
    if (type !== "" && type !== "request") {
      return refuse(subject, 400, "Invalid request envelope type");
    }
    const id = envelope["request_id"];
    if (id === undefined || id === null || id === "") {
      return refuse(subject, 400, "Missing request_id");
    }
    if (subject === null) return this.#drop(message, "no reply_to");
    const operation = envelope["operation"];
    if (operation === undefined || operation === null || operation === "") {
      return refuse(subject, 400, "Missing operation");
    }
    const payload = envelope["payload"];
    if (payload === undefined || payload === null) return refuse(subject, 400, "Missing payload");
    this.#checkEnvelope(message, envelope);
    const request: RubyRequest = {
      message,
      envelope,
      id: String(id),
      payload: typeof payload === "object" ? payload as JsonRecord : {},
      publish: (event) => this.#publish(subject, event, message),
    };
    this.requests.add(request);
    if (this.intercept?.(request)) return;
    if (operation === "tcp_stream") {
      return void this.targets.open(request, (status, error) => refuse(subject, status, error));
    }
    if (operation !== "http_request") {
      return refuse(subject, 503, `No handler registered for operation=${operation}`);
    }
    if (typeof payload !== "object" || Array.isArray(payload)) {
      if (typeof payload === "string") return refuse(subject, 400, "Missing method or path");
      return this.#drop(message, "payload is no object");
    }
    this.#http(request);
  }

  /** What a Ruby receiver relies on without checking it. */
  #checkEnvelope(message: BareMessage, envelope: JsonRecord): void {
    if (envelope["request_id"] !== lastToken(message.subject)) {
      this.violations.push(`request_id is not the last token of ${message.subject}`);
    }
    for (const [name] of message.headers) {
      if (/^reply[-_]to$|^nats-subject$/i.test(name)) {
        this.violations.push(`NATS header ${name} on a request`);
      }
    }
  }

  #http(request: RubyRequest): void {
    const { payload, publish, id, message } = request;
    const { method, path } = payload;
    const fail = (status: number, error: string, more: JsonRecord = {}) =>
      this.#errorReply(publish, status, error, more);
    if (typeof method !== "string" || method === "" || typeof path !== "string" || path === "") {
      return fail(400, "Missing method or path");
    }
    if (!METHODS.includes(method.toLowerCase())) return this.#drop(message, "unknown method");
    const known = { request_id: id, flow_kind: "http_request" };
    const { upstreamUrl } = this.#options;
    const absolute = /^https?:\/\//i.test(path);
    if (!absolute && upstreamUrl === undefined) {
      return fail(503, "Receiver is missing UPSTREAM_URL", known);
    }
    if (!URL.canParse(path, upstreamUrl)) return fail(400, "Invalid proxy target URL");
    const url = new URL(path, upstreamUrl);
    const { headers, body } = upstreamParts(payload);
    const window = new RubyWindow(this.sizes.cap, () => this.creditWaits.add(id));
    this.#windows.set(id, window);
    const call = http.request({
      host: url.hostname,
      port: url.port,
      method: method.toUpperCase(),
      path: `${url.pathname}${url.search}`,
      headers,
      agent: this.#agent,
    });
    this.#calls.add(call);
    let started = false;
    const end = () => {
      this.#calls.delete(call);
      this.#windows.delete(id);
      this.finished.add(id);
    };
    call.on("error", (error) => {
      if (!started) {
        started = true;
        fail(503, `Upstream unavailable: ${error.message}`, known);
        end();
      }
    });
    call.on("response", (response) => {
      started = true;
      const serve = isStream(response) ? this.#stream : this.#buffered;
      void serve.call(this, request, response, window).finally(() => {
        call.destroy();
        end();
      });
    });
    call.end(body ?? undefined);
  }

  /** The whole answer, then start, at most one chunk, end. No credit. */
  async #buffered(
    request: RubyRequest,
    response: http.IncomingMessage,
    window: RubyWindow,
  ): Promise<void> {
    const pieces: Uint8Array[] = [];
    try {
      for await (const piece of response) {
        if (window.closedBy !== null) {
          return this.#lateError(request, `stream canceled: ${window.closedBy}`);
        }
        pieces.push(piece as Uint8Array);
      }
    } catch (error) {
      const text = `Upstream unavailable: ${(error as Error).message}`;
      const known = { request_id: request.id, flow_kind: "http_request" };
      return this.#errorReply(request.publish, 503, text, known);
    }
    this.#start(request, response, false);
    const body = new Uint8Array(pieces.reduce((sum, piece) => sum + piece.length, 0));
    let at = 0;
    for (const piece of pieces) {
      body.set(piece, at);
      at += piece.length;
    }
    if (body.length > 0) request.publish(chunkEvent(body));
    request.publish({ type: "response_end" });
  }

  /** Start with the first octets, each read as one chunk, cut only where credit ends. */
  async #stream(
    request: RubyRequest,
    response: http.IncomingMessage,
    window: RubyWindow,
  ): Promise<void> {
    let started = false;
    const start = () => {
      if (!started) this.#start(request, response, true);
      started = true;
    };
    try {
      for await (const piece of response as AsyncIterable<Uint8Array>) {
        start();
        for (let at = 0; at < piece.length;) {
          const credit = await window.wait(this.#options.streamTimeoutMs ?? 30_000);
          if (window.closedBy !== null) {
            return this.#lateError(request, `stream canceled: ${window.closedBy}`);
          }
          if (credit === 0) return this.#lateError(request, "Response flow credit timeout");
          const size = Math.min(credit, piece.length - at);
          window.take(size);
          request.publish(chunkEvent(piece.subarray(at, at + size)));
          at += size;
        }
      }
    } catch (error) {
      start();
      return this.#lateError(request, `Upstream unavailable: ${(error as Error).message}`);
    }
    start();
    request.publish({ type: "response_end" });
  }

  #start(request: RubyRequest, response: http.IncomingMessage, streaming: boolean): void {
    request.publish({
      type: "response_start",
      status: response.statusCode,
      headers: responseHeaders(response),
      content_type: mediaType(response),
      streaming,
      receiver_service_id: this.#options.serviceId,
      request_id: request.id,
      flow_kind: streaming ? "http_stream" : "http_request",
    });
  }

  #lateError(request: RubyRequest, error: string): void {
    request.publish({ type: "response_error", error });
    request.publish({ type: "response_end" });
  }

  #errorReply(
    publish: (event: JsonRecord) => void,
    status: number,
    error: string,
    more: JsonRecord,
  ): void {
    publish({
      type: "response_start",
      status,
      headers: JSON_TYPE,
      content_type: "application/json",
      streaming: false,
      receiver_service_id: this.#options.serviceId,
      ...more,
    });
    publish({ type: "response_chunk", body: JSON.stringify({ error }) });
    publish({ type: "response_end" });
  }

  #publish(subject: string, event: JsonRecord, request: BareMessage): void {
    const trace = ["traceparent", "tracestate"].flatMap((name) => {
      const value = exactHeader(request, name);
      return value === null ? [] : [[name, value] as const];
    });
    this.nats.publish(subject, JSON.stringify(event), { headers: trace });
  }

  #cancelMessage(message: BareMessage): void {
    const envelope = parseObject(message.data);
    if (envelope === null) this.violations.push(`cancel that is no object: ${message.subject}`);
    else this.#cancel(message, envelope);
  }

  #cancel(message: BareMessage, envelope: JsonRecord): void {
    const cancel = envelope["cancel"];
    if (typeof cancel !== "object" || cancel === null) {
      return this.#drop(message, "cancel without a cancel object");
    }
    this.cancels.add(message);
    const id = envelope["request_id"] || (cancel as JsonRecord)["request_id"];
    const reason = (cancel as JsonRecord)["reason"];
    this.targets.cancel(String(id));
    this.#windows.get(String(id))?.close(
      typeof reason === "string" && reason !== "" ? reason : "downstream_disconnect",
    );
  }

  #control(message: BareMessage): void {
    this.credits.add(message);
    if (!isCredit(message, "response")) return this.#drop(message, "unknown frame");
    const id = lastToken(message.subject);
    const bytes = readCredit(message, "response");
    if (bytes === null) {
      this.violations.push(`no credit of the contract on ${message.subject}`);
      return;
    }
    const window = this.#windows.get(id);
    if (window === undefined) return this.#drop(message, "credit of an unknown id");
    const lost = window.grant(bytes);
    if (lost > 0) this.violations.push(`${lost} bytes of credit over the window's cap`);
    if (window.granted > this.sizes.initial + window.sent) {
      this.violations.push("more credit was returned than bytes were delivered");
    }
  }
}
