/**
 * What may be seen on NATS where Ruby peers listen: subjects, NATS header names and JSON shapes of
 * wire-protocol.md, with the extras that its section 13 calls safe. Everything else is a complaint.
 * @module
 */
import { type BareMessage, exactHeader } from "./bare_nats.ts";
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
  session_established: {
    session_id: isText,
    "bind_host?": isText,
    "bind_port?": isCount,
    "ingress_kind?": isText,
    receiver_service_id: isText,
    flow_kind: is("tcp_stream", "socks5_stream"),
  },
  session_close: { reason: isText },
};

const REQUEST: Shape = {
  type: is("request"),
  request_id: isText,
  reply_to: isText,
  operation: is("http_request", "natsway_http", "tcp_stream"),
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
const TCP_PAYLOAD: Shape = {
  host: isText,
  port: isCount,
  ingress_kind: is("http_connect", "socks5"),
  method: is("CONNECT", "SOCKS5_CONNECT"),
  requester_service_id: isText,
};
const CANCEL: Shape = { type: is("cancel"), request_id: isText, cancel: isObject };
const CANCEL_OBJECT: Shape = {
  request_id: isText,
  service_id: isText,
  reason: isString,
  timestamp: isTime,
  "epoch?": isText,
};
const credit = (direction: string): Shape => ({
  type: is("flow_credit"),
  request_id: isText,
  direction: is(direction),
  bytes: isCount,
  service_id: isText,
  timestamp: isTime,
});

/** What may be on subjects 3 and 4, by frame type; null for octets of the stream. */
const FRAMES: Readonly<Record<"upstream" | "downstream", Record<string, Shape | null>>> = {
  upstream: {
    session_data: null,
    session_close: { reason: isText },
    session_credit_downstream: credit("downstream"),
  },
  downstream: {
    session_data_downstream: null,
    session_credit_upstream: credit("upstream"),
  },
};
const MAX_FRAME_BYTES = 32_768;
const FRAME_HEADERS = ["Nats-Session-Id", "Nats-Frame-Type"];

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

/**
 * The plane of wire-protocol.md section 1 that a subject belongs to, written in full: root, plane, one
 * token for the process, one for the id. Null when it fits none.
 */
export function planeOf(subject: string, roots: ShapeRoots): string | null {
  const planes: [root: string, plane: string][] = [
    [roots.request, "requests"],
    ...roots.responses.map((root): [string, string] => [root, "responses"]),
    [roots.request, "sessions.upstream"],
    ...roots.responses.map((root): [string, string] => [root, "sessions.downstream"]),
    [roots.request, "control"],
    [roots.request, "cancel"],
  ];
  const found = planes.find(([root, plane]) => {
    const start = `${root}.${plane}.`;
    return subject.startsWith(start) &&
      /^[A-Za-z0-9_-]{1,64}\.[A-Za-z0-9_-]{1,64}$/.test(subject.slice(start.length));
  });
  return found?.[1] ?? null;
}

function frameComplaints(message: BareMessage, plane: "upstream" | "downstream"): string[] {
  const names = message.headers.map(([name]) => name);
  const type = exactHeader(message, "Nats-Frame-Type") ?? "none";
  const found = names.join() === FRAME_HEADERS.join() ? [] : [`NATS headers ${names}`];
  if (exactHeader(message, "Nats-Session-Id") !== lastToken(message.subject)) {
    found.push("another Nats-Session-Id");
  }
  const shape = FRAMES[plane][type];
  if (shape === undefined) return [...found, `frame ${type}`];
  const { length } = message.data;
  if (shape === null) {
    return length > 0 && length <= MAX_FRAME_BYTES ? found : [...found, `${length} bytes of data`];
  }
  const value = parseObject(message.data);
  return value === null ? [...found, "no JSON object"] : [...found, ...complaintsOf(value, shape)];
}

/** What is wrong with one message, as a Ruby peer on its subject sees it; empty when nothing is. */
export function complaints(message: BareMessage, roots: ShapeRoots): string[] {
  const { subject, data } = message;
  const below = (root: string) => subject.startsWith(`${root}.`);
  const id = lastToken(subject);
  const found: string[] = [];
  if (!/^[A-Za-z0-9_-]{1,64}$/.test(id)) found.push(`id ${id}`);
  const plane = planeOf(subject, roots);
  if (plane === "sessions.upstream") return [...found, ...frameComplaints(message, "upstream")];
  if (plane === "sessions.downstream") return [...found, ...frameComplaints(message, "downstream")];
  const value = parseObject(data);
  if (value === null) return [...found, "no JSON object"];
  const shapes = (shape: Shape) => found.push(...complaintsOf(value, shape));
  const names = (allowed: readonly string[]) => found.push(...headerComplaints(message, allowed));
  if (below(`${roots.request}.requests`) && value["type"] === "request") {
    names(TRACE);
    shapes(REQUEST);
    const payload = value["operation"] === "tcp_stream" ? TCP_PAYLOAD : PAYLOAD;
    found.push(...complaintsOf((value["payload"] ?? {}) as JsonRecord, payload));
    if (value["request_id"] !== id) found.push("request_id is not the last token");
    const replyTo = value["reply_to"];
    if (message.reply !== "" && message.reply !== replyTo) found.push("another reply subject");
  } else if (below(`${roots.request}.requests`) || below(`${roots.request}.cancel`)) {
    names([]);
    shapes(CANCEL);
    found.push(...complaintsOf((value["cancel"] ?? {}) as JsonRecord, CANCEL_OBJECT));
  } else if (below(`${roots.request}.control`)) {
    names(FRAME_HEADERS);
    if (message.headers.length !== 2) found.push(`${message.headers.length} NATS headers`);
    shapes(credit("response"));
  } else if (roots.responses.some((root) => below(`${root}.responses`))) {
    names(TRACE);
    const shape = EVENTS[String(value["type"])];
    if (shape === undefined) found.push(`event ${value["type"]}`);
    else shapes(shape);
  } else found.push("a subject that the contract does not have");
  return found;
}
