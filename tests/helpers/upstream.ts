/**
 * A scripted upstream server: it records what it gets octet by octet and answers as a test says,
 * also with pauses, broken messages, FIN and RST.
 * @module
 */
import net from "node:net";
import { latin1 } from "./bytes.ts";
import { parseHead, TestRequest } from "./http_message.ts";
import { SocketEndedError, TestSocket } from "./socket.ts";
import { EventLog, within } from "./wait.ts";

/** Octets of a plain answer with Content-Length. */
export function answer(
  body: string | Uint8Array = "ok",
  options: { status?: string; fields?: readonly string[] } = {},
): Uint8Array {
  const bytes = typeof body === "string" ? new TextEncoder().encode(body) : body;
  const head = new TextEncoder().encode(
    [
      `HTTP/1.1 ${options.status ?? "200 OK"}`,
      ...(options.fields ?? ["Content-Type: text/plain"]),
      `Content-Length: ${bytes.length}`,
      "",
      "",
    ].join("\r\n"),
  );
  const whole = new Uint8Array(head.length + bytes.length);
  whole.set(head);
  whole.set(bytes, head.length);
  return whole;
}

/** One connection that the upstream accepted. */
export class UpstreamConnection extends TestSocket {
  /** Counts from 0 in the order of acceptance. */
  readonly index: number;
  /** Requests that the HTTP loop read on this connection. */
  readonly requests: TestRequest[] = [];

  constructor(socket: net.Socket, index: number) {
    super(socket);
    this.index = index;
  }
}

/** Writes the answer (awaited); `"close"` as its value ends the connection, anything else goes on. */
export type Handler = (
  request: TestRequest,
  connection: UpstreamConnection,
) => unknown;

/** Owns a connection from accept on; it is closed when the script returns. */
export type Script = (connection: UpstreamConnection) => Promise<void>;

/** The server of {@linkcode startUpstream}. */
export class Upstream implements AsyncDisposable {
  readonly #server: net.Server;
  readonly #routes: { prefix: string; handler: Handler }[] = [];
  readonly #running = new Set<Promise<void>>();
  readonly connections: UpstreamConnection[] = [];
  /** Requests of all connections, in the order in which their heads were read. */
  readonly requestLog = new EventLog<TestRequest>();
  readonly connectionLog = new EventLog<UpstreamConnection>();
  /** Failures of scripts that are no consequence of a peer's end. */
  readonly faults: Error[] = [];

  constructor(script?: Script) {
    this.#server = net.createServer({ allowHalfOpen: true, noDelay: true }, (socket) => {
      const connection = new UpstreamConnection(socket, this.connections.length);
      this.connections.push(connection);
      this.connectionLog.add(connection);
      const work = this.#serve(connection, script ?? ((c) => this.#http(c)));
      this.#running.add(work);
      work.finally(() => this.#running.delete(work));
    });
  }

  get requests(): TestRequest[] {
    return this.requestLog.events;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  get url(): string {
    return `http://127.0.0.1:${this.port}`;
  }

  /** @param port 0 for any */
  listen(port = 0, hostname = "127.0.0.1"): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#server.once("error", reject);
      this.#server.listen(port, hostname, () => resolve());
    });
  }

  /** Answers targets that start with `prefix`; the longest prefix wins, the latest among equals. */
  route(prefix: string, handler: Handler): void {
    this.#routes.unshift({ prefix, handler });
    this.#routes.sort((a, b) => b.prefix.length - a.prefix.length);
  }

  /** Waits for the connection with this number, counted from 0 in the order of acceptance. */
  connection(index: number, ms = 10_000): Promise<UpstreamConnection> {
    return this.connectionLog.find((connection) => connection.index === index, {
      ms,
      what: `connection ${index} at the upstream`,
      describe: () => `it has accepted ${this.connections.length}`,
    });
  }

  /** Requests whose target starts with `prefix`, so far. */
  requestsFor(prefix: string): TestRequest[] {
    return this.requests.filter((request) => request.target.startsWith(prefix));
  }

  /** Waits for a request whose target starts with `prefix`. */
  request(prefix: string, options: { ms?: number; from?: number } = {}): Promise<TestRequest> {
    return this.requestLog.find((request) => request.target.startsWith(prefix), {
      ms: options.ms ?? 10_000,
      what: `a request for ${prefix} at the upstream`,
      from: options.from ?? 0,
      describe: () => `it got: ${this.requests.map((request) => request.startLine).join(" | ")}`,
    });
  }

  /** Stops accepting; connections stay. */
  refuse(): Promise<void> {
    return new Promise((resolve) => {
      this.#server.close(() => {});
      resolve();
    });
  }

  /** Closes everything; throws when a script failed. */
  async stop(): Promise<void> {
    this.#server.close(() => {});
    await Promise.all(this.connections.map((connection) => connection.close()));
    await within(Promise.all([...this.#running]), 5_000, "the end of all upstream scripts");
    if (this.faults.length > 0) throw new AggregateError(this.faults, "upstream scripts failed");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.stop();
  }

  async #serve(connection: UpstreamConnection, script: Script): Promise<void> {
    try {
      await script(connection);
    } catch (error) {
      if (!(error instanceof SocketEndedError)) this.faults.push(error as Error);
    } finally {
      await connection.close();
    }
  }

  async #http(connection: UpstreamConnection): Promise<void> {
    while (true) {
      const first = await connection.read(600_000);
      if (first === null) return;
      connection.unshift(first);
      const head = parseHead(latin1(await connection.readUntil("\r\n\r\n", 30_000)));
      const request = new TestRequest(head, connection);
      connection.requests.push(request);
      this.requestLog.add(request);
      const route = this.#routes.find(({ prefix }) => request.target.startsWith(prefix));
      const outcome = route === undefined
        ? await connection.write(answer(`${request.method} ${request.target}`))
        : await route.handler(request, connection);
      if (outcome === "close") return;
      await request.readBody();
      if (request.bodyComplete === false) return;
    }
  }
}

/** Starts an upstream on an ephemeral loopback port; without a script it is an HTTP server. */
export async function startUpstream(script?: Script, hostname = "127.0.0.1"): Promise<Upstream> {
  const upstream = new Upstream(script);
  await upstream.listen(0, hostname);
  return upstream;
}
