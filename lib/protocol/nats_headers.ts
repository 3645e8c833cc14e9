/**
 * The header block of a NATS message: `NATS/1.0[ status[ text]]` and `Name: value` lines, each
 * ended by CRLF, then an empty line (NATS ADR-4).
 * @module
 */

const VERSION = "NATS/1.0";
const CR = 0x0d;
const LF = 0x0a;
const SPACE = 0x20;
const TAB = 0x09;
const COLON = 0x3a;
/** Offset of the first status digit: behind the version and one blank. */
const STATUS_AT = VERSION.length + 1;

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Status of the answer that nobody listens on the subject. */
export const NO_RESPONDERS = 503;

/**
 * A header block that carries `pairs` in their order; values are UTF-8.
 * @throws {TypeError} a name is not one of printable ASCII octets without colon, or a value holds CR
 * or LF: either would let the value write lines of its own.
 */
export function encodeNatsHeaders(
  pairs: readonly (readonly [string, string])[],
): Uint8Array<ArrayBuffer> {
  let text = VERSION + "\r\n";
  for (const [name, value] of pairs) {
    if (!/^[\x21-\x39\x3b-\x7e]+$/.test(name)) {
      throw new TypeError(`cannot send ${JSON.stringify(name)} as the name of a NATS header`);
    }
    if (/[\r\n]/.test(value)) {
      throw new TypeError(`the value of NATS header ${name} must not hold line ends`);
    }
    text += `${name}: ${value}\r\n`;
  }
  return encoder.encode(text + "\r\n");
}

/**
 * The value of the first header `name` in `block`, without blanks around it, or null. Names are
 * compared octet for octet, as NATS does, unless `ignoreCase` is set.
 */
export function natsHeader(
  block: Uint8Array,
  name: string,
  options?: { readonly ignoreCase?: boolean },
): string | null {
  const fold = options?.ignoreCase === true;
  let start = block.indexOf(LF) + 1;
  while (start > 0 && start < block.length) {
    let end = block.indexOf(LF, start);
    if (end < 0) end = block.length;
    if (block[start + name.length] === COLON && startsWith(block, start, name, fold)) {
      return trimmed(block, start + name.length + 1, end);
    }
    start = end + 1;
  }
  return null;
}

/** The status in the first line (100 to 999; 503 is "no responders"), or null if there is none. */
export function natsStatus(block: Uint8Array): number | null {
  if (block[STATUS_AT - 1] !== SPACE) return null;
  let status = 0;
  for (let at = STATUS_AT; at < STATUS_AT + 3; at++) {
    const digit = (block[at] ?? 0) - 0x30;
    if (digit < 0 || digit > 9) return null;
    status = status * 10 + digit;
  }
  return status >= 100 ? status : null;
}

function startsWith(block: Uint8Array, start: number, name: string, fold: boolean): boolean {
  for (let i = 0; i < name.length; i++) {
    const want = name.charCodeAt(i);
    const have = block[start + i];
    if (have === want) continue;
    if (!fold || have === undefined || lower(have) !== lower(want)) return false;
  }
  return true;
}

function lower(octet: number): number {
  return octet >= 0x41 && octet <= 0x5a ? octet | 0x20 : octet;
}

function trimmed(block: Uint8Array, start: number, end: number): string {
  const blank = (octet: number | undefined) => octet === SPACE || octet === TAB || octet === CR;
  while (start < end && blank(block[start])) start++;
  while (end > start && blank(block[end - 1])) end--;
  return decoder.decode(block.subarray(start, end));
}
