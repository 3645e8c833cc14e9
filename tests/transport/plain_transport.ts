/**
 * A transport of another client in the same process: nats-core over `Deno.connect`, without a lane.
 * @module
 */

import { type Server, setTransportFactory, type Transport } from "@nats-io/nats-core/internal";

/** What another client's `connect` does: from now on nats-core makes these, also on reconnects. */
export function installPlainTransport(): void {
  setTransportFactory({ factory: () => new PlainTransport() });
}

export class PlainTransport implements Transport {
  readonly lang = "nats.js";
  readonly version = "3.4.0";
  closeError?: Error;
  isClosed = false;
  #conn: Deno.TcpConn | null = null;
  readonly #closed = Promise.withResolvers<void | Error>();
  #writing: Promise<void> = Promise.resolve();

  async connect({ hostname, port }: Server): Promise<void> {
    this.#conn = await Deno.connect({ hostname, port });
    this.#conn.setNoDelay(true);
  }

  async *[Symbol.asyncIterator](): AsyncIterableIterator<Uint8Array> {
    const conn = this.#conn;
    if (conn === null) return;
    try {
      while (!this.isClosed) {
        const bytes = new Uint8Array(65_536);
        const count = await conn.read(bytes);
        if (count === null) break;
        yield bytes.subarray(0, count);
      }
    } catch {
      // Closed below.
    }
    this.#end();
  }

  isEncrypted(): boolean {
    return false;
  }

  send(frame: Uint8Array): void {
    this.#writing = this.#writing.then(async () => {
      for (let at = 0; at < frame.length && !this.isClosed;) {
        at += await this.#conn?.write(frame.subarray(at)) ?? 0;
      }
    }).catch(() => this.#end());
  }

  async close(): Promise<void> {
    await this.#writing;
    this.#end();
  }

  disconnect(): void {
    this.#end();
  }

  discard(): void {
    this.#end();
  }

  closed(): Promise<void | Error> {
    return this.#closed.promise;
  }

  #end(): void {
    if (this.isClosed) return;
    this.isClosed = true;
    if (this.#conn === null) return;
    this.#conn.close();
    this.#closed.resolve();
  }
}
