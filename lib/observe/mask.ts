/**
 * Keeps secrets and control characters out of what is written.
 * @module
 */

/** Returns a text with every secret in it replaced. */
export type Masker = (text: string) => string;

/** What stands for a secret. */
export const MASK = "***";

/** Shorter texts cannot be told from ordinary words; masking them would only spoil the log. */
const MIN_SECRET_CHARS = 4;

/**
 * Makes a masker for `secrets`, which also finds them as JSON, percent-encoded and in Base64 when
 * they stand there alone. Secrets of fewer than 4 characters are left alone.
 */
export function createMasker(secrets: readonly string[]): Masker {
  const forms = new Set(secrets.filter((text) => text.length >= MIN_SECRET_CHARS).flatMap(formsOf));
  if (forms.size === 0) return (text) => text;
  // The longest first, so that no tail of it stays when a shorter one matches its beginning.
  const alternatives = [...forms].sort((a, b) => b.length - a.length).map(escapeForRegExp);
  const pattern = new RegExp(alternatives.join("|"), "g");
  return (text) => text.replace(pattern, MASK);
}

function formsOf(secret: string): string[] {
  const sound = secret.toWellFormed();
  const bytes = new TextEncoder().encode(sound);
  const base64 = btoa(String.fromCharCode(...bytes)).replace(/=+$/, "");
  return [secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(sound), base64];
}

function escapeForRegExp(text: string): string {
  return text.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&");
}

/**
 * Writes control characters (C0, DEL, C1), line and paragraph separators and marks that turn the
 * direction of text as `\uXXXX`, so that nobody can forge a line or steer a terminal.
 */
export function escapeControls(text: string): string {
  // Nearly all text is plain ASCII, and this test is much cheaper than the replacement.
  if (/^[ -~]*$/.test(text)) return text;
  return text.replace(
    // deno-lint-ignore no-control-regex -- control characters are what must be escaped
    /[\x00-\x1f\x7f-\x9f\u2028\u2029\u200e\u200f\u202a-\u202e\u2066-\u2069]/g,
    (sign) => `\\u${sign.charCodeAt(0).toString(16).padStart(4, "0")}`,
  );
}
