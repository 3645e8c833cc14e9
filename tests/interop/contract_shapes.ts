/**
 * What may be seen on NATS where Ruby peers listen: subjects, NATS header names and JSON shapes of
 * wire-protocol.md, with the extras that its section 13 calls safe. Everything else is a complaint.
 * @module
 */
import type { BareMessage } from "./bare_nats.ts";
import { type JsonRecord, lastToken, parseObject } from "./ruby_wire.ts";

export interface ShapeRoots {
  readonly request: string;
  /** All forms in which events may be seen: the root, and what a Ruby receiver makes of it. */
  readonly responses: readonly string[];
}

type Check = (value: unknown) => boolean;
/** Member to check; a name that ends with `?` may be absent. */
type Shape = Readonly<Record<string, Check>>;

const isText: Check = (value) => typeof value === "string" && value !== "";
const isString: Check = (value) => typeof value === "string";
const isObject: Check = (value) =>
  typeof value === "object" && value !== null && !Array.isArray(value);
const isBoolean: Check = (value) => typeof value === "boolean";
const isCount: Check = (value) => Number.isInteger(value) && Number(value) > 0;
const isTime: Check = (value) => /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/.test(String(value));
const isHeaders: Check = (value) =>
  isObject(value) &&
  Object.entries(value as JsonRecord).every(([name, content]) =>
    name === name.toLowerCase() &&
    (isString(content) || (Array.isArray(content) && content.every(isString)))
  );
const is = (...allowed: unknown[]): Check => (value) => allowed.includes(value);
const anything: Check = () => true;

const EVENTS: Readonly<Record<string, Shape>> = {
  response_start: {
    status: (value) => Number.isInteger(value) && Number(value) >= 200 && Number(value) <= 999,
    headers: isHeaders,
    content_type: (value) => value === null || value === String(value).toLowerCase(),
    streaming: isBoolean,
    receiver_service_id: isText,
    "request_id?": isText,
    "flow_kind?": is("http_stream", "http_request", "natsway_http"),
    "natsway?": isObject,
  },
  response_chunk: {
    "body?": isString,
    "body_encoding?": is("base64"),
    "body_base64?": (value) => /^[A-Za-z0-9+/]*={0,2}$/.test(String(value)),
  },
  response_end: {},
  response_error: { error: isString, "natsway?": isObject },
};

const REQUEST: Shape = {
  type: is("request"),
  request_id: isText,
  reply_to: isText,
  operation: is("http_request", "natsway_http"),
  payload: isObject,
  "natsway?": isObject,
};
const PAYLOAD: Shape = {
  method: isText,
  path: isText,
  headers: (value) => isHeaders(value) && Object.values(value as JsonRecord).every(isString),
  body: anything,
  "body_encoding?": is("base64"),
  "body_base64?": isText,
  "head?": Array.isArray,
};
const CANCEL: Shape = { type: is("cancel"), request_id: isText, cancel: isObject };
const CANCEL_OBJECT: Shape = {
  request_id: isText,
  service_id: isText,
  reason: isString,
  timestamp: isTime,
  "epoch?": isText,
};
const CREDIT: Shape = {
  type: is("flow_credit"),
  request_id: isText,
  direction: is("response"),
  bytes: isCount,
  service_id: isText,
  timestamp: isTime,
};

const TRACE = ["traceparent", "tracestate"];

function complaintsOf(value: JsonRecord, shape: Shape): string[] {
  const complaints: string[] = [];
  const known = new Set<string>(["type"]);
  for (const [key, check] of Object.entries(shape)) {
    const name = key.replace("?", "");
    known.add(name);
    const there = name in value;
    if (!there && !key.endsWith("?")) complaints.push(`no ${name}`);
    if (there && !check(value[name])) complaints.push(`${name}: ${JSON.stringify(value[name])}`);
  }
  for (const name of Object.keys(value)) if (!known.has(name)) complaints.push(`member ${name}`);
  return complaints;
}

function headerComplaints(message: BareMessage, allowed: readonly string[]): string[] {
  return message.headers.map(([name]) => name).filter((name) => !allowed.includes(name))
    .map((name) => `NATS header ${name}`);
}

/** What is wrong with one message, as a Ruby peer on its subject sees it; empty when nothing is. */
export function complaints(message: BareMessage, roots: ShapeRoots): string[] {
  const { subject, data } = message;
  const below = (root: string) => subject.startsWith(`${root}.`);
  const id = lastToken(subject);
  const found: string[] = [];
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) found.push(`id ${id}`);
  const value = parseObject(data);
  if (value === null) return [...found, "no JSON object"];
  const shapes = (shape: Shape) => found.push(...complaintsOf(value, shape));
  const names = (allowed: readonly string[]) => found.push(...headerComplaints(message, allowed));
  if (below(`${roots.request}.requests`) && value["type"] === "request") {
    names(TRACE);
    shapes(REQUEST);
    found.push(...complaintsOf((value["payload"] ?? {}) as JsonRecord, { ...PAYLOAD }));
    if (value["request_id"] !== id) found.push("request_id is not the last token");
    const replyTo = value["reply_to"];
    if (message.reply !== "" && message.reply !== replyTo) found.push("another reply subject");
  } else if (below(`${roots.request}.requests`) || below(`${roots.request}.cancel`)) {
    names([]);
    shapes(CANCEL);
    found.push(...complaintsOf((value["cancel"] ?? {}) as JsonRecord, CANCEL_OBJECT));
  } else if (below(`${roots.request}.control`)) {
    names(["Nats-Session-Id", "Nats-Frame-Type"]);
    if (message.headers.length !== 2) found.push(`${message.headers.length} NATS headers`);
    shapes(CREDIT);
  } else if (roots.responses.some((root) => below(`${root}.responses`))) {
    names(TRACE);
    const shape = EVENTS[String(value["type"])];
    if (shape === undefined) found.push(`event ${value["type"]}`);
    else shapes(shape);
  } else found.push("a subject that the contract does not have");
  return found;
}
