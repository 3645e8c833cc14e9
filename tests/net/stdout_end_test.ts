import assert from "node:assert/strict";
import { within } from "../helpers/wait.ts";

/**
 * Says hello, ends its output, says whether that worked, and waits for the end of its input. By `-A`: the
 * permissions of tests do not reach descriptors.
 */
const PROGRAM = `
import { endStdout } from ${
  JSON.stringify(new URL("../../lib/net/stdout_end.ts", import.meta.url))
};
const say = (to, text) => to.writeSync(new TextEncoder().encode(text));
await Deno.stdout.write(new TextEncoder().encode("hello"));
say(Deno.stderr, endStdout() + " ");
const rest = new Uint8Array(10);
const count = await Deno.stdin.read(rest);
say(Deno.stderr, new TextDecoder().decode(rest.subarray(0, count ?? 0)));
await Deno.stdout.write(new TextEncoder().encode("nobody reads this")).catch(() => {});
`;

const linux = Deno.build.os === "linux";

for (const shared of [false, true]) {
  const where = shared ? "to the same pipe" : "elsewhere";
  const what = shared || !linux ? "cannot be" : "is";
  Deno.test(`standard output ${what} ended while the process goes on, with errors going ${where}`, async () => {
    const file = await Deno.makeTempFile({ suffix: ".ts" });
    const errors = await Deno.makeTempFile();
    try {
      await Deno.writeTextFile(file, PROGRAM);
      const redirect = shared ? "2>&1" : `2>'${errors}'`;
      const child = new Deno.Command("sh", {
        args: ["-c", `exec '${Deno.execPath()}' run -A --quiet '${file}' ${redirect}`],
        stdin: "piped",
        stdout: "piped",
      }).spawn();
      const input = child.stdin.getWriter();
      const output = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      const untilEnd = async (enough: string) => {
        while (!text.endsWith(enough)) {
          const { value, done } = await output.read();
          if (done) return;
          text += value;
        }
      };
      if (shared || !linux) await within(untilEnd("false "), 20_000, "the answer");
      else {
        await within(untilEnd("\0"), 20_000, "the end of the output");
        assert.equal(text, "hello");
      }
      // The program still runs, since its input has not ended.
      await input.write(new TextEncoder().encode("bye"));
      await input.close();
      await within(untilEnd("\0"), 20_000, "the end of the program");
      assert.equal((await child.status).success, true);
      if (shared) assert.match(text, /^hellofalse bye/);
      else assert.equal(await Deno.readTextFile(errors), linux ? "true bye" : "false bye");
    } finally {
      await Deno.remove(file);
      await Deno.remove(errors);
    }
  });
}
