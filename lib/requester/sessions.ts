/**
 * Opens tunnels: the publish of a `tcp_stream`, and what may be wrong before it.
 * @module
 */
import { type FailureCode, FlowError } from "../errors.ts";
import { newId } from "../flow/ids.ts";
import type { Flow, FlowRegistry } from "../flow/registry.ts";
import type { PeerInfo } from "../protocol/peer.ts";
import { encodeSessionRequest } from "../protocol/session.ts";
import { requestSubject, responseSubject } from "../protocol/subjects.ts";
import type { RequesterContext } from "./context.ts";
import { Session } from "./session.ts";
import {
  type SessionClient,
  type SessionHandle,
  type SessionTarget,
  showAuthority,
} from "./session_types.ts";

export interface SessionsOptions {
  readonly registry: FlowRegistry;
  readonly runtime: () => { state: string };
  /** What envelopes say of this process; the window is the session's own. */
  readonly peer: () => PeerInfo;
  /** The planes are to bring the messages of this id to the session. */
  readonly enter: (id: string, session: Session) => void;
}

/** One for a requester. */
export class Sessions {
  readonly #context: RequesterContext;
  readonly #options: SessionsOptions;

  constructor(context: RequesterContext, options: SessionsOptions) {
    this.#context = context;
    this.#options = options;
  }

  /** See `OpenSession`. */
  open(target: SessionTarget, client: SessionClient): SessionHandle {
    const { transport, roots, serviceId, isListening } = this.#context;
    const { registry, runtime, enter, peer } = this.#options;
    const method = target.ingressKind === "socks5" ? "SOCKS5_CONNECT" : "CONNECT";
    const shown = showAuthority(target.host, target.port);
    const id = newId();
    const refuse = (code: FailureCode, message: string) => {
      queueMicrotask(() => client.failed(code, message));
      return { abandon: () => {} };
    };
    if (!isListening()) {
      const text = `Service runtime ${runtime().state}`;
      registry.refuse(id, "tcp", method, shown, "nats_down", text);
      return refuse("nats_down", text);
    }
    let flow: Flow;
    try {
      flow = registry.open(id, "tcp", method, shown);
    } catch (error) {
      if (!(error instanceof FlowError)) throw error;
      return refuse(error.code, error.message);
    }
    const replyTo = responseSubject(roots, serviceId, id);
    const session = new Session(this.#context, { flow, replyTo, client });
    enter(id, session);
    const fail = (code: FailureCode, message: string) => {
      queueMicrotask(() => session.fail(code, message));
      return session;
    };
    if (session.window === 0) {
      return fail("overloaded", "No memory for another flow (FLOW_MEMORY_BYTES, MAX_FLOWS)");
    }
    const envelope = encodeSessionRequest({
      requestId: id,
      replyTo,
      host: target.host,
      port: target.port,
      ingressKind: target.ingressKind,
      method,
      requesterServiceId: serviceId,
      peer: { ...peer(), window: session.window },
    });
    const subject = requestSubject(roots, serviceId, id);
    const onLost = (reason: string) => session.lost(reason);
    if (transport.publish(subject, [envelope], { reply: replyTo, onLost })) return session;
    return fail("nats_down", "The connection to NATS was lost");
  }
}
