/**
 * CONNECT: the way into a tunnel for HTTP proxy clients (RFC 9110 section 9.3.6, http-surface.md
 * section 4).
 * @module
 */
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { IngressRequest } from "../ingress/connection.ts";
import type { OpenSession } from "./session_types.ts";
import { isHostName, isIpv6Literal } from "./target_host.ts";

const ESTABLISHED = new TextEncoder().encode("HTTP/1.1 200 Connection Established\r\n\r\n");

/** Host and port of a request target in authority form (RFC 9112 section 3.2.3); null when it is none. */
export function parseAuthority(target: string): { host: string; port: number } | null {
  const colon = target.lastIndexOf(":");
  if (colon < 0) return null;
  const digits = target.slice(colon + 1);
  if (!/^\d{1,5}$/.test(digits)) return null;
  const port = Number(digits);
  if (port < 1 || port > 65535) return null;
  const name = target.slice(0, colon);
  if (!name.startsWith("[")) return isHostName(name) ? { host: name, port } : null;
  const literal = name.slice(1, -1);
  return name.endsWith("]") && isIpv6Literal(literal) ? { host: literal, port } : null;
}

/** Serves one CONNECT. Errors are answered, never thrown; a success hands the connection over. */
export function serveConnect(request: IngressRequest, open: OpenSession): void {
  const { head, response } = request;
  response.closeAfter();
  const authority = parseAuthority(head.target);
  if (authority === null) {
    const text = "Invalid CONNECT target: host:port with a port from 1 to 65535 is accepted, " +
      "IPv6 addresses in brackets";
    answerError(response, 400, text, "bad_request");
    return;
  }
  const handle = open({ ...authority, ingressKind: "http_connect" }, {
    established: () => request.takeSocket(ESTABLISHED),
    failed: (code, message) => {
      response.onGone = null;
      answerFailure(response, code, message);
    },
  });
  response.onGone = () => handle.abandon();
}
