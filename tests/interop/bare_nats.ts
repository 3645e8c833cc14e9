/**
 * The NATS client of the doubles: one connection, no reconnect, messages in the order in which they
 * come, header names as they were sent. It can log in, and does not ask for no-responders, as the
 * client of nats-proxy does not.
 * @module
 */
import net from "node:net";
import { concat, indexOf, latin1, octets } from "../helpers/bytes.ts";
import { within } from "../helpers/wait.ts";

export interface BareMessage {
  readonly subject: string;
  readonly reply: string;
  /** Lines of the NATS header block, names in the case in which they came. */
  readonly headers: readonly (readonly [name: string, value: string])[];
  readonly data: Uint8Array;
}

export interface BareOptions {
  readonly user?: string;
  readonly password?: string;
}

export interface BarePublishOptions {
  readonly reply?: string;
  readonly headers?: readonly (readonly [name: string, value: string])[];
}

const ROUND_TRIP_MS = 10_000;
const CRLF = octets("\r\n");

/** Value of the first header with exactly this name, or null. */
export function exactHeader(message: BareMessage, name: string): string | null {
  return message.headers.find(([one]) => one === name)?.[1] ?? null;
}

export class BareNats implements AsyncDisposable {
  readonly #socket: net.Socket;
  readonly #closed: Promise<void>;
  readonly #handlers = new Map<string, (message: BareMessage) => void>();
  readonly #info = Promise.withResolvers<void>();
  #unread: Uint8Array = new Uint8Array(0);
  #pongs: (() => void)[] = [];
  #nextSid = 1;
  #closing = false;
  /** `max_payload` of the server. */
  maxPayload = 0;
  /** What the server said against this client, or that it hung up; null while all is well. */
  fault: string | null = null;

  private constructor(socket: net.Socket) {
    this.#socket = socket;
    this.#closed = new Promise((resolve) => socket.once("close", () => resolve()));
    socket.on("data", (data) => this.#take(data as Uint8Array));
    socket.on("error", (error) => this.#broken(error.message));
    socket.on("close", () => this.#broken("the server closed the connection"));
  }

  static async connect(port: number, options: BareOptions = {}): Promise<BareNats> {
    const nats = new BareNats(net.connect({ port, host: "127.0.0.1", noDelay: true }));
    await within(nats.#info.promise, ROUND_TRIP_MS, "INFO of nats-server");
    const login = options.user === undefined
      ? {}
      : { user: options.user, pass: options.password ?? "" };
    const hello = { verbose: false, pedantic: false, headers: true, lang: "double", ...login };
    nats.#write(`CONNECT ${JSON.stringify({ ...hello, version: "0" })}\r\n`);
    await nats.flush();
    return nats;
  }

  /** Calls `handler` for each message on `subject`; it must not throw. */
  subscribe(subject: string, handler: (message: BareMessage) => void, queue = ""): void {
    const sid = String(this.#nextSid++);
    this.#handlers.set(sid, handler);
    this.#write(`SUB ${subject} ${queue}${queue === "" ? "" : " "}${sid}\r\n`);
  }

  publish(subject: string, data: Uint8Array | string, options: BarePublishOptions = {}): void {
    const payload = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const reply = options.reply === undefined ? "" : `${options.reply} `;
    if (options.headers === undefined || options.headers.length === 0) {
      this.#write(
        concat([octets(`PUB ${subject} ${reply}${payload.length}\r\n`), payload, CRLF]),
      );
      return;
    }
    const lines = options.headers.map(([name, value]) => `${name}: ${value}\r\n`).join("");
    const block = octets(`NATS/1.0\r\n${lines}\r\n`);
    const line = `HPUB ${subject} ${reply}${block.length} ${block.length + payload.length}\r\n`;
    this.#write(concat([octets(line), block, payload, CRLF]));
  }

  /** A round trip: the server has taken all that was published before. */
  async flush(): Promise<void> {
    const pong = new Promise<void>((resolve) => this.#pongs.push(resolve));
    this.#write("PING\r\n");
    await within(pong, ROUND_TRIP_MS, () => `PONG from nats-server (${this.fault})`);
  }

  async close(): Promise<void> {
    this.#closing = true;
    this.#socket.destroy();
    await this.#closed;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  #write(data: Uint8Array | string): void {
    if (!this.#socket.destroyed) this.#socket.write(data);
  }

  #broken(reason: string): void {
    if (!this.#closing) this.fault ??= reason;
  }

  #take(data: Uint8Array): void {
    this.#unread = this.#unread.length === 0 ? data : concat([this.#unread, data]);
    let at = 0;
    while (true) {
      const end = indexOf(this.#unread, CRLF, at);
      if (end < 0) break;
      const words = latin1(this.#unread.subarray(at, end)).split(" ");
      const body = end + 2;
      if (words[0] !== "MSG" && words[0] !== "HMSG") {
        this.#control(words);
        at = body;
        continue;
      }
      const total = Number(words.at(-1));
      if (this.#unread.length < body + total + 2) break;
      this.#message(words, this.#unread.slice(body, body + total));
      at = body + total + 2;
    }
    if (at > 0) this.#unread = this.#unread.slice(at);
  }

  #control(words: string[]): void {
    if (words[0] === "PING") this.#write("PONG\r\n");
    else if (words[0] === "PONG") this.#pongs.shift()?.();
    else if (words[0] === "INFO") {
      const info = JSON.parse(words.slice(1).join(" ")) as { max_payload: number };
      this.maxPayload = info.max_payload;
      this.#info.resolve();
    } else if (words[0] === "-ERR") this.#broken(words.join(" "));
  }

  #message(words: string[], whole: Uint8Array): void {
    const withHeaders = words[0] === "HMSG";
    const headerBytes = withHeaders ? Number(words.at(-2)) : 0;
    const lines = latin1(whole.subarray(0, headerBytes)).split("\r\n").slice(1)
      .filter((line) => line !== "");
    this.#handlers.get(words[2] as string)?.({
      subject: words[1] as string,
      reply: words.length === (withHeaders ? 6 : 5) ? words[3] as string : "",
      headers: lines.map((line) => {
        const colon = line.indexOf(":");
        return [line.slice(0, colon), line.slice(colon + 1).trim()] as const;
      }),
      data: whole.subarray(headerBytes),
    });
  }
}
