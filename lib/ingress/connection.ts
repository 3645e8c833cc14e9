/**
 * One client connection: heads in, bodies in, one response after the other out.
 * @module
 */
import { Clock, type Deadline, type Deadlines } from "../flow/deadlines.ts";
import type { RequestHead } from "../http1/head.ts";
import { HttpSyntaxError } from "../http1/error.ts";
import { parseRequestHead } from "../http1/parse.ts";
import { HeadScanner } from "../http1/scan.ts";
import { BufferedWriter } from "../net/buffered_writer.ts";
import { resetConnection } from "../net/reset.ts";
import { SocketReader } from "../net/socket_reader.ts";
import type { TunnelSocket } from "../net/tunnel_socket.ts";
import { answerError } from "./answers.ts";
import { codeOf, type Fault } from "./fault.ts";
import { type BodyResult, RequestBody } from "./request_body.ts";
import { type ResponseEnd, ResponseWriter } from "./response_writer.ts";

/** One request, handed to a {@linkcode RequestHandler} as soon as its head is there. */
export interface IngressRequest {
  /** Views of the read buffer: good until the handler returns or calls `readBody`. */
  readonly head: RequestHead;
  readonly response: ResponseWriter;
  /** Address of the client's end, without a port. */
  readonly clientAddress: string;
  /**
   * Collects the body, which is there as far as the head says; null when the head announces none.
   * Asks a waiting client to go on (100). After `too_large` and `broken` the response, if there is to
   * be one, is the last of its connection.
   */
  readBody(maxBytes: number): Promise<BodyResult>;
  /**
   * Ends HTTP on this connection: sends `reply` and gives the connection away, with what the client
   * sent early in its reader. The response is over with that. Null when the client has left.
   */
  takeSocket(reply: Uint8Array): TunnelSocket | null;
}

/** Takes requests; it must end each response in one way or another. */
export type RequestHandler = (request: IngressRequest) => void;

/** What all connections of a listener share. */
export interface ConnectionOptions {
  readonly maxHeaderBytes: number;
  /** Head from its first octet on; also each wait for a piece of a body. */
  readonly headerDeadlines: Deadlines;
  /**
   * From the end of a response, or the connect, to the first octet of the next head; also how long a
   * client may take nothing of the last response.
   */
  readonly idleDeadlines: Deadlines;
  /** From a client's end of input to giving up its response. */
  readonly halfCloseDeadlines: Deadlines;
  /** From our end of output to the close, while unread input is thrown away. */
  readonly lingerDeadlines: Deadlines;
  readonly handler: RequestHandler;
  /** Told of each thing that was refused before it was a request; for the log. */
  readonly onRefused?: (refused: { status: number; code: string; reason: string }) => void;
}

/** The part of `Deno.Conn` that a connection uses. */
export interface ClientSocket {
  read(into: Uint8Array): Promise<number | null>;
  write(bytes: Uint8Array): Promise<number>;
  closeWrite(): Promise<void>;
  close(): void;
}

/** Most octets that are read ahead while a response is under way. */
const READ_AHEAD_BYTES = 64 * 1024;
/** Most octets that are thrown away before a close. */
const LINGER_BYTES = 8 * 1024 * 1024;

/** Serves one socket until it is closed; `run` never rejects. */
export class ClientConnection {
  readonly #socket: ClientSocket;
  readonly #options: ConnectionOptions;
  readonly #reader: SocketReader;
  readonly #writer: BufferedWriter;
  readonly #scanner: HeadScanner;
  readonly #clientAddress: string;
  #response: ResponseWriter | null = null;
  #halfClose: Deadline | null = null;
  /** `performance.now()` when the client's socket last took something. */
  #takenAtMs = 0;
  /** Of the request under way, or of the last one. */
  #body: RequestBody | null = null;
  #tunnel: TunnelSocket | null = null;
  readonly #tunnelEnded = Promise.withResolvers<void>();
  bagIndex = -1;
  #watching = false;
  #draining = false;
  #closed = false;

  constructor(socket: ClientSocket, clientAddress: string, options: ConnectionOptions) {
    this.#socket = socket;
    this.#clientAddress = clientAddress;
    this.#options = options;
    this.#reader = new SocketReader(socket);
    this.#writer = new BufferedWriter(socket, {
      onTaken: () => {
        this.#takenAtMs = performance.now();
        if (this.#tunnel === null) this.#response?.onTaken?.();
        else this.#tunnel.onTaken?.();
      },
      onError: () => {
        if (this.#tunnel === null) this.close();
        else this.#tunnel.onError?.();
      },
    });
    this.#scanner = new HeadScanner(options.maxHeaderBytes);
  }

  /** Whether no request is under way. */
  get idle(): boolean {
    return this.#response === null && this.#tunnel === null;
  }

  /** Closes now when idle, else after the response or the tunnel under way. */
  drain(): void {
    this.#draining = true;
    this.#response?.closeAfter();
    if (this.idle) this.close();
  }

  /** Closes the socket at once; a response under way is over. */
  close(): void {
    this.#end(() => {
      try {
        this.#socket.close();
      } catch {
        // It was closed by the other side in between.
      }
    });
  }

  /** As `close`, but the client sees a broken stream. */
  #reset(): void {
    this.#end(() => resetConnection(this.#socket));
  }

  #end(close: () => void): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#halfClose?.cancel();
    this.#writer.fail(new Error("the connection is closed"));
    close();
    this.#response?.gone();
    this.#reader.close();
    this.#tunnelEnded.resolve();
  }

  /** Serves requests until the connection ends. */
  async run(): Promise<void> {
    try {
      let end: ResponseEnd = "keep";
      while (end === "keep" && !this.#closed) {
        if (this.#reader.unread === 0) {
          if (this.#draining) break;
          const idle = this.#startIdle();
          try {
            if (!await this.#reader.more()) break;
          } finally {
            idle.cancel();
          }
        }
        this.#scanner.reset();
        if (!this.#scan() && !await this.#restOfHead()) break;
        end = await (this.#fault === null ? this.#serveOne() : this.#refuse(this.#fault));
        const closeFramed = this.#response?.closeFramed === true;
        this.#response = null;
        if (end === "taken") {
          await this.#tunnelEnded.promise;
          return;
        }
        if (end === "broken" && closeFramed) await this.#resetWhenFlushed();
        this.#halfClose?.cancel();
        this.#halfClose = null;
        // Never parse an unread body as the next request (RFC 9112 section 9.3).
        if (end === "keep" && this.#body?.taken === false) end = "close";
        if (this.#draining && end === "keep") end = "close";
      }
      await this.#closeOrderly();
    } catch {
      // The socket broke: whoever waited for it has been told by `close`.
    } finally {
      this.close();
    }
  }

  #headEnd = -1;
  #fault: Fault | null = null;

  /**
   * Waits until a whole head is in the buffer, or something that cannot become one (`#fault`). False
   * when the client sent nothing more.
   */
  async #restOfHead(): Promise<boolean> {
    const reader = this.#reader;
    const clock = new Clock(this.#options.headerDeadlines);
    try {
      do {
        const more = await clock.limit(reader.more());
        if (more === null) {
          this.#fault = { status: 408, reason: "The request head took too long" };
          return true;
        }
        if (!more) return false;
      } while (!this.#scan());
      return true;
    } finally {
      clock.stop();
    }
  }

  /** Looks for the end of the head; true when there is one, or a fault. */
  #scan(): boolean {
    const { buffer, start, end } = this.#reader;
    try {
      this.#headEnd = this.#scanner.scan(buffer, start, end);
      return this.#headEnd >= 0;
    } catch (error) {
      if (!(error instanceof HttpSyntaxError)) throw error;
      this.#fault = error;
      return true;
    }
  }

  /** Hands one request to the handler; resolves at the end of its response. */
  #serveOne(): Promise<ResponseEnd> {
    const reader = this.#reader;
    const headEnd = this.#headEnd;
    let head: RequestHead;
    try {
      head = parseRequestHead(reader.buffer, reader.start, headEnd);
    } catch (error) {
      if (!(error instanceof HttpSyntaxError)) throw error;
      return this.#refuse(error);
    }
    let resolveEnd!: (end: ResponseEnd) => void;
    const ended = new Promise<ResponseEnd>((resolve) => resolveEnd = resolve);
    const context = {
      method: head.method,
      minor: head.minor,
      keepAlive: head.keepAlive && !this.#draining,
    };
    const response = new ResponseWriter(this.#writer, context, resolveEnd);
    this.#response = response;
    reader.start = headEnd;
    const body = new RequestBody(this.#reader, head, response, this.#options.headerDeadlines);
    this.#body = body;
    this.#options.handler({
      head,
      response,
      clientAddress: this.#clientAddress,
      readBody: async (maxBytes) => {
        const result = await body.read(maxBytes);
        if (!response.ended) this.#watch();
        return result;
      },
      takeSocket: (reply) => this.#take(response, reply),
    });
    if (!response.ended && body.taken) this.#watch();
    return ended;
  }

  /** Gives the connection away; `run` waits until it is closed. */
  #take(response: ResponseWriter, reply: Uint8Array): TunnelSocket | null {
    if (this.#closed || response.ended) return null;
    this.#halfClose?.cancel();
    this.#halfClose = null;
    this.#writer.write(reply);
    const tunnel: TunnelSocket = this.#tunnel = {
      reader: this.#reader,
      writer: this.#writer,
      onTaken: null,
      onError: null,
      closeWrite: () => this.#socket.closeWrite(),
      close: () => this.close(),
      reset: () => this.#reset(),
    };
    response.taken();
    return tunnel;
  }

  /** A body that ends with the connection can be broken off by a reset alone. */
  async #resetWhenFlushed(): Promise<void> {
    const idle = this.#startIdle();
    try {
      await this.#writer.flushed();
    } finally {
      idle.cancel();
    }
    this.#reset();
  }

  /** Answers something that is no request; the connection ends behind it. */
  #refuse(fault: Fault): Promise<ResponseEnd> {
    const { status } = fault;
    this.#options.onRefused?.({ status, code: codeOf(status), reason: this.#reasonOf(fault) });
    return new Promise((resolve) => {
      const context = { method: "GET", minor: 1, keepAlive: false };
      const response = new ResponseWriter(this.#writer, context, resolve);
      answerError(response, fault.status, this.#reasonOf(fault), codeOf(fault.status));
    });
  }

  #reasonOf({ status, reason }: Fault): string {
    if (status !== 431 && status !== 414) return reason;
    return `${reason}; MAX_HEADER_BYTES is ${this.#options.maxHeaderBytes}`;
  }

  /** Keeps reading while a response is under way, to notice the client's end. */
  #watch(): void {
    if (this.#watching || this.#closed || this.#reader.unread >= READ_AHEAD_BYTES) return;
    this.#watching = true;
    this.#reader.more().then(this.#onWatched, this.#onBroken);
  }

  readonly #onWatched = (more: boolean): void => {
    this.#watching = false;
    if (this.#response === null || this.#tunnel !== null || this.#closed) return;
    if (more) this.#watch();
    else this.#clientEnded();
  };

  readonly #onBroken = (): void => {
    this.#watching = false;
    if (this.#tunnel === null) this.close(); // else it has been told as well
  };

  /**
   * The client has sent its last octet. Most have left; one that only shut its sending side down gets
   * what can be answered soon, and all that was already on its way.
   */
  #clientEnded(): void {
    // What a client of a tunnel says early may well be all that it has to say.
    if (this.#halfClose !== null || this.#response?.method === "CONNECT") return;
    this.#halfClose = this.#options.halfCloseDeadlines.start(() => this.close());
  }

  /**
   * Closes after the idle time, which starts anew as long as the client takes something: a slow reader
   * gets all of its response.
   */
  #startIdle(): Deadline {
    this.#idleSinceMs = performance.now();
    this.#idle = this.#options.idleDeadlines.start(this.#onIdle, this.#idleSinceMs);
    return this.#idleDeadline;
  }

  #idleSinceMs = 0;
  #idle: Deadline | null = null;
  /** Cancels the wait that runs now, whether it is the first one or a later one. */
  readonly #idleDeadline: Deadline = { cancel: () => this.#idle?.cancel() };

  readonly #onIdle = (): void => {
    const now = performance.now();
    const slow = this.#writer.pendingBytes > 0 ? 0 : (now - this.#idleSinceMs) / 2;
    if (this.#takenAtMs - this.#idleSinceMs <= slow) return this.close();
    this.#startIdle();
  };

  /**
   * Sends what is pending and our end of input, then throws away what still comes in for a bounded
   * while: closing with unread input would reset the connection and could take the answer with it
   * (RFC 9112 section 9.6).
   */
  async #closeOrderly(): Promise<void> {
    if (this.#closed) return;
    let linger = this.#startIdle();
    try {
      await this.#writer.flushed();
      linger.cancel();
      linger = this.#options.lingerDeadlines.start(() => this.close());
      await this.#socket.closeWrite();
      for (let dropped = 0; dropped < LINGER_BYTES && !this.#closed;) {
        dropped += this.#reader.unread;
        this.#reader.start = this.#reader.end;
        if (!await this.#reader.more()) break;
      }
    } catch {
      // The client has left; nothing more can be done for it.
    } finally {
      linger.cancel();
    }
  }
}
