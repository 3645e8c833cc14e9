/**
 * Seeded changes of HTTP messages, one code point per octet.
 * @module
 */

import type { Random } from "../helpers/unit_fuzz.ts";
import type { Sample } from "./corpus.ts";

/** Pieces that parsers disagree about. */
const PIECES: readonly string[] = [
  "\r",
  "\n",
  "\r\n",
  "\n\n",
  "\r\r\n",
  "\r\n\r\n",
  "\r\n ",
  "\r\n\t",
  "\0",
  "\x01",
  "\v",
  "\f",
  "\x1b",
  " ",
  "  ",
  "\t",
  " :",
  "\t:",
  ":",
  "::",
  ",",
  ", ,",
  ";",
  "=",
  '"',
  '\\"',
  "%",
  "%0d%0a",
  "/",
  "?",
  "#",
  "*",
  "@",
  "[::1]",
  "0",
  "1",
  "5",
  "00",
  "f",
  "A",
  "0x5",
  "-1",
  "+5",
  "5 ",
  "5 5",
  "5,5",
  "9007199254740992",
  "99999999999999999999999999999",
  "fffffffffffffff",
  "fffffffffffffffff",
  "00000000000000000000000000005",
  "a",
  "\x7f",
  "\x80",
  "\x85",
  "\xa0",
  "\xe9",
  "\xff",
  "\xc3\xa9",
  "\xef\xbb\xbf",
  "chunked",
  "Chunked",
  "xchunked",
  "chunked, chunked",
  "gzip, chunked",
  "chunked, gzip",
  "identity",
  "Content-Length: 5",
  "Content-Length: 5\r\n",
  "Content-Length : 5\r\n",
  "Content-Length: 5, 5\r\n",
  "Content-Length:\r\n",
  "Content-Length: 5\n",
  "Transfer-Encoding: chunked\r\n",
  "Transfer-Encoding : chunked\r\n",
  "Transfer-Encoding:\r\n chunked\r\n",
  "Transfer-Encoding: gzip\r\n",
  "Transfer-Encoding:\r\n",
  "Connection: close\r\n",
  "Connection: keep-alive\r\n",
  "Connection: close, x\r\n",
  "Connection: Upgrade\r\nUpgrade: x\r\n",
  "Host: b\r\n",
  "X-Long: " + "y".repeat(300) + "\r\n",
  " HTTP/1.1",
  "HTTP/1.0",
  "HTTP/1.1",
  "HTTP/0.9",
  "HTTP/2.0",
  "http/1.1",
  "GET",
  "HEAD",
  "CONNECT",
  "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
  "HTTP/1.1 200 OK\r\n",
  "HTTP/1.1 100 Continue\r\n\r\n",
  "0\r\n\r\n",
  "3\r\nabc\r\n",
  "3;a=b\r\nabc\r\n",
  "0\r\nX: y\r\n\r\n",
];

/** Parts that are put in place of one another. */
const TOKEN = /[A-Za-z0-9.-]+/g;

/** Changes `text` in up to four places, sometimes in none. */
export function mutateMessage(text: string, random: Random, samples: readonly Sample[]): string {
  for (let left = random.below(5); left > 0; left--) text = changed(text, random, samples);
  return text;
}

function changed(text: string, random: Random, samples: readonly Sample[]): string {
  const at = random.below(text.length + 1);
  const to = Math.min(text.length, at + random.below(20));
  switch (random.below(9)) {
    case 0: // leave out some octets
      return text.slice(0, at) + text.slice(to);
    case 1: // leave out one
      return text.slice(0, at) + text.slice(at + 1);
    case 2: // put in
      return text.slice(0, at) + random.pick(PIECES) + text.slice(at);
    case 3: // put in place of one octet
      return text.slice(0, at) + random.pick(PIECES) + text.slice(at + 1);
    case 4: // any octet
      return text.slice(0, at) + String.fromCharCode(random.below(256)) + text.slice(at + 1);
    case 5: { // turn one bit
      if (at === text.length) return text;
      const octet = text.charCodeAt(at) ^ (1 << random.below(8));
      return text.slice(0, at) + String.fromCharCode(octet) + text.slice(at + 1);
    }
    case 6: // say again
      return text.slice(0, to) + text.slice(at, to).repeat(1 + random.below(4)) + text.slice(to);
    case 7: { // another token or line end
      const tokens = [...text.matchAll(random.below(3) === 0 ? /\r\n/g : TOKEN)];
      if (tokens.length === 0) return text;
      const token = random.pick(tokens);
      return text.slice(0, token.index) + random.pick(PIECES) +
        text.slice(token.index + token[0].length);
    }
    default: { // go on as another message does
      const other = random.pick(samples).text;
      return text.slice(0, at) + other.slice(random.below(other.length));
    }
  }
}
