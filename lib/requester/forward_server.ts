/**
 * Static forwards: a local port whose connections all go to one target.
 * @module
 */
import { Acceptor, type ServedConnection } from "../ingress/acceptor.ts";
import type { ConnectionLimit } from "../ingress/connection_limit.ts";
import type { Logger } from "../logger.ts";
import { type OpenSession, showAuthority } from "./session_types.ts";
import { ClientTunnelSocket, TunnelClient } from "./tunnel_client.ts";

/** One rule of FORWARDS. */
export interface Forward {
  readonly bindHost: string;
  /** 0 takes any free port. */
  readonly port: number;
  readonly targetHost: string;
  readonly targetPort: number;
}

export interface ForwardServerOptions {
  readonly forward: Forward;
  /** For the message when the port cannot be had. */
  readonly role: string;
  readonly limit: ConnectionLimit;
  readonly open: OpenSession;
  readonly logger: Logger;
}

/** The listener of one forward. */
export class ForwardServer extends Acceptor {
  /**
   * Listens at once.
   * @throws {StartError} the address cannot be had; names the role, the address and FORWARDS
   */
  constructor(options: ForwardServerOptions) {
    const { role, limit, logger, forward } = options;
    super({
      hostname: forward.bindHost,
      port: forward.port,
      role,
      setting: "FORWARDS",
      purpose: `the forward to ${showAuthority(forward.targetHost, forward.targetPort)}`,
      limit,
      connect: (socket) => new ForwardConnection(new ClientTunnelSocket(socket), options),
      deadlines: [],
      logger,
    });
  }
}

class ForwardConnection implements ServedConnection {
  readonly #socket: ClientTunnelSocket;
  readonly #client: TunnelClient;
  bagIndex = -1;

  constructor(socket: ClientTunnelSocket, { forward, open }: ForwardServerOptions) {
    const { targetHost: host, targetPort: port } = forward;
    this.#socket = socket;
    this.#client = new TunnelClient({
      socket,
      open,
      target: { host, port, ingressKind: "forward" },
      // The client knows no other word for it; the line of the flow says why.
      onFailed: () => socket.reset(),
    });
  }

  run(): Promise<void> {
    return this.#socket.closed;
  }

  drain(): void {}

  close(): void {
    this.#client.close();
  }
}
