/**
 * A bench's two outputs.
 * @module
 */
const encoder = new TextEncoder();

/** The result, on standard output. */
export function print(text: string): void {
  writeAll(Deno.stdout, text);
}

/** Progress and complaints, on standard error. */
export function say(text: string): void {
  writeAll(Deno.stderr, text);
}

function writeAll(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let rest = encoder.encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
}
