/**
 * Field lines as views of the octets they were read from.
 * @module
 */

import { equalsName, FIELD_NAMES, FieldId, isBlank } from "./field.ts";
import { COMMA } from "./octets.ts";
import { decodeLatin1 } from "./text.ts";

/** Numbers kept for one field line: line start, name end, value start, value end, field id. */
export const NUMBERS_PER_FIELD = 5;

/** Where the field lines stand; made by `readFieldLines` alone. */
export interface FieldLines {
  /** `NUMBERS_PER_FIELD` per line, then the offset behind the last line. */
  readonly offsets: readonly number[];
  /** Bit `id` is set if a field of that id is there. */
  readonly ids: number;
}

/** Members of Connection (RFC 9110 §7.6.1), as bits. */
export const ConnectionOption = { Close: 1, KeepAlive: 2, Upgrade: 4, Other: 8 } as const;

/**
 * Field lines, in the order in which they came. Offsets are into `bytes`, which is not copied: they are
 * good as long as the buffer is. Text is decoded once, when the first text is asked for, and stays good
 * from then on. Every index must be below `count`.
 */
export class Fields {
  readonly bytes: Uint8Array;
  readonly count: number;
  readonly #lines: FieldLines;
  readonly #base: number;
  readonly #end: number;
  #text: string | null = null;
  #connectionOptions = -1;
  #nominated: Set<string> | null = null;

  /** @param base offset of the first octet that `text` may be asked for */
  constructor(bytes: Uint8Array, base: number, lines: FieldLines) {
    this.bytes = bytes;
    this.count = (lines.offsets.length - 1) / NUMBERS_PER_FIELD;
    this.#lines = lines;
    this.#base = base;
    this.#end = lines.offsets[lines.offsets.length - 1]!;
  }

  /** `FieldId` of field `i`. */
  id(i: number): number {
    return this.#lines.offsets[i * NUMBERS_PER_FIELD + 4]!;
  }

  /** The name as it was sent. */
  name(i: number): string {
    return this.text(this.lineStart(i), this.#lines.offsets[i * NUMBERS_PER_FIELD + 1]!);
  }

  /** The name in lower case; allocates nothing for a known one. */
  lowerName(i: number): string {
    const id = this.id(i);
    return id === FieldId.Other ? this.name(i).toLowerCase() : FIELD_NAMES[id]!;
  }

  /** The value without the blanks around it, one code point per octet. */
  value(i: number): string {
    return this.text(this.valueStart(i), this.valueEnd(i));
  }

  /** Offset of the name of field `i`. */
  lineStart(i: number): number {
    return this.#lines.offsets[i * NUMBERS_PER_FIELD]!;
  }

  /** Offset behind the CRLF of field `i`. */
  lineEnd(i: number): number {
    return this.#lines.offsets[(i + 1) * NUMBERS_PER_FIELD]!;
  }

  /** Offset of the value, behind the blanks that follow the colon. */
  valueStart(i: number): number {
    return this.#lines.offsets[i * NUMBERS_PER_FIELD + 2]!;
  }

  /** Offset behind the value, before the blanks that end the line. */
  valueEnd(i: number): number {
    return this.#lines.offsets[i * NUMBERS_PER_FIELD + 3]!;
  }

  /** Index of the first field `id` at or behind index `from`, or -1. */
  indexOf(id: number, from = 0): number {
    if ((this.#lines.ids & (1 << id)) === 0) return -1;
    const offsets = this.#lines.offsets;
    for (let i = from; i < this.count; i++) {
      if (offsets[i * NUMBERS_PER_FIELD + 4] === id) return i;
    }
    return -1;
  }

  /**
   * Tells whether a Connection field names field `i`, which then ends here (RFC 9110 §7.6.1). Never so
   * for the fields that others rely on whatever a peer says: Content-*, Transfer-Encoding, Host, Via,
   * Date, Forwarded, X-Forwarded-*.
   */
  isNominated(i: number): boolean {
    const options = this.connectionOptions();
    if ((options & ~ConnectionOption.Close) === 0) return false;
    const id = this.id(i);
    if (id === FieldId.KeepAlive) return (options & ConnectionOption.KeepAlive) !== 0;
    if (id === FieldId.Upgrade) return (options & ConnectionOption.Upgrade) !== 0;
    if ((options & ConnectionOption.Other) === 0) return false;
    const name = this.lowerName(i);
    return !isKept(id, name) && this.#nominatedNames().has(name);
  }

  /** All members of all Connection fields as `ConnectionOption` bits. */
  connectionOptions(): number {
    if (this.#connectionOptions < 0) {
      let options = 0;
      this.#forEachConnectionMember((start, end) => {
        options |= optionOf(this.bytes, start, end);
      });
      this.#connectionOptions = options;
    }
    return this.#connectionOptions;
  }

  /** Text of `bytes[start, end)`, which must lie within the head. */
  protected text(start: number, end: number): string {
    this.#text ??= decodeLatin1(this.bytes, this.#base, this.#end);
    return this.#text.substring(start - this.#base, end - this.#base);
  }

  #nominatedNames(): Set<string> {
    if (this.#nominated === null) {
      const names = new Set<string>();
      this.#forEachConnectionMember((start, end) => {
        names.add(this.text(start, end).toLowerCase());
      });
      this.#nominated = names;
    }
    return this.#nominated;
  }

  #forEachConnectionMember(visit: (start: number, end: number) => void): void {
    const id = FieldId.Connection;
    for (let i = this.indexOf(id); i >= 0; i = this.indexOf(id, i + 1)) {
      forEachListMember(this.bytes, this.valueStart(i), this.valueEnd(i), visit);
    }
  }
}

/** Calls `visit` with each member of the list in `bytes[start, end)` that is not empty. */
function forEachListMember(
  bytes: Uint8Array,
  start: number,
  end: number,
  visit: (start: number, end: number) => void,
): void {
  for (let i = start; i <= end; i++) {
    let from = i;
    while (i < end && bytes[i] !== COMMA) i++;
    let to = i;
    while (from < to && isBlank(bytes[from])) from++;
    while (from < to && isBlank(bytes[to - 1])) to--;
    if (from < to) visit(from, to);
  }
}

function optionOf(bytes: Uint8Array, start: number, end: number): number {
  if (equalsName(bytes, start, end, "close")) return ConnectionOption.Close;
  if (equalsName(bytes, start, end, "keep-alive")) return ConnectionOption.KeepAlive;
  if (equalsName(bytes, start, end, "upgrade")) return ConnectionOption.Upgrade;
  return ConnectionOption.Other;
}

function isKept(id: number, lowerName: string): boolean {
  switch (id) {
    case FieldId.TransferEncoding:
    case FieldId.Host:
    case FieldId.Via:
    case FieldId.Date:
    case FieldId.Forwarded:
      return true;
    default:
      return lowerName.startsWith("content-") || lowerName.startsWith("x-forwarded-");
  }
}
