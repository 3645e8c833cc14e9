import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import {
  downloadUrl,
  host,
  hostPort,
  natsUrls,
  upstreamUrl,
  withoutUserPart,
} from "../../lib/config/addresses.ts";
import { RefusedError } from "../../lib/config/kinds.ts";

Deno.test("UPSTREAM_URL gives what Deno.connect and a Host field want", () => {
  deepStrictEqual(upstreamUrl.parse("http://App.Example/base/v1//"), {
    href: "http://app.example/base/v1",
    hostname: "app.example",
    port: 80,
    authority: "app.example",
    prefix: "/base/v1",
  });
  deepStrictEqual(upstreamUrl.parse("HTTP://[::1]:8080"), {
    href: "http://[::1]:8080/",
    hostname: "::1",
    port: 8080,
    authority: "[::1]:8080",
    prefix: "",
  });
  deepStrictEqual(upstreamUrl.parse("http://[2001:db8::1]:80/").authority, "[2001:db8::1]");
});

Deno.test("the path of UPSTREAM_URL keeps its octets", () => {
  strictEqual(upstreamUrl.parse("http://h/a%2Fb/../c;x=1/").prefix, "/a%2Fb/../c;x=1");
});

Deno.test("UPSTREAM_URL refuses what has no meaning for an upstream", () => {
  const wrong = [
    "http://user@h/",
    "http://u:p@h/",
    "http://h/?q",
    "http://h/#f",
    "http://h/a b",
    "http://h/%zz",
    "http://h:0/",
    "http://h:70000",
    "http://",
    "http:///x",
    "h:80",
    "ftp://h",
    "http://h\\x",
    "http://a,b",
    "http://h\n/",
  ];
  for (const text of wrong) throws(() => upstreamUrl.parse(text), RefusedError, text);
  throws(() => upstreamUrl.parse("https://h"), /not yet in this version/);
});

Deno.test("NATS_URL reads scheme, host, port and user part without decoding", () => {
  deepStrictEqual(natsUrls.parse("nats://localhost"), [
    { hostname: "localhost", port: 4222, tls: false },
  ]);
  deepStrictEqual(natsUrls.parse("nats://u%41:p:w@h:1/"), [
    { hostname: "h", port: 1, tls: false, user: "u%41", password: "p:w" },
  ]);
  deepStrictEqual(natsUrls.parse("tls://t@k@[::1]:4443"), [
    { hostname: "::1", port: 4443, tls: true, token: "t@k" },
  ]);
  deepStrictEqual(natsUrls.parse("nats+tls://u:@h"), [
    { hostname: "h", port: 4222, tls: true, user: "u", password: "" },
  ]);
});

Deno.test("a comma separates NATS servers only where another URL follows", () => {
  const parsed = natsUrls.parse("nats://a:p,w@h1 , tls://h2:7");
  deepStrictEqual(parsed, [
    { hostname: "h1", port: 4222, tls: false, user: "a", password: "p,w" },
    { hostname: "h2", port: 7, tls: true },
  ]);
  deepStrictEqual(natsUrls.show(parsed), ["nats://h1:4222", "tls://h2:7"]);
});

Deno.test("NATS_URL needs no scheme", () => {
  deepStrictEqual(natsUrls.show(natsUrls.parse("localhost:1,h2")), [
    "nats://localhost:1",
    "nats://h2:4222",
  ]);
  deepStrictEqual(natsUrls.parse("bob:p@h:2"), [
    { hostname: "h", port: 2, tls: false, user: "bob", password: "p" },
  ]);
});

Deno.test("NATS_URL refuses other schemes, paths and broken hosts", () => {
  const wrong = [
    "http://h",
    "http://u:p@h",
    "htp//h",
    "ws://h",
    "nats://",
    "nats://@h",
    "nats://:p@h",
    "nats://h/x",
    "nats://h:0",
    "nats://h:65536",
    "nats://u:p@h1,h2",
    "nats://h1,,h2",
    "nats://h,",
    "nats://h?x=1",
  ];
  for (const text of wrong) throws(() => natsUrls.parse(text), RefusedError, text);
});

Deno.test("listening addresses need a port, hosts must not have one", () => {
  deepStrictEqual(hostPort.parse("127.0.0.1:0"), {
    hostname: "127.0.0.1",
    port: 0,
    authority: "127.0.0.1:0",
  });
  strictEqual(hostPort.parse("[::]:9").hostname, "::");
  for (const text of ["127.0.0.1", ":80", "::1:80", "h:65536", "h:x", "[h]:1"]) {
    throws(() => hostPort.parse(text), RefusedError, text);
  }
  strictEqual(host.parse("::1"), "::1");
  strictEqual(host.parse("[::]"), "::");
  for (const text of ["h:80", "a b", "http://h", "[::1]:2"]) {
    throws(() => host.parse(text), RefusedError, text);
  }
});

Deno.test("the mirror of nats-server is an http or https URL without a user part", () => {
  strictEqual(downloadUrl.parse("https://mirror.example/x/"), "https://mirror.example/x/");
  for (const text of ["mirror", "file:///x", "https://u:p@mirror.example/"]) {
    throws(() => downloadUrl.parse(text), RefusedError, text);
  }
});

Deno.test("a URL for a message has lost every octet of its user parts", () => {
  strictEqual(withoutUserPart("nats://u:p@h:1"), "nats://h:1");
  strictEqual(withoutUserPart("nats://u:p@x/y@h:1"), "nats://h:1");
  strictEqual(withoutUserPart("u:p@h"), "h");
  strictEqual(withoutUserPart("nats://u:a,b@h1,nats://u:c@h2"), "nats://h2");
  strictEqual(withoutUserPart("nats://h:1"), "nats://h:1");
});
