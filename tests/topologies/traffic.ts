/**
 * What must go through each topology: a request, a body, events one by one, a tunnel.
 * @module
 */
import assert from "node:assert/strict";
import { latin1, pattern, sha256 } from "../helpers/bytes.ts";
import { RawClient, request, requestOctets } from "../helpers/client.ts";
import { one, text } from "../helpers/http_message.ts";
import { answer, type Upstream, type UpstreamConnection } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";
import { checkStream, openTunnel, sendStream } from "../system/tunnels.ts";

const BODY_BYTES = 300_000;
const DOWNLOAD_BYTES = 1_000_000;
const TUNNEL_BYTES = 2_000_000;
const EVENTS = 5;
/** A client that has failed does not hurry. */
const CLIENTS_PAUSE_MS = 100;

/** The routes that the checks need. */
export function routeTraffic(upstream: Upstream): void {
  upstream.route("/digest", async (asked, connection) => {
    const body = await asked.readBody();
    await connection.write(answer("", { fields: [`X-Sha256: ${sha256(body)}`] }));
  });
  upstream.route(
    "/download/",
    (asked, connection) =>
      connection.write(answer(pattern(DOWNLOAD_BYTES, Number(asked.target.split("/")[2])))),
  );
  upstream.route("/events", async (_, connection) => {
    await connection.write(
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    await connection.waitEnd(60_000);
    return "close";
  });
  upstream.route("/tunnel", async (_, connection) => {
    await connection.write("ready");
    await Promise.all([
      checkStream(connection, 1, TUNNEL_BYTES),
      sendStream(connection, 2, TUNNEL_BYTES),
    ]);
    await connection.closeWrite();
    return "close";
  });
}

/** An open stream of server-sent events with its upstream's end. */
export class Events implements AsyncDisposable {
  #sent = 0;

  private constructor(
    readonly client: RawClient,
    readonly connection: UpstreamConnection,
  ) {}

  static async open(port: number, upstream: Upstream): Promise<Events> {
    const from = upstream.requests.length;
    const client = await RawClient.connect(port);
    await client.send(requestOctets("/events"));
    const head = latin1(await client.socket.readUntil("\r\n\r\n"));
    assert.match(head, /^HTTP\/1\.1 200 .*text\/event-stream/s);
    const asked = await upstream.request("/events", { from });
    const connection = upstream.connections.find((conn) => conn.requests.includes(asked));
    assert.ok(connection !== undefined);
    return new Events(client, connection);
  }

  /** Sends one event and waits until the client has it. */
  async next(ms = 10_000): Promise<void> {
    const event = `data: ${++this.#sent}\n\n`;
    await this.connection.write(`${event.length.toString(16)}\r\n${event}\r\n`);
    await this.client.socket.readUntil(event, ms);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.client.close();
  }
}

/** Everything once, through the requester at `port`. */
export async function checkTraffic(port: number, upstream: Upstream): Promise<void> {
  routeTraffic(upstream);
  const got = await request(port, "/hello?x=%2F");
  assert.equal(got.status, 200, text(got));
  assert.equal(text(got), "GET /hello?x=%2F");

  const body = pattern(BODY_BYTES, 3);
  const posted = await request(port, "/digest", { method: "POST", body });
  assert.equal(posted.status, 200, text(posted));
  assert.equal(one(posted, "x-sha256"), sha256(body));

  const download = await request(port, "/download/4", { collect: false });
  assert.ok(download.complete);
  assert.equal(download.bodySha256, sha256(pattern(DOWNLOAD_BYTES, 4)));

  {
    await using events = await Events.open(port, upstream);
    for (let i = 0; i < EVENTS; i++) await events.next();
  }
  await checkTunnel(port, upstream);
  assert.deepEqual(upstream.faults, []);
}

/** Both directions of a CONNECT at once, every octet compared, and an orderly end. */
export async function checkTunnel(port: number, upstream: Upstream): Promise<void> {
  const socket = await openTunnel(port, upstream.port);
  try {
    await socket.write(requestOctets("/tunnel"));
    await socket.readUntil("ready");
    await Promise.all([sendStream(socket, 1, TUNNEL_BYTES), checkStream(socket, 2, TUNNEL_BYTES)]);
    assert.equal(await socket.waitEnd(), "fin");
    await socket.closeWrite();
  } finally {
    await socket.close();
  }
}

/** What a load of requests has met. */
export interface LoadResult {
  readonly answered: number;
  /** Status and body, or how the connection ended. */
  readonly failures: readonly string[];
}

/**
 * Sends GETs one after another, as `clients` clients at a time, until `signal`.
 * @param ms longest wait for an answer
 */
export async function askUntil(
  port: number,
  clients: number,
  ms: number,
  signal: AbortSignal,
): Promise<LoadResult> {
  let answered = 0;
  const failures: string[] = [];
  await Promise.all(Array.from({ length: clients }, async (_, number) => {
    for (let i = 0; !signal.aborted; i++) {
      const failure = await ask(port, `/load/${number}/${i}`, ms);
      if (failure === null) answered++;
      else {
        failures.push(failure);
        await pause(CLIENTS_PAUSE_MS);
      }
    }
  }));
  return { answered, failures };
}

/** What is wrong with the answer; null when nothing is. */
async function ask(port: number, target: string, ms: number): Promise<string | null> {
  try {
    const response = await request(port, target, { ms });
    if (response.status !== 200) return `${response.status} ${text(response)}`;
    return response.complete && text(response) === `GET ${target}` ? null : "another body";
  } catch (error) {
    return String(error);
  }
}
