import assert from "node:assert/strict";
import { CORE_ONLY } from "./mode.ts";

Deno.test("test:jetstream leaves out the files that are named with a reason, all of which exist, and no other", async () => {
  const folder = new URL("../system/", import.meta.url);
  const { tasks } = JSON.parse(
    await Deno.readTextFile(new URL("../../deno.json", import.meta.url)),
  ) as { tasks: Record<string, { command: string }> };
  const ignored = /--ignore=(\S+)/.exec(tasks["test:jetstream"]?.command ?? "")?.[1]?.split(",");
  const named = Object.keys(CORE_ONLY).map((name) => `tests/system/${name}`);
  assert.deepEqual(ignored?.toSorted(), named.toSorted());
  for (const name of Object.keys(CORE_ONLY)) {
    assert.ok((await Deno.stat(new URL(name, folder))).isFile, name);
  }
});
