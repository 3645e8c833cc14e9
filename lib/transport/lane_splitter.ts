/**
 * Finds the data frames in what a NATS server sends.
 * @module
 */

/** What takes the messages of one subscription. */
export interface LaneTarget {
  /** False: the subscription has ended, its messages are dropped. */
  readonly active: boolean;
  /** `data` and `headers` are views that end with the call. */
  deliver(token: string, data: Uint8Array, reply: string, headers: Uint8Array | null): void;
}

export interface LaneSplitterOptions {
  /** The subscriptions whose messages take the lane, by sid. Read at each message. */
  readonly targets: ReadonlyMap<number, LaneTarget>;
  /** Everything else, in order, cut anywhere; a view that ends with the call. */
  readonly passOn: (bytes: Uint8Array) => void;
  /** Called after each message of the lane with the size of its payload and header block. */
  readonly onMessage: (bytes: number) => void;
  /** A `deliver` threw. The splitter goes on. */
  readonly onHandlerError: (error: unknown) => void;
}

/** The bytes are no NATS protocol: the connection cannot be read on. */
export class LaneProtocolError extends Error {
  override readonly name = "LaneProtocolError";
}

/** A whole control line of a message; subjects and reply subjects are much shorter. */
const MAX_LINE_BYTES = 64 * 1024;
/** The largest `max_payload` that nats-server accepts. */
const MAX_MESSAGE_BYTES = 64 * 1024 * 1024;

const LF = 0x0a;
const CR = 0x0d;
const BLANK = 0x20;
const TAB = 0x09;
const DOT = 0x2e;
const LOWER = 0x20;
const M = 0x6d;
const H = 0x68;

const utf8 = new TextDecoder();

/**
 * Splits the server's bytes into MSG and HMSG frames of known subscriptions, which go to their
 * target whole and as views, and all the rest. The order between both is kept. It is fed: it holds
 * no bytes, only where it is in a frame.
 */
export class LaneSplitter {
  readonly #options: LaneSplitterOptions;
  /** Bytes of a foreign payload that are still to come. */
  #skip = 0;
  /** Inside a line that is passed on as it comes. */
  #inLine = false;
  #stopped = false;
  #needBytes = 1;
  /** Bounds of the words of the current line. */
  readonly #starts = new Int32Array(6);
  readonly #ends = new Int32Array(6);
  #words = 0;

  constructor(options: LaneSplitterOptions) {
    this.#options = options;
  }

  /** How many bytes `scan` wants to see from its result on before it can move; 1 if it cannot tell. */
  get needBytes(): number {
    return this.#needBytes;
  }

  /** Ends the scan that is running, from within a target, and makes later ones do nothing. */
  stop(): void {
    this.#stopped = true;
  }

  /**
   * Takes `buffer[start..end)` and returns where the next scan has to start: bytes from there on
   * must be shown again, with more behind them. The buffer may be reused after the call.
   * @throws {LaneProtocolError} a message line cannot be read.
   */
  scan(buffer: Uint8Array, start: number, end: number): number {
    let at = start;
    let run = start;
    this.#needBytes = 1;
    while (at < end && !this.#stopped) {
      if (this.#skip > 0) {
        const step = Math.min(this.#skip, end - at);
        at += step;
        this.#skip -= step;
        continue;
      }
      if (this.#inLine) {
        while (at < end && buffer[at] !== LF) at++;
        if (at < end) {
          at++;
          this.#inLine = false;
        }
        continue;
      }
      const first = (buffer[at] as number) | LOWER;
      if (first !== M && first !== H) {
        this.#inLine = true;
        continue;
      }
      const line = this.#readLine(buffer, at, end);
      if (line < 0) break;
      const withHeaders = first === H;
      const total = this.#number(buffer, this.#words - 1);
      const headerBytes = withHeaders ? this.#number(buffer, this.#words - 2) : 0;
      const withReply = this.#words === (withHeaders ? 6 : 5);
      if (
        !(withReply || this.#words === (withHeaders ? 5 : 4)) || headerBytes > total ||
        total > MAX_MESSAGE_BYTES
      ) {
        throw new LaneProtocolError("the NATS server sent a message line that cannot be read");
      }
      const target = this.#options.targets.get(this.#number(buffer, 2));
      if (target === undefined) {
        at = line;
        this.#skip = total + 2;
        continue;
      }
      const next = line + total + 2;
      if (next > end) {
        this.#needBytes = next - at;
        break;
      }
      if (run < at) {
        this.#options.passOn(buffer.subarray(run, at));
        if (this.#stopped) return at;
      }
      this.#deliver(target, buffer, line, headerBytes, total, withReply);
      at = next;
      run = next;
    }
    if (run < at && !this.#stopped) this.#options.passOn(buffer.subarray(run, at));
    return at;
  }

  #deliver(
    target: LaneTarget,
    buffer: Uint8Array,
    line: number,
    headerBytes: number,
    total: number,
    withReply: boolean,
  ): void {
    this.#options.onMessage(total);
    if (!target.active) return;
    const subjectEnd = this.#ends[1] as number;
    let token = subjectEnd;
    while (token > (this.#starts[1] as number) && buffer[token - 1] !== DOT) token--;
    const body = line + headerBytes;
    try {
      target.deliver(
        text(buffer, token, subjectEnd),
        buffer.subarray(body, line + total),
        withReply ? text(buffer, this.#starts[3] as number, this.#ends[3] as number) : "",
        headerBytes > 0 ? buffer.subarray(line, body) : null,
      );
    } catch (error) {
      this.#options.onHandlerError(error);
    }
  }

  /** Notes the words of a line; its end behind LF, or -1 while it is not whole. */
  #readLine(buffer: Uint8Array, start: number, end: number): number {
    let words = 0;
    let inWord = false;
    for (let at = start; at < end; at++) {
      const octet = buffer[at];
      if (octet === BLANK || octet === LF || octet === CR || octet === TAB) {
        if (inWord) {
          this.#ends[words - 1] = at;
          inWord = false;
        }
        if (octet === LF) {
          this.#words = words;
          return at + 1;
        }
      } else if (!inWord) {
        if (words === 6) {
          throw new LaneProtocolError("the NATS server sent a line of too many words");
        }
        this.#starts[words++] = at;
        inWord = true;
      }
    }
    if (end - start > MAX_LINE_BYTES) {
      throw new LaneProtocolError("the NATS server sent a line that does not end");
    }
    return -1;
  }

  #number(buffer: Uint8Array, word: number): number {
    let value = 0;
    const end = this.#ends[word] as number;
    for (let at = this.#starts[word] as number; at < end; at++) {
      const digit = (buffer[at] as number) - 0x30;
      if (digit < 0 || digit > 9) return Infinity;
      value = value * 10 + digit;
    }
    return value;
  }
}

/** Eight octets at a time: ids are 22 to 32 long, and a string that grows by one octet is slow. */
function text(buffer: Uint8Array, start: number, end: number): string {
  let result = "";
  let all = 0;
  let at = start;
  for (; at + 8 <= end; at += 8) {
    const a = buffer[at] as number;
    const b = buffer[at + 1] as number;
    const c = buffer[at + 2] as number;
    const d = buffer[at + 3] as number;
    const e = buffer[at + 4] as number;
    const f = buffer[at + 5] as number;
    const g = buffer[at + 6] as number;
    const h = buffer[at + 7] as number;
    all |= a | b | c | d | e | f | g | h;
    result += String.fromCharCode(a, b, c, d, e, f, g, h);
  }
  for (; at < end; at++) {
    const octet = buffer[at] as number;
    all |= octet;
    result += String.fromCharCode(octet);
  }
  return all > 0x7f ? utf8.decode(buffer.subarray(start, end)) : result;
}
