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
  readonly #server: net.Server;
  readonly #targetPort: number;
  readonly #pairs = new Set<Pair>();
  #cut = false;
  #blocked = false;

  private constructor(targetPort: number) {
    this.#targetPort = targetPort;
    this.#server = net.createServer({ noDelay: true }, (near) => this.#join(near));
  }

  /** @param targetPort where connections lead to, on 127.0.0.1 */
  static async to(targetPort: number): Promise<Cable> {
    const cable = new Cable(targetPort);
    await new Promise<void>((resolve, reject) => {
      cable.#server.once("error", reject);
      cable.#server.listen(0, "127.0.0.1", () => resolve());
    });
    return cable;
  }

  get port(): number {
    return (this.#server.address() as net.AddressInfo).port;
  }

  /** Connections that are up. */
  get connections(): number {
    return this.#pairs.size;
  }

  /** Waits until a connection is up. */
  async joined(ms = 15_000): Promise<void> {
    if (this.connections > 0) return;
    const joined = Promise.withResolvers<void>();
    this.#server.once("connection", () => joined.resolve());
    await within(joined.promise, ms, "a connection over the cable");
  }

  /** Breaks every connection off with RST; new ones are broken off too until `heal`. */
  cut(): void {
    this.#cut = true;
    for (const { near, far } of [...this.#pairs]) {
      near.resetAndDestroy();
      far.resetAndDestroy();
    }
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
  heal(): void {
    this.#cut = this.#blocked = false;
    for (const { near, far } of this.#pairs) {
      near.resume();
      far.resume();
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.cut();
    await new Promise<void>((resolve) => this.#server.close(() => resolve()));
  }

  #join(near: net.Socket): void {
    near.on("error", () => {});
    if (this.#cut) {
      near.resetAndDestroy();
      return;
    }
    const far = net.connect({ port: this.#targetPort, host: "127.0.0.1", noDelay: true });
    far.on("error", () => {});
    const pair = { near, far };
    this.#pairs.add(pair);
    for (const [from, to] of [[near, far], [far, near]] as const) {
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
  }
}
