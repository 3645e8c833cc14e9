/**
 * The octets of a request to an upstream (RFC 9112 section 3). What comes in was sent by a peer: all of
 * it is checked again before it is written.
 * @module
 */
import { FlowError } from "../errors.ts";
import {
  FieldId,
  fieldIdOf,
  isFieldValue,
  isHopByHop,
  isRequestTarget,
  isToken,
} from "../http1/field.ts";
import type { HttpPayload } from "../protocol/envelope.ts";

/** How the target is addressed. */
export interface UpstreamRules {
  /** Path prefix of UPSTREAM_URL, without a slash at its end. */
  readonly prefix: string;
  /** Authority of UPSTREAM_URL, for `Host`. */
  readonly authority: string;
  /** Whether `Host` is that authority, or what the client sent. */
  readonly host: "upstream" | "client";
}

const KEPT = /^(?:host|via|date|forwarded|content-.*|x-forwarded-.*)$/;

/**
 * The head of a request, one code point per octet; its body follows as it is, `Content-Length` long.
 * @throws {FlowError} `bad_request`: a method, target, name or value that HTTP cannot carry
 */
export function upstreamHead(request: HttpPayload, rules: UpstreamRules): string {
  const { method, path, fields, body } = request;
  // CONNECT asks for a tunnel: its answer has no body, and its connection no next request.
  if (!isToken(method) || method === "CONNECT") throw bad("Invalid method");
  if (!isRequestTarget(path)) throw bad("Invalid path");
  const target = path === "*" ? path : rules.prefix + path;
  if (path !== "*" && !path.startsWith("/")) throw bad("Invalid path");
  let head = `${method} ${target} HTTP/1.1\r\n`;
  let hosted = false;
  let sized = false;
  const clientHost = rules.host === "client" ? hostOf(request) : null;
  const hostLine = `Host: ${clientHost ?? rules.authority}\r\n`;
  if (!request.ordered) {
    head += hostLine;
    hosted = true;
  }
  const nominated = nominatedBy(fields);
  for (const [name, value] of fields) {
    const id = fieldIdOf(name);
    if (isHopByHop(id) || nominated?.has(name.toLowerCase())) continue;
    if (id === FieldId.Host) {
      if (!hosted) head += hostLine;
      hosted = true;
      continue;
    }
    if (id === FieldId.ContentLength) {
      // Where the client had it; natsway's own count of what is sent.
      if (body !== null && !sized) head += `${name}: ${body.length}\r\n`;
      sized = true;
      continue;
    }
    if (!isToken(name)) throw bad("Invalid header name");
    if (!isFieldValue(value)) throw bad(`Invalid value of header ${name}`);
    head += `${name}: ${value}\r\n`;
  }
  if (!hosted) head += hostLine;
  if (!sized && needsLength(request)) head += `Content-Length: ${body?.length ?? 0}\r\n`;
  return `${head}\r\n`;
}

/**
 * Whether a length has to be said that no field gave. A Ruby peer gives null for an empty body, so a
 * method that means one gets its 0 (RFC 9110 section 8.6).
 */
function needsLength(request: HttpPayload): boolean {
  if (request.body !== null) return true;
  return !request.ordered && /^(?:POST|PUT|PATCH)$/.test(request.method);
}

/**
 * Lower-case names that a Connection field gives (RFC 9110 section 7.6.1), without those that others
 * rely on whatever a peer says; null without such a field.
 */
function nominatedBy(fields: HttpPayload["fields"]): Set<string> | null {
  let names: Set<string> | null = null;
  for (const [name, value] of fields) {
    if (fieldIdOf(name) !== FieldId.Connection) continue;
    names ??= new Set();
    for (const member of value.toLowerCase().split(",")) {
      const option = member.trim();
      if (!KEPT.test(option)) names.add(option);
    }
  }
  return names;
}

function hostOf(request: HttpPayload): string | null {
  for (const [name, value] of request.fields) {
    if (fieldIdOf(name) === FieldId.Host && isFieldValue(value) && value !== "") return value;
  }
  return null;
}

function bad(text: string): FlowError {
  return new FlowError("bad_request", text);
}

/** What may stand in a head besides what the client sent and the prefix of UPSTREAM_URL. */
const ADDED_HEAD_BYTES = 8192;

/**
 * The head of a request that came over NATS, checked.
 * @throws {FlowError} the request cannot be sent to any upstream
 */
export function requestHead(
  request: HttpPayload,
  options: {
    /** Null when UPSTREAM_URL is not set. */
    readonly upstream: { readonly authority: string; readonly prefix: string } | null;
    readonly upstreamHost: "upstream" | "client";
    readonly maxHeaderBytes: number;
  },
): string {
  const { upstream, upstreamHost, maxHeaderBytes } = options;
  if (/^https?:\/\//i.test(request.path)) {
    if (!URL.canParse(request.path)) {
      throw new FlowError("bad_request", "Invalid proxy target URL");
    }
    throw new FlowError("target_denied", "This version does not serve proxy requests");
  }
  if (upstream === null) throw new FlowError("no_upstream", "Receiver is missing UPSTREAM_URL");
  const head = upstreamHead(request, {
    prefix: upstream.prefix,
    authority: upstream.authority,
    host: upstreamHost,
  });
  // The requester has checked the client's; Via and X-Forwarded-* came on top.
  if (head.length > maxHeaderBytes + ADDED_HEAD_BYTES) {
    const text = `The request head is over the receiver's MAX_HEADER_BYTES (${maxHeaderBytes})`;
    throw new FlowError("head_too_large", text);
  }
  return head;
}
