/**
 * Octets as hexadecimal text, the form of epochs in JSON.
 * @module
 */

/** Each octet as two lower-case digits. */
export const HEX: readonly string[] = Array.from(
  { length: 256 },
  (_, octet) => octet.toString(16).padStart(2, "0"),
);

/** Lower-case hex of some octets. */
export function hex(bytes: Uint8Array): string {
  let text = "";
  for (const octet of bytes) text += HEX[octet];
  return text;
}

/** The octets of hex text in either case, or null when it is none. */
export function fromHex(text: string): Uint8Array | null {
  if (text.length % 2 !== 0 || !/^[0-9a-fA-F]*$/.test(text)) return null;
  const bytes = new Uint8Array(text.length / 2);
  for (let i = 0; i < bytes.length; i++) bytes[i] = parseInt(text.slice(2 * i, 2 * i + 2), 16);
  return bytes;
}
