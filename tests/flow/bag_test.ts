import assert from "node:assert/strict";
import { Bag } from "../../lib/flow/bag.ts";

const item = (name: string) => ({ name, bagIndex: -1 });

Deno.test("A bag holds what was added and not deleted, and takes it again", () => {
  const bag = new Bag<ReturnType<typeof item>>();
  const [a, b, c] = [item("a"), item("b"), item("c")];
  for (const one of [a, b, c]) bag.add(one);
  bag.delete(a);
  bag.delete(a);
  bag.delete(item("stranger"));
  assert.deepEqual([...bag].map((one) => one.name).sort(), ["b", "c"]);
  bag.add(a);
  bag.delete(c);
  assert.deepEqual([...bag].map((one) => one.name).sort(), ["a", "b"]);
  assert.equal(bag.size, 2);
});

Deno.test("A bag may be emptied while it is read", () => {
  const bag = new Bag<ReturnType<typeof item>>();
  for (let i = 0; i < 5; i++) bag.add(item(String(i)));
  let seen = 0;
  for (const one of bag) {
    bag.delete(one);
    seen++;
  }
  assert.deepEqual([seen, bag.size], [5, 0]);
});
