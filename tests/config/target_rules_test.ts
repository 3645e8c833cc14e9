import { deepStrictEqual, ok, throws } from "node:assert/strict";
import { RefusedError } from "../../lib/config/kinds.ts";
import { targetRules } from "../../lib/config/target_rules.ts";

const hosts = (text: string) => targetRules.parse(text).map((rule) => rule.host);
const ports = (text: string) => targetRules.parse(text).map((rule) => rule.ports);

Deno.test("the host of a rule is a name, the names below one, an address or a network", () => {
  deepStrictEqual(
    hosts("DB.internal., *.Example.org ,10.0.0.5,10.0.0.0/8,0.0.0.0/0"),
    [
      { kind: "name", name: "db.internal" },
      { kind: "below", name: "example.org" },
      { kind: "network", address: "10.0.0.5", prefixBits: 32 },
      { kind: "network", address: "10.0.0.0", prefixBits: 8 },
      { kind: "network", address: "0.0.0.0", prefixBits: 0 },
    ],
  );
  deepStrictEqual(hosts("bücher.example,my_db,127.1,0x7f000001"), [
    { kind: "name", name: "xn--bcher-kva.example" },
    { kind: "name", name: "my_db" },
    { kind: "network", address: "127.0.0.1", prefixBits: 32 },
    { kind: "network", address: "127.0.0.1", prefixBits: 32 },
  ]);
});

Deno.test("an IPv6 network stands bare, or in brackets when ports follow", () => {
  deepStrictEqual(hosts("2001:DB8::/32,::1,[::1],[fd00::/8]:443,::1:80"), [
    { kind: "network", address: "2001:db8::", prefixBits: 32 },
    { kind: "network", address: "::1", prefixBits: 128 },
    { kind: "network", address: "::1", prefixBits: 128 },
    { kind: "network", address: "fd00::", prefixBits: 8 },
    { kind: "network", address: "::1:80", prefixBits: 128 },
  ]);
  deepStrictEqual(ports("[fd00::/8]:443,::1:80"), [[{ first: 443, last: 443 }], []]);
});

Deno.test("ports are a list of numbers and ranges, and all ports when there is none", () => {
  deepStrictEqual(ports("h,h:80,h:80|443|8000-8100,10.0.0.0/8:1-65535"), [
    [],
    [{ first: 80, last: 80 }],
    [{ first: 80, last: 80 }, { first: 443, last: 443 }, { first: 8000, last: 8100 }],
    [{ first: 1, last: 65535 }],
  ]);
});

Deno.test("a rule that is shown reads as the same rule", () => {
  const text = "db.internal:5432,*.example.org:80|443|8000-8100,10.0.0.5,10.0.0.0/8:22," +
    "2001:db8::/32,[fd00::/8]:443,[::1]:1-9";
  const rules = targetRules.parse(text);
  deepStrictEqual((targetRules.show(rules) as string[]).join(","), text);
  deepStrictEqual(targetRules.parse(text), rules);
  ok(Object.isFrozen(rules) && rules.every(Object.isFrozen));
});

Deno.test("a rule that could be read in two ways or in none is refused by name", () => {
  const wrong = [
    "*",
    "*.",
    "*.10.0.0.1",
    "a.*.b",
    "*a.b",
    "10.0.0.0/33",
    "10.0.0/8",
    "010.0.0.0/8",
    "10.0.0.0/",
    "10.0.0.0/-1",
    "10.0.0.256",
    "example.org/8",
    "fd00::/129",
    "[fd00::]/8",
    "[fd00::/8]443",
    "[10.0.0.1]:80",
    "[db]:80",
    "[::1",
    "fe80::1%eth0",
    "::ffff:999.0.0.1",
    "h:0",
    "h:65536",
    "h:80-79",
    "h:80|",
    "h:80-",
    "h:http",
    "h:",
    ":80",
    "a b",
    "u@h",
    "http://h",
  ];
  for (const text of wrong) throws(() => targetRules.parse(text), RefusedError, text);
  throws(() => targetRules.parse("a.example,b c"), /"b c" is no rule/);
  throws(() => targetRules.parse("a,,b"), /"" is no rule/);
});
