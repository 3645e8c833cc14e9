/**
 * A receiver on a transport in memory, in front of a real TCP target on loopback.
 * @module
 */
import net from "node:net";
import { dial } from "../../lib/receiver/dial.ts";
import type { ReceiverOptions } from "../../lib/receiver/receiver.ts";
import { encodeWindow } from "../../lib/protocol/frames.ts";
import { fromHex } from "../../lib/protocol/hex.ts";
import { loadReset } from "./unit_reset.ts";
import { brief } from "../flow/lane_rig.ts";
import { TestSocket } from "./socket.ts";
import { EDGE, natswayPeer, ReceiverRig } from "./unit_receiver.ts";
import type { MemoryTransport, Published } from "./unit_transport.ts";
import { EventLog } from "./wait.ts";

loadReset();

/** What the subjects of target bytes begin with. */
export const DOWN = "from.proxy.sessions.downstream.";

/** What differs from session to session. */
export interface SessionChanges {
  /** The requester is a nats-proxy. */
  readonly ruby?: boolean;
  readonly window?: number;
  readonly ttl_ms?: number;
  /** Changes of the payload. */
  readonly payload?: Record<string, unknown>;
}

/** An envelope that opens a session to `port` on loopback. */
export function sessionEnvelope(
  id: string,
  port: number,
  { ruby = false, payload = {}, ...peer }: SessionChanges = {},
): Record<string, unknown> {
  return {
    type: "request",
    request_id: id,
    reply_to: `from.proxy.responses.${EDGE}.${id}`,
    operation: "tcp_stream",
    payload: {
      host: "127.0.0.1",
      port,
      ingress_kind: "http_connect",
      method: "CONNECT",
      requester_service_id: EDGE,
      ...payload,
    },
    ...(ruby ? {} : { natsway: natswayPeer({ window: 50_000, ...peer }) }),
  };
}

/** One session as its requester sees it. */
export class OpenedSession {
  readonly #rig: TargetRig;
  /** Of the first event, once `established` has resolved. */
  epoch: Uint8Array = new Uint8Array(0);

  constructor(rig: TargetRig, readonly id: string) {
    this.#rig = rig;
  }

  /** Waits for the first event. */
  async established(): Promise<Published> {
    const event = await this.#rig.receiver.answer(this.id);
    if (event.json.type !== "session_established") throw new Error(`it is a ${event.text}`);
    this.epoch = fromHex(event.json.natsway?.epoch ?? "") ?? this.epoch;
    return event;
  }

  /** A frame from the requester. */
  up(frame: Uint8Array): void {
    this.#rig.transport.deliver("sessions.upstream", this.id, frame);
  }

  /** The requester has all below `next`, and takes up to `limit`. */
  window(next: number, limit: number): void {
    this.up(encodeWindow(this.epoch, next, limit, 0));
  }

  /** What the receiver said in the lanes, in short. */
  get said(): string[] {
    const subject = `${DOWN}${EDGE}.${this.id}`;
    const mine = this.#rig.transport.all.filter((one) => one.subject === subject);
    return mine.map((one) => brief(one.frame!));
  }

  async says(text: string): Promise<void> {
    await this.#rig.transport.find(() => this.said.includes(text), text);
  }
}

/** See the module. */
export class TargetRig implements AsyncDisposable {
  /** Connections that the target has accepted. */
  readonly targets = new EventLog<TestSocket>();
  readonly #server: net.Server;
  readonly #released = Promise.withResolvers<void>();
  #receiver: ReceiverRig | null = null;
  #closed = false;

  private constructor(onTarget: (target: TestSocket) => unknown) {
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      const target = new TestSocket(socket);
      this.targets.add(target);
      void onTarget(target);
    });
  }

  /**
   * @param onTarget what the target does with a connection
   * @param gate the connection reaches the receiver only when this has resolved
   */
  static async start(
    options: Partial<ReceiverOptions> = {},
    onTarget: (target: TestSocket) => unknown = () => {},
    gate?: Promise<void>,
  ): Promise<TargetRig> {
    const rig = new TargetRig(onTarget);
    await new Promise<void>((resolve) => rig.#server.listen(0, "127.0.0.1", resolve));
    const held = gate === undefined ? null : Promise.race([gate, rig.#released.promise]);
    rig.#receiver = await ReceiverRig.start("none", {
      dialSession: async ({ host, port }, signal) => {
        const connection = await dial({ hostname: host, port }, 5_000, signal);
        await held;
        return connection;
      },
      ...options,
    });
    return rig;
  }

  get receiver(): ReceiverRig {
    return this.#receiver!;
  }

  get transport(): MemoryTransport {
    return this.receiver.transport;
  }

  get budget(): ReceiverRig["budget"] {
    return this.receiver.budget;
  }

  get ends(): Record<string, number> {
    return this.receiver.ends;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Opens a session to the target. */
  open(id: string, changes: SessionChanges = {}): OpenedSession {
    this.receiver.request(sessionEnvelope(id, this.#closed ? this.#lastPort : this.port, changes));
    return new OpenedSession(this, id);
  }

  /** The requester's cancel, to the pool or for one epoch. */
  cancel(id: string, epoch?: string): void {
    const cancel = { request_id: id, service_id: EDGE, reason: "left", epoch };
    const text = JSON.stringify({ type: "cancel", request_id: id, cancel });
    this.transport.deliver(epoch === undefined ? "pool" : "cancel", id, text);
  }

  /** Waits for a connection at the target. */
  target(index = 0): Promise<TestSocket> {
    return this.targets.find(() => true, { ms: 5_000, what: `connection ${index}`, from: index });
  }

  /** Lets held connections through. */
  releaseDials(): void {
    this.#released.resolve();
  }

  #lastPort = 0;

  /** The target listens no more. */
  close(): void {
    this.#lastPort = this.port;
    this.#closed = true;
    this.#server.close();
  }

  idle(): Promise<void> {
    return this.receiver.idle();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.releaseDials();
    await this.receiver[Symbol.asyncDispose]();
    for (const target of this.targets.events) await target.close();
    if (!this.#closed) this.close();
  }
}
