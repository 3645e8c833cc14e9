/**
 * A TCP link that a test can cut, block and heal: connections to its port are passed on to another.
 * @module
 */
import net from "node:net";
import { within } from "../helpers/wait.ts";

interface Pair {
  readonly near: net.Socket;
  readonly far: net.Socket;
}

/** See the module. Use it with `await using`. */
export class Cable implements AsyncDisposable {
  readonly port: number;
  readonly #targetPort: number;
  readonly #pairs = new Set<Pair>();
  #server: net.Server | null = null;
  #blocked = false;
  #joined = Promise.withResolvers<void>();

  private constructor(port: number, targetPort: number) {
    this.port = port;
    this.#targetPort = targetPort;
  }

  /** @param targetPort where connections lead to, on 127.0.0.1 */
  static async to(targetPort: number): Promise<Cable> {
    const server = await listen(0);
    const cable = new Cable((server.address() as net.AddressInfo).port, targetPort);
    cable.#serve(server);
    return cable;
  }

  /** Connections that are up. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Waits until a connection is up. */
  async joined(ms = 15_000): Promise<void> {
    if (this.connections > 0) return;
    this.#joined = Promise.withResolvers();
    await within(this.#joined.promise, ms, "a connection over the cable");
  }

  /** Breaks every connection off with RST; new ones are refused until `heal`. */
  async cut(): Promise<void> {
    const server = this.#server;
    this.#server = null;
    const closed = new Promise<void>((resolve) => server?.close(() => resolve()) ?? resolve());
    for (const { near, far } of [...this.#pairs]) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
    await closed;
  }

  /** Passes nothing on any more, in either direction, while all connections stay up. */
  block(): void {
    this.#blocked = true;
    for (const { near, far } of this.#pairs) {
      near.pause();
      far.pause();
    }
  }

  /** Ends `cut` and `block`: what waited is passed on. */
  async heal(): Promise<void> {
    this.#blocked = false;
    for (const { near, far } of this.#pairs) {
      near.resume();
      far.resume();
    }
    if (this.#server === null) this.#serve(await listen(this.port));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.cut();
  }

  #serve(server: net.Server): void {
    this.#server = server;
    server.on("connection", (near) => this.#join(near));
  }

  #join(near: net.Socket): void {
    const far = net.connect({ port: this.#targetPort, host: "127.0.0.1", noDelay: true });
    const pair = { near, far };
    this.#pairs.add(pair);
    for (const [from, to] of [[near, far], [far, near]] as const) {
      from.setNoDelay(true);
      from.on("error", () => {}); // `close` follows
      from.on("data", (data) => {
        if (to.write(data)) return;
        from.pause();
        to.once("drain", () => {
          if (!this.#blocked) from.resume();
        });
      });
      from.on("close", () => {
        this.#pairs.delete(pair);
        to.destroy();
      });
    }
    if (this.#blocked) this.block();
    this.#joined.resolve();
  }
}

function listen(port: number): Promise<net.Server> {
  const server = net.createServer();
  return new Promise((resolve, reject) => {
    server.once("error", reject);
    server.listen(port, "127.0.0.1", () => resolve(server));
  });
}
