/**
 * Serves requests with a small web application: a `Request` in, a `Response` out.
 * @module
 */
import type { IngressRequest } from "./connection.ts";
import { answerError } from "./answers.ts";

/** A web application; `clientAddress` is the address of the client's socket. */
export type LocalApp = (request: Request, clientAddress: string) => Promise<Response> | Response;

/** Paths that never cross: http-surface.md section 1. */
export function isLocalTarget(target: string): boolean {
  const query = target.indexOf("?");
  const path = query < 0 ? target : target.slice(0, query);
  return path.startsWith("/observability") || path === "/health" || path === "/healthcheck";
}

/** Answers one request from the application. Request bodies are not read. */
export async function serveLocal(app: LocalApp, request: IngressRequest): Promise<void> {
  const { head, response, clientAddress } = request;
  if (head.framing.kind !== "none") response.closeAfter();
  const method = head.method;
  if (method !== "GET" && method !== "HEAD") {
    response.answer(405, "text/plain", "Method Not Allowed", "Allow: GET, HEAD\r\n");
    return;
  }
  let target: URL;
  try {
    target = new URL(head.target, "http://local");
  } catch {
    answerError(response, 400, "The request target is no path", "bad_request");
    return;
  }
  const headers = new Headers();
  for (let i = 0; i < head.count; i++) headers.append(head.name(i), head.value(i));
  const answer = await app(new Request(target, { method, headers }), clientAddress);
  const body = new Uint8Array(await answer.arrayBuffer());
  if (response.ended) return;
  let lines = "";
  for (const [name, value] of answer.headers) {
    if (name !== "content-length") lines += `${name}: ${value}\r\n`;
  }
  response.start({ status: answer.status, fields: null, lines, declaredLength: body.length });
  response.body(body);
  response.end();
}
