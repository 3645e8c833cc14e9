/**
 * The octets that mean something in HTTP/1.1, and the classes of RFC 9110 §5 as tables of 256.
 * @module
 */

export const HTAB = 0x09;
export const LF = 0x0a;
export const CR = 0x0d;
export const SP = 0x20;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const SEMICOLON = 0x3b;

/** The octet in lower case where it is a tchar (RFC 9110 §5.6.2), else 0. */
export const NAME: Uint8Array = new Uint8Array(256);

/** 1 for an octet of a field value or reason phrase: HTAB, SP, VCHAR, obs-text; else 0. */
export const VALUE: Uint8Array = new Uint8Array(256);

/** 1 for an octet of a registered name (RFC 3986 §3.2.2) but "%"; else 0. */
export const HOST: Uint8Array = new Uint8Array(256);

/** The value of a hexadecimal digit, else 255. */
export const HEX: Uint8Array = new Uint8Array(256).fill(255);

for (let octet = 0x20; octet < 0x100; octet++) VALUE[octet] = octet === 0x7f ? 0 : 1;
VALUE[HTAB] = 1;

const LETTERS_AND_DIGITS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
for (const char of LETTERS_AND_DIGITS + "!#$%&'*+-.^_`|~") {
  NAME[char.charCodeAt(0)] = char.toLowerCase().charCodeAt(0);
}
for (const char of LETTERS_AND_DIGITS + "-._~!$&'()*+,;=") HOST[char.charCodeAt(0)] = 1;
for (const char of "0123456789abcdefABCDEF") HEX[char.charCodeAt(0)] = parseInt(char, 16);
