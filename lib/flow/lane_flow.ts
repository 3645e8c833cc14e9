/**
 * One flow: two lanes, the execution that it is bound to, its clocks, and its one end
 * (extensions.md sections 1, 3, 4 and 6). No socket, no NATS, no timer of its own.
 * @module
 */
import { type Frame, FrameType, sameBytes } from "../protocol/frames.ts";
import { FlowClocks } from "./lane_flow_clocks.ts";
import { EarlyFrames } from "./lane_early.ts";
import type { LaneHost } from "./lane_host.ts";
import { LaneOutput } from "./lane_output.ts";
import type { LanePeer } from "./lane_peers.ts";
import { LaneReceiver } from "./lane_receiver.ts";
import type { Scheduled } from "./lane_schedule.ts";
import { LaneSender } from "./lane_sender.ts";
import type { FirstEvent, LaneEnd, LaneFlowOptions } from "./lane_types.ts";
import type { BudgetWaiter } from "./memory_budget.ts";

/** Made by {@linkcode LaneHost.open}. All calls but `receive` and `run` are for the side of the socket. */
export class LaneFlow implements Scheduled, BudgetWaiter {
  readonly #host: LaneHost;
  readonly #options: LaneFlowOptions;
  readonly #output: LaneOutput;
  readonly #sender: LaneSender;
  readonly #receiver: LaneReceiver;
  readonly #clocks: FlowClocks;
  #early: EarlyFrames | null = null;
  #peer: LanePeer | null = null;
  /** `waiting`: a requester without its first event, or a receiver before its own. */
  #state: "waiting" | "open" | "closing" | "gone" = "waiting";
  #end: LaneEnd | null = null;
  /** The first event was the whole response: nothing is kept, answered or remembered. */
  #whole = false;
  queuedAt = Infinity;
  heapIndex = -1;

  constructor(host: LaneHost, options: LaneFlowOptions) {
    this.#host = host;
    this.#options = options;
    const { budget, times, now } = host;
    const { sizes, app } = options;
    const receiverSide = options.role === "receiver";
    this.#clocks = new FlowClocks(times, now());
    const output = this.#output = new LaneOutput(
      options.wire,
      host.serviceId,
      options.epoch ?? EMPTY,
      host.connected,
    );
    const common = { output, budget, sizes, times, now };
    this.#sender = new LaneSender({
      ...common,
      startsWithHead: receiverSide && options.responseHead,
      onRoom: () => app.room(),
      onProbe: () => this.#clocks.probed(now()),
      waiter: this,
    });
    this.#receiver = new LaneReceiver({
      ...common,
      receives: options.receives,
      startsWithHead: !receiverSide && options.responseHead,
      granted: options.granted ?? 0,
      consumer: {
        head: (head) => app.head(head),
        data: (bytes) => app.data(bytes),
        eof: (trailers) => app.eof(trailers),
        close: (reason) => this.#finish({ reason, byPeer: true }),
      },
    });
    if (receiverSide) this.#sender.open(options.limit);
  }

  get id(): string {
    return this.#options.id;
  }

  /** Of the execution that it is bound to; empty before. */
  get epoch(): Uint8Array {
    return this.#output.epoch;
  }

  get bound(): boolean {
    return this.#output.epoch.length > 0;
  }

  get end(): LaneEnd | null {
    return this.#end;
  }

  /** First number that the peer may not send: the `window` of the envelope or of the first event. */
  get limit(): number {
    return this.#receiver.limit;
  }

  /** Memory held for bytes that may have to be sent again. */
  get keptBytes(): number {
    return this.#sender.keptBytes;
  }

  /** Both ends were said and heard: what is left to do needs no peer. */
  get complete(): boolean {
    const { sends, receives } = this.#options;
    return this.#state !== "waiting" && (!sends || this.#sender.eofAcknowledged) &&
      (!receives || this.#receiver.eofTaken);
  }

  /** Sends a receiver's first event by `wire.first`, again until the requester is heard. */
  established(): void {
    if (this.#state !== "waiting") return;
    this.#startFirst();
    this.#options.wire.first();
    this.#sender.pump();
    this.#update();
  }

  /**
   * Sends the response head with what it may hold of `buffer[start..end)`: the first event unless
   * {@linkcode LaneFlow.established} was called. Returns how many bytes were taken; offer the rest.
   */
  respond(
    prefix: Uint8Array,
    buffer: Uint8Array,
    start: number,
    end: number,
    last: boolean,
  ): number {
    if (this.#end !== null) return 0;
    const first = this.#state === "waiting";
    if (first) this.#startFirst();
    const { taken, whole } = this.#sender.head(prefix, buffer, start, end, last, first);
    if (whole) {
      this.#whole = true;
      this.#finish({ reason: "ok", byPeer: false });
    } else this.#update();
    return taken;
  }

  /** Takes bytes of the socket; see {@linkcode LaneSender.offer}. */
  offer(buffer: Uint8Array, start: number, end: number, last = false): number {
    if (this.#end !== null) return 0;
    const taken = this.#sender.offer(buffer, start, end, last);
    this.#update();
    return taken;
  }

  /** The socket has said all: half-close. */
  finish(trailers: Uint8Array = EMPTY): void {
    if (this.#end !== null) return;
    this.#sender.finish(trailers);
    this.#update();
  }

  /** The socket has taken `bytes` of what `data` brought. */
  delivered(bytes: number): void {
    if (this.#end !== null) return;
    this.#receiver.delivered(bytes);
    this.#update();
  }

  /** Ends the flow, for the peer too; `reason` goes to it. Does nothing on an ended flow. */
  reset(reason: string): void {
    if (this.#end !== null) return;
    const { role, closeBy, wire } = this.#options;
    const byCancel = role === "requester" && (!this.bound || closeBy === "cancel");
    const told = byCancel || this.#state === "waiting";
    if (byCancel && this.#output.connected) wire.cancel(this.bound ? this.epoch : null, reason);
    this.#finish({ reason, byPeer: false }, !told);
  }

  /** Forgets a flow that never was: its peer speaks another form, or answered with a failure. */
  drop(): void {
    this.#end ??= { reason: "ok", byPeer: false };
    this.#receiver.release();
    this.#forget();
  }

  /** The transport takes data again, see `LaneWire.ready`. */
  pump(): void {
    if (this.#state === "gone") return;
    this.#sender.pump();
    this.#update();
  }

  budgetFreed(): void {
    this.#host.schedule.set(this, this.#host.now());
  }

  /**
   * The first event of an execution, or its repeat. A requester that waits is bound by it and answers;
   * false when the flow is bound to another one. A HEAD frame is then to be given to `receive`.
   */
  first(event: FirstEvent): boolean {
    if (this.bound) {
      if (!sameBytes(this.epoch, event.epoch)) return false;
      this.#heard();
    } else {
      if (this.#end !== null) return false;
      this.#output.epoch = event.epoch.slice();
      this.#state = "open";
      this.#heard();
      this.#join(event.instance);
      this.#whole = event.whole;
      if (event.whole) this.#receiver.beSilent();
      this.#sender.open(event.limit);
      this.#early?.replay(this);
      this.#early = null;
    }
    if (this.#end === null) this.#receiver.answer();
    this.#update();
    return true;
  }

  /** Who the requester is, for presence; a receiver calls it once. */
  joinPeer(instance: string): void {
    this.#join(instance);
  }

  /** A frame of this flow, its epoch checked. */
  receive(frame: Frame): void {
    if (!this.bound) { // it may overtake the first event on another subject
      if (frame.type === FrameType.Data || frame.type === FrameType.Eof) {
        this.#early ??= new EarlyFrames();
        this.#early.keep(frame);
      }
      return;
    }
    if (this.#state === "gone") return;
    this.#heard();
    this.#take(frame);
    this.#update();
  }

  /** A cancel of this execution arrived. */
  canceled(reason: string): void {
    if (this.#end === null) this.#finish({ reason, byPeer: true });
    else this.#forget();
  }

  /** Its clocks ran out: the peer, or the own connection, is lost. A flow that is complete goes on. */
  lost(reason: "peer_lost" | "gap" | "nats_down"): void {
    if (this.#end !== null || this.complete) return;
    this.#output.gone(reason);
    if (!this.bound && this.#output.connected) this.#options.wire.cancel(null, reason);
    this.#finish({ reason, byPeer: false });
  }

  /** The process lost its connection to NATS, or has it again: clocks stand, then start anew. */
  connectionChanged(connected: boolean): void {
    this.#output.connected = connected;
    if (!connected) return;
    this.#clocks.reconnected(this.#host.now(), this.#end !== null);
    this.#sender.reconnected();
    this.#update();
  }

  /** Acts on what is due now. */
  run(): void {
    const now = this.#host.now();
    if (this.#state === "gone" || !this.#output.connected) return;
    this.#sender.budgetFreed();
    if (!this.bound) {
      if (this.#answerDueAt <= now) this.reset("response_timeout");
    } else if (this.#state === "waiting") return; // the target is still being asked
    else if (this.#clocks.unheard) this.#runFirst(now);
    else this.#runLanes(now);
    this.#host.budget.wake();
    this.#update();
  }

  #runFirst(now: number): void {
    if (this.#clocks.unheardUntil <= now) {
      if (this.#end === null) this.lost("peer_lost");
      else this.#forget();
    } else if (this.#clocks.repeatAt <= now) {
      this.#clocks.firstSent(now, true);
      this.#sender.repeatHead();
      this.#options.wire.first();
    }
  }

  #runLanes(now: number): void {
    if (this.#receiver.windowDueAt <= now) this.#receiver.answer();
    if (this.#state === "closing" && this.#closingUntil <= now) {
      this.#forget();
      return;
    }
    if (this.complete && this.#end === null) return;
    if (this.#probeAt <= now) this.#sender.probe();
    if (this.#end !== null) return;
    if (this.#clocks.peerLostAt <= now) this.lost("peer_lost");
    else if (this.#sender.gapDueAt <= now) this.lost("gap");
  }

  get #answerDueAt(): number {
    return this.#clocks.bornAt + this.#options.answerTimeoutMs;
  }

  get #closingUntil(): number {
    return this.#clocks.closingUntil(this.#sender.movedAt);
  }

  /** When the next probe is due: for a tail, for an idle flow, or because none was answered. */
  get #probeAt(): number {
    const idle = this.#clocks.idleProbeAt(this.#sender.probedAt, this.#peer?.answers === true);
    return Math.min(this.#sender.probeAt, idle);
  }

  /** When `run` has something to do, or Infinity. */
  get dueAt(): number {
    const clocks = this.#clocks;
    if (this.#state === "gone" || !this.#output.connected) return Infinity;
    if (!this.bound) return this.#answerDueAt;
    if (this.#state === "waiting") return Infinity;
    if (clocks.unheard) return Math.min(clocks.repeatAt, clocks.unheardUntil);
    if (this.#state === "closing") return Math.min(this.#closingUntil, this.#probeAt);
    const at = this.#receiver.windowDueAt;
    if (this.complete) return at;
    return Math.min(at, this.#probeAt, clocks.peerLostAt, this.#sender.gapDueAt);
  }

  #take(frame: Frame): void {
    const ended = this.#end !== null;
    switch (frame.type) {
      case FrameType.Window:
        this.#sender.window(frame.next, frame.limit, frame.serial, frame.resend);
        return;
      case FrameType.Probe:
        this.#receiver.probe(frame.sent, frame.serial, !ended);
        return;
      case FrameType.Gone:
        if (ended) this.#forget();
        else if (!this.complete) this.#finish({ reason: frame.reason, byPeer: true });
        return;
      case FrameType.Close:
        if (ended) this.#receiver.acknowledgeClose(frame.offset);
        else this.#receiver.close(frame.offset, frame.reason);
        return;
      case FrameType.Data:
        if (!ended) this.#receiver.data(frame.offset, frame.head, frame.body, frame.fin);
        return;
      case FrameType.Eof:
        if (!ended) this.#receiver.eof(frame.offset, frame.trailers);
    }
  }

  #heard(): void {
    this.#clocks.heard(this.#host.now());
    this.#peer?.heard();
  }

  #join(instance: string): void {
    if (instance !== "") this.#peer = this.#host.peers.join(instance, this);
  }

  #startFirst(): void {
    this.#state = "open";
    this.#clocks.firstSent(this.#host.now(), false);
  }

  /** Looks whether all is done, and says when it is to be called. */
  #update(): void {
    const { sends } = this.#options;
    if (this.#end === null) {
      if (
        this.complete && this.#receiver.undelivered === 0 &&
        (!sends || this.#sender.eofAcknowledged)
      ) this.#finish({ reason: "ok", byPeer: false });
    } else if (this.#state === "closing" && this.#sender.closeAcknowledged) this.#forget();
    this.#host.schedule.set(this, this.dueAt);
  }

  /** The one end. With `closing` it goes to the peer through the lane, and waits for its answer. */
  #finish(end: LaneEnd, closing = false): void {
    if (this.#end !== null) return;
    this.#end = end;
    this.#clocks.ended(this.#host.now());
    this.#receiver.release();
    if (closing) {
      this.#state = "closing";
      this.#sender.close(end.reason);
    } else this.#forget();
    this.#options.app.ended(end);
    if (closing) this.#update();
  }

  #forget(): void {
    if (this.#state === "gone") return;
    this.#state = "gone";
    this.#sender.release();
    this.#host.schedule.remove(this);
    this.#peer?.leave(this);
    const { reason, byPeer } = this.#end!;
    this.#host.forget(this, {
      next: this.#receiver.next,
      reason: byPeer || reason === "ok" ? "" : reason,
      remember: this.bound && !this.#whole,
    });
  }
}

const EMPTY = new Uint8Array(0);
