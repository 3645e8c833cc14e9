/**
 * Sessions of the receiver double: one real connection to a target for each, with the limits of a Ruby
 * receiver. It reserves credit before it reads, knows no half-close, and drops target bytes that were
 * not sent when the client ends (wire-protocol.md section 10).
 * @module
 */
import { SocketEndedError, TestSocket } from "../helpers/socket.ts";
import { EventLog } from "../helpers/wait.ts";
import { type BareMessage, type BareNats, exactHeader } from "./bare_nats.ts";
import { isCredit, publishCredit, readCredit } from "./ruby_credit.ts";
import { RubyInflow } from "./ruby_inflow.ts";
import type { RubyRequest } from "./ruby_receiver.ts";
import { RubyWindow } from "./ruby_window.ts";
import { type CreditSizes, type JsonRecord, lastToken } from "./ruby_wire.ts";

/** What sessions need of their double. */
export interface TargetsOptions {
  readonly nats: BareNats;
  readonly sizes: CreditSizes;
  readonly serviceId: string;
  readonly responseRoot: string;
  readonly streamTimeoutMs: number;
  readonly violations: string[];
  readonly onCreditWait: (id: string) => void;
  readonly onFinished: (id: string) => void;
  readonly drop: (message: BareMessage, why: string) => void;
}

const DATA_FRAMES: readonly (string | null)[] = ["session_data", "session_data_upstream", null];
/** A read ends by data or by the socket's end, not by time. */
const FOR_EVER_MS = 2_147_483_647;

/** All sessions of one receiver. */
export class RubyTargets {
  readonly options: TargetsOptions;
  readonly #live = new Map<string, RubyTarget>();

  constructor(options: TargetsOptions) {
    this.options = options;
  }

  get live(): number {
    return this.#live.size;
  }

  get(id: string): RubyTarget | undefined {
    return this.#live.get(id);
  }

  /** Connects and answers. `refuse` publishes an error reply of section 9. */
  async open(
    request: RubyRequest,
    refuse: (status: number, error: string) => void,
  ): Promise<void> {
    const { id, payload, publish } = request;
    const { host, requester_service_id: requester } = payload;
    const port = Number(payload["port"]);
    if (typeof host !== "string" || host === "" || !Number.isInteger(port) || port <= 0) {
      return refuse(400, "Missing or invalid host/port for tcp_stream");
    }
    if (typeof requester !== "string" || requester === "") {
      return refuse(400, "Missing requester_service_id for tcp_stream");
    }
    let socket: TestSocket;
    try {
      socket = await TestSocket.connect(port, host);
    } catch {
      return this.#failed(request, `Failed to connect to ${host}:${port}`);
    }
    const target = new RubyTarget(this, request, socket);
    this.#live.set(id, target);
    const kind = payload["ingress_kind"];
    publish({
      type: "session_established",
      session_id: id,
      bind_host: "127.0.0.1",
      bind_port: socket.localPort,
      ...(typeof kind === "string" ? { ingress_kind: kind } : {}),
      receiver_service_id: this.options.serviceId,
      flow_kind: kind === "socks5" ? "socks5_stream" : "tcp_stream",
    });
    await target.run();
    this.#live.delete(id);
    this.options.onFinished(id);
  }

  /** Hears what requesters say in sessions, on subject 3 below `root`. */
  listen(root: string): void {
    const { nats, serviceId } = this.options;
    nats.subscribe(`${root}.sessions.upstream.${serviceId}.>`, (message) => this.#frame(message));
  }

  #frame(message: BareMessage): void {
    const target = this.#live.get(lastToken(message.subject));
    const credit = isCredit(message, "downstream") ? "credit" : "session frame";
    if (target === undefined) this.options.drop(message, `${credit} of an unknown id`);
    else target.frame(message);
  }

  cancel(id: string): void {
    const target = this.#live.get(id);
    target?.window.close("cancel_requested");
    void target?.socket.close();
  }

  async close(): Promise<void> {
    await Promise.all([...this.#live.values()].map((target) => target.destroy()));
  }

  #failed({ id, publish }: RubyRequest, text: string): void {
    publish({
      type: "response_start",
      status: 502,
      headers: { "content-type": "text/plain" },
      content_type: "text/plain",
      streaming: false,
      receiver_service_id: this.options.serviceId,
      request_id: id,
      flow_kind: "tcp_stream",
    });
    publish({ type: "response_chunk", body: text });
    publish({ type: "response_end" });
  }
}

/** One session. */
export class RubyTarget {
  readonly #options: TargetsOptions;
  readonly #publishEvent: (event: JsonRecord) => void;
  readonly #subject: string;
  readonly #id: string;
  readonly #inflow: RubyInflow;
  readonly socket: TestSocket;
  /** For target bytes. */
  readonly window: RubyWindow;
  /** How many target bytes are out, after each frame. */
  readonly sent = new EventLog<number>();
  /** Frame types that came, in their order. */
  readonly frames: string[] = [];

  constructor(targets: RubyTargets, { id, payload, publish }: RubyRequest, socket: TestSocket) {
    const options = this.#options = targets.options;
    this.#id = id;
    this.#publishEvent = publish;
    this.#subject = `${options.responseRoot}.sessions.downstream.${
      payload["requester_service_id"]
    }.${id}`;
    this.socket = socket;
    this.window = new RubyWindow(options.sizes.cap, () => options.onCreditWait(id));
    this.#inflow = new RubyInflow({
      sizes: options.sizes,
      grant: (bytes) =>
        publishCredit(options.nats, this.#subject, {
          direction: "upstream",
          bytes,
          serviceId: options.serviceId,
        }),
      consume: (bytes) => this.#write(bytes),
      violation: (text) => this.#violation(text),
    });
  }

  /** Upstream credit first, then target bytes until an end; the close is said once. */
  async run(): Promise<void> {
    this.#inflow.open();
    try {
      const reason = await this.#readTarget();
      this.#inflow.returnRest();
      this.#publishEvent({ type: "session_close", reason });
    } catch (error) {
      if (!(error instanceof SocketEndedError)) throw error;
      this.#publishEvent({ type: "response_error", error: `Tunnel error: ${error.message}` });
    }
    await this.destroy();
  }

  frame(message: BareMessage): void {
    const type = exactHeader(message, "Nats-Frame-Type");
    this.frames.push(type ?? "none");
    if (DATA_FRAMES.includes(type)) this.#inflow.take(message.data);
    else if (type === "session_close") {
      this.window.close("client_closed");
      // A target that sends nothing more must not keep the session.
      void this.#inflow.consumed().then(() => this.socket.close());
    } else if (isCredit(message, "downstream")) this.#credit(message);
    else this.#options.drop(message, `unknown frame ${type}`);
  }

  async destroy(): Promise<void> {
    this.window.close("the double ends");
    await this.socket.close();
  }

  async #readTarget(): Promise<string> {
    const { sizes, streamTimeoutMs, nats } = this.#options;
    for (;;) {
      const credit = await this.window.wait(streamTimeoutMs);
      if (this.window.closedBy === null && credit === 0) return "flow_credit_timeout";
      const piece = this.window.closedBy === "cancel_requested"
        ? null
        : await this.socket.read(FOR_EVER_MS);
      if (this.window.closedBy === "cancel_requested") return "cancel_requested";
      if (this.window.closedBy !== null) {
        await this.#inflow.consumed();
        return "target_closed";
      }
      if (piece === null) {
        if (this.socket.end === "reset") throw new SocketEndedError("Connection reset by peer");
        return "target_closed";
      }
      const size = Math.min(credit, sizes.chunk, piece.length);
      this.socket.unshift(piece.subarray(size));
      this.window.take(size);
      nats.publish(this.#subject, piece.subarray(0, size), {
        headers: [
          ["Nats-Session-Id", this.#id],
          ["Nats-Frame-Type", "session_data_downstream"],
        ],
      });
      this.sent.add(this.window.sent);
    }
  }

  async #write(bytes: Uint8Array): Promise<void> {
    try {
      await this.socket.write(bytes);
    } catch {
      // The reading side finds out.
    }
  }

  #credit(message: BareMessage): void {
    const bytes = readCredit(message, "downstream");
    if (bytes === null) return this.#violation("no credit of the contract");
    const lost = this.window.grant(bytes);
    if (lost > 0) this.#violation(`${lost} bytes of credit over the window's cap`);
    if (this.window.granted > this.#options.sizes.initial + this.window.sent) {
      this.#violation("more credit was returned than bytes were delivered");
    }
  }

  #violation(text: string): void {
    this.#options.violations.push(`${this.#id}: ${text}`);
  }
}
