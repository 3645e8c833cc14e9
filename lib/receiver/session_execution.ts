/**
 * One tunnel at the receiver: dials the target, answers, then carries bytes over two lanes until it ends
 * once.
 * @module
 */
import { FlowError } from "../errors.ts";
import type { ByteFlow, ByteSink } from "../flow/byte_flow.ts";
import { ContractFlow } from "../flow/contract_flow.ts";
import type { DeadlinesByLength } from "../flow/deadlines.ts";
import { endDetail, flowEndOf } from "../flow/flow_end.ts";
import type { LaneDriver } from "../flow/lane_driver.ts";
import type { LaneFlow } from "../flow/lane_flow.ts";
import type { Flow, FlowEnd, FlowRegistry } from "../flow/registry.ts";
import { TunnelPump } from "../flow/tunnel_pump.ts";
import type { Logger } from "../logger.ts";
import { TcpTunnelSocket, type TunnelSocket } from "../net/tunnel_socket.ts";
import { creditSizes } from "../protocol/credit.ts";
import type { PeerInfo } from "../protocol/peer.ts";
import { encodeSessionEstablished, type SessionPayload } from "../protocol/session.ts";
import { downstreamSubject, type Roots, upstreamSubject } from "../protocol/subjects.ts";
import type { Delivery, Inbound, Transport } from "../transport/types.ts";
import { showTarget } from "./dial.ts";
import { EventResponder } from "./event_responder.ts";
import type { Execution } from "./executions.ts";
import type { ConnectionGate, Responder } from "./responder.ts";

/** What all sessions of a receiver share. */
export interface SessionContext {
  readonly transport: Transport;
  readonly registry: FlowRegistry;
  readonly lanes: LaneDriver;
  readonly roots: Roots;
  readonly serviceId: string;
  readonly gate: ConnectionGate;
  /** 0 for ever. */
  readonly idleTimeoutMs: number;
  /** STREAM_RESPONSE_TIMEOUT; 0 for ever. */
  readonly streamTimeoutMs: number;
  readonly logger: Logger;
  readonly deadlines: DeadlinesByLength;
  /** What is said of this process. */
  readonly self: () => PeerInfo;
  /** Dials a target after the target policy has seen it. @throws {FlowError} */
  readonly dial: (target: SessionPayload, signal: AbortSignal) => Promise<Deno.TcpConn>;
  /** Called once, when nothing more can come for it. */
  readonly remove: (execution: Execution) => void;
}

/** What a request for a session brings along. */
export interface SessionJob {
  readonly epoch: Uint8Array;
  readonly delivery: Delivery;
  readonly flow: Flow;
  readonly target: SessionPayload;
  /** Reply subject, checked. */
  readonly subject: string;
  /** Says why there is no session. */
  readonly responder: Responder;
  /** Null for a Ruby requester. */
  readonly peer: PeerInfo | null;
  /** How long its client waits, in ms from `arrivedMs` (`performance.now()`). */
  readonly ttlMs: number;
  readonly arrivedMs: number;
}

/** See {@linkcode Execution}. */
export class SessionExecution implements Execution {
  readonly #context: SessionContext;
  readonly #job: SessionJob;
  readonly #abort = new AbortController();
  /** Why it was ended while there was no tunnel yet. */
  #reason: FlowError | null = null;
  #lane: LaneFlow | null = null;
  /** With a Ruby requester, in place of the lanes. */
  #contract: ContractFlow | null = null;
  #pump: TunnelPump | null = null;
  #ended = false;

  constructor(context: SessionContext, job: SessionJob) {
    this.#context = context;
    this.#job = job;
  }

  /** The pump, which comes to be after its flow. */
  readonly #sink: ByteSink = {
    data: (bytes) => this.#pump?.data(bytes),
    eof: () => this.#pump?.eof(),
    room: () => this.#pump?.room(),
    ended: (end) => this.#pump?.ended(end),
  };

  get id(): string {
    return this.#job.flow.id;
  }

  get epoch(): Uint8Array {
    return this.#job.epoch;
  }

  cancel(reason: string): void {
    this.#end(new FlowError("canceled", `Cancelled by the requester: ${reason}`));
    this.#lane?.canceled(reason);
    this.#contract?.canceled(reason);
  }

  stop(failure: FlowError): void {
    if (this.#pump === null) this.#job.responder.fail(failure.code, failure.message);
    this.#end(failure);
    this.#lane?.reset(failure.code);
    this.#contract?.reset(failure.code);
  }

  /** A message of the plane for client bytes; false when it is not in the contract's form. */
  receive(message: Inbound): boolean {
    this.#contract?.receive(message);
    return this.#contract !== null;
  }

  linkLost(): void {
    this.#contract?.connectionLost();
  }

  credit(): void {}

  keepAlive(): void {}

  /** Dials and answers. `release` gives the slot of the dispatch back, once. */
  async run(release: () => void): Promise<void> {
    const { gate, dial } = this.#context;
    const { target, delivery, ttlMs, arrivedMs } = this.#job;
    try {
      // Its client may have waited in the stream for longer than here.
      const left = ttlMs - Math.max(performance.now() - arrivedMs, delivery.ageMs ?? 0);
      if (left <= 0) this.#end(new FlowError("canceled", "not run: expired while it waited"));
      if (this.#reason !== null) throw this.#reason;
      const socket = await dial(target, this.#abort.signal);
      if (!gate.open) await gate.wait(left);
      if (this.#reason !== null) {
        socket.close();
        throw this.#reason;
      }
      this.#establish(socket);
    } catch (error) {
      const failure = this.#reason ??
        (error instanceof FlowError
          ? error
          : new FlowError("internal", `Unexpected: ${error}`, { cause: error }));
      if (!gate.open && failure.code !== "canceled") await gate.wait(ttlMs);
      this.#refuse(failure);
      this.#finish(failure.code, failure.message);
    } finally {
      delivery.ack();
      release();
    }
  }

  #end(reason: FlowError): void {
    if (this.#reason !== null || this.#pump !== null) return;
    this.#reason = reason;
    this.#abort.abort();
  }

  #refuse(failure: FlowError): void {
    const { responder, target } = this.#job;
    const unreachable = failure.code.startsWith("target_") && failure.code !== "target_denied";
    if (failure.code === "canceled") responder.cancel(failure.message);
    else if (unreachable && responder instanceof EventResponder) {
      responder.refuseSession(showTarget({ hostname: target.host, port: target.port }));
    } else responder.fail(failure.code, failure.message);
    this.#job.flow.status = responder.status;
  }

  /** @throws {FlowError} there is no memory for it, or its requester cannot be served */
  #establish(socket: Deno.TcpConn): void {
    const { peer, flow } = this.#job;
    const end = new TcpTunnelSocket(socket);
    flow.state = "open";
    flow.status = 200;
    if (peer === null) {
      this.#establishContract(end, socket.localAddr);
      return;
    }
    const lane = this.#openLane(peer, socket.localAddr);
    if (lane === null) {
      end.close();
      const text = "The receiver has no memory for another flow (FLOW_MEMORY_BYTES, MAX_FLOWS)";
      throw new FlowError("overloaded", text);
    }
    this.#lane = lane;
    this.#pump = this.#attach(end, lane);
    lane.joinPeer(peer.instance);
    lane.established();
    this.#pump.start();
  }

  #openLane(peer: PeerInfo, bind: Deno.NetAddr): LaneFlow | null {
    const { transport, lanes, roots, serviceId, self } = this.#context;
    const { epoch, target, subject } = this.#job;
    const { id } = this;
    return lanes.open({
      id,
      role: "receiver",
      epoch,
      sends: true,
      receives: true,
      responseHead: false,
      closeBy: "lane",
      limit: peer.window,
      answerTimeoutMs: Infinity,
      sizes: lanes.sizes(peer.maxMsg),
      app: { head: () => {}, ...this.#sink },
      subjects: {
        subject: downstreamSubject(roots, target.requesterServiceId, id),
        reply: upstreamSubject(roots, serviceId, id),
        first: () => {
          const window = this.#lane?.limit ?? 0;
          transport.publish(subject, [this.#firstEvent(bind, { ...self(), window })]);
        },
        cancel: () => {},
      },
    });
  }

  /** @param self null for a Ruby requester */
  #firstEvent(bind: Deno.NetAddr, self: PeerInfo | null): Uint8Array {
    const { epoch, target } = this.#job;
    return encodeSessionEstablished({
      sessionId: this.id,
      bindHost: bind.hostname,
      bindPort: bind.port,
      ingressKind: target.ingressKind,
      receiverServiceId: this.#context.serviceId,
      natsway: self === null ? null : { peer: self, epoch },
    });
  }

  #establishContract(socket: TunnelSocket, bind: Deno.NetAddr): void {
    const { transport, lanes, roots, serviceId, deadlines, streamTimeoutMs, logger } =
      this.#context;
    const { target, subject } = this.#job;
    const contract: ContractFlow = this.#contract = new ContractFlow({
      side: "receiver",
      id: this.id,
      serviceId,
      subject: downstreamSubject(roots, target.requesterServiceId, this.id),
      eventSubject: subject,
      traceHeaders: null,
      wire: {
        publish: (to, parts, options) => transport.publish(to, parts, options),
        get ready() {
          return lanes.ready(contract);
        },
        cancel: () => {},
      },
      sink: this.#sink,
      clock: deadlines,
      sizes: creditSizes(transport.maxPayload),
      creditTimeoutMs: streamTimeoutMs,
      logger,
    });
    this.#pump = this.#attach(socket, contract);
    transport.publish(subject, [this.#firstEvent(bind, null)]);
    contract.open();
    this.#pump.start();
  }

  #attach(socket: TunnelSocket, flow: ByteFlow): TunnelPump {
    const { idleTimeoutMs, deadlines } = this.#context;
    return new TunnelPump({
      socket,
      flow,
      onBytes: (read, written) => {
        this.#job.flow.receivedBytes = read;
        this.#job.flow.sentBytes = written;
      },
      idleMs: idleTimeoutMs,
      deadlines,
      onEnd: (end) => this.#finish(flowEndOf(end), endDetail(end)),
    });
  }

  #finish(end: FlowEnd, detail: string | undefined): void {
    if (this.#ended) return;
    this.#ended = true;
    this.#context.remove(this);
    this.#context.registry.close(this.#job.flow, end, detail);
  }
}
