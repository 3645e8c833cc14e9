/**
 * The SOCKS5 port (RFC 1928, http-surface.md section 5).
 * @module
 */
import { type FailureCode, FAILURES } from "../errors.ts";
import { Deadlines } from "../flow/deadlines.ts";
import { Acceptor, type ListenOptions, type ServedConnection } from "../ingress/acceptor.ts";
import type { ConnectionLimit } from "../ingress/connection_limit.ts";
import type { Logger } from "../logger.ts";
import type { OpenSession } from "./session_types.ts";
import { type Socks5Auth, Socks5Handshake } from "./socks5_handshake.ts";
import { encodeReply, Reply } from "./socks5_messages.ts";
import { ClientTunnelSocket, closeOrderly, TunnelClient } from "./tunnel_client.ts";

export interface Socks5ServerOptions extends ListenOptions {
  readonly limit: ConnectionLimit;
  readonly auth: Socks5Auth;
  /** Longest time from the connect to the end of the request; then the connection is closed. */
  readonly handshakeTimeoutMs: number;
  readonly open: OpenSession;
  readonly logger: Logger;
}

/** How long input is thrown away before a close. */
const LINGER_MS = 1_000;

/** A listening SOCKS5 server on `Deno.listen`. */
export class Socks5Server extends Acceptor {
  /**
   * Listens at once.
   * @throws {StartError} the address cannot be had; names the role, the address and the setting
   */
  constructor(options: Socks5ServerOptions) {
    const { hostname, port, role, setting, limit, logger, auth, open } = options;
    const shared: SharedOptions = {
      auth,
      open,
      handshakeDeadlines: new Deadlines(options.handshakeTimeoutMs),
      lingerDeadlines: new Deadlines(LINGER_MS),
      logger,
    };
    super({
      hostname,
      port,
      role,
      setting,
      purpose: "SOCKS5",
      limit,
      connect: (socket) => new Socks5Connection(new ClientTunnelSocket(socket), shared),
      deadlines: [shared.handshakeDeadlines, shared.lingerDeadlines],
      logger,
    });
  }
}

/** What all connections of a listener share. */
interface SharedOptions {
  readonly auth: Socks5Auth;
  readonly open: OpenSession;
  readonly handshakeDeadlines: Deadlines;
  readonly lingerDeadlines: Deadlines;
  readonly logger: Logger;
}

class Socks5Connection implements ServedConnection {
  readonly #socket: ClientTunnelSocket;
  readonly #options: SharedOptions;
  #client: TunnelClient | null = null;
  #refused = false;
  bagIndex = -1;

  constructor(socket: ClientTunnelSocket, options: SharedOptions) {
    this.#socket = socket;
    this.#options = options;
  }

  async run(): Promise<void> {
    const { handshakeDeadlines, open } = this.#options;
    const socket = this.#socket;
    const deadline = handshakeDeadlines.start(() => socket.close());
    try {
      const target = await this.#handshake();
      if (target !== null) {
        this.#client = new TunnelClient({
          socket,
          open,
          target: { ...target, ingressKind: "socks5" },
          reply: (bind) => encodeReply(Reply.Succeeded, bind.host, bind.port),
          onFailed: (code) => this.#fail(code),
        });
      }
    } catch {
      socket.close(); // It broke, or it was closed meanwhile.
    } finally {
      deadline.cancel();
    }
    await socket.closed;
  }

  drain(): void {
    if (this.#client === null && !this.#refused) this.#socket.close();
  }

  close(): void {
    if (this.#client === null) this.#socket.close();
    else this.#client.close();
  }

  /** Null when the connection is over, or is being closed. */
  async #handshake(): Promise<{ host: string; port: number } | null> {
    const socket = this.#socket;
    const { reader, writer } = socket;
    const handshake = new Socks5Handshake({ auth: this.#options.auth });
    while (handshake.outcome === null) {
      if (!await reader.more()) {
        socket.close();
        return null;
      }
      reader.start += handshake.push(reader.buffer.subarray(reader.start, reader.end));
      for (const answer of handshake.takeAnswers()) writer.write(answer);
    }
    if (handshake.outcome.kind === "refused") {
      this.#options.logger.info("SOCKS5 request refused", { detail: handshake.outcome.reason });
      this.#closeOrderly();
    }
    return handshake.target;
  }

  #fail(code: FailureCode): void {
    this.#socket.writer.write(encodeReply(FAILURES[code].socks));
    this.#closeOrderly();
  }

  #closeOrderly(): void {
    this.#refused = true;
    void closeOrderly(this.#socket, this.#options.lingerDeadlines);
  }
}
