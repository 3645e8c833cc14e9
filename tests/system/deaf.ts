/**
 * A target that never answers a SYN.
 * @module
 */

/** Longest a connection on loopback takes while there is room for it. */
const CONNECT_MS = 250;
const MOST_PARKED = 10_000;

/** Use it with `await using`. */
export class DeafTarget implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #parked: Deno.TcpConn[] = [];

  private constructor(listener: Deno.TcpListener) {
    this.#listener = listener;
  }

  /** A listener that accepts nobody, with so many connections parked that no other one fits. */
  static async start(): Promise<DeafTarget> {
    const target = new DeafTarget(Deno.listen({ hostname: "127.0.0.1", port: 0 }));
    while (await target.#park()) {
      if (target.#parked.length > MOST_PARKED) throw new Error("the backlog has no end");
    }
    return target;
  }

  get port(): number {
    return this.#listener.addr.port;
  }

  /** Whether one more connection found room. */
  async #park(): Promise<boolean> {
    const clock = new AbortController();
    const timer = setTimeout(() => clock.abort(), CONNECT_MS);
    try {
      const { port } = this;
      this.#parked.push(
        await Deno.connect({ hostname: "127.0.0.1", port, signal: clock.signal }),
      );
      return true;
    } catch {
      return false;
    } finally {
      clearTimeout(timer);
    }
  }

  [Symbol.asyncDispose](): Promise<void> {
    for (const conn of this.#parked) conn.close();
    this.#listener.close();
    return Promise.resolve();
  }
}
