/**
 * One way to ask through either requester (natsway's HTTP port, or the double directly), the upstream
 * that all interop tests share, and the set-ups of wire-protocol.md section 1.1.
 * @module
 */
import { concat, octets } from "../helpers/bytes.ts";
import { request as httpRequest } from "../helpers/client.ts";
import type { Settings } from "../helpers/natsway.ts";
import { answer, type Upstream, type UpstreamConnection } from "../helpers/upstream.ts";
import type { RubyRequester } from "./ruby_requester.ts";

export interface Ask {
  readonly method?: string;
  readonly fields?: readonly (readonly [name: string, value: string])[];
  readonly body?: Uint8Array | string;
}

export interface Answered {
  readonly status: number;
  readonly fields: readonly (readonly [name: string, value: string])[];
  readonly body: Uint8Array;
  /** Came whole, and no error was put into it. */
  readonly complete: boolean;
}

/** Asks through a requester. */
export type Asker = (path: string, ask?: Ask) => Promise<Answered>;

/** Asks natsway's requester on `port`. */
export function askNatsway(port: number): Asker {
  return async (path, ask = {}) =>
    await httpRequest(port, path, {
      ms: 30_000,
      method: ask.method ?? "GET",
      fields: (ask.fields ?? []).map(([name, value]) => `${name}: ${value}`),
      ...(ask.body === undefined ? {} : { body: ask.body }),
    });
}

/** Asks the requester double. */
export function askRuby(requester: RubyRequester): Asker {
  return async (path, ask = {}) => {
    const response = await requester.ask(path, ask).done;
    return { ...response, complete: response.inBand === null };
  };
}

/** The values of one field. */
export function values(response: Pick<Answered, "fields">, name: string): string[] {
  return response.fields.filter(([one]) => one.toLowerCase() === name).map(([, value]) => value);
}

/** The body as text. */
export function bodyText(response: Pick<Answered, "body">): string {
  return new TextDecoder().decode(response.body);
}

/** One chunk of a chunked message. */
export function httpChunk(data: string | Uint8Array): Uint8Array {
  const bytes = typeof data === "string" ? new TextEncoder().encode(data) : data;
  return concat([octets(`${bytes.length.toString(16)}\r\n`), bytes, octets("\r\n")]);
}

/** Head of a chunked answer. */
export function chunkedHead(contentType: string): string {
  return `HTTP/1.1 200 OK\r\nContent-Type: ${contentType}\r\nTransfer-Encoding: chunked\r\n\r\n`;
}

/** Writes `body` as a chunked message of pieces of 32 KiB. */
export async function writeChunked(
  connection: UpstreamConnection,
  contentType: string,
  body: Uint8Array,
): Promise<void> {
  await connection.write(chunkedHead(contentType));
  for (let at = 0; at < body.length; at += 32_768) {
    await connection.write(httpChunk(body.subarray(at, at + 32_768)));
  }
  await connection.write("0\r\n\r\n");
}

/** `/ticks…`: server-sent events, 5 ms apart, until the connection ends. */
export function routeTicks(upstream: Upstream): void {
  upstream.route("/ticks", async (_, connection) => {
    await connection.write(chunkedHead("text/event-stream"));
    for (let i = 0; connection.end === "open"; i++) {
      try {
        await connection.write(httpChunk(`data: ${i}\n\n`));
      } catch {
        break; // the peer has left, as it should
      }
      await new Promise((resolve) => setTimeout(resolve, 5));
    }
    return "close";
  });
}

/** `/echo…`: the request's body, with its content type. */
export function routeEcho(upstream: Upstream): void {
  upstream.route("/echo", async (request, connection) => {
    const body = await request.readBody();
    const type = request.fields.find(([name]) => name.toLowerCase() === "content-type")?.[1];
    await connection.write(answer(body, { fields: [`Content-Type: ${type ?? "x/none"}`] }));
  });
}

/** Place of one role in a set-up: what goes into a double and, as settings, into natsway. */
export interface Place {
  readonly user?: string;
  readonly password?: string;
  readonly requestRoot: string;
  readonly responseRoot: string;
  readonly listenSubject?: string;
}

/** A row of the table in wire-protocol.md section 1.1. */
export interface SetUp {
  readonly name: string;
  readonly requester: Place;
  readonly receiver: Place;
  /** Whether two Ruby peers find each other over Core. */
  readonly rubyToRuby: boolean;
  readonly natsConfig?: string;
}

const TWO_ACCOUNTS = `
accounts {
  CLIENT {
    users: [ { user: "client", password: "client-pw" } ]
    exports: [
      { stream: "to.proxy.requests.>" }
      { stream: "to.proxy.sessions.upstream.>" }
      { stream: "to.proxy.cancel.>" }
      { stream: "to.proxy.control.>" }
    ]
    imports: [
      { stream: { account: SERVER, subject: "proxy.responses.>" }, prefix: "from" }
      { stream: { account: SERVER, subject: "proxy.sessions.downstream.>" }, prefix: "from" }
    ]
  }
  SERVER {
    users: [ { user: "server", password: "server-pw" } ]
    exports: [
      { stream: "proxy.responses.>" }
      { stream: "proxy.sessions.downstream.>" }
    ]
    imports: [
      { stream: { account: CLIENT, subject: "to.proxy.requests.>" }, to: "proxy.requests.>" }
      { stream: { account: CLIENT, subject: "to.proxy.sessions.upstream.>" }, to: "proxy.sessions.upstream.>" }
      { stream: { account: CLIENT, subject: "to.proxy.cancel.>" }, to: "proxy.cancel.>" }
      { stream: { account: CLIENT, subject: "to.proxy.control.>" }, to: "proxy.control.>" }
    ]
  }
}
`;

const DEFAULT: Place = { requestRoot: "to.proxy", responseRoot: "from.proxy" };
const QUICK: Place = { requestRoot: "to.proxy", responseRoot: "proxy" };
const PLAIN: Place = { requestRoot: "proxy", responseRoot: "proxy" };

/** The rows of the table that Core allows. */
export const SET_UPS: readonly SetUp[] = [
  {
    name: "one account, default roots",
    requester: DEFAULT,
    receiver: DEFAULT,
    rubyToRuby: false,
  },
  {
    name: "one account, RES_ROOT=proxy",
    requester: QUICK,
    receiver: QUICK,
    rubyToRuby: true,
  },
  {
    name: "one account, REQ_ROOT=RES_ROOT=proxy",
    requester: PLAIN,
    receiver: PLAIN,
    rubyToRuby: true,
  },
  {
    name: "two accounts",
    requester: { ...DEFAULT, user: "client", password: "client-pw" },
    receiver: {
      ...PLAIN,
      listenSubject: "proxy.requests.>",
      user: "server",
      password: "server-pw",
    },
    rubyToRuby: true,
    natsConfig: TWO_ACCOUNTS,
  },
];

/** Settings that put natsway at `place`. */
export function placeSettings(port: number, place: Place): Settings {
  const login = place.user === undefined ? "" : `${place.user}:${place.password}@`;
  return {
    NATS_URL: `nats://${login}127.0.0.1:${port}`,
    NATS_REQUEST_SUBJECT_ROOT: place.requestRoot,
    NATS_RESPONSE_SUBJECT_ROOT: place.responseRoot,
    ...(place.listenSubject === undefined ? {} : { LISTEN_SUBJECT: place.listenSubject }),
  };
}
