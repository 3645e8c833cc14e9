/**
 * Tunnels and downloads that are under way while a test cuts, kills and restarts.
 * @module
 */
import { RawClient, requestOctets } from "../helpers/client.ts";
import type { TestSocket } from "../helpers/socket.ts";
import type { Upstream } from "../helpers/upstream.ts";
import { within } from "../helpers/wait.ts";
import { checkStream, openTunnel, sendStream } from "./tunnels.ts";

export interface LoadOptions {
  readonly tunnels: number;
  /** Octets of each tunnel in each direction. */
  readonly tunnelBytes: number;
  readonly downloads: number;
  readonly downloadBytes: number;
  /** Longest wait for the next octets of one stream. */
  readonly ms: number;
}

/** The requester's port, and the upstream, which must be an HTTP server with routes. */
export interface LoadEnds {
  readonly port: number;
  readonly upstream: Upstream;
}

/** The load counts as under way when so much of everything has arrived, in percent. */
const UNDER_WAY_PERCENT = 25;

/**
 * Flows through a bridge, each octet compared. Every second one waits half-way until the disturbance is
 * over, so that it surely has lived through it; the others run into it at full speed.
 */
export class Load implements AsyncDisposable {
  readonly #options: LoadOptions;
  readonly #ends: LoadEnds;
  readonly #flows: Promise<void>[] = [];
  readonly #over = Promise.withResolvers<void>();
  readonly #underWay = Promise.withResolvers<void>();
  #arrivedBytes = 0;

  private constructor(ends: LoadEnds, options: LoadOptions) {
    this.#ends = ends;
    this.#options = options;
    const { tunnelBytes, downloadBytes } = options;
    const { upstream } = ends;
    upstream.route("/load/tunnel/", async (request, connection) => {
      await this.#target(connection, Number(request.path.split("/")[3]), tunnelBytes);
      return "close";
    });
    upstream.route("/load/download/", async (request, connection) => {
      await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${downloadBytes}\r\n\r\n`);
      await this.#send(connection, Number(request.path.split("/")[3]), downloadBytes);
    });
  }

  /** Starts all flows; resolves when they are under way. */
  static async start(ends: LoadEnds, options: LoadOptions): Promise<Load> {
    const load = new Load(ends, options);
    // Seeds are all different, and every second flow has an even `seed >> 1`.
    for (let i = 0; i < options.tunnels; i++) load.#add(`tunnel ${i}`, load.#tunnel(2 * i));
    for (let i = 0; i < options.downloads; i++) {
      load.#add(`download ${i}`, load.#download(10_000 + 2 * i));
    }
    const begun = Promise.race([load.#underWay.promise, ...load.#flows]);
    await within(begun, 5 * options.ms, "a quarter of the load");
    return load;
  }

  /** Octets that have arrived anywhere so far. */
  get arrivedBytes(): number {
    return this.#arrivedBytes;
  }

  /** The disturbance is over: waits until every flow has brought all. @throws {Error} one has not */
  async finish(): Promise<void> {
    this.#over.resolve();
    const settled = await Promise.allSettled(this.#flows);
    const failed = settled.flatMap((flow) => flow.status === "rejected" ? [flow.reason] : []);
    if (failed.length === 0) return;
    const texts = failed.map((error) => (error as Error).message).join("; ");
    throw new AggregateError(failed, `${failed.length} of ${settled.length} flows: ${texts}`);
  }

  /** Lets all flows end, whatever becomes of them. */
  [Symbol.asyncDispose](): Promise<void> {
    this.#over.resolve();
    return Promise.resolve();
  }

  #add(name: string, flow: Promise<void>): void {
    const named = flow.catch((error: Error) => {
      throw new Error(`${name}: ${error.message}`, { cause: error });
    });
    named.catch(() => {}); // `finish` tells
    this.#flows.push(named);
  }

  async #tunnel(seed: number): Promise<void> {
    const { tunnelBytes } = this.#options;
    const { port, upstream } = this.#ends;
    await using socket = await openTunnel(port, upstream.port);
    await socket.write(requestOctets(`/load/tunnel/${seed}`));
    await this.#bothWays(socket, seed, seed + 1, tunnelBytes);
  }

  /** Failures are those of the client's end too, which tells them. */
  async #target(connection: TestSocket, seed: number, bytes: number): Promise<void> {
    try {
      await this.#bothWays(connection, seed + 1, seed, bytes);
    } catch (error) {
      this.#add(`target of ${seed}`, Promise.reject(error));
    }
  }

  async #bothWays(socket: TestSocket, own: number, theirs: number, bytes: number): Promise<void> {
    await Promise.all([
      this.#send(socket, own, bytes).then(() => socket.closeWrite()),
      this.#check(socket, theirs, bytes),
    ]);
    const more = await socket.read(this.#options.ms);
    if (more !== null || socket.end !== "fin") throw new Error(`${socket.end}, not the end`);
  }

  async #download(seed: number): Promise<void> {
    const { downloadBytes, ms } = this.#options;
    await using client = await RawClient.connect(this.#ends.port);
    await client.send(requestOctets(`/load/download/${seed}`));
    await client.socket.readUntil("\r\n\r\n", ms);
    await this.#check(client.socket, seed, downloadBytes);
  }

  #send(socket: TestSocket, seed: number, bytes: number): Promise<void> {
    const waits = (seed >> 1) % 2 === 0;
    const before = (sent: number) =>
      waits && sent >= bytes / 2 && sent < bytes / 2 + 65_536 ? this.#over.promise : undefined;
    return sendStream(socket, seed, bytes, { before });
  }

  #check(socket: TestSocket, seed: number, bytes: number): Promise<void> {
    const { tunnels, tunnelBytes, downloads, downloadBytes, ms } = this.#options;
    const total = 2 * tunnels * tunnelBytes + downloads * downloadBytes;
    let last = 0;
    const onBytes = (received: number) => {
      this.#arrivedBytes += received - last;
      last = received;
      if (this.#arrivedBytes >= total * UNDER_WAY_PERCENT / 100) this.#underWay.resolve();
    };
    return checkStream(socket, seed, bytes, { ms, onBytes });
  }
}
