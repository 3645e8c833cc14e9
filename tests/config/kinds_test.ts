import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import {
  choice,
  type Kind,
  natsName,
  onlyTrue,
  onOff,
  onUnlessFalse,
  RefusedError,
  seconds,
  serviceIdKind,
  subjectFilter,
  subjectRoot,
  truthyWord,
  wholeNumber,
} from "../../lib/config/kinds.ts";

function refuses(kind: Kind<unknown>, texts: readonly string[]): void {
  for (const text of texts) throws(() => kind.parse(text), RefusedError, JSON.stringify(text));
}

Deno.test("whole numbers are decimal digits within the range, and nothing else", () => {
  const port = wholeNumber({ min: 0, max: 65535 });
  deepStrictEqual(["0", "65535", "0080"].map(port.parse), [0, 65535, 80]);
  refuses(port, [
    "65536",
    "-1",
    "+1",
    "1.0",
    "0x10",
    "1e3",
    " 1",
    "1 ",
    "80a",
    "٣",
    "9".repeat(17),
  ]);
});

Deno.test("seconds may have decimals and become whole milliseconds", () => {
  const kind = seconds({ zero: "no limit" });
  deepStrictEqual(["0", "0.0", "30", "0.25", ".5", "1.1", "5.", "0.0001"].map(kind.parse), [
    0,
    0,
    30_000,
    250,
    500,
    1100,
    5000,
    1,
  ]);
  strictEqual(kind.show(250), 0.25);
  refuses(kind, ["-1", "1s", "1e3", ".", "1,5", "NaN", "Infinity", "2147484", " 1"]);
  refuses(seconds(), ["0", "0.0"]);
});

Deno.test("a choice is exact unless any case is allowed", () => {
  strictEqual(choice(["auto", "core"], { anyCase: true }).parse("CoRe"), "core");
  refuses(choice(["auto", "core"]), ["Core", "cor", ""]);
  throws(
    () => choice(["auto"], { later: { jetstream: "comes later" } }).parse("jetstream"),
    /later/,
  );
});

Deno.test("only the exact text false turns proxy authentication off", () => {
  strictEqual(onUnlessFalse.parse("false"), false);
  for (const text of ["true", "False", "0", "no", "off"]) {
    strictEqual(onUnlessFalse.parse(text), true);
  }
});

Deno.test("only the exact text true turns SOCKS5 on", () => {
  strictEqual(onlyTrue.parse("true"), true);
  for (const text of ["True", "TRUE", "1", "yes", "on", "false"]) {
    strictEqual(onlyTrue.parse(text), false, text);
  }
});

Deno.test("the embedded server is on with the words of the start script, else off", () => {
  for (const text of ["1", "true", "TRUE", "yes", "YES", "on", "ON"]) {
    strictEqual(truthyWord.parse(text), true, text);
  }
  for (const text of ["0", "false", "True", "Yes", "y", "enabled"]) {
    strictEqual(truthyWord.parse(text), false, text);
  }
});

Deno.test("a switch knows its two words only", () => {
  strictEqual(onOff("on", "off").parse("off"), false);
  refuses(onOff("true", "false"), ["True", "1", "on", "yes"]);
});

Deno.test("SERVICE_ID is one token that no shared subject uses", () => {
  strictEqual(serviceIdKind.parse("srv-1_A"), "srv-1_A");
  strictEqual(serviceIdKind.parse("x".repeat(64)).length, 64);
  refuses(serviceIdKind, ["a b", "a.b", "*", ">", "_pool", "é", "a\n", "x".repeat(65)]);
});

Deno.test("subject roots have no wildcard and no empty token", () => {
  strictEqual(subjectRoot.parse("to.proxy"), "to.proxy");
  strictEqual(subjectRoot.parse("a"), "a");
  refuses(subjectRoot, ["a.", ".a", "a..b", "a.*", "a.>", "a b", "a\tb", "a\u0000"]);
});

Deno.test("LISTEN_SUBJECT may have wildcards where NATS allows them", () => {
  for (const text of ["to.*.requests.>", ">", "*", "a.b"]) {
    strictEqual(subjectFilter.parse(text), text);
  }
  refuses(subjectFilter, ["a.>.b", "a*.b", ">.a", "a..b", "a.", "a b"]);
});

Deno.test("consumer and queue names are what a NATS server takes", () => {
  strictEqual(natsName.parse("nats-proxy"), "nats-proxy");
  refuses(natsName, ["a.b", "a b", "a*", "a>", "a/b", "a\\b"]);
});
