/**
 * What the tests of the link share.
 * @module
 */

import { type NatsAddress, natsUrls } from "../../lib/config/addresses.ts";
import type { LogFields, Logger, LogLevel } from "../../lib/logger.ts";
import { type LinkOptions, NatsLink } from "../../lib/transport/link.ts";
import type { NatsServer } from "../helpers/nats_server.ts";
import { EventLog, within } from "../helpers/wait.ts";

export interface LogLine {
  readonly level: LogLevel;
  readonly message: string;
  readonly fields: LogFields;
}

/** Keeps every line, and its text for "is there a secret in it". */
export class RecordingLogger implements Logger {
  readonly lines = new EventLog<LogLine>();

  get text(): string {
    return JSON.stringify(this.lines.events);
  }

  debug = (message: string, fields: LogFields = {}) => this.#add("debug", message, fields);
  info = (message: string, fields: LogFields = {}) => this.#add("info", message, fields);
  warn = (message: string, fields: LogFields = {}) => this.#add("warning", message, fields);
  error = (message: string, fields: LogFields = {}) => this.#add("error", message, fields);
  enabled = () => true;

  of(level: LogLevel): LogLine[] {
    return this.lines.events.filter((line) => line.level === level);
  }

  #add(level: LogLevel, message: string, fields: LogFields): void {
    this.lines.add({ level, message, fields });
  }
}

/** Addresses as the setting NATS_URL reads them, one or more for each text. */
export function serversOf(...urls: readonly string[]): NatsAddress[] {
  return urls.flatMap((url) => natsUrls.parse(url));
}

/** A link with a log of its own; closed at the end of its scope. */
export class TestLink implements AsyncDisposable {
  readonly logger = new RecordingLogger();
  readonly link: NatsLink;
  /** Every change of `connected`, in order. */
  readonly changes = new EventLog<boolean>();

  constructor(urls: string | readonly string[], options: Partial<LinkOptions> = {}) {
    this.link = new NatsLink({
      servers: serversOf(...[urls].flat()),
      logger: this.logger,
      ...options,
    });
    this.link.onConnection((connected) => this.changes.add(connected));
  }

  /** Waits until the link is connected, or is not. */
  async until(connected: boolean, ms = 10_000): Promise<void> {
    if (this.link.connected === connected) return;
    await this.changes.find((change) => change === connected && this.link.connected === connected, {
      ms,
      what: connected ? "a connection" : "the end of the connection",
      from: this.changes.events.length,
      describe: () => this.logger.text,
    });
  }

  /** Waits until nats-core has begun `count` more attempts to connect. */
  async attempts(count: number): Promise<void> {
    for await (const event of this.link.connection.status()) {
      if (event.type === "reconnecting" && --count === 0) return;
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.link.close(), 10_000, "the end of close()");
  }
}

/** A connected link. */
export async function startLink(
  url: string,
  options: Partial<LinkOptions> = {},
): Promise<TestLink> {
  const link = new TestLink(url, options);
  await link.until(true);
  return link;
}

/** Ends the server, waits until all links have noticed, and starts it again until all are back. */
export async function restartUnder(server: NatsServer, ...links: TestLink[]): Promise<void> {
  await server.kill("SIGTERM");
  await Promise.all(links.map((link) => link.until(false)));
  await server.restart();
  await Promise.all(links.map((link) => link.until(true)));
}

export const encode = (text: string): Uint8Array<ArrayBuffer> => new TextEncoder().encode(text);
export const decode = (bytes: Uint8Array): string => new TextDecoder().decode(bytes);

/** A cheap sum that differs when octets are swapped. */
export function checksum(bytes: Uint8Array): number {
  let sum = 0;
  for (const octet of bytes) sum = (sum * 31 + octet) >>> 0;
  return sum;
}

/** A generator of equal sequences for equal seeds (mulberry32). */
export function seeded(seed: number): () => number {
  return () => {
    seed = (seed + 0x6d2b79f5) | 0;
    let t = Math.imul(seed ^ (seed >>> 15), 1 | seed);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4_294_967_296;
  };
}

export function randomBytes(length: number, random: () => number): Uint8Array<ArrayBuffer> {
  const bytes = new Uint8Array(length);
  for (let i = 0; i < length; i++) bytes[i] = Math.floor(random() * 256);
  return bytes;
}

/** A TCP proxy that cuts what it passes on, in both directions, into pieces of 1 to `largest` bytes. */
export class ChoppingProxy implements AsyncDisposable {
  readonly #listener: Deno.TcpListener;
  readonly #conns = new Set<Deno.TcpConn>();
  readonly #accepting: Promise<void>;
  #pumps: Promise<void>[] = [];
  pieces = 0;

  constructor(target: number, largest: number, random: () => number) {
    this.#listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
    this.#accepting = this.#accept(target, largest, random);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#listener.addr.port}`;
  }

  async #accept(target: number, largest: number, random: () => number): Promise<void> {
    for await (const client of this.#listener) {
      const server = await Deno.connect({ hostname: "127.0.0.1", port: target });
      for (const conn of [client, server]) {
        conn.setNoDelay(true);
        this.#conns.add(conn);
      }
      this.#pumps.push(
        this.#pump(client, server, largest, random),
        this.#pump(server, client, largest, random),
      );
    }
  }

  async #pump(
    from: Deno.TcpConn,
    to: Deno.TcpConn,
    largest: number,
    random: () => number,
  ): Promise<void> {
    const buffer = new Uint8Array(65_536);
    try {
      for (let n = await from.read(buffer); n !== null; n = await from.read(buffer)) {
        for (let at = 0; at < n;) {
          const end = Math.min(n, at + 1 + Math.floor(random() * largest));
          while (at < end) at += await to.write(buffer.subarray(at, end));
          this.pieces++;
        }
      }
    } catch {
      // One side has ended; the other is ended below.
    }
    this.#end(from);
    this.#end(to);
  }

  #end(conn: Deno.TcpConn): void {
    if (this.#conns.delete(conn)) conn.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const conn of [...this.#conns]) this.#end(conn);
    await this.#accepting;
    await Promise.all(this.#pumps);
  }
}
