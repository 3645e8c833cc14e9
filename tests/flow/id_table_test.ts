import assert from "node:assert/strict";
import { IdTable } from "../../lib/flow/id_table.ts";

Deno.test("IdTable does what a Map does, also when it grows and shrinks", () => {
  const table = new IdTable<number>();
  const map = new Map<string, number>();
  let random = 1;
  const next = (below: number) => {
    random = (Math.imul(random, 1103515245) + 12345) & 0x7fffffff;
    return random % below;
  };
  for (const ids of [40, 5000, 40]) {
    for (let i = 0; i < 20_000; i++) {
      const id = `id-${next(ids)}`;
      if (next(3) > 0) {
        table.set(id, i);
        map.set(id, i);
      } else {
        table.delete(id);
        map.delete(id);
      }
      assert.equal(table.size, map.size);
      const asked = `id-${next(ids)}`;
      assert.equal(table.get(asked), map.get(asked));
    }
    const sorted = (values: Iterable<number>) => [...values].sort((a, b) => a - b);
    assert.deepEqual(sorted(table.values()), sorted(map.values()));
    for (const id of [...map.keys()].slice(3)) {
      table.delete(id);
      map.delete(id);
    }
    for (const [id, value] of map) assert.equal(table.get(id), value);
  }
});
