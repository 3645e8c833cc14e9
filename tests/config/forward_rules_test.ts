import { deepStrictEqual, ok, strictEqual, throws } from "node:assert/strict";
import { forwardRules, forwardText, isLoopbackHost } from "../../lib/config/forward_rules.ts";
import { RefusedError } from "../../lib/config/kinds.ts";

const shown = (text: string) => forwardRules.parse(text).map(forwardText);

Deno.test("a forward has a bind host, which is 127.0.0.1 unless given, a port and a target", () => {
  deepStrictEqual(forwardRules.parse("5432=db.internal:5432"), [
    { bindHost: "127.0.0.1", port: 5432, targetHost: "db.internal", targetPort: 5432 },
  ]);
  deepStrictEqual(forwardRules.parse("[::1]:0=[2001:DB8::1]:22"), [
    { bindHost: "::1", port: 0, targetHost: "2001:db8::1", targetPort: 22 },
  ]);
});

Deno.test("several forwards are separated by commas and keep their order", () => {
  deepStrictEqual(shown(" 1=a:1 , localhost:2=my_db.B:2,0.0.0.0:3=10.0.0.1:3"), [
    "127.0.0.1:1=a:1",
    "localhost:2=my_db.b:2",
    "0.0.0.0:3=10.0.0.1:3",
  ]);
  const parsed = forwardRules.parse("[::1]:1=[::2]:2,3=c:3");
  deepStrictEqual(forwardRules.parse(parsed.map(forwardText).join(",")), parsed);
  ok(Object.isFrozen(parsed) && parsed.every(Object.isFrozen));
});

Deno.test("one address and port cannot lead to two targets", () => {
  const twice = ["1=a:1,1=b:1", "127.1:1=a:1,1=b:1", "[0::1]:7=a:1,[::1]:07=a:1"];
  for (const text of twice) throws(() => forwardRules.parse(text), /is there twice/, text);
  strictEqual(shown("0=a:1,0=b:1,127.0.0.2:1=a:1,1=a:1").length, 4);
});

Deno.test("a forward that lacks something or has too much is refused by name", () => {
  const wrong = [
    "5432",
    "5432=db",
    "=db:1",
    "5432=:1",
    "65536=db:1",
    "1=db:0",
    "1=db:65536",
    "-1=db:1",
    "1=db:x",
    "::1:5=db:1",
    "1=::1:5",
    "*:1=db:1",
    "1=*.db:1",
    "1=u@db:1",
    "1=db:1/x",
    "1=a b:1",
    "1=[db]:1",
    "1=[::zz]:1",
    "[127.0.0.1]:1=db:1",
  ];
  for (const text of wrong) throws(() => forwardRules.parse(text), RefusedError, text);
  throws(() => forwardRules.parse("1=a:1,2=b"), /"2=b" is no forward/);
  throws(() => forwardRules.parse("1=a:1,"), /"" is no forward/);
});

Deno.test("loopback is 127.0.0.0/8, ::1 and localhost, and nothing that only looks like it", () => {
  for (const host of ["127.0.0.1", "127.9.9.9", "::1", "localhost"]) ok(isLoopbackHost(host), host);
  for (const host of ["0.0.0.0", "::", "10.0.0.1", "127.evil.example", "localhost.example"]) {
    ok(!isLoopbackHost(host), host);
  }
});
