/**
 * The requester: carries the requests of its clients over NATS.
 * @module
 */
import { errorText, type FailureCode, FlowError, MessageTooLargeError } from "../errors.ts";
import { Deadlines, DeadlinesByLength } from "../flow/deadlines.ts";
import { IdTable } from "../flow/id_table.ts";
import { newId } from "../flow/ids.ts";
import { LaneDriver } from "../flow/lane_driver.ts";
import type { MemoryBudget } from "../flow/memory_budget.ts";
import type { Flow, FlowEnd, FlowRegistry } from "../flow/registry.ts";
import { isRequestTarget } from "../http1/field.ts";
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { IngressRequest } from "../ingress/connection.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";
import type { Logger } from "../logger.ts";
import { encodeCancel } from "../protocol/cancel.ts";
import { creditSizes } from "../protocol/credit.ts";
import { encodeHttpRequest } from "../protocol/envelope.ts";
import { encodeNatsHeaders } from "../protocol/nats_headers.ts";
import { FEATURE_RAW, type PeerInfo } from "../protocol/peer.ts";
import { hex } from "../protocol/hex.ts";
import { ResponseInfoCache } from "../protocol/response_info.ts";
import {
  cancelSubject,
  controlSubject,
  isServiceId,
  requestSubject,
  responseSubject,
  type Roots,
} from "../protocol/subjects.ts";
import type { Inbound, Transport } from "../transport/types.ts";
import type { RequesterContext } from "./context.ts";
import { HttpExchange } from "./exchange.ts";
import { FirstWindows } from "./first_windows.ts";
import { hearing } from "./hearing.ts";
import { answerTrace } from "./max_forwards.ts";
import { PoolLimit } from "./pool_limit.ts";
import { receiveUnknown } from "./unknown_flow.ts";
import { chooseBody, largestBody } from "./request_body.ts";
import {
  type CrossingFields,
  crossingFields,
  type ForwardedMode,
  isLoop,
  maxForwards,
} from "./request_fields.ts";
import { Session } from "./session.ts";
import type { OpenSession } from "./session_types.ts";
import { Sessions } from "./sessions.ts";

export interface RequesterOptions {
  readonly transport: Transport;
  readonly registry: FlowRegistry;
  readonly logger: Logger;
  readonly roots: Roots;
  readonly serviceId: string;
  /** Id of this process among all that ever ran. */
  readonly instance: string;
  readonly responseTimeoutMs: number;
  /** 0 for no limit. */
  readonly streamTimeoutMs: number;
  readonly peerTimeoutMs: number;
  /** 0 for ever. */
  readonly idleTimeoutMs: number;
  readonly budget: MemoryBudget;
  /** Pings a peer's instance; null for no presence. */
  readonly ping: ((instance: string) => void) | null;
  readonly inlineBodyBytes: number;
  readonly maxBodyBytes: number;
  readonly maxHeaderBytes: number;
  readonly frameBytes: number;
  readonly peers: "natsway" | "mixed";
  readonly forwardedHeaders: ForwardedMode;
  /** Pseudonym for `Via`, or null. */
  readonly via: string | null;
  /** State of the service, for the 503 of a process that is not in service. */
  readonly runtime: () => { state: string; details: Record<string, unknown> };
}

/** Requester's half of the bridge: `handle` takes requests, the responses plane brings answers. */
export class Requester {
  readonly #options: RequesterOptions;
  readonly #context: RequesterContext;
  readonly #live = new IdTable<Live>();
  readonly #sessions: Sessions;
  readonly #lanes: LaneDriver;
  readonly #windows: FirstWindows;
  readonly #poolLimit: PoolLimit;
  readonly #deadlines: Deadlines[];
  #started = false;
  readonly #idleDeadlines = new DeadlinesByLength();

  constructor(options: RequesterOptions) {
    this.#options = options;
    const { transport, roots, serviceId } = options;
    const response = new Deadlines(options.responseTimeoutMs);
    const stream = options.streamTimeoutMs > 0 ? new Deadlines(options.streamTimeoutMs) : null;
    this.#deadlines = stream === null ? [response] : [response, stream];
    this.#windows = new FirstWindows(options.budget);
    this.#lanes = new LaneDriver({
      ...options,
      answerSubject: (id, receiver) =>
        isServiceId(receiver) ? controlSubject(roots, receiver, id) : null,
    });
    const infoCache = new ResponseInfoCache();
    this.#poolLimit = new PoolLimit({ transport, roots, serviceId, infoCache });
    this.#context = {
      transport,
      roots,
      serviceId,
      mixed: options.peers === "mixed",
      maxHeaderBytes: options.maxHeaderBytes,
      logger: options.logger,
      responseDeadlines: response,
      responseTimeoutMs: options.responseTimeoutMs,
      streamDeadlines: stream,
      streamTimeoutMs: options.streamTimeoutMs,
      idleTimeoutMs: options.idleTimeoutMs,
      idleDeadlines: this.#idleDeadlines,
      isListening: hearing(transport, () => this.#started),
      lanes: this.#lanes,
      windows: this.#windows,
      infoCache,
      learnLimit: (maxMsg) => this.#poolLimit.learn(maxMsg),
      viaLine: options.via === null ? "" : `Via: 1.1 ${options.via}\r\n`,
      creditSizes: () => creditSizes(transport.maxPayload),
      publishCancel: (subject, cancel, reply) =>
        transport.publish(
          subject,
          [encodeCancel({ ...cancel, serviceId }, new Date())],
          reply === undefined ? {} : { reply },
        ),
      cancelForeign: (requestId, receiver, epoch) => {
        if (!isServiceId(receiver)) return;
        const subject = cancelSubject(roots, receiver, requestId);
        const cancel = {
          requestId,
          reason: "foreign_epoch",
          epoch: epoch === null ? null : hex(epoch),
        };
        this.#context.publishCancel(subject, cancel);
      },
      finished: (flow, end, detail) => this.#finished(flow, end, detail),
    };
    this.#sessions = new Sessions(this.#context, {
      registry: options.registry,
      runtime: options.runtime,
      peer: () => this.#peer(),
      enter: (id, session) => this.#live.set(id, session),
    });
  }

  /** Begins to listen for answers. */
  start(): void {
    const { transport } = this.#options;
    this.#started = true;
    transport.consumePlane("responses", (message) => this.#receive(message));
    transport.consumePlane("sessions.downstream", (message) => this.#receiveDownstream(message));
    transport.onConnection((connected) => {
      if (!connected) { for (const live of this.#live.values()) live.linkLost(); }
    });
  }

  /** A peer's instance has answered a ping. */
  peerAnswered(instance: string): void {
    this.#lanes.answered(instance);
  }

  /** Opens a tunnel; see {@linkcode OpenSession}. */
  readonly openSession: OpenSession = (target, client) => this.#sessions.open(target, client);

  /** Breaks off whatever is still under way, for that reason, and stops the clocks. */
  stop(code: FailureCode = "stopping"): void {
    for (const live of this.#live.values()) live.stop(code, "natsway is stopping");
    this.#poolLimit.close();
    this.#lanes.stop();
    this.#idleDeadlines.close();
    for (const deadlines of this.#deadlines) deadlines.close();
  }

  /** Serves one request in origin form (or `*`); errors are answered, never thrown. */
  handle(request: IngressRequest): void {
    const { head, response } = request;
    const { via, forwardedHeaders } = this.#options;
    if (!isRequestTarget(head.target)) {
      answerError(
        response,
        400,
        "The request target has octets outside 0x21 to 0x7E",
        "bad_request",
      );
      return;
    }
    if (via !== null && isLoop(head, via)) {
      answerFailure(response, "loop", `The request came through ${via} before`);
      return;
    }
    if (maxForwards(head) === 0) {
      answerTrace(head, response);
      return;
    }
    if (!this.#context.isListening()) {
      const { state, details } = this.#options.runtime();
      const text = `Service runtime ${state}`;
      this.#options.registry.refuse(newId(), "http", head.method, head.target, "nats_down", text);
      answerFailure(response, "nats_down", text, details);
      return;
    }
    const fields = crossingFields(head, request.clientAddress, {
      forwarded: forwardedHeaders,
      via,
    });
    const { method, target } = head;
    if (head.framing.kind === "none") {
      this.#send(request, method, target, fields, null);
      return;
    }
    void this.#sendWithBody(request, method, target, fields);
  }

  async #sendWithBody(
    request: IngressRequest,
    method: string,
    target: string,
    fields: CrossingFields,
  ): Promise<void> {
    const { response } = request;
    const { transport, maxBodyBytes } = this.#options;
    const room = largestBody(transport.maxPayload);
    const limit = maxBodyBytes > 0 ? Math.min(maxBodyBytes, room) : room;
    const result = await request.readBody(limit);
    if (response.ended) return;
    switch (result.kind) {
      case "too_large":
        this.#answerTooLarge(response, limit);
        return;
      case "broken":
        if (result.status === 0) response.abort();
        else this.#refused(response, result.status, result.reason, "bad_request");
        return;
      case "body":
        this.#send(request, method, target, fields, result.bytes);
    }
  }

  /** Answers what never became a flow, with a line of its own in the log. */
  #refused(response: ResponseWriter, status: number, message: string, code: string): void {
    this.#options.logger.info("request refused", { status, code, detail: message });
    answerError(response, status, message, code);
  }

  #answerTooLarge(response: ResponseWriter, limit: number): void {
    const { maxBodyBytes } = this.#options;
    const setting = maxBodyBytes > 0 && limit === maxBodyBytes
      ? `MAX_BODY_BYTES (${limit})`
      : `half of the NATS server's max_payload (${limit} bytes)`;
    this.#refused(response, 413, `The request body is over ${setting}`, "body_too_large");
  }

  #send(
    request: IngressRequest,
    method: string,
    target: string,
    fields: CrossingFields,
    bytes: Uint8Array | null,
  ): void {
    this.#publish({ response: request.response, method, target, fields, body: bytes }, 0);
  }

  /** Asks the pool how large a request may be, then publishes. */
  async #askFirst(outgoing: Outgoing, again: number): Promise<void> {
    await this.#poolLimit.ask();
    if (!outgoing.response.ended) this.#publish(outgoing, again);
  }

  /** Publishes a request under a fresh id. `again` counts how often it has been published before. */
  #publish(outgoing: Outgoing, again: number): void {
    const { transport, registry, roots, serviceId, peers, inlineBodyBytes } = this.#options;
    const { response, method, target, fields, body } = outgoing;
    const limit = this.#poolLimit.bytes;
    if (body !== null && body.length > largestBody(limit)) {
      if (this.#poolLimit.known) this.#answerTooLarge(response, largestBody(limit));
      else void this.#askFirst(outgoing, again);
      return;
    }
    const id = newId();
    const replyTo = responseSubject(roots, serviceId, id);
    const peer = this.#peer();
    const { window } = peer;
    const envelope = encodeHttpRequest({
      requestId: id,
      replyTo,
      method,
      path: target,
      headers: fields.headers,
      head: fields.head,
      body: chooseBody(body, limit, peers === "mixed" ? Infinity : inlineBodyBytes),
      peer,
    });
    const headers = fields.trace.length > 0 ? encodeNatsHeaders(fields.trace) : null;
    const messageBytes = envelope.length + (headers?.length ?? 0);
    if (messageBytes > limit && !this.#poolLimit.known) {
      void this.#askFirst(outgoing, again);
      return;
    }
    let flow: Flow;
    try {
      flow = registry.open(id, "http", method, target);
    } catch (error) {
      if (!(error instanceof FlowError)) throw error;
      answerFailure(response, error.code, error.message);
      return;
    }
    flow.sentBytes = body?.length ?? 0;
    const sendAgain = () => {
      if (peers !== "mixed" || again >= MAX_AGAIN || response.ended) return false;
      this.#publish(outgoing, again + 1);
      return true;
    };
    const exchange = new HttpExchange(this.#context, {
      flow,
      response,
      replyTo,
      window,
      sendAgain,
    });
    this.#live.set(id, exchange);
    try {
      if (messageBytes > limit) throw new MessageTooLargeError(messageBytes, limit);
      const sent = transport.publish(requestSubject(roots, serviceId, id), [envelope], {
        reply: replyTo,
        onLost: (reason) => exchange.lost(reason),
        ...(headers === null ? {} : { headers }),
      });
      if (!sent) exchange.refuse("nats_down", 503, "The connection to NATS was lost");
    } catch (error) {
      if (error instanceof MessageTooLargeError) {
        const message = `The request head does not fit: ${error.message}`;
        exchange.refuse("head_too_large", 431, message);
      } else exchange.refuse("internal", 502, errorText(error));
    }
  }

  #lastPeer: PeerInfo | null = null;

  /** What is said of this process; another object only when something in it has changed. */
  #peer(): PeerInfo {
    const { maxPayload } = this.#options.transport;
    const window = this.#windows.next();
    if (this.#lastPeer?.maxMsg !== maxPayload || this.#lastPeer.window !== window) {
      this.#lastPeer = {
        instance: this.#options.instance,
        features: FEATURES,
        maxMsg: maxPayload,
        ttlMs: this.#options.responseTimeoutMs,
        window,
      };
    }
    return this.#lastPeer;
  }

  #receive(message: Inbound): void {
    const live = this.#live.get(message.token);
    if (live !== undefined) live.receive(message);
    else if (!this.#poolLimit.receive(message)) receiveUnknown(this.#context, message);
  }

  #receiveDownstream(message: Inbound): void {
    const live = this.#live.get(message.token);
    if (live instanceof Session) live.receiveDownstream(message);
    else receiveUnknown(this.#context, message);
  }

  #finished(flow: Flow, end: FlowEnd, detail: string | undefined): void {
    this.#live.delete(flow.id);
    this.#options.registry.close(flow, end, detail);
  }
}

/** What the planes bring messages for. */
interface Live {
  receive(message: Inbound): void;
  linkLost(): void;
  stop(code: FailureCode, message: string): void;
}

/** How often a request that a Ruby receiver cannot carry is published again (PEERS=mixed). */
const MAX_AGAIN = 4;
const FEATURES: readonly string[] = [FEATURE_RAW];

/** A request on its way out. */
interface Outgoing {
  readonly response: ResponseWriter;
  readonly method: string;
  readonly target: string;
  readonly fields: CrossingFields;
  readonly body: Uint8Array | null;
}
