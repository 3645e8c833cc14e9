/**
 * The program: arguments in, exit code out.
 * @module
 */
import { runCli } from "./lib/cli.ts";

const encoder = new TextEncoder();

/** Writes all of `text` before it returns; a reader that has gone is no failure. */
function write(stream: { writeSync(bytes: Uint8Array): number }, text: string): void {
  let rest = encoder.encode(text);
  try {
    while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
  } catch {
    // Nobody reads: there is nobody to tell.
  }
}

const code = await runCli(Deno.args, {
  env: Deno.env.toObject(),
  stdout: (text) => write(Deno.stdout, text),
  stderr: (text) => write(Deno.stderr, text),
  isTerminal: Deno.stderr.isTerminal(),
  readFile: (path) => Deno.readTextFileSync(path),
});
Deno.exit(code);
