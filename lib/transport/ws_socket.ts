/**
 * NATS over WebSocket as a byte stream: binary messages, cut anywhere.
 * @module
 */

/** Read and write of a `Deno.Conn` over one WebSocket. */
export class WsStream {
  readonly #socket: WebSocket;
  readonly #received: Uint8Array[] = [];
  #wake: (() => void) | null = null;
  #ended = false;

  constructor(socket: WebSocket) {
    this.#socket = socket;
    socket.onmessage = ({ data }) => {
      if (data instanceof ArrayBuffer) this.#received.push(new Uint8Array(data));
      else if (typeof data === "string") this.#received.push(new TextEncoder().encode(data));
      this.#notify();
    };
    socket.onclose = () => {
      this.#ended = true;
      this.#notify();
    };
    // A close event follows each error event and says all that can be said.
    socket.onerror = null;
  }

  async read(into: Uint8Array): Promise<number | null> {
    while (true) {
      const chunk = this.#received[0];
      if (chunk !== undefined) {
        const count = Math.min(chunk.length, into.length);
        into.set(chunk.subarray(0, count));
        if (count < chunk.length) this.#received[0] = chunk.subarray(count);
        else this.#received.shift();
        if (count > 0) return count;
        continue;
      }
      if (this.#ended) return null;
      await new Promise<void>((resolve) => this.#wake = resolve);
    }
  }

  /** Waits while the socket holds a lot, as far as a WebSocket lets one know. */
  async write(bytes: Uint8Array): Promise<number> {
    while (this.#socket.bufferedAmount > MAX_BUFFERED_BYTES && !this.#ended) {
      await new Promise((resolve) => setTimeout(resolve, BUFFER_POLL_MS));
    }
    if (this.#ended || this.#socket.readyState !== WebSocket.OPEN) {
      throw new Error("the WebSocket is closed");
    }
    this.#socket.send(new Uint8Array(bytes));
    return bytes.length;
  }

  close(): void {
    this.#ended = true;
    this.#received.length = 0;
    this.#socket.onmessage = null;
    try {
      this.#socket.close();
    } catch {
      // Closing a socket that never opened is no failure.
    }
    this.#notify();
  }

  #notify(): void {
    const wake = this.#wake;
    this.#wake = null;
    wake?.();
  }
}

const MAX_BUFFERED_BYTES = 1024 * 1024;
/** A WebSocket has no event for "drained", so this one is asked. */
const BUFFER_POLL_MS = 5;

/** Opens `ws://` or `wss://`; `ca` is a PEM text to trust besides the built-in authorities. */
export function openWebSocket(
  server: {
    readonly scheme: string;
    readonly hostname: string;
    readonly port: number;
    readonly path: string;
  },
  ca: string | undefined,
  signal: AbortSignal,
): Promise<WsStream> {
  const host = server.hostname.includes(":") ? `[${server.hostname}]` : server.hostname;
  const url = `${server.scheme}://${host}:${server.port}${server.path}`;
  const client = ca === undefined ? undefined : Deno.createHttpClient({ caCerts: [ca] });
  const socket = new WebSocket(url, client === undefined ? {} : { client });
  socket.binaryType = "arraybuffer";
  return new Promise((resolve, reject) => {
    const fail = (reason: string) => {
      finish();
      client?.close();
      socket.close();
      reject(new Error(reason));
    };
    const abort = () => fail("the attempt was ended");
    const finish = () => {
      socket.onopen = socket.onerror = socket.onclose = null;
      signal.removeEventListener("abort", abort);
    };
    socket.onopen = () => {
      finish();
      client?.close();
      resolve(new WsStream(socket));
    };
    socket.onerror = (event) => {
      fail(event instanceof ErrorEvent ? event.message : "the WebSocket did not open");
    };
    socket.onclose = () => fail("the WebSocket was closed");
    signal.addEventListener("abort", abort);
    if (signal.aborted) abort();
  });
}
