import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import { ConnectionLimit } from "../../lib/ingress/connection_limit.ts";
import {
  type Forward,
  ForwardServer,
  type ForwardServerOptions,
} from "../../lib/requester/forward_server.ts";
import { Socks5Server } from "../../lib/requester/socks5_server.ts";
import { latin1 } from "../helpers/bytes.ts";
import { TestSocket } from "../helpers/socket.ts";
import { FakeSessions, readTunnel, writeTunnel } from "../helpers/unit_open_session.ts";
import { PortRig } from "../helpers/unit_server.ts";
import { MemoryLogger } from "../helpers/unit_transport.ts";
import { within } from "../helpers/wait.ts";

const TO_DB: Forward = {
  bindHost: "127.0.0.1",
  port: 0,
  targetHost: "db.internal",
  targetPort: 5432,
};

/** A forward whose sessions are the test's; it is closed with the test. */
class ForwardRig implements AsyncDisposable {
  readonly server: ForwardServer;
  readonly sessions = new FakeSessions();
  readonly logger = new MemoryLogger();

  constructor(options: Partial<ForwardServerOptions> = {}) {
    this.server = new ForwardServer({
      forward: TO_DB,
      role: "requester",
      limit: new ConnectionLimit(100),
      open: this.sessions.open,
      logger: this.logger,
      ...options,
    });
  }

  connect(): Promise<TestSocket> {
    return TestSocket.connect(this.server.port, this.server.hostname);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.server.close(), 5_000, "the server's close");
    assert.equal(this.server.connections, 0);
  }
}

Deno.test("Every connection of a forward is a session to its target, and nothing else is sent", async () => {
  await using rig = new ForwardRig();
  for (let index = 0; index < 2; index++) {
    await using client = await rig.connect();
    const session = await rig.sessions.at(index);
    assert.deepEqual(session.target, { host: "db.internal", port: 5432, ingressKind: "forward" });
    await client.write("early");
    const tunnel = session.establish();
    assert.equal(await readTunnel(tunnel, 5), "early");
    await writeTunnel(tunnel, "target");
    assert.equal(latin1(await client.readExactly(6)), "target");
    await client.closeWrite();
    assert.equal(await tunnel.reader.more(), false);
    await writeTunnel(tunnel, " late");
    await tunnel.closeWrite();
    tunnel.close();
    assert.equal(latin1(await client.readExactly(5)), " late");
    assert.equal(await client.waitEnd(), "fin");
  }
  assert.deepEqual(rig.logger.lines, []);
});

Deno.test("A client whose session fails is cut off; the log has the line of the flow alone", async () => {
  await using rig = new ForwardRig();
  await using client = await rig.connect();
  const session = await rig.sessions.at(0);
  await client.closeWrite(); // an end of input is no reason to give up
  session.fail("target_refused", "Connection refused");
  await client.waitEnd();
  assert.equal(client.receivedBytes, 0);
  assert.deepEqual(rig.logger.lines, []);
});

Deno.test("A client of a forward that breaks off while it waits gives its session up", async () => {
  await using rig = new ForwardRig();
  const client = await rig.connect();
  const session = await rig.sessions.at(0);
  await client.reset();
  await within(session.abandoned, 5_000, "the session to be given up");
});

Deno.test("Drain of a forward takes nobody new and lets both kinds of sessions be", async () => {
  await using rig = new ForwardRig();
  await using waiting = await rig.connect();
  await using open = await rig.connect();
  const sessions = [await rig.sessions.at(0), await rig.sessions.at(1)];
  const [first, second] = [sessions[1]!.establish(), sessions[0]!];
  rig.server.drain();
  await assert.rejects(rig.connect());
  const late = second.establish();
  const bySession = [[first, "1"], [late, "2"]] as const;
  for (const [tunnel, text] of bySession) {
    await writeTunnel(tunnel, text);
    tunnel.close();
  }
  const texts = await Promise.all([waiting, open].map((client) => client.readExactly(1)));
  assert.deepEqual(texts.map(latin1).sort(), ["1", "2"]);
  await within(rig.server.closed(), 1_000, "the last connection");
});

Deno.test("F62 a port that is taken is a StartError with role, target, address and FORWARDS", async () => {
  await using rig = new ForwardRig();
  const { port } = rig.server;
  assert.throws(() => new ForwardRig({ forward: { ...TO_DB, port } }), (error: unknown) => {
    assert.ok(error instanceof StartError);
    assert.equal(
      error.message,
      `cannot listen for the forward to db.internal:5432 as requester on 127.0.0.1:${port}: ` +
        "the address is in use; stop the other program or change FORWARDS",
    );
    return true;
  });
});

Deno.test("MAX_CONNECTIONS counts HTTP, SOCKS5 and forwards together", async () => {
  const limit = new ConnectionLimit(2);
  await using http = new PortRig((request) => request.response.answer(200, "text/plain", "ok"), {
    limit,
  });
  await using forward = new ForwardRig({ limit });
  const logger = new MemoryLogger();
  const socks = new Socks5Server({
    hostname: "127.0.0.1",
    port: 0,
    role: "requester",
    setting: "SOCKS5_LISTEN_PORT",
    limit,
    auth: "none",
    handshakeTimeoutMs: 10_000,
    open: new FakeSessions().open,
    logger,
  });
  try {
    await using first = await forward.connect();
    const session = await forward.sessions.at(0);
    await using _second = await http.connect();
    await within(untilOpen(limit, 2), 5_000, "two open connections");
    await using refused = await TestSocket.connect(socks.port);
    await refused.waitEnd();
    assert.deepEqual(logger.lines, [{
      level: "warning",
      message: "connection refused",
      fields: { limit: 2, setting: "MAX_CONNECTIONS" },
    }]);
    // A tunnel has its place until it is closed.
    const tunnel = session.establish();
    assert.equal(limit.open, 2);
    tunnel.close();
    assert.equal(await first.waitEnd(), "fin");
    await using served = await TestSocket.connect(socks.port);
    await served.write("\x05\x01\x00");
    assert.equal(latin1(await served.readExactly(2)), "\x05\x00");
    assert.equal(limit.open, 2);
  } finally {
    await socks.close();
  }
});

/** Resolves when so many connections are open: they are accepted one by one, after the connects. */
async function untilOpen(limit: ConnectionLimit, count: number): Promise<void> {
  while (limit.open < count) await new Promise((resolve) => setTimeout(resolve, 1));
}
