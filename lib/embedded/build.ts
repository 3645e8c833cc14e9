/**
 * For `compile.sh`: puts a nats-server where `deno compile` includes it. Not part of a running
 * natsway.
 * @module
 */
import { NatswayError } from "../errors.ts";
import type { Logger } from "../logger.ts";
import { checkBinary } from "./binary.ts";
import { downloadArchive, sha256Hex } from "./download.ts";
import { findNatsServer } from "./find.ts";
import type { InsideNote } from "./inside.ts";
import {
  archiveName,
  binaryName,
  NATS_SERVER_VERSION,
  OFFICIAL_RELEASE_URL,
  type Platform,
} from "./release.ts";
import { unpackProgram } from "./unpack.ts";

export interface BuildOptions {
  /** Folder that the program and the note about it are written to; it need not exist. */
  folder: string;
  /** Target triple as `deno compile --target` takes it. */
  target: string;
  /** A program to take; `null` to find one. */
  binary: string | null;
  downloadUrl: string | null;
  logger: Logger;
}

/** ELF, Mach-O and PE numbers of the processors. */
const ELF_MACHINE: Readonly<Record<number, string>> = { 62: "x86_64", 183: "aarch64" };
const MACH_CPU: Readonly<Record<number, string>> = { 0x01000007: "x86_64", 0x0100000c: "aarch64" };
const PE_MACHINE: Readonly<Record<number, string>> = { 0x8664: "x86_64", 0xaa64: "aarch64" };

/**
 * Writes the nats-server for `target`. For this machine it is found as at run time; for another one
 * it must be given, or is downloaded (and checked).
 * @returns what is said about it in the note
 * @throws {NatswayError} none is to be had, or it is for another platform
 */
export async function putInside(options: BuildOptions): Promise<InsideNote> {
  const platform = platformOf(options.target);
  const isHost = options.target === Deno.build.target;
  const { bytes, version } = isHost
    ? await forHost(options)
    : await forOther(options, platform, binaryName(platform.os));
  const found = programPlatform(bytes);
  if (found?.os !== platform.os || found.arch !== platform.arch) {
    const what = found === null ? "no known program" : `for ${found.os} ${found.arch}`;
    throw new NatswayError(`the nats-server is ${what}, but ${options.target} is asked for`);
  }
  const note = { version, sha256: await sha256Hex(bytes), bytes: bytes.length };
  await Deno.mkdir(options.folder, { recursive: true });
  await Deno.writeFile(`${options.folder}/nats-server`, bytes);
  await Deno.writeTextFile(`${options.folder}/nats-server.json`, JSON.stringify(note));
  return note;
}

interface Program {
  readonly bytes: Uint8Array<ArrayBuffer>;
  readonly version: string;
}

async function forHost(options: BuildOptions): Promise<Program> {
  const { binary, downloadUrl, logger } = options;
  if (binary !== null) {
    const bytes = await Deno.readFile(binary);
    return { bytes, version: await checkBinary(await Deno.realPath(binary)) };
  }
  const { path, version } = await findNatsServer({ downloadUrl, isTerminal: false, logger });
  return { bytes: await Deno.readFile(path), version };
}

async function forOther(
  options: BuildOptions,
  platform: Platform,
  program: string,
): Promise<Program> {
  if (options.binary !== null) {
    return { bytes: await Deno.readFile(options.binary), version: "unknown" };
  }
  const archive = archiveName(platform);
  if (archive === null) {
    throw new NatswayError(`no nats-server is published for ${options.target}: give one`);
  }
  const baseUrl = options.downloadUrl ?? OFFICIAL_RELEASE_URL;
  options.logger.info("downloading nats-server", { archive });
  const bytes = await unpackProgram(await downloadArchive({ baseUrl, archive }), archive, program);
  return { bytes, version: NATS_SERVER_VERSION };
}

function platformOf(target: string): Platform {
  const [arch = "", , os = ""] = target.split("-");
  if (!/^(x86_64|aarch64)$/.test(arch) || !/^(linux|darwin|windows)$/.test(os)) {
    throw new NatswayError(`${target} is no target that deno compile knows`);
  }
  return { os, arch };
}

/** What a program runs on, by its first bytes; `null` for something else. */
export function programPlatform(bytes: Uint8Array<ArrayBuffer>): Platform | null {
  if (bytes.length < 64) return null;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const of = (os: string, arch: string | undefined) => arch === undefined ? null : { os, arch };
  if (view.getUint32(0) === 0x7f454c46) return of("linux", ELF_MACHINE[view.getUint16(18, true)]);
  if (view.getUint32(0, true) === 0xfeedfacf) {
    return of("darwin", MACH_CPU[view.getUint32(4, true)]);
  }
  const pe = view.getUint32(60, true);
  if (view.getUint16(0) !== 0x4d5a || pe > bytes.length - 6) return null;
  if (view.getUint32(pe) !== 0x50450000) return null;
  return of("windows", PE_MACHINE[view.getUint16(pe + 4, true)]);
}
