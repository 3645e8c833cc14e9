/**
 * The HTTP port.
 * @module
 */
import { Deadlines } from "../flow/deadlines.ts";
import { Acceptor, type ListenOptions } from "./acceptor.ts";
import { ClientConnection, type ConnectionOptions, type RequestHandler } from "./connection.ts";
import type { ConnectionLimit } from "./connection_limit.ts";
import type { Logger } from "../logger.ts";

export interface HttpServerOptions extends ListenOptions {
  /** Counts open connections, perhaps together with those of other listeners. */
  readonly limit: ConnectionLimit;
  readonly maxHeaderBytes: number;
  readonly headerTimeoutMs: number;
  readonly keepaliveTimeoutMs: number;
  readonly handler: RequestHandler;
  readonly logger: Logger;
}

/** How long a client that ended its input is still waited for. */
const HALF_CLOSE_MS = 1_000;
/** How long input is thrown away before a close. */
const LINGER_MS = 1_000;

/** A listening HTTP/1.1 server on `Deno.listen`. */
export class HttpServer extends Acceptor {
  /**
   * Listens at once.
   * @throws {StartError} the address cannot be had; names the role and the address
   */
  constructor(options: HttpServerOptions) {
    const { hostname, port, role, setting, logger } = options;
    const shared: ConnectionOptions = {
      maxHeaderBytes: options.maxHeaderBytes,
      headerDeadlines: new Deadlines(options.headerTimeoutMs),
      idleDeadlines: new Deadlines(options.keepaliveTimeoutMs),
      halfCloseDeadlines: new Deadlines(HALF_CLOSE_MS),
      lingerDeadlines: new Deadlines(LINGER_MS),
      handler: options.handler,
      onRefused: ({ status, code, reason }) =>
        logger.info("request refused", { status, code, detail: reason }),
    };
    super({
      hostname,
      port,
      role,
      setting,
      purpose: "HTTP",
      limit: options.limit,
      connect: (socket) => new ClientConnection(socket, socket.remoteAddr.hostname, shared),
      deadlines: [
        shared.headerDeadlines,
        shared.idleDeadlines,
        shared.halfCloseDeadlines,
        shared.lingerDeadlines,
      ],
      logger,
    });
  }
}
