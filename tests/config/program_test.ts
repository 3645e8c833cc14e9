import { deepStrictEqual, match } from "node:assert/strict";
import { joinFlagValues } from "../../lib/config/flags.ts";
import { createProgram, givenFlags } from "../../lib/config/program.ts";

const silent = { stdout: () => {}, stderr: () => {} };

async function flagsOf(...argv: string[]): Promise<Record<string, string | readonly string[]>> {
  const { argv: joined, mistakes } = joinFlagValues(argv);
  deepStrictEqual(mistakes, []);
  const program = createProgram(silent, () => Promise.resolve());
  await program.parseAsync(joined, { from: "user" });
  return givenFlags(program);
}

Deno.test("--forward and --forwards are one flag, and their values keep the order", async () => {
  const words = ["--forward", "1=a:1", "--forwards=2=b:2,3=c:3", "--forward=4=d:4"];
  deepStrictEqual(await flagsOf(...words), { forwards: ["1=a:1", "2=b:2,3=c:3", "4=d:4"] });
  deepStrictEqual(await flagsOf("requester", ...words), await flagsOf(...words));
});

Deno.test("of a flag that is not repeatable the last value counts", async () => {
  deepStrictEqual(
    await flagsOf("--port", "1", "--port=2", "--target-allow", "a", "--target-allow=b"),
    {
      port: "2",
      "target-allow": ["a", "b"],
    },
  );
});

Deno.test("both names of a flag need a value, and help shows both", () => {
  match(joinFlagValues(["--forward"]).mistakes.join(), /^--forward has no value: accepted: \[bind/);
  match(joinFlagValues(["--forwards", "--port=1"]).mistakes.join(), /^--forwards has no value/);
  const help = createProgram(silent, () => Promise.resolve()).helpInformation();
  match(help, /\n {2}--forward, --forwards <rules>\n/);
});
