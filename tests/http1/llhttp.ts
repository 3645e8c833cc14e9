/**
 * llhttp, called without the rest of node:http.
 * @module
 */

import { Buffer } from "node:buffer";
// @ts-ignore: the parser class is not part of the typed interface of Node
import { HTTPParser as Parser, methods } from "node:_http_common";
import { type Heard, type Input, MAX_HEAD_BYTES, type Reading, upToTheClose } from "./reading.ts";

/** The class of the parsers that node:http makes for its connections. */
export const HTTPParser: new () => Native & Record<number, unknown> = Parser;

/** What is used of a parser; its events are members that are numbers. */
interface Native {
  initialize(type: number, resource: object, maxHeadBytes: number): void;
  /** Returns the octets it took, or an Error with `code` and `reason`. */
  execute(bytes: Uint8Array): number | Error & { code: string; reason: string };
  /** Returns something other than 0 if the end of input is not expected here. */
  finish(): unknown;
  close(): void;
}

/** Arguments of the event behind a head. */
type HeadFacts = [
  major: number,
  minor: number,
  fields: string[] | null,
  method: number,
  target: string | null,
  status: number,
  reason: string,
  upgrade: boolean,
  keepAlive: boolean,
];

/** Answers to the event behind a head. */
const GO_ON = 0;
const NO_BODY = 1;
const LEAVE_HTTP = 2;

/** Begins a fault within a message that asks for an upgrade: Node keeps llhttp's error to itself then. */
export const UNNAMED = "unnamed";

/** Names of the methods that llhttp knows. */
export const LLHTTP_METHODS: readonly string[] = methods;

/** One for all, as node:http uses its parsers again: a new one for each input would be slow to free. */
const parser = new HTTPParser();

/** Reads a connection with llhttp, strict in all things, as node:http uses it. */
export function readWithLlhttp(input: Input): Reading {
  const { side, bytes, requestMethod = "GET", cuts = [] } = input;
  const messages: Heard[] = [];
  let open: OpenMessage | null = null;
  let fields: [string, string][] = [];
  let isBegun = false;
  parser.initialize(side === "request" ? Parser.REQUEST : Parser.RESPONSE, {}, MAX_HEAD_BYTES);
  parser[Parser.kOnMessageBegin] = () => {
    fields = [];
    isBegun = true;
  };
  parser[Parser.kOnHeaders] = (flat: string[]) => {
    addPairs(open === null ? fields : open.trailers, flat);
  };
  parser[Parser.kOnHeadersComplete] = (...facts: HeadFacts): number => {
    const [major, minor, flat, method, target, status, reason, upgrade, keepAlive] = facts;
    addPairs(fields, flat ?? []);
    const start: [string, string] = side === "request"
      ? [METHOD_NAMES.get(method) ?? `method ${method}`, target ?? ""]
      : [String(status), reason];
    const opensTunnel = side === "response" && requestMethod === "CONNECT" &&
      status >= 200 && status < 300;
    const leavesHttp = upgrade || status === 101 || opensTunnel;
    open = {
      start,
      version: `${major}.${minor}`,
      fields,
      body: "",
      trailers: [],
      keepAlive: keepAlive && !leavesHttp,
      leavesHttp,
    };
    if (opensTunnel) return LEAVE_HTTP;
    const isInterim = status >= 100 && status < 200; // also without body by node:http's own choice
    return side === "response" && (requestMethod === "HEAD" || isInterim) ? NO_BODY : GO_ON;
  };
  parser[Parser.kOnBody] = (data: Uint8Array) => {
    open!.body += Buffer.from(data).toString("latin1");
  };
  parser[Parser.kOnMessageComplete] = () => {
    messages.push(open!);
    open = null;
    isBegun = false;
  };
  let fault = "";
  let from = 0;
  for (const to of [...cuts, bytes.length]) {
    if (to === from) continue; // an empty read is the end of input to llhttp
    const result = parser.execute(Buffer.from(bytes.buffer, bytes.byteOffset + from, to - from));
    const size = to - from;
    from = to;
    if (result instanceof Error) fault = `${result.code}: ${result.reason}`;
    else if (result < size && open !== null) fault = `${UNNAMED}: stopped behind ${result} octets`;
    if (fault !== "") break;
  }
  if (fault === "") {
    // Completes what ends with the connection. Only behind an error it has no fault to find in a message
    // that is not complete.
    const isContent = parser.finish() === 0;
    if (isContent && open !== null) fault = `${UNNAMED}: stopped at the last octet`;
  }
  return upToTheClose({
    messages,
    open: fault === "" ? open : null,
    end: fault !== "" ? "refused" : isBegun ? "unfinished" : "clean",
    fault,
  });
}

type OpenMessage = Heard & { body: string; trailers: [string, string][] };

/** llhttp's numbers of methods are not in the order of `methods`: each is asked for. */
const METHOD_NAMES = new Map<number, string>(LLHTTP_METHODS.map((name) => [numberOf(name), name]));

function numberOf(method: string): number {
  let number = -1;
  for (const target of ["/", "a:1"]) {
    const parser = new HTTPParser();
    parser.initialize(Parser.REQUEST, {}, MAX_HEAD_BYTES);
    parser[Parser.kOnHeadersComplete] = (...facts: HeadFacts): number => {
      number = facts[3];
      return GO_ON;
    };
    parser.execute(Buffer.from(`${method} ${target} HTTP/1.1\r\n\r\n`));
    parser.close();
  }
  return number;
}

function addPairs(to: [string, string][], flat: string[]): void {
  for (let i = 0; i < flat.length; i += 2) to.push([flat[i]!, flat[i + 1]!]);
}
