/**
 * A redis-server of a test's own that keeps nothing on disk.
 * @module
 */
import { freePort } from "../../helpers/nats_server.ts";
import { TempFolder } from "./files.ts";
import { Program } from "./program.ts";

/** See {@link startRedis}. */
export class Redis implements AsyncDisposable {
  constructor(
    readonly port: number,
    readonly folder: TempFolder,
    readonly program: Program,
  ) {}

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

/** Starts a server and waits until it takes clients. Use it with `await using`. */
export async function startRedis(): Promise<Redis> {
  const folder = new TempFolder();
  try {
    const port = freePort();
    const settings = [
      "--bind",
      "127.0.0.1",
      "--port",
      `${port}`,
      "--save",
      "",
      "--dir",
      folder.path,
    ];
    const program = await Program.start("redis-server", settings, {
      ready: /Ready to accept connections/,
    });
    return new Redis(port, folder, program);
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
}

/** A command as redis-cli --pipe sends it (RESP: an array of bulk strings). */
export function respCommand(...words: readonly string[]): string {
  const encoder = new TextEncoder();
  const bulk = words.map((word) => `$${encoder.encode(word).length}\r\n${word}\r\n`);
  return `*${words.length}\r\n${bulk.join("")}`;
}
