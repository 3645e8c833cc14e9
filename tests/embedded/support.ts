/**
 * Shared by the tests of `lib/embedded`.
 * @module
 */
import assert from "node:assert/strict";
import type { LogFields, Logger, LogLevel } from "../../lib/logger.ts";

/** A logger that keeps what it gets. */
export class KeptLog implements Logger {
  readonly lines: { level: LogLevel; message: string; fields: LogFields }[] = [];

  debug(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "debug", message, fields });
  }
  info(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "info", message, fields });
  }
  warn(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "warning", message, fields });
  }
  error(message: string, fields: LogFields = {}): void {
    this.lines.push({ level: "error", message, fields });
  }
  enabled(): boolean {
    return true;
  }

  /** Messages of one level. */
  of(level: LogLevel): string[] {
    return this.lines.filter((line) => line.level === level).map((line) => line.message);
  }
}

/** A folder that is gone after the test. */
export async function tempDir(): Promise<{ path: string } & AsyncDisposable> {
  const path = await Deno.makeTempDir({ prefix: "natsway-test-" });
  return {
    path,
    [Symbol.asyncDispose]: () => Deno.remove(path, { recursive: true }),
  };
}

/** Writes a shell script that can be run. */
export async function script(path: string, body: string): Promise<string> {
  await Deno.writeTextFile(path, `#!/bin/sh\n${body}\n`, { mode: 0o755 });
  return path;
}

/** A stand-in for a nats-server of some version. */
export function versionScript(path: string, version: string): Promise<string> {
  return script(path, `echo "nats-server: v${version}"`);
}

/** Tells whether a process with that id is there and is no zombie. */
export async function isAlive(pid: number): Promise<boolean> {
  const output = await new Deno.Command("ps", { args: ["-o", "stat=", "-p", String(pid)] })
    .output();
  const state = new TextDecoder().decode(output.stdout).trim();
  return state !== "" && !state.startsWith("Z");
}

/** Resolves when the process is gone; fails after `withinMs`. */
export async function assertGone(pid: number, withinMs: number): Promise<void> {
  const deadline = performance.now() + withinMs;
  while (await isAlive(pid)) {
    assert.ok(performance.now() < deadline, `process ${pid} is alive after ${withinMs} ms`);
  }
}

/** Names in a folder; none if there is no such folder. */
export async function namesIn(folder: string): Promise<string[]> {
  const names: string[] = [];
  try {
    for await (const entry of Deno.readDir(folder)) names.push(entry.name);
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return names.sort();
}

/** One entry of an archive. */
export interface ArchiveEntry {
  name: string;
  body: Uint8Array<ArrayBuffer>;
  /** Tar type; "0" is a regular file, "2" a link. */
  type?: string;
}

/** A gzipped tar archive in the ustar layout. */
export async function tarGz(entries: readonly ArchiveEntry[]): Promise<Uint8Array<ArrayBuffer>> {
  const parts: Uint8Array<ArrayBuffer>[] = [];
  for (const { name, body, type = "0" } of entries) {
    const header = new Uint8Array(512);
    const put = (at: number, text: string) => header.set(new TextEncoder().encode(text), at);
    put(0, name);
    put(100, "0000755\0");
    put(124, `${body.length.toString(8).padStart(11, "0")}\0`);
    put(148, "        ");
    put(156, type);
    put(257, "ustar\x0000");
    const sum = header.reduce((total, octet) => total + octet, 0);
    put(148, `${sum.toString(8).padStart(6, "0")}\0 `);
    parts.push(header, body, new Uint8Array((512 - body.length % 512) % 512));
  }
  parts.push(new Uint8Array(1024));
  const stream = new Blob(parts).stream().pipeThrough(new CompressionStream("gzip"));
  return await new Response(stream).bytes();
}

/** A zip archive; `deflate` compresses the entries. */
export async function zip(
  entries: readonly ArchiveEntry[],
  deflate: boolean,
): Promise<Uint8Array<ArrayBuffer>> {
  const files: Uint8Array<ArrayBuffer>[] = [];
  const directory: Uint8Array<ArrayBuffer>[] = [];
  let offset = 0;
  for (const { name, body } of entries) {
    const stream = new Blob([body]).stream().pipeThrough(new CompressionStream("deflate-raw"));
    const packed = deflate ? await new Response(stream).bytes() : body;
    const nameBytes = new TextEncoder().encode(name);
    const file = new DataView(new ArrayBuffer(30));
    file.setUint32(0, 0x04034b50, true);
    file.setUint16(26, nameBytes.length, true);
    const entry = new DataView(new ArrayBuffer(46));
    entry.setUint32(0, 0x02014b50, true);
    entry.setUint16(10, deflate ? 8 : 0, true);
    entry.setUint32(20, packed.length, true);
    entry.setUint32(24, body.length, true);
    entry.setUint16(28, nameBytes.length, true);
    entry.setUint32(42, offset, true);
    files.push(new Uint8Array(file.buffer), nameBytes, packed);
    directory.push(new Uint8Array(entry.buffer), nameBytes);
    offset += 30 + nameBytes.length + packed.length;
  }
  const end = new DataView(new ArrayBuffer(22));
  end.setUint32(0, 0x06054b50, true);
  end.setUint16(8, entries.length, true);
  end.setUint16(10, entries.length, true);
  end.setUint32(12, directory.reduce((total, part) => total + part.length, 0), true);
  end.setUint32(16, offset, true);
  return await new Blob([...files, ...directory, new Uint8Array(end.buffer)]).bytes();
}
