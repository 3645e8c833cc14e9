/**
 * Takes one program out of a release archive. Names inside the archive only select the entry; they
 * never become a path, so an archive cannot write anywhere.
 * @module
 */
import { NatswayError } from "../errors.ts";

/** Largest program that is taken out of an archive, in bytes. */
export const MAX_BINARY_BYTES = 256 * 1024 * 1024;

/** The archive is damaged, too large, or does not hold the program. */
export class UnpackError extends NatswayError {
  override readonly name = "UnpackError";
}

const TAR_BLOCK_BYTES = 512;
/** Room for the other files of a release (licence, read-me) in front of the program. */
const MAX_OTHER_BYTES = 16 * 1024 * 1024;
const ZIP_END_SIGNATURE = 0x06054b50;
const ZIP_ENTRY_SIGNATURE = 0x02014b50;
const ZIP_FILE_SIGNATURE = 0x04034b50;
const ZIP_STORED = 0;
const ZIP_DEFLATED = 8;

/**
 * The bytes of the regular file whose last path part is `program`.
 * @param archiveName decides the format: `.zip`, else `.tar.gz`
 * @throws {UnpackError}
 */
export async function unpackProgram(
  archive: Uint8Array<ArrayBuffer>,
  archiveName: string,
  program: string,
  maxBytes: number = MAX_BINARY_BYTES,
): Promise<Uint8Array<ArrayBuffer>> {
  if (archiveName.endsWith(".zip")) return await fromZip(archive, program, maxBytes);
  const tar = await inflate(archive, "gzip", maxBytes + MAX_OTHER_BYTES);
  return fromTar(tar, program, maxBytes);
}

function lastPart(path: string): string {
  return path.slice(path.lastIndexOf("/") + 1);
}

/** Decompresses in memory, and stops as soon as the result is over `maxBytes`. */
async function inflate(
  bytes: Uint8Array<ArrayBuffer>,
  format: "gzip" | "deflate-raw",
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const chunks: Uint8Array[] = [];
  let length = 0;
  try {
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream(format));
    for await (const chunk of stream) {
      length += chunk.byteLength;
      if (length > maxBytes) {
        throw new UnpackError(`the archive holds more than ${maxBytes} bytes`);
      }
      chunks.push(chunk);
    }
  } catch (error) {
    if (error instanceof UnpackError) throw error;
    throw new UnpackError("the archive is damaged: it cannot be decompressed", { cause: error });
  }
  const result = new Uint8Array(length);
  let at = 0;
  for (const chunk of chunks) {
    result.set(chunk, at);
    at += chunk.byteLength;
  }
  return result;
}

/** Reads the ustar layout (POSIX pax, section "ustar Interchange Format"): 512-byte blocks. */
function fromTar(
  tar: Uint8Array<ArrayBuffer>,
  program: string,
  maxBytes: number,
): Uint8Array<ArrayBuffer> {
  let at = 0;
  while (at + TAR_BLOCK_BYTES <= tar.length) {
    const header = tar.subarray(at, at + TAR_BLOCK_BYTES);
    if (header[0] === 0) break; // the end mark: blocks of zeros
    assertTarChecksum(header);
    const name = tarText(header, 0, 100);
    const size = tarNumber(header, 124, 12);
    const type = header[156];
    const start = at + TAR_BLOCK_BYTES;
    if (start + size > tar.length) throw new UnpackError("the archive is cut off");
    // "0" and NUL are regular files; links, folders and extension records are passed over.
    if ((type === 0x30 || type === 0) && lastPart(name) === program) {
      if (size > maxBytes) throw new UnpackError(`${program} is over ${maxBytes} bytes`);
      return tar.slice(start, start + size);
    }
    at = start + Math.ceil(size / TAR_BLOCK_BYTES) * TAR_BLOCK_BYTES;
  }
  throw new UnpackError(`the archive holds no ${program}`);
}

function tarText(header: Uint8Array, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return new TextDecoder().decode(end < 0 ? field : field.subarray(0, end));
}

function tarNumber(header: Uint8Array, at: number, length: number): number {
  const text = tarText(header, at, length).trim();
  if (!/^[0-7]{1,11}$/.test(text)) throw new UnpackError("the archive has a broken number");
  return parseInt(text, 8);
}

/** The sum of all header octets, its own field counted as blanks. */
function assertTarChecksum(header: Uint8Array): void {
  let sum = 0;
  for (let i = 0; i < TAR_BLOCK_BYTES; i++) sum += i >= 148 && i < 156 ? 0x20 : header[i]!;
  if (sum !== tarNumber(header, 148, 8)) throw new UnpackError("the archive has a broken header");
}

/** Reads the central directory of a zip file (APPNOTE sections 4.3.12 and 4.3.16), without zip64. */
async function fromZip(
  zip: Uint8Array<ArrayBuffer>,
  program: string,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const view = new DataView(zip.buffer, zip.byteOffset, zip.byteLength);
  try {
    const end = zipEnd(view);
    const count = view.getUint16(end + 10, true);
    let at = view.getUint32(end + 16, true);
    for (let i = 0; i < count; i++) {
      if (view.getUint32(at, true) !== ZIP_ENTRY_SIGNATURE) break;
      const nameLength = view.getUint16(at + 28, true);
      const name = new TextDecoder().decode(zip.subarray(at + 46, at + 46 + nameLength));
      if (lastPart(name) === program) return await zipEntry(zip, view, at, maxBytes);
      at += 46 + nameLength + view.getUint16(at + 30, true) + view.getUint16(at + 32, true);
    }
  } catch (error) {
    if (error instanceof RangeError) throw new UnpackError("the archive is cut off");
    throw error;
  }
  throw new UnpackError(`the archive holds no ${program}`);
}

/** Offset of the end record: the last thing in the file, before a comment of at most 65535 bytes. */
function zipEnd(view: DataView): number {
  const first = Math.max(0, view.byteLength - 22 - 0xffff);
  for (let at = view.byteLength - 22; at >= first; at--) {
    if (view.getUint32(at, true) === ZIP_END_SIGNATURE) return at;
  }
  throw new UnpackError("the archive is no zip file, or is cut off");
}

async function zipEntry(
  zip: Uint8Array<ArrayBuffer>,
  view: DataView,
  entry: number,
  maxBytes: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const method = view.getUint16(entry + 10, true);
  const packedBytes = view.getUint32(entry + 20, true);
  const bytes = view.getUint32(entry + 24, true);
  const file = view.getUint32(entry + 42, true);
  if (bytes > maxBytes) throw new UnpackError(`the program is over ${maxBytes} bytes`);
  if (view.getUint32(file, true) !== ZIP_FILE_SIGNATURE) {
    throw new UnpackError("the archive has a broken header");
  }
  const start = file + 30 + view.getUint16(file + 26, true) + view.getUint16(file + 28, true);
  if (start + packedBytes > zip.length) throw new UnpackError("the archive is cut off");
  const packed = zip.slice(start, start + packedBytes);
  if (method !== ZIP_STORED && method !== ZIP_DEFLATED) {
    throw new UnpackError(`the archive uses compression method ${method}, which is not known here`);
  }
  const result = method === ZIP_STORED ? packed : await inflate(packed, "deflate-raw", bytes);
  if (result.length !== bytes) throw new UnpackError("the archive is damaged: a size is wrong");
  return result;
}
