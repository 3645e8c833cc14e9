/**
 * An HTTP port with a handler of the test's, and what a client reads from it.
 * @module
 */
import type { IngressRequest } from "../../lib/ingress/connection.ts";
import type { BodyResult } from "../../lib/ingress/request_body.ts";
import { answerError } from "../../lib/ingress/answers.ts";
import { ConnectionLimit } from "../../lib/ingress/connection_limit.ts";
import { HttpServer, type HttpServerOptions } from "../../lib/ingress/server.ts";
import { latin1 } from "./bytes.ts";
import { TestSocket } from "./socket.ts";
import { withoutDate } from "./unit_client.ts";
import { MemoryLogger } from "./unit_transport.ts";
import { EventLog, within } from "./wait.ts";

/** A server whose handler is the test's; it is closed with the test. */
export class PortRig implements AsyncDisposable {
  readonly server: HttpServer;
  readonly requests = new EventLog<IngressRequest>();
  readonly logger = new MemoryLogger();

  constructor(
    handler: (request: IngressRequest) => void,
    options: Partial<HttpServerOptions> = {},
  ) {
    this.server = new HttpServer({
      hostname: "127.0.0.1",
      port: 0,
      role: "requester",
      setting: "PORT",
      limit: new ConnectionLimit(100),
      maxHeaderBytes: 4096,
      headerTimeoutMs: 10_000,
      keepaliveTimeoutMs: 10_000,
      logger: this.logger,
      ...options,
      handler: (request) => {
        this.requests.add(request);
        handler(request);
      },
    });
  }

  connect(): Promise<TestSocket> {
    return TestSocket.connect(this.server.port);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.server.close(), 5_000, "the server's close");
  }
}

/** Answers with method, target and body. */
export function echo(request: IngressRequest, maxBytes = 1_000_000): void {
  const { method, target } = request.head;
  if (request.head.framing.kind === "none") {
    request.response.answer(200, "text/plain", `${method} ${target}`);
    return;
  }
  void request.readBody(maxBytes).then((result) => answerBody(request, method, target, result));
}

/** Answers with what `readBody` gave. */
export function answerBody(
  request: IngressRequest,
  method: string,
  target: string,
  result: BodyResult,
): void {
  const { response } = request;
  switch (result.kind) {
    case "body": {
      const body = result.bytes === null ? "none" : latin1(result.bytes);
      response.answer(200, "text/plain", `${method} ${target} ${body}`);
      return;
    }
    case "too_large":
      answerError(response, 413, "too large", "body_too_large");
      return;
    case "broken":
      if (result.status === 0) response.abort();
      else answerError(response, result.status, result.reason, "bad_request");
  }
}

/** One response with a Content-Length, as text without its Date. */
export async function readResponse(socket: TestSocket): Promise<string> {
  const head = latin1(await socket.readUntil("\r\n\r\n"));
  const length = /\r\ncontent-length: (\d+)\r\n/i.exec(head)?.[1] ?? "0";
  return withoutDate(head) + latin1(await socket.readExactly(Number(length)));
}

/** The echo's answer. */
export function ok(body: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: ${body.length}\r\n\r\n${body}`;
}
