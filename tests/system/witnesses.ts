/**
 * Flows of every kind with a witness at each end, for tests in which they must end visibly, or live.
 * @module
 */
import assert from "node:assert/strict";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { readResponse } from "../helpers/http_message.ts";
import type { TestSocket } from "../helpers/socket.ts";
import type { Upstream } from "../helpers/upstream.ts";
import { within } from "../helpers/wait.ts";
import { Checker } from "./octet_stream.ts";
import { echo, openTunnel, sendStream } from "./tunnels.ts";

const ENDLESS_BYTES = 2 ** 40;
/** Longest that a witness waits. */
const WAIT_MS = 60_000;

/** How an end of a flow was told that it is over. */
export type Ending = "reset" | "fin" | "incomplete" | "complete";

/** The ends of one side, each with the name of its flow. */
export type Endings = readonly (readonly [name: string, ending: Ending])[];

/** One flow. */
interface Witness {
  readonly name: string;
  /** Resolve when that end's connection has ended. */
  readonly client: () => Promise<Ending>;
  readonly target: () => Promise<Ending>;
  readonly close: () => Promise<void>;
}

/** Reads to the end and compares each octet. */
async function readAll(socket: TestSocket, seed: number): Promise<Ending> {
  const checker = new Checker(seed);
  for (;;) {
    const piece = await socket.read(WAIT_MS);
    if (piece === null) break;
    checker.take(piece);
  }
  return socket.end === "fin" ? "fin" : "reset";
}

let lastSeed = 0;

/** Opens flows through the requester at `port` to an upstream with routes. */
export class Witnesses implements AsyncDisposable {
  readonly #port: number;
  readonly #upstream: Upstream;
  readonly #targets = new Map<number, PromiseWithResolvers<Ending>>();
  readonly all: Witness[] = [];

  constructor(port: number, upstream: Upstream) {
    this.#port = port;
    this.#upstream = upstream;
    upstream.route("/witness/idle/", async (request, connection) => {
      await connection.write("ready");
      const copy = connection.read(WAIT_MS).then((first) => {
        if (first === null) return;
        connection.unshift(first);
        return echo(connection);
      });
      await copy.catch(() => {}); // how it ended is told by the socket
      this.#ended(request.target, connection.end === "fin" ? "fin" : "reset");
      return "close";
    });
    upstream.route("/witness/busy/", async (request, connection) => {
      const seed = seedOf(request.target);
      await connection.write("ready");
      const sending = sendStream(connection, seed + 1, ENDLESS_BYTES).catch(() => {});
      const end = await readAll(connection, seed);
      this.#ended(request.target, end);
      await connection.close();
      await sending;
      return "close";
    });
    upstream.route("/witness/stream/", async (request, connection) => {
      await connection.write("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n");
      await connection.write("Transfer-Encoding: chunked\r\n\r\n7\r\nready\n\n\r\n");
      this.#ended(request.target, await connection.waitEnd(WAIT_MS));
      return "close";
    });
    upstream.route("/witness/download/", async (request, connection) => {
      await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${ENDLESS_BYTES}\r\n\r\n`);
      const seed = seedOf(request.target);
      const sending = sendStream(connection, seed, ENDLESS_BYTES).catch(() => {});
      this.#ended(request.target, await connection.waitEnd(WAIT_MS));
      await connection.close();
      await sending;
      return "close";
    });
  }

  /** A tunnel that has carried a word and then is silent. Its target echoes. */
  async idleTunnel(): Promise<TestSocket> {
    const { seed, target } = this.#next();
    const socket = await this.#tunnel("idle", seed);
    this.#keep("idle tunnel", () => socket.waitEnd(WAIT_MS), target, () => socket.close());
    return socket;
  }

  /** A tunnel through which both ends send all the time. */
  async busyTunnel(): Promise<void> {
    const { seed, target } = this.#next();
    const socket = await this.#tunnel("busy", seed);
    const sending = sendStream(socket, seed, ENDLESS_BYTES).catch(() => {});
    const client = readAll(socket, seed + 1);
    client.catch(() => {}); // who asks is told
    this.#keep("busy tunnel", () => client, target, async () => {
      await socket.close();
      await sending;
    });
  }

  /** A response of server-sent events that has brought one. */
  async stream(): Promise<void> {
    await this.#http("stream", "ready");
  }

  /** A response that comes as fast as it can. */
  async download(): Promise<void> {
    await this.#http("download", "\r\n\r\n");
  }

  /** All ends of one side, by the names of the flows. @throws {Error} naming one that has not come in `ms` */
  async endings(side: "client" | "target", ms: number): Promise<Endings> {
    return await Promise.all(
      this.all.map(async (witness) =>
        [
          witness.name,
          await within(witness[side](), ms, `the end of the ${side} of a ${witness.name}`),
        ] as const
      ),
    );
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Promise.all(this.all.map((witness) => witness.close()));
  }

  #next(): { seed: number; target: Promise<Ending> } {
    const seed = lastSeed += 2;
    const target = Promise.withResolvers<Ending>();
    this.#targets.set(seed, target);
    return { seed, target: target.promise };
  }

  #ended(target: string, ending: Ending): void {
    this.#targets.get(seedOf(target))?.resolve(ending);
  }

  async #tunnel(kind: string, seed: number): Promise<TestSocket> {
    const socket = await openTunnel(this.#port, this.#upstream.port);
    await socket.write(requestOctets(`/witness/${kind}/${seed}`));
    await socket.readUntil("ready");
    return socket;
  }

  async #http(kind: "stream" | "download", until: string): Promise<void> {
    const { seed, target } = this.#next();
    const client = await RawClient.connect(this.#port);
    await client.send(requestOctets(`/witness/${kind}/${seed}`));
    client.socket.unshift(await client.socket.readUntil(until));
    const checker = new Checker(seed);
    const read = async (): Promise<Ending> => {
      const response = await readResponse(client.socket, {
        ms: WAIT_MS,
        collect: false,
        onBody: (piece) => kind === "download" ? checker.take(piece) : undefined,
      });
      return response.complete ? "complete" : "incomplete";
    };
    // A download is to be read all the time, whoever asks for its end.
    const reading = kind === "download" ? read() : null;
    reading?.catch(() => {});
    this.#keep(kind, () => reading ?? read(), target, () => client.close());
  }

  #keep(
    name: string,
    client: () => Promise<Ending>,
    target: Promise<Ending>,
    close: () => Promise<void>,
  ): void {
    this.all.push({ name, client, target: () => target, close });
  }
}

function seedOf(target: string): number {
  return Number(target.split("/")[3]);
}

/** What clients must see when the way to the target is lost: never an end that looks clean. */
export function assertClientsTold(endings: Endings): void {
  for (const [name, ending] of endings) {
    assert.equal(ending, name.endsWith("tunnel") ? "reset" : "incomplete", name);
  }
}

/** What targets must see: a tunnel is reset; the connection of an HTTP request just ends. */
export function assertTargetsTold(endings: Endings): void {
  for (const [name, ending] of endings) {
    if (name.endsWith("tunnel")) assert.equal(ending, "reset", name);
  }
}
