import assert from "node:assert/strict";
import { startChild } from "../../lib/embedded/child.ts";
import { MAX_LINE_LENGTH, readLines } from "../../lib/embedded/lines.ts";
import { isAlive, namesIn, script, tempDir } from "./support.ts";

/** A program that says one line, and ends on SIGTERM with a status of its own. */
const PROGRAM = `sleep 600 & nap=$!
trap 'kill "$nap"; echo bye >&2; exit 5' TERM
echo "hello $1" >&2
wait "$nap"`;

Deno.test("a child runs with and without the watchdog, and gives its status and its last line", async () => {
  for (const shell of ["/bin/sh", null]) {
    await using dir = await tempDir();
    const removeDir = `${dir.path}/run`;
    await Deno.mkdir(removeDir);
    const binary = await script(`${dir.path}/program`, PROGRAM);
    const lines: string[] = [];
    const first = Promise.withResolvers<void>();
    const onLine = (line: string) => {
      lines.push(line);
      first.resolve();
    };
    const child = await startChild({ binary, args: ["a b"], removeDir, onLine, shell });
    await first.promise;
    assert.ok(await isAlive(child.pid));
    await child.stop();
    assert.equal((await child.ended).code, 5);
    assert.deepEqual(lines, ["hello a b", "bye"]);
    assert.ok(!await isAlive(child.pid));
    assert.deepEqual(await namesIn(dir.path), ["program"]);
  }
});

Deno.test("a process that the program left behind with its output does not hold up the end", async () => {
  await using dir = await tempDir();
  const pidFile = `${dir.path}/pid`;
  const body = `sleep 600 & echo $! >"${pidFile}"; echo last >&2; exit 3`;
  const binary = await script(`${dir.path}/program`, body);
  for (const shell of ["/bin/sh", null]) {
    const lines: string[] = [];
    const onLine = (line: string) => void lines.push(line);
    const removeDir = `${dir.path}/run`;
    const child = await startChild({ binary, args: [], removeDir, onLine, shell });
    const end = await child.ended;
    Deno.kill(Number(await Deno.readTextFile(pidFile)), "SIGKILL");
    assert.equal(end.code, 3);
    assert.deepEqual(lines, ["last"]);
  }
});

Deno.test("nothing of the watchdog is left when the program ends by itself", async () => {
  await using dir = await tempDir();
  const binary = await script(`${dir.path}/program`, "exit 6");
  const removeDir = `${dir.path}/run`;
  const child = await startChild({ binary, args: [], removeDir, onLine: () => {} });
  assert.equal((await child.ended).code, 6);
  const output = await new Deno.Command("ps", { args: ["-eo", "stat=,args="] }).output();
  const left = new TextDecoder().decode(output.stdout).split("\n")
    .filter((line) => line.includes(removeDir) && !line.startsWith("Z"));
  assert.deepEqual(left, []);
});

async function linesOf(...chunks: (string | number[])[]): Promise<string[]> {
  const lines: string[] = [];
  const bytes = chunks.map((chunk) =>
    typeof chunk === "string" ? new TextEncoder().encode(chunk) : Uint8Array.from(chunk)
  );
  await readLines(ReadableStream.from(bytes), (line) => lines.push(line));
  return lines;
}

Deno.test("lines are the same wherever the stream is cut, and are bounded", async () => {
  assert.deepEqual(await linesOf("a", "b\nc\r", "\n\n", "last"), ["ab", "c", "last"]);
  assert.deepEqual(await linesOf([0xc3], [0xbc, 0x0a, 0xff]), ["ü", "\ufffd"]);
  assert.deepEqual(await linesOf(), []);
  const long = "x".repeat(3000);
  const [first, second] = await linesOf(long, long, `${long}\nnext\n`);
  assert.equal(first!.length, MAX_LINE_LENGTH);
  assert.equal(second, "next");
});
