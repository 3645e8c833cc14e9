/**
 * node:http through its public interface, over loopback: raw octets in, what its server or client made of
 * them out.
 * @module
 */

import { Buffer } from "node:buffer";
import http from "node:http";
import net from "node:net";
import { type Heard, type Input, type Reading, upToTheClose } from "./reading.ts";

/** What node:http says of itself besides the reading. */
export interface NodeReading extends Reading {
  /** The parser objects that it used on the connection. */
  readonly parsers: readonly unknown[];
}

/** Answers far too late only when node:http hangs on an input. */
const HANG_MS = 20_000;

/** A node:http server that reads the requests on one connection at a time. */
export class NodeServer {
  readonly #server: http.Server;
  #tape = new Tape();

  private constructor() {
    this.#server = http.createServer({ keepAliveTimeout: 0, requestTimeout: 0 });
    // Else the client's end breaks off requests that were read but not answered.
    Object.assign(this.#server, { httpAllowHalfOpen: true });
    const take = (request: http.IncomingMessage, response: http.ServerResponse) => {
      this.#tape.parsers.push((request.socket as { parser?: unknown }).parser);
      this.#tape.take(request, [request.method!, request.url!], response.shouldKeepAlive);
      response.end();
    };
    this.#server.on("request", take);
    this.#server.on("checkContinue", take);
    this.#server.on("checkExpectation", take);
    this.#server.on("connect", (request: http.IncomingMessage, socket: net.Socket) => {
      this.#tape.add(request, [request.method!, request.url!], false, true);
      socket.destroy();
    });
    this.#server.on("clientError", (error: Error & { code?: string }, socket: net.Socket) => {
      this.#tape.fail(error);
      socket.destroy();
    });
  }

  static async start(): Promise<NodeServer> {
    const server = new NodeServer();
    await new Promise<void>((done) => server.#server.listen(0, "127.0.0.1", done));
    return server;
  }

  /** Sends the octets, one write per piece, and the end; resolves when the server has closed. */
  async read(input: Input): Promise<NodeReading> {
    const tape = this.#tape = new Tape();
    const { port } = this.#server.address() as net.AddressInfo;
    const socket = net.connect({ port, host: "127.0.0.1", noDelay: true, allowHalfOpen: true });
    socket.on("data", () => {}); // answers are not looked at
    socket.on("error", () => {}); // the server may close with octets unread
    const closed = new Promise<void>((done) => socket.on("close", () => done()));
    const hang = setTimeout(() => {
      tape.hung = true;
      socket.destroy();
    }, HANG_MS);
    await sendPieces(socket, input);
    await closed;
    clearTimeout(hang);
    return tape.reading();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((done) => {
      this.#server.close(() => done());
      this.#server.closeAllConnections();
    });
  }
}

/** A node:http client, and a server that answers its one request with the octets of the input. */
export class NodeClient {
  readonly #server: net.Server;
  #input: Input | null = null;

  private constructor() {
    this.#server = net.createServer({ noDelay: true }, (socket: net.Socket) => {
      socket.on("error", () => {}); // the client may close with octets unread
      socket.once("data", () => void sendPieces(socket, this.#input!));
    });
  }

  static async start(): Promise<NodeClient> {
    const client = new NodeClient();
    await new Promise<void>((done) => client.#server.listen(0, "127.0.0.1", done));
    return client;
  }

  /** Reads the interim answers and the one final answer to a request. */
  async read(input: Input): Promise<NodeReading> {
    this.#input = input;
    const tape = new Tape();
    const { port } = this.#server.address() as net.AddressInfo;
    const method = input.requestMethod ?? "GET";
    const path = method === "CONNECT" ? "a:1" : "/";
    const request = http.request({ port, host: "127.0.0.1", method, path, agent: false });
    const closed = new Promise<void>((done) => request.on("close", () => done()));
    request.on("socket", (socket) => {
      tape.parsers.push((socket as { parser?: unknown }).parser);
    });
    request.on("information", (info: http.InformationEvent) => {
      const start: [string, string] = [String(info.statusCode), info.statusMessage];
      tape.add(info, start, true, false);
    });
    request.on("response", (response) => {
      tape.take(response, [String(response.statusCode), response.statusMessage!], false);
    });
    for (const event of ["upgrade", "connect"]) {
      request.on(event, (response: http.IncomingMessage, socket: net.Socket) => {
        tape.add(response, [String(response.statusCode), response.statusMessage!], false, true);
        socket.destroy();
      });
    }
    request.on("error", (error: Error & { code?: string }) => tape.fail(error));
    const hang = setTimeout(() => {
      tape.hung = true;
      request.destroy();
    }, HANG_MS);
    request.end();
    await closed;
    clearTimeout(hang);
    await tape.settled();
    return tape.reading();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await new Promise<void>((done) => this.#server.close(() => done()));
  }
}

type Head = Pick<http.IncomingMessage, "rawHeaders" | "httpVersion">;

/** What was heard on one connection. */
class Tape {
  readonly parsers: unknown[] = [];
  hung = false;
  readonly #heard: { message: Heard & { body: string }; complete: boolean }[] = [];
  readonly #bodies: Promise<void>[] = [];
  #fault = "";
  #cut = false;

  /** Records a head, and its body as it comes. */
  take(message: http.IncomingMessage, start: [string, string], keepAlive: boolean): void {
    const entry = this.add(message, start, keepAlive, false);
    entry.complete = false;
    message.on("data", (data: Buffer) => entry.message.body += data.toString("latin1"));
    message.on("error", () => {}); // said by the connection's own events
    this.#bodies.push(
      new Promise((done) => {
        message.on("close", () => {
          entry.complete = message.complete;
          Object.assign(entry.message, { trailers: pairsOf(message.rawTrailers) });
          done();
        });
      }),
    );
  }

  /** Records a message that has no body. */
  add(head: Head, start: [string, string], keepAlive: boolean, leavesHttp: boolean): {
    message: Heard & { body: string };
    complete: boolean;
  } {
    const fields = pairsOf(head.rawHeaders);
    const version = head.httpVersion;
    const message = { start, version, fields, body: "", trailers: [], keepAlive, leavesHttp };
    const entry = { message, complete: true };
    this.#heard.push(entry);
    return entry;
  }

  /** Records why the connection ended; the end of input within a message is no refusal. */
  fail(error: { code?: string; message: string }): void {
    if (error.code === "HPE_INVALID_EOF_STATE" || error.code === "ECONNRESET") this.#cut = true;
    else if (this.#fault === "") this.#fault = `${error.code}: ${error.message}`;
  }

  /** Waits for the bodies. */
  async settled(): Promise<void> {
    await Promise.all(this.#bodies);
  }

  /** @throws {Error} it took too long */
  reading(): NodeReading {
    if (this.hung) throw new Error(`node:http did not close within ${HANG_MS} ms`);
    const messages = this.#heard.filter((entry) => entry.complete).map((entry) => entry.message);
    const open = this.#heard.find((entry) => !entry.complete)?.message ?? null;
    const isRefused = this.#fault !== "";
    return {
      ...upToTheClose({
        messages,
        open: isRefused ? null : open,
        end: isRefused ? "refused" : open !== null || this.#cut ? "unfinished" : "clean",
        fault: this.#fault,
      }),
      parsers: this.parsers,
    };
  }
}

/** Writes each piece for itself, then the end. */
async function sendPieces(socket: net.Socket, { bytes, cuts = [] }: Input): Promise<void> {
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    if (to === from) continue;
    const piece = Buffer.from(bytes.slice(from, to));
    from = to;
    await new Promise<void>((done) => socket.write(piece, () => done()));
    if (socket.destroyed) return;
  }
  socket.end();
}

function pairsOf(flat: readonly string[]): [string, string][] {
  return Array.from({ length: flat.length / 2 }, (_, i) => [flat[2 * i]!, flat[2 * i + 1]!]);
}
