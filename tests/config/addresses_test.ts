import { deepStrictEqual, strictEqual, throws } from "node:assert/strict";
import {
  downloadUrl,
  host,
  hostPort,
  natsAddress,
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
  const plain = natsAddress("h.example", 4222);
  deepStrictEqual(plain, {
    scheme: "nats",
    hostname: "h.example",
    port: 4222,
    path: "/",
    authority: "h.example:4222",
  });
  deepStrictEqual(natsUrls.parse("nats://h.example"), [plain]);
  deepStrictEqual(natsUrls.parse("TLS://h.example/"), [{ ...plain, scheme: "tls" }]);
  deepStrictEqual(natsUrls.parse("nats+tls://u:@h.example"), [
    { ...plain, scheme: "tls", user: "u", password: "" },
  ]);
  deepStrictEqual(natsUrls.parse("nats://al%20ice:p:a@ss/w%@h:1/"), [
    { ...natsAddress("h", 1), user: "al%20ice", password: "p:a@ss/w%" },
  ]);
  deepStrictEqual(natsUrls.parse("tls://t@k@[::1]:4443"), [{
    scheme: "tls",
    hostname: "::1",
    port: 4443,
    path: "/",
    authority: "[::1]:4443",
    token: "t@k",
  }]);
});

Deno.test("the host of NATS_URL gets the form in which nats-core names its servers", () => {
  deepStrictEqual(natsUrls.parse(" H.Example:4222 "), [natsAddress("h.example", 4222)]);
  deepStrictEqual(natsUrls.parse("nats://[0:0::01]"), [natsAddress("::1", 4222)]);
  deepStrictEqual(natsUrls.parse("nats://127.1"), [natsAddress("127.0.0.1", 4222)]);
  deepStrictEqual(natsUrls.parse("nats://bücher.example"), [
    natsAddress("xn--bcher-kva.example", 4222),
  ]);
});

Deno.test("a WebSocket URL has the ports of the web, and may have a path", () => {
  deepStrictEqual(natsUrls.parse("ws://h"), [{ ...natsAddress("h", 80), scheme: "ws" }]);
  const parsed = natsUrls.parse("wss://u:p/@[::1]/nats?x=1");
  deepStrictEqual(parsed, [{
    scheme: "wss",
    hostname: "::1",
    port: 443,
    path: "/nats?x=1",
    authority: "[::1]:443",
    user: "u",
    password: "p/",
  }]);
  deepStrictEqual(natsUrls.show(parsed), ["wss://[::1]:443/nats"]);
});

Deno.test("a comma separates NATS servers only where another URL follows", () => {
  const parsed = natsUrls.parse("nats://a:p,w@h1 , tls://h2:7");
  deepStrictEqual(parsed, [
    { ...natsAddress("h1", 4222), user: "a", password: "p,w" },
    { ...natsAddress("h2", 7), scheme: "tls" },
  ]);
  deepStrictEqual(natsUrls.show(parsed), ["nats://h1:4222", "tls://h2:7"]);
});

Deno.test("NATS_URL needs no scheme", () => {
  deepStrictEqual(natsUrls.show(natsUrls.parse("localhost:1,h2")), [
    "nats://localhost:1",
    "nats://h2:4222",
  ]);
  deepStrictEqual(natsUrls.parse("bob:p@h:2"), [
    { ...natsAddress("h", 2), user: "bob", password: "p" },
  ]);
});

Deno.test("NATS_URL refuses other schemes, paths and broken hosts, without a word of the user part", () => {
  const wrong = [
    " ",
    "http://h",
    "http://s3cret:s3cret@h",
    "nats+ws://h",
    "htp//h",
    "nats://",
    "nats://@h",
    "nats://:s3cret@h",
    "nats://s3cret@",
    "nats://s3cret@h/x",
    "nats://h:0",
    "nats://s3cret@h:65536",
    "nats://s3cret@h:x",
    "nats://s3cret@h o",
    "nats://s3cret@[::zz]:1",
    "nats://s3cret@h%00:1",
    "nats://s3cret:s3cret@h1,h2",
    "nats://h1,,h2",
    "nats://h,",
    "nats://h?x=1",
    "ws://h?x=1",
    "ws://h/#x",
    "ws://h/s3cret@/x",
  ];
  for (const text of wrong) {
    throws(
      () => natsUrls.parse(text),
      (error) => error instanceof RefusedError && !error.message.includes("s3cret"),
      text,
    );
  }
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
