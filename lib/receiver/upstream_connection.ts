/**
 * One connection to an upstream, used for one exchange after the other.
 * @module
 */
import { errorText, FlowError } from "../errors.ts";
import { BodyDecoder } from "../http1/body.ts";
import { latin1Into } from "../http1/encode.ts";
import { HttpSyntaxError } from "../http1/error.ts";
import type { ResponseHead } from "../http1/head.ts";
import { parseResponseHead } from "../http1/parse.ts";
import { HeadScanner } from "../http1/scan.ts";
import { BufferedWriter } from "../net/buffered_writer.ts";
import { SocketReader } from "../net/socket_reader.ts";

/** A connection broke before the first octet of a response: the request may be tried again. */
export class StaleConnectionError extends Error {
  override readonly name = "StaleConnectionError";
}

/** A piece of a response body: `buffer[start..end)`, good until the next read. */
export interface BodyPiece {
  readonly buffer: Uint8Array;
  readonly start: number;
  readonly end: number;
  /** Nothing follows. */
  readonly last: boolean;
}

/** Most interim responses before a final one. */
const MAX_INTERIM = 16;

/** One socket with its codec. Exactly one exchange at a time. */
export class UpstreamConnection {
  readonly #socket: Deno.Conn;
  readonly #reader: SocketReader;
  readonly #writer: BufferedWriter;
  readonly #scanner: HeadScanner;
  readonly #maxHeaderBytes: number;
  #decoder: BodyDecoder | null = null;
  #reusable = false;
  #closed = false;
  /** Exchanges begun on this connection. */
  exchanges = 0;

  constructor(socket: Deno.Conn, maxHeaderBytes: number) {
    this.#socket = socket;
    this.#reader = new SocketReader(socket);
    this.#writer = new BufferedWriter(socket);
    this.#scanner = new HeadScanner(maxHeaderBytes);
    this.#maxHeaderBytes = maxHeaderBytes;
  }

  get closed(): boolean {
    return this.#closed;
  }

  /** Whether the last exchange ended such that another may follow. */
  get reusable(): boolean {
    return this.#reusable && !this.#closed && this.#reader.unread === 0 && !this.#reader.ended;
  }

  /** Begins an exchange: sends head and body. Write errors show when the response is read. */
  send(head: string, body: Uint8Array | null): void {
    this.exchanges++;
    this.#reusable = false;
    const at = this.#writer.reserve(head.length);
    latin1Into(head, this.#writer.buffer, at);
    this.#writer.commit(head.length);
    if (body !== null) this.#writer.write(body);
  }

  /**
   * Reads up to the end of the final head; interim heads before it are left out. The head's views are
   * good until the next read.
   * @throws {StaleConnectionError} the connection ended before the first octet
   * @throws {FlowError} `target_broken`: closed within the head, or no HTTP; `head_too_large`
   */
  async readHead(method: string): Promise<ResponseHead> {
    const reader = this.#reader;
    let interim = 0;
    this.#scanner.reset();
    try {
      for (;;) {
        const end = reader.unread > 0
          ? this.#scanner.scan(reader.buffer, reader.start, reader.end)
          : -1;
        if (end < 0) {
          if (await reader.more()) continue;
          if (reader.unread === 0 && interim === 0) throw new StaleConnectionError("closed");
          throw new FlowError("target_broken", "The upstream closed within its response head");
        }
        const head = parseResponseHead(reader.buffer, reader.start, end, method);
        reader.start = end;
        if (head.status === 101) {
          throw new FlowError(
            "target_broken",
            "The upstream switched protocols without being asked",
          );
        }
        if (head.status >= 200) {
          this.#decoder = new BodyDecoder(head.framing);
          this.#reusable = head.keepAlive && head.framing.kind !== "close";
          return head;
        }
        if (++interim > MAX_INTERIM) {
          throw new FlowError("target_broken", "The upstream sent too many interim responses");
        }
        this.#scanner.reset();
      }
    } catch (error) {
      throw this.#headError(error, interim > 0);
    }
  }

  #headError(error: unknown, begun: boolean): Error {
    if (error instanceof FlowError || error instanceof StaleConnectionError) return error;
    if (error instanceof HttpSyntaxError) return this.#syntaxError(error);
    if (this.#reader.unread === 0 && !begun) {
      return new StaleConnectionError(errorText(error), { cause: error });
    }
    return new FlowError("target_broken", `The upstream broke off: ${errorText(error)}`, {
      cause: error,
    });
  }

  #syntaxError(error: HttpSyntaxError): FlowError {
    if (error.status === 431 || error.status === 414) {
      return new FlowError(
        "head_too_large",
        `The upstream's response head is over MAX_HEADER_BYTES (${this.#maxHeaderBytes})`,
        { cause: error },
      );
    }
    return new FlowError("target_broken", `The upstream sent no valid HTTP: ${error.reason}`, {
      cause: error,
    });
  }

  /** What is at hand of the body, without reading. `last` in it ends the exchange. */
  bufferedBody(): BodyPiece {
    return this.#decode();
  }

  /**
   * Reads once more of the body.
   * @throws {FlowError} `target_broken`: the connection ended before the message did
   */
  async readBody(): Promise<BodyPiece> {
    let more: boolean;
    try {
      more = await this.#reader.more();
    } catch (error) {
      throw new FlowError("target_broken", `The upstream broke off: ${errorText(error)}`, {
        cause: error,
      });
    }
    if (more) return this.#decode();
    if (!this.#decoder!.finish()) {
      throw new FlowError("target_broken", "The upstream closed before the end of its response");
    }
    return { buffer: this.#reader.buffer, start: 0, end: 0, last: true };
  }

  /** Decodes in place: body octets only ever move towards the start of the buffer. */
  #decode(): BodyPiece {
    const reader = this.#reader;
    const { buffer, start } = reader;
    let end = start;
    try {
      reader.start = this.#decoder!.push(buffer, start, reader.end, (bytes, from, to) => {
        if (from !== end) bytes.copyWithin(end, from, to);
        end += to - from;
      });
    } catch (error) {
      if (!(error instanceof HttpSyntaxError)) throw error;
      throw this.#syntaxError(error);
    }
    return { buffer, start, end, last: this.#decoder!.done };
  }

  /** Waits, idle, for the upstream to close or to say something out of turn; then closes. */
  watchIdle(onEnd: () => void): void {
    const { exchanges } = this;
    const ended = () => {
      if (this.exchanges === exchanges && !this.#closed) {
        this.close();
        onEnd();
      }
    };
    this.#reader.more().then(ended, ended);
  }

  /** Closes the socket now; whoever reads gets an error. */
  close(): void {
    if (this.#closed) return;
    this.#closed = true;
    this.#writer.fail(new Error("the connection is closed"));
    try {
      this.#socket.close();
    } catch {
      // The upstream closed it in between.
    }
    this.#reader.close();
  }
}
