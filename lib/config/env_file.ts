/**
 * The file of `--env-file`: `NAME=value` lines.
 * @module
 */

/** What a file says, with one line per mistake. */
export interface EnvFile {
  readonly values: ReadonlyMap<string, string>;
  readonly mistakes: readonly string[];
}

/**
 * Reads `NAME=value` lines. Empty lines and lines that start with `#` count for nothing, `export`
 * before a name is allowed. A value in single quotes is taken as it stands; in double quotes
 * `\n \r \t \" \\ \$` are escapes; without quotes it ends before ` #` and has no white space around.
 * Nothing is expanded, and a value ends with its line. A later line wins. Mistakes do not repeat
 * the line, which may hold a secret.
 */
export function parseEnvFile(path: string, text: string): EnvFile {
  const values = new Map<string, string>();
  const mistakes: string[] = [];
  const lines = text.replace(/^\ufeff/, "").split(/\r\n|\n|\r/);
  for (const [index, line] of lines.entries()) {
    if (/^\s*(#|$)/.test(line)) continue;
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*(.*)$/.exec(line);
    const value = match === null ? null : parseValue(match[2] ?? "");
    if (match === null || value === null) {
      mistakes.push(
        `--env-file ${JSON.stringify(path)} line ${index + 1}: accepted: NAME=value, quotes closed`,
      );
    } else {
      values.set(match[1] ?? "", value);
    }
  }
  return { values, mistakes };
}

const ESCAPES: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" };

function parseValue(text: string): string | null {
  const single = /^'([^']*)'\s*(#.*)?$/.exec(text);
  if (single !== null) return single[1] ?? "";
  const double = /^"((?:[^"\\]|\\.)*)"\s*(#.*)?$/.exec(text);
  if (double !== null) {
    return (double[1] ?? "").replace(/\\([nrt"\\$])/g, (_, sign: string) => ESCAPES[sign] ?? sign);
  }
  if (/^['"]/.test(text)) return null;
  return text.replace(/(^|\s)#.*$/, "").trimEnd();
}
