/**
 * User and password of the leafnode listener: given, kept from the last start, or new.
 * @module
 */

/** What a leaf must show. */
export interface LeafCredentials {
  readonly user: string;
  readonly password: string;
}

const ALPHANUMERICS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
const RANDOM_LENGTH = 20;

/**
 * Those in the text of a configuration: its first `user:` and its first `password:` line, quoted in
 * either way or bare. `null` unless it has both.
 */
export function keptLeafCredentials(text: string): LeafCredentials | null {
  const user = firstValue(text, "user");
  const password = firstValue(text, "password");
  return user && password ? { user, password } : null;
}

function firstValue(text: string, key: string): string | null {
  const found = new RegExp(`^[ \\t]*"?${key}"?[ \\t]*[:=][ \\t]*(.*?)[ \\t\\r]*$`, "m").exec(text);
  const raw = found?.[1];
  if (raw === undefined) return null;
  const double = /^"((?:[^"\\]|\\.)*)"/.exec(raw)?.[1];
  if (double !== undefined) return unescaped(double);
  return /^'([^']*)'/.exec(raw)?.[1] ?? /^[^\s#;,}]+/.exec(raw)?.[0] ?? null;
}

/** Undoes what a string in double quotes may hold: `\\`, `\"`, `\t`, `\n`, `\r`, `\xHH`. */
function unescaped(text: string): string {
  const plain: Readonly<Record<string, string>> = { t: "\t", n: "\n", r: "\r" };
  return text.replace(
    /\\(?:x([0-9A-Fa-f]{2})|(.))/gs,
    (_, hex?: string, char = "") =>
      hex === undefined ? plain[char] ?? char : String.fromCharCode(parseInt(hex, 16)),
  );
}

/** `leaf_` and 20 letters and digits; 20 letters and digits. */
export function newLeafCredentials(): LeafCredentials {
  return { user: `leaf_${randomText()}`, password: randomText() };
}

function randomText(): string {
  let text = "";
  while (text.length < RANDOM_LENGTH) {
    for (const octet of crypto.getRandomValues(new Uint8Array(2 * RANDOM_LENGTH))) {
      // Only whole multiples of the alphabet: each character is equally likely.
      if (octet < 4 * ALPHANUMERICS.length) text += ALPHANUMERICS[octet % ALPHANUMERICS.length];
    }
  }
  return text.slice(0, RANDOM_LENGTH);
}
