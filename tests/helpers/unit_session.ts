/**
 * Sessions of a requester on a transport in memory: a client that waits for its tunnel, and what a
 * receiver says of it.
 * @module
 */
import type { FailureCode } from "../../lib/errors.ts";
import { encodeSessionEstablished, type SessionEstablished } from "../../lib/protocol/session.ts";
import type {
  SessionBind,
  SessionClient,
  SessionHandle,
  SessionTarget,
} from "../../lib/requester/session_types.ts";
import { brief } from "../flow/lane_rig.ts";
import { EPOCH, type RequesterRig } from "./unit_requester.ts";
import type { Published } from "./unit_transport.ts";
import { MemorySocket } from "./unit_tunnel.ts";
import { EventLog } from "./wait.ts";

/** What the receiver grants at first, in octets. */
export const UP_WINDOW = 100_000;

/** A client that waits; it notes what it is told. */
export class WaitingClient implements SessionClient {
  readonly socket = new MemorySocket();
  /** `established HOST:PORT` or `failed CODE`. */
  readonly told = new EventLog<string>();
  /** The text of a failure. */
  message = "";
  /** It has left, and the session is yet to find out. */
  gone = false;

  established(bind: SessionBind): MemorySocket | null {
    this.told.add(`established ${bind.host}:${bind.port}`);
    return this.gone ? null : this.socket;
  }

  failed(code: FailureCode, message: string): void {
    this.message = message;
    this.told.add(`failed ${code}`);
  }

  /** Waits for the failure and gives its code. */
  async failure(): Promise<string> {
    const told = await this.told.find((one) => one.startsWith("failed "), {
      ms: 5_000,
      what: "a failure",
      describe: () => this.told.events.join(),
    });
    return told.slice("failed ".length);
  }
}

/** A session of {@linkcode WaitingClient} on a rig. */
export class SessionRig {
  readonly client = new WaitingClient();
  readonly handle: SessionHandle;
  /** What was told from within `open`, where nothing may be. */
  readonly toldTooEarly: number;
  readonly #rig: RequesterRig;
  /** Null when nothing was published. */
  readonly message: Published | null;

  constructor(rig: RequesterRig, target: Partial<SessionTarget> = {}) {
    this.#rig = rig;
    const before = rig.transport.all.length;
    this.handle = rig.requester.openSession(
      { host: "db.lan", port: 5432, ingressKind: "http_connect", ...target },
      this.client,
    );
    this.toldTooEarly = this.client.told.events.length;
    this.message = rig.transport.all[before] ?? null;
  }

  get id(): string {
    return this.message?.json.request_id ?? "";
  }

  /** What comes on the reply subject. */
  event(payload: Uint8Array | object): void {
    const data = payload instanceof Uint8Array ? payload : JSON.stringify(payload);
    this.#rig.transport.deliver("responses", this.id, data);
  }

  /** What comes on the subject of target bytes. */
  downstream(payload: Uint8Array): void {
    this.#rig.transport.deliver("sessions.downstream", this.id, payload);
  }

  /** The first event of an execution, `worker-1`'s with `EPOCH` unless told otherwise. */
  establish(changes: Partial<SessionEstablished> & { epoch?: Uint8Array } = {}): void {
    this.event(established(this.id, changes));
  }

  /** What the requester said in the lanes to `worker-1`, in short. */
  get said(): string[] {
    const subject = `to.proxy.sessions.upstream.worker-1.${this.id}`;
    const mine = this.#rig.transport.all.filter((one) => one.subject === subject);
    return mine.map((one) => brief(one.frame!));
  }

  /** Waits until that was said. */
  async says(text: string): Promise<void> {
    await this.#rig.transport.find(() => this.said.includes(text), text);
  }

  /** Cancels so far: `SUBJECT REASON EPOCH`, without root and id. */
  get cancels(): string[] {
    const cancels = this.#rig.transport.to("to.proxy.cancel.");
    return cancels.map(({ subject, json: { cancel } }) => {
      const owner = subject.replace("to.proxy.cancel.", "").replace(`.${this.id}`, "");
      return `${owner} ${cancel.reason} ${cancel.epoch ?? "any"}`;
    });
  }
}

/** A first event as octets. */
export function established(
  id: string,
  changes: Partial<SessionEstablished> & { epoch?: Uint8Array } = {},
): Uint8Array {
  const { epoch = EPOCH, ...rest } = changes;
  return encodeSessionEstablished({
    sessionId: id,
    bindHost: "10.3.0.9",
    bindPort: 41_822,
    ingressKind: "http_connect",
    receiverServiceId: "worker-1",
    natsway: {
      peer: {
        instance: "i-worker-1",
        features: ["raw"],
        maxMsg: 1_048_576,
        ttlMs: 0,
        window: UP_WINDOW,
      },
      epoch,
    },
    ...rest,
  });
}
