import assert from "node:assert/strict";
import { type FailureCode, FAILURES, StartError } from "../../lib/errors.ts";
import { ConnectionLimit } from "../../lib/ingress/connection_limit.ts";
import { Socks5Server, type Socks5ServerOptions } from "../../lib/requester/socks5_server.ts";
import { concat, latin1, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { TestSocket } from "../helpers/socket.ts";
import { FakeSessions, readTunnel, writeTunnel } from "../helpers/unit_open_session.ts";
import { MemoryLogger } from "../helpers/unit_transport.ts";
import { within } from "../helpers/wait.ts";

const GREETING = "\x05\x01\x00";
const NO_AUTH = "\x05\x00";
const CONNECT = "\x05\x01\x00\x03\x02db\x15\x38";
/** Bound to 10.1.2.3:258. */
const SUCCEEDED = "\x05\x00\x00\x01\x0a\x01\x02\x03\x01\x02";

function failedWith(reply: number): string {
  return `\x05${String.fromCharCode(reply)}\x00\x01\x00\x00\x00\x00\x00\x00`;
}

/** A SOCKS5 port whose sessions are the test's; it is closed with the test. */
class SocksRig implements AsyncDisposable {
  readonly server: Socks5Server;
  readonly sessions = new FakeSessions();
  readonly logger = new MemoryLogger();

  constructor(options: Partial<Socks5ServerOptions> = {}) {
    this.server = new Socks5Server({
      hostname: "127.0.0.1",
      port: 0,
      role: "requester",
      setting: "SOCKS5_LISTEN_PORT",
      limit: new ConnectionLimit(100),
      auth: "none",
      handshakeTimeoutMs: 10_000,
      open: this.sessions.open,
      logger: this.logger,
      ...options,
    });
  }

  /** A client that has sent its handshake, and read the method. */
  async client(behind = ""): Promise<TestSocket> {
    const client = await TestSocket.connect(this.server.port);
    await client.write(GREETING + CONNECT + behind);
    assert.equal(latin1(await client.readExactly(2)), NO_AUTH);
    return client;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.server.close(), 5_000, "the server's close");
    assert.equal(this.server.connections, 0);
  }
}

Deno.test("A client is told of the success before the first octet of the target", async () => {
  await using rig = new SocksRig();
  await using client = await TestSocket.connect(rig.server.port);
  await client.writeInPieces(GREETING, 1);
  assert.equal(latin1(await client.readExactly(2)), NO_AUTH);
  await client.writeInPieces(CONNECT, 1);
  const session = await rig.sessions.at(0);
  assert.deepEqual(session.target, { host: "db", port: 5432, ingressKind: "socks5" });
  assert.equal(await client.nothingFollows(50), "open", "no reply before there is a session");
  const tunnel = session.establish();
  await writeTunnel(tunnel, "hello");
  assert.equal(latin1(await client.readExactly(15)), `${SUCCEEDED}hello`);
  await client.write("and back");
  assert.equal(await readTunnel(tunnel, 8), "and back");
  await tunnel.closeWrite();
  assert.equal(await client.waitEnd(), "fin");
  await client.write("still");
  assert.equal(await readTunnel(tunnel, 5), "still");
  tunnel.close();
  assert.deepEqual(rig.logger.lines, []);
});

Deno.test("The address in the reply is the receiver's, or 0.0.0.0:0 when it did not say", async () => {
  await using rig = new SocksRig();
  const binds: [host: string | null, reply: string][] = [
    ["::1", `\x05\x00\x00\x04${"\0".repeat(15)}\x01\x00\x09`],
    [null, failedWith(0)],
    ["not an address", failedWith(0)],
  ];
  for (const [index, [host, reply]] of binds.entries()) {
    await using client = await rig.client();
    const tunnel = (await rig.sessions.at(index)).establish({ host, port: 9 });
    assert.equal(latin1(await client.readExactly(reply.length)), reply);
    tunnel.close();
  }
});

Deno.test("F29 octets that come early belong to the tunnel, and so do those that come during the wait", async () => {
  await using rig = new SocksRig();
  await using client = await rig.client("early ");
  const session = await rig.sessions.at(0);
  await client.write("later ");
  await client.closeWrite();
  const tunnel = session.establish();
  assert.equal(latin1(await client.readExactly(10)), SUCCEEDED);
  assert.equal(await readTunnel(tunnel, 12), "early later ");
  assert.equal(await tunnel.reader.more(), false, "the end of input is passed on");
  await writeTunnel(tunnel, "answer");
  assert.equal(latin1(await client.readExactly(6)), "answer");
  tunnel.close();
});

Deno.test("No more than about 64 KiB are read ahead, and nothing of what was sent is lost", async () => {
  await using rig = new SocksRig();
  await using client = await rig.client();
  const session = await rig.sessions.at(0);
  const sent = pattern(8 * 1024 * 1024);
  const sending = client.write(sent);
  await using other = await rig.client();
  // Whatever can be read ahead is read by the time another connection is served twice.
  (await rig.sessions.at(1)).fail("internal");
  await other.waitEnd();
  const tunnel = session.establish();
  assert.ok(tunnel.reader.unread <= 192 * 1024, `${tunnel.reader.unread} octets read ahead`);
  const got = new Uint8Array(sent.length);
  for (let at = 0; at < got.length;) {
    const { reader } = tunnel;
    if (reader.unread === 0) assert.ok(await reader.more());
    got.set(reader.buffer.subarray(reader.start, reader.end), at);
    at += reader.unread;
    reader.start = reader.end;
  }
  await sending;
  assert.equal(sha256(got), sha256(sent));
  tunnel.close();
});

Deno.test("Every failure code gets its whole reply and an orderly close", async () => {
  await using rig = new SocksRig();
  const codes = Object.keys(FAILURES) as FailureCode[];
  for (const [index, code] of codes.entries()) {
    // Unread input behind the request must not turn the close into a reset that eats the reply.
    await using client = await rig.client("x".repeat(5000));
    (await rig.sessions.at(index)).fail(code);
    const reply = failedWith(FAILURES[code].socks);
    assert.equal(latin1(await client.readExactly(reply.length)), reply, code);
    assert.equal(await client.nothingFollows(5_000), "fin", code);
  }
  assert.deepEqual(rig.logger.lines, [], "the registry logs the flows");
});

Deno.test("A client that goes on sending reads the whole reply: nothing resets the connection", async () => {
  await using rig = new SocksRig();
  const cases = [
    { request: CONNECT, reply: failedWith(5) },
    { request: "\x05\x02\x00\x01", reply: failedWith(7) },
  ];
  for (const { request, reply } of cases) {
    await using client = await TestSocket.connect(rig.server.port);
    await client.write(GREETING);
    assert.equal(latin1(await client.readExactly(2)), NO_AUTH);
    const sending = client.write(concat([octets(request), pattern(4 * 1024 * 1024)]));
    if (request === CONNECT) (await rig.sessions.at(0)).fail("target_refused");
    await sending;
    assert.equal(latin1(await client.readExactly(reply.length)), reply);
    assert.equal(await client.nothingFollows(5_000), "fin");
  }
});

const REFUSED: readonly [name: string, input: string, answers: string][] = [
  ["BIND", `${GREETING}\x05\x02\x00\x01\x7f\0\0\x01\x46\xa0`, NO_AUTH + failedWith(7)],
  ["UDP ASSOCIATE", `${GREETING}\x05\x03\x00\x01\0\0\0\0\0\0`, NO_AUTH + failedWith(7)],
  ["address type 2", `${GREETING}\x05\x01\x00\x02\x7f\0\0\x01\x46\xa0`, NO_AUTH + failedWith(8)],
  [
    "version 4 of the request",
    `${GREETING}\x04\x01\x00\x01\x7f\0\0\x01\0P`,
    NO_AUTH + failedWith(1),
  ],
  ["a password alone", "\x05\x01\x02\x01\x05alice\x05wrong", "\x05\xff"],
  ["SOCKS4a", "\x04\x01\0\x50\0\0\0\x01\0name\0", "\x00\x5b\0\0\0\0\0\0"],
  ["HTTP", `GET / HTTP/1.1\r\nHost: a\r\n\r\n${"x".repeat(5000)}`, ""],
];

for (const [name, input, answers] of REFUSED) {
  Deno.test(`F31 ${name} is refused with a whole answer, one line in the log, and no session`, async () => {
    await using rig = new SocksRig();
    await using client = await TestSocket.connect(rig.server.port);
    await client.write(input);
    assert.equal(latin1(await client.readExactly(answers.length)), answers);
    assert.equal(await client.nothingFollows(5_000), "fin");
    assert.deepEqual(rig.logger.lines.map((line) => [line.level, line.message]), [
      ["info", "SOCKS5 request refused"],
    ]);
    assert.deepEqual(rig.sessions.opened.events, []);
  });
}

Deno.test("F32 while it is locked every client is shut out, whatever it offers", async () => {
  await using rig = new SocksRig({ auth: "locked" });
  for (const greeting of [GREETING, "\x05\x02\x00\x02", "\x05\x01\x02"]) {
    await using client = await TestSocket.connect(rig.server.port);
    await client.write(greeting + CONNECT);
    assert.equal(latin1(await client.readExactly(2)), "\x05\xff");
    assert.equal(await client.nothingFollows(5_000), "fin");
  }
  assert.deepEqual(rig.sessions.opened.events, []);
});

Deno.test("A handshake that is not complete in time is closed without a word, whatever trickles in", async () => {
  await using rig = new SocksRig({ handshakeTimeoutMs: 200 });
  for (const input of ["", "\x05", GREETING, GREETING + CONNECT.slice(0, -1)]) {
    await using client = await TestSocket.connect(rig.server.port);
    const started = performance.now();
    await client.write(input);
    assert.equal(await client.waitEnd(5_000), "fin");
    assert.ok(performance.now() - started > 150);
    assert.equal(latin1(client.transcript), input.length < GREETING.length ? "" : NO_AUTH);
  }
  // One octet at a time does not win time.
  await using client = await TestSocket.connect(rig.server.port);
  const trickling = client.writeInPieces(`\x05\xff${"\x02".repeat(253)}`, 1, 40).catch(() => {});
  await client.waitEnd(2_000);
  await client.close();
  await trickling;
  assert.deepEqual(rig.sessions.opened.events, []);
});

Deno.test("The handshake's time does not run while the session is awaited", async () => {
  await using rig = new SocksRig({ handshakeTimeoutMs: 100 });
  await using client = await rig.client();
  const session = await rig.sessions.at(0);
  assert.equal(await client.nothingFollows(250), "open");
  const tunnel = session.establish();
  assert.equal(latin1(await client.readExactly(10)), SUCCEEDED);
  tunnel.close();
});

Deno.test("A client that ends in the middle of its handshake is closed without a reply", async () => {
  await using rig = new SocksRig();
  await using client = await TestSocket.connect(rig.server.port);
  await client.write(GREETING + CONNECT.slice(0, 4));
  await client.closeWrite();
  assert.equal(await client.waitEnd(), "fin");
  assert.equal(latin1(client.transcript), NO_AUTH);
});

Deno.test("A client that breaks off while it waits gives its session up", async () => {
  await using rig = new SocksRig();
  const client = await rig.client("early");
  const session = await rig.sessions.at(0);
  await client.reset();
  await within(session.abandoned, 5_000, "the session to be given up");
  assert.equal(session.client.established({ host: null, port: 0 }), null);
  session.fail("internal");
});

Deno.test("Drain closes handshakes, takes nobody new, and lets sessions be; close breaks them off", async () => {
  const rig = new SocksRig();
  await using shaking = await TestSocket.connect(rig.server.port);
  await shaking.write(GREETING);
  assert.equal(latin1(await shaking.readExactly(2)), NO_AUTH);
  await using waiting = await rig.client();
  await using open = await rig.client();
  const sessions = [await rig.sessions.at(0), await rig.sessions.at(1)];
  const tunnel = sessions[1]!.establish();
  assert.equal(latin1(await open.readExactly(10)), SUCCEEDED);
  rig.server.drain();
  assert.equal(await shaking.waitEnd(), "fin");
  await assert.rejects(TestSocket.connect(rig.server.port));
  await writeTunnel(tunnel, "on");
  assert.equal(latin1(await open.readExactly(2)), "on");
  assert.equal(rig.server.connections, 2);
  await rig.server.close();
  // By a reset: tests/system/socks5_test.ts. The permissions of tests do not allow one.
  await waiting.waitEnd();
  await open.waitEnd();
  await within(sessions[0]!.abandoned, 1_000, "the session to be given up");
});

Deno.test("F62 a port that is taken is a StartError with role, address and setting", async () => {
  await using rig = new SocksRig();
  const { port } = rig.server;
  assert.throws(() => new SocksRig({ port }), (error: unknown) => {
    assert.ok(error instanceof StartError);
    assert.equal(
      error.message,
      `cannot listen for SOCKS5 as requester on 127.0.0.1:${port}: the address is in use; ` +
        "stop the other program or change SOCKS5_LISTEN_PORT",
    );
    return true;
  });
});
