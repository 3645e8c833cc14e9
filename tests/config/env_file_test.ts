import { deepStrictEqual, strictEqual } from "node:assert/strict";
import { parseEnvFile } from "../../lib/config/env_file.ts";

function valuesOf(text: string): Record<string, string> {
  return Object.fromEntries(parseEnvFile("f", text).values);
}

Deno.test("an env file has names, values, remarks and quotes", () => {
  const text = [
    "\ufeff# remark",
    "",
    "A=1",
    "  export B = two words  # remark",
    "C='as it stands: $X \\n # no remark' # remark",
    'D="tab\\there \\"quoted\\" \\$X"',
    "E=",
    "F=a#b=c",
    "G=#remark",
    "A=2",
  ].join("\r\n");
  deepStrictEqual(valuesOf(text), {
    A: "2",
    B: "two words",
    C: "as it stands: $X \\n # no remark",
    D: 'tab\there "quoted" $X',
    E: "",
    F: "a#b=c",
    G: "",
  });
});

Deno.test("a mistake in an env file names the line and does not repeat it", () => {
  const { mistakes, values } = parseEnvFile("x.env", "A=1\nhunter2\nB='open hunter2\n1C=hunter2");
  deepStrictEqual(mistakes.map((line) => /line (\d)/.exec(line)?.[1]), ["2", "3", "4"]);
  strictEqual(mistakes.join().includes("hunter2"), false);
  strictEqual(values.size, 1);
});
