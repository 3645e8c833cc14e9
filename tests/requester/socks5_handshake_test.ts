import assert from "node:assert/strict";
import { type Socks5Auth, Socks5Handshake } from "../../lib/requester/socks5_handshake.ts";
import { encodeReply, Reply } from "../../lib/requester/socks5_messages.ts";
import { concat, latin1, octets } from "../helpers/bytes.ts";

/** What a handshake made of its input: all that it answered, how it ended, and what it left. */
interface Read {
  answers: string;
  /** `host port`, or why not, or null when octets are missing. */
  outcome: string | null;
  rest: string;
}

function readPieces(pieces: readonly Uint8Array[], auth: Socks5Auth = "none"): Read {
  const handshake = new Socks5Handshake({ auth });
  const answers: Uint8Array[] = [];
  const rest: Uint8Array[] = [];
  for (const piece of pieces) {
    rest.push(piece.subarray(handshake.push(piece)));
    answers.push(...handshake.takeAnswers());
  }
  const { outcome, target } = handshake;
  return {
    answers: latin1(concat(answers)),
    outcome: target !== null
      ? `${target.host} ${target.port}`
      : outcome?.kind === "refused"
      ? outcome.reason
      : null,
    rest: latin1(concat(rest)),
  };
}

function read(text: string, auth: Socks5Auth = "none"): Read {
  return readPieces([octets(text)], auth);
}

const GREETING = "\x05\x01\x00";
const NO_AUTH = "\x05\x00";
const NONE_ACCEPTABLE = "\x05\xff";
const LOCAL_18080 = "\x7f\x00\x00\x01\x46\xa0";
const NO_ADDRESS = "\x00\x01\x00\x00\x00\x00\x00\x00";

function connectTo(address: string): string {
  return `${GREETING}\x05\x01\x00${address}`;
}

/** A name with its length in front, and port 80. */
function name(text: string): string {
  return `\x03${String.fromCharCode(text.length)}${text}\x00\x50`;
}

function refusedWith(reply: number): string {
  return `${NO_AUTH}\x05${String.fromCharCode(reply)}${NO_ADDRESS}`;
}

const GET = "GET /f29 HTTP/1.1\r\nHost: 127.0.0.1:18080\r\nConnection: close\r\n\r\n";
const ALICE = "\x01\x05alice\x07s3cr:et";

/** The octets of the case files, and what becomes of them. */
const CASES: readonly [id: string, input: string, read: Read][] = [
  ["F29 in pieces", connectTo(`\x01${LOCAL_18080}`), {
    answers: NO_AUTH,
    outcome: "127.0.0.1 18080",
    rest: "",
  }],
  ["F29 coalesced", connectTo(`\x01${LOCAL_18080}`) + GET, {
    answers: NO_AUTH,
    outcome: "127.0.0.1 18080",
    rest: GET,
  }],
  ["F30 refused", connectTo("\x01\x7f\x00\x00\x01\x00\x01"), {
    answers: NO_AUTH,
    outcome: "127.0.0.1 1",
    rest: "",
  }],
  ["F30 unresolvable", connectTo(name("no-such-host.invalid")), {
    answers: NO_AUTH,
    outcome: "no-such-host.invalid 80",
    rest: "",
  }],
  ["F31 bad address type", `${GREETING}\x05\x01\x00\x02${LOCAL_18080}`, {
    answers: refusedWith(8),
    outcome: "an unknown type of address",
    rest: LOCAL_18080,
  }],
  ["F31 BIND", `${GREETING}\x05\x02\x00\x01${LOCAL_18080}`, {
    answers: refusedWith(7),
    outcome: "BIND is not served",
    rest: LOCAL_18080,
  }],
  ["F31 UDP ASSOCIATE", `${GREETING}\x05\x03\x00\x01\0\0\0\0\0\0`, {
    answers: refusedWith(7),
    outcome: "UDP is not carried",
    rest: "\0\0\0\0\0\0",
  }],
  ["F32 password alone is offered", `\x05\x01\x02${ALICE}`, {
    answers: NONE_ACCEPTABLE,
    outcome: "the client does not offer to come without authentication",
    rest: ALICE,
  }],
  ["F33 name", connectTo("\x03\x0btarget.test\x46\xa0"), {
    answers: NO_AUTH,
    outcome: "target.test 18080",
    rest: "",
  }],
  ["F33 IPv6", connectTo(`\x04${"\0".repeat(15)}\x01\x46\xa0`), {
    answers: NO_AUTH,
    outcome: "::1 18080",
    rest: "",
  }],
];

for (const [id, input, expected] of CASES) {
  Deno.test(`${id}: the handshake comes out alike wherever its input is cut`, () => {
    const bytes = octets(input);
    assert.deepEqual(readPieces([bytes]), expected);
    for (let one = 0; one <= bytes.length; one++) {
      for (let two = one; two <= Math.min(bytes.length, 40); two++) {
        const pieces = [bytes.subarray(0, one), bytes.subarray(one, two), bytes.subarray(two)];
        assert.deepEqual(readPieces(pieces), expected, `cut at ${one} and ${two}`);
      }
    }
    const single = Array.from(bytes, (_, at) => bytes.subarray(at, at + 1));
    assert.deepEqual(readPieces(single), expected);
  });
}

Deno.test("A handshake says nothing before octets of it are missing no more", () => {
  const input = connectTo(`\x01${LOCAL_18080}`);
  for (let length = 0; length < input.length; length++) {
    const { answers, outcome, rest } = read(input.slice(0, length));
    assert.deepEqual([outcome, rest], [null, ""]);
    assert.equal(answers, length < GREETING.length ? "" : NO_AUTH);
  }
});

Deno.test("F32 while it is locked every greeting is answered with FF, and nothing is asked for", () => {
  for (const methods of ["\x01\x00", "\x02\x00\x02", "\x01\x02", "\x00"]) {
    const input = `\x05${methods}${ALICE}\x05\x01\x00\x01${LOCAL_18080}`;
    const { answers, outcome, rest } = read(input, "locked");
    assert.equal(answers, NONE_ACCEPTABLE);
    assert.match(outcome ?? "", /PROXY_AUTH_ENABLED/);
    assert.equal(rest, input.slice(1 + methods.length));
  }
});

Deno.test("A greeting is accepted with no authentication among any other methods", () => {
  const many = Array.from({ length: 255 }, (_, i) => String.fromCharCode(255 - i));
  assert.equal(read(`\x05\xff${many.join("")}`).answers, NONE_ACCEPTABLE);
  many[200] = "\x00";
  assert.equal(read(`\x05\xff${many.join("")}`).answers, NO_AUTH);
  assert.equal(read("\x05\x00").answers, NONE_ACCEPTABLE, "no method at all");
});

Deno.test("SOCKS4 and SOCKS4a get a refusal of their own kind, other protocols no word", () => {
  for (const input of ["\x04\x01\x00\x50\x7f\x00\x00\x01me\0", "\x04\x01\0\x50\0\0\0\x01\0h\0"]) {
    const { answers, outcome } = read(input);
    assert.equal(answers, "\x00\x5b\x00\x00\x00\x00\x00\x00");
    assert.match(outcome ?? "", /SOCKS4/);
  }
  for (const input of ["GET / HTTP/1.1\r\n\r\n", "\x00", "\x06\x01\x00", "\x16\x03\x01"]) {
    assert.deepEqual([read(input).answers, read(input).outcome], ["", "not a SOCKS5 client"]);
  }
});

Deno.test("What is wrong with a request is told in the order version, command, address type", () => {
  const wrong: [header: string, reply: number][] = [
    ["\x04\x02\x00\x02", Reply.GeneralFailure],
    ["\x05\x02\x00\x02", Reply.CommandNotSupported],
    ["\x05\x00\x00\x01", Reply.CommandNotSupported],
    ["\x05\xff\x00\x01", Reply.CommandNotSupported],
    ["\x05\x01\x00\x00", Reply.AddressTypeNotSupported],
    ["\x05\x01\x00\x05", Reply.AddressTypeNotSupported],
    ["\x05\x01\xff\x02", Reply.AddressTypeNotSupported],
  ];
  for (const [header, reply] of wrong) {
    assert.equal(read(GREETING + header).answers, refusedWith(reply), JSON.stringify(header));
  }
});

Deno.test("Port 0 is refused for each type of address", () => {
  for (const address of ["\x01\x7f\0\0\x01\0\0", "\x03\x01h\0\0", `\x04${"\0".repeat(18)}`]) {
    const { answers, outcome } = read(connectTo(address));
    assert.equal(answers, refusedWith(Reply.GeneralFailure));
    assert.match(outcome ?? "", /port 0/);
  }
});

Deno.test("A name has 1 to 255 octets and may be an IP address; nothing of it is changed", () => {
  const names = [
    "h",
    "x".repeat(255),
    "DB_1.Internal.",
    "127.0.0.1",
    "0x7f.1",
    "::1",
    "FE80::1%eth0",
  ];
  for (const host of names) assert.equal(read(connectTo(name(host))).outcome, `${host} 80`);
  const utf8 = String.fromCharCode(...new TextEncoder().encode("bücher.example"));
  assert.equal(read(connectTo(name(utf8))).outcome, "bücher.example 80");
});

Deno.test("What can be no host is answered with 01 and crosses nothing", () => {
  const names = [
    "",
    "a b",
    " ",
    "a\0",
    "\0",
    "a\n",
    "a\x7f",
    "\xff\xfe",
    "\xc3",
    "[::1]",
    "a:80",
    "::g",
  ];
  names.push("u@h", "a/b", "http://h", "a?b", "a#b", "a\\b", "::1%", "::1%a%b", "\xc2\xa0");
  for (const host of names) {
    const { answers, outcome } = read(connectTo(name(host)));
    assert.equal(answers, refusedWith(Reply.GeneralFailure), JSON.stringify(host));
    assert.equal(outcome, "the name is no host");
  }
});

Deno.test("IPv6 addresses are written in their short form", () => {
  const cases: [octets: string, text: string][] = [
    [`\x20\x01\x0d\xb8${"\0".repeat(11)}\x01`, "2001:db8::1"],
    ["\0".repeat(16), "::"],
    [`${"\0".repeat(10)}\xff\xff\x7f\0\0\x01`, "::ffff:7f00:1"],
    ["\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0\x07\0\x08", "1:2:3:4:5:6:7:8"],
  ];
  for (const [address, text] of cases) {
    assert.equal(read(connectTo(`\x04${address}\x00\x50`)).outcome, `${text} 80`);
  }
});

Deno.test("A reply has the full length for its type of address, and 0.0.0.0:0 when there is none", () => {
  const loopback = `${"\0".repeat(15)}\x01`;
  const cases: [host: string | null, port: number, reply: string][] = [
    ["10.1.2.3", 65534, "\x05\x00\x00\x01\x0a\x01\x02\x03\xff\xfe"],
    ["::1", 80, `\x05\x00\x00\x04${loopback}\x00\x50`],
    ["fe80::1%eth0", 80, `\x05\x00\x00\x04\xfe\x80${loopback.slice(2)}\x00\x50`],
    ["1:2:3:4:5:6:7:8", 1, "\x05\0\0\x04\0\x01\0\x02\0\x03\0\x04\0\x05\0\x06\0\x07\0\x08\0\x01"],
    ["::ffff:1.2.3.4", 1, `\x05\0\0\x04${"\0".repeat(10)}\xff\xff\x01\x02\x03\x04\0\x01`],
    ["2001:db8::", 1, `\x05\0\0\x04\x20\x01\x0d\xb8${"\0".repeat(12)}\0\x01`],
  ];
  for (const [host, port, reply] of cases) {
    assert.equal(latin1(encodeReply(Reply.Succeeded, host, port)), reply, String(host));
  }
  for (const host of [null, "", "db.internal", "1.2.3", "1.2.3.256", "1.2.3.4.5", "::g", "[::1]"]) {
    assert.equal(latin1(encodeReply(Reply.Succeeded, host, 80)), `\x05\x00${NO_ADDRESS}`);
  }
});
