import assert from "node:assert/strict";
import {
  chooseFilter,
  covers,
  filterForms,
  overlaps,
} from "../../../lib/transport/jetstream/filters.ts";

Deno.test("a pattern covers a filter when it takes all that the filter takes", () => {
  const rows: [string, string, boolean][] = [
    [">", "a", true],
    [">", ">", true],
    ["a.>", "a.b", true],
    ["a.>", "a.b.>", true],
    ["a.>", "a.*", true],
    ["a.>", "a", false],
    ["a.>", ">", false],
    ["a.*", "a.b", true],
    ["a.*", "a.*", true],
    ["a.*", "a.>", false],
    ["a.*.c", "a.b.c", true],
    ["a.*.c", "a.b.d", false],
    ["a.b", "a.b", true],
    ["a.b", "a.*", false],
    ["a.b", "a.b.c", false],
    ["a.b.c", "a.b", false],
    ["*.b", "a.b", true],
    ["ab.>", "a.>", false],
  ];
  for (const [pattern, filter, expected] of rows) {
    assert.equal(covers(pattern, filter), expected, `${pattern} ${filter}`);
  }
});

Deno.test("two patterns overlap when one subject can match both", () => {
  const rows: [string, string, boolean][] = [
    ["a.b", "a.*", true],
    ["a.*.c", "a.b.*", true],
    ["a.b.>", "a.>", true],
    ["a.>", "a", false],
    ["a.b", "a.c", false],
    ["a.*", "a.b.c", false],
    ["*.b.>", "a.*.c", true],
  ];
  for (const [one, other, expected] of rows) {
    assert.equal(overlaps(one, other), expected, `${one} ${other}`);
    assert.equal(overlaps(other, one), expected, `${other} ${one}`);
  }
});

Deno.test("one leading to. or from. is what a stripped form lacks", () => {
  assert.deepEqual(filterForms("to.proxy.requests.>"), [
    "to.proxy.requests.>",
    "proxy.requests.>",
  ]);
  assert.deepEqual(filterForms("from.to.x.>"), ["from.to.x.>", "to.x.>"]);
  assert.deepEqual(filterForms("proxy.requests.>"), ["proxy.requests.>"]);
  assert.deepEqual(filterForms("tour.x"), ["tour.x"]);
});

Deno.test("the form as published comes first, then the stripped one, then a part", () => {
  const choose = (...subjects: string[]) => chooseFilter("to.proxy.requests.>", "proxy", subjects);
  const fits = (filter: string) => ({ kind: "fits", filter });
  assert.deepEqual(choose("proxy.>", "to.proxy.>"), fits("to.proxy.requests.>"));
  assert.deepEqual(choose("proxy.>"), fits("proxy.requests.>"));
  assert.deepEqual(choose("to.proxy.requests.edge.*"), fits("to.proxy.requests.>"));
  assert.deepEqual(choose("to.proxy.requests.edge.*", "proxy.>"), fits("proxy.requests.>"));
});

Deno.test("a stream that holds neither form is named with both", () => {
  const choice = chooseFilter("to.proxy.requests.>", "proxy", ["other.>", "more"]);
  assert.equal(choice.kind, "none");
  const reason = choice.kind === "none" ? choice.reason : "";
  for (
    const part of ["stream proxy", "other.>, more", "to.proxy.requests.>", " proxy.requests.>"]
  ) assert.ok(reason.includes(part), `${part} in ${reason}`);
  assert.match(JSON.stringify(chooseFilter("a.b", "s", [])), /no subjects/);
});
