/**
 * A bare NATS client for tests: it publishes and shows exact octets, so a test can speak as a peer
 * that is not natsway, or as a broken one. Clear text, one connection, no reconnect.
 * @module
 */
import { concat, latin1, octets } from "./bytes.ts";
import { TestSocket } from "./socket.ts";
import { EventLog, within } from "./wait.ts";

export interface NatsMessage {
  readonly subject: string;
  readonly reply: string;
  /** The header block from `NATS/1.0` on, or "". */
  readonly headers: string;
  readonly data: Uint8Array;
}

/** Who connects, where the server asks. */
export interface NatsLogin {
  readonly user?: string;
  readonly pass?: string;
}

/** Payload as JSON object. */
export function jsonOf(message: NatsMessage): Record<string, unknown> {
  return JSON.parse(new TextDecoder().decode(message.data)) as Record<string, unknown>;
}

export class NatsClient implements AsyncDisposable {
  readonly #socket: TestSocket;
  readonly #subscriptions = new Map<string, EventLog<NatsMessage>>();
  readonly #reading: Promise<void>;
  #pongs: (() => void)[] = [];
  #nextSid = 1;

  private constructor(socket: TestSocket) {
    this.#socket = socket;
    this.#reading = this.#read();
  }

  static async connect(port: number, login: NatsLogin = {}): Promise<NatsClient> {
    const socket = await TestSocket.connect(port);
    await socket.readUntil("\r\n"); // INFO
    const options = {
      verbose: false,
      pedantic: false,
      headers: true,
      no_responders: true,
      lang: "test",
      version: "0",
      ...login,
    };
    await socket.write(`CONNECT ${JSON.stringify(options)}\r\n`);
    const client = new NatsClient(socket);
    await client.flush();
    return client;
  }

  /** Messages on `subject` from now on. */
  async subscribe(subject: string, queue = ""): Promise<EventLog<NatsMessage>> {
    const sid = String(this.#nextSid++);
    const log = new EventLog<NatsMessage>();
    this.#subscriptions.set(sid, log);
    await this.#socket.write(`SUB ${subject} ${queue}${queue === "" ? "" : " "}${sid}\r\n`);
    await this.flush();
    return log;
  }

  /** @param headers lines without `NATS/1.0` */
  async publish(
    subject: string,
    data: Uint8Array | string,
    options: { reply?: string; headers?: readonly string[] } = {},
  ): Promise<void> {
    const payload = typeof data === "string" ? new TextEncoder().encode(data) : data;
    const reply = options.reply === undefined ? "" : `${options.reply} `;
    const parts: Uint8Array[] = [];
    if (options.headers === undefined) {
      parts.push(octets(`PUB ${subject} ${reply}${payload.length}\r\n`), payload);
    } else {
      const block = octets(["NATS/1.0", ...options.headers, "", ""].join("\r\n"));
      const total = block.length + payload.length;
      parts.push(octets(`HPUB ${subject} ${reply}${block.length} ${total}\r\n`), block, payload);
    }
    parts.push(octets("\r\n"));
    await this.#socket.write(concat(parts));
  }

  /** A round trip: the server has taken all that was published before. */
  async flush(): Promise<void> {
    const pong = new Promise<void>((resolve) => this.#pongs.push(resolve));
    await this.#socket.write("PING\r\n");
    await within(pong, 10_000, "PONG from nats-server");
  }

  async close(): Promise<void> {
    await this.#socket.close();
    await this.#reading;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close();
  }

  async #read(): Promise<void> {
    try {
      while (true) {
        const line = latin1(await this.#socket.readUntil("\r\n", 600_000)).slice(0, -2);
        const [verb = "", ...words] = line.split(" ");
        if (verb === "PING") await this.#socket.write("PONG\r\n");
        else if (verb === "PONG") this.#pongs.shift()?.();
        else if (verb === "MSG") await this.#message(words, 0);
        else if (verb === "HMSG") await this.#message(words, Number(words[words.length - 2]));
        else if (verb === "-ERR") throw new Error(`nats-server says ${line}`);
      }
    } catch (error) {
      for (const log of this.#subscriptions.values()) {
        log.close(`the test's NATS connection ended (${(error as Error).message})`);
      }
    }
  }

  async #message(words: string[], headerBytes: number): Promise<void> {
    const total = Number(words[words.length - 1]);
    const hasReply = words.length === (headerBytes > 0 ? 5 : 4);
    const whole = await this.#socket.readExactly(total + 2);
    this.#subscriptions.get(words[1] as string)?.add({
      subject: words[0] as string,
      reply: hasReply ? words[2] as string : "",
      headers: latin1(whole.subarray(0, headerBytes)),
      data: whole.slice(headerBytes, total),
    });
  }
}
