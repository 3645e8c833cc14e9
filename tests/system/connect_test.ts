import assert from "node:assert/strict";
import { caseFile, concat, latin1, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { all, text } from "../helpers/http_message.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import type { TestSocket } from "../helpers/socket.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";
import {
  askTunnel,
  checkStream,
  connectOctets,
  echo,
  OPEN_PROXY,
  openTunnel,
  sendStream,
} from "./tunnels.ts";

const MIB = 1_048_576;
const HEAD = "HTTP/1.1 200 Connection Established\r\n\r\n";
const NOTHING = new Uint8Array(0);

/** A case file with the port of a test's own target in place of 18080. */
function connectFile(name: string, port: number): Uint8Array {
  return octets(latin1(caseFile(name)).replaceAll("18080", String(port)));
}

function openRig(upstream?: (connection: TestSocket) => Promise<void>): Promise<Rig> {
  return startRig({
    ...(upstream === undefined ? {} : { upstream }),
    requesterSettings: OPEN_PROXY,
  });
}

/** Expects the one `flow closed` line of each role, with this code. */
async function endedOnce(rig: Rig, code: string): Promise<void> {
  for (const role of [rig.requester, rig.receiver]) {
    const closed = await role.flowClosed();
    assert.equal(closed["code"], code, JSON.stringify(closed));
  }
  assert.equal((await rig.request("/observability/ready")).status, 200);
  for (const role of [rig.requester, rig.receiver]) {
    const lines = role.log.events.filter((event) => event.message === "flow closed");
    assert.equal(lines.length, 1, JSON.stringify(lines));
  }
}

Deno.test("F24 CONNECT: a 200 without framing, then every octet passes both ways", async () => {
  await using rig = await openRig(echo);
  await using client = await RawClient.connect(rig.port);
  await client.send(connectFile("F24-connect.http", rig.upstream.port));
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  const values = Uint8Array.from({ length: 256 }, (_, i) => i);
  await client.send(values);
  assert.deepEqual(await client.socket.readExactly(256), values);
  const sending = sendStream(client.socket, 1, MIB);
  await checkStream(client.socket, 1, MIB);
  await sending;
  await client.socket.closeWrite();
  assert.equal(await client.socket.waitEnd(), "fin");
  assert.equal(rig.upstream.connections.length, 1);
  assert.equal(rig.upstream.connections[0]?.receivedBytes, 256 + MIB);
  await endedOnce(rig, "ok");
});

Deno.test("F25 octets right behind a CONNECT reach the target once, in order", async () => {
  await using rig = await openRig();
  rig.upstream.route("/f25", async (_, connection) => {
    await connection.write(answer("early"));
    return "close";
  });
  await using client = await RawClient.connect(rig.port);
  await client.send(connectFile("F25-connect-early-data.http", rig.upstream.port));
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  const response = await client.response();
  assert.equal(text(response), "early");
  assert.equal(await client.socket.waitEnd(), "fin");
  assert.deepEqual(rig.upstream.requests.map((request) => request.startLine), [
    "GET /f25 HTTP/1.1",
  ]);
});

for (const first of ["client", "target"] as const) {
  Deno.test(`F26 the ${first} sends 8 MiB and shuts down, then the other end answers 1 MiB and closes`, async () => {
    const served = Promise.withResolvers<void>();
    const sends = async (socket: TestSocket) => {
      await sendStream(socket, 1, 8 * MIB);
      await socket.closeWrite();
      await checkStream(socket, 2, MIB);
      assert.equal(await socket.read(), null);
      assert.equal(socket.end, "fin");
    };
    const replies = async (socket: TestSocket) => {
      await checkStream(socket, 1, 8 * MIB);
      assert.equal(await socket.read(), null);
      assert.equal(socket.end, "fin");
      await sendStream(socket, 2, MIB);
      await socket.closeWrite();
    };
    const [client, target] = first === "client" ? [sends, replies] : [replies, sends];
    await using rig = await openRig(async (connection) => {
      await target(connection).then(served.resolve, served.reject);
    });
    await using socket = await openTunnel(rig.port, rig.upstream.port);
    await Promise.all([client(socket), served.promise]);
    await endedOnce(rig, "ok");
  });
}

Deno.test("early octets and a half-close right behind a CONNECT: the target gets both, its reply comes back", async () => {
  const early = pattern(300_000, 3);
  await using rig = await openRig(async (connection) => {
    assert.equal(sha256(await connection.readExactly(early.length)), sha256(early));
    assert.equal(await connection.read(), null);
    await connection.write("all of it");
    await connection.closeWrite();
  });
  await using client = await RawClient.connect(rig.port);
  // The receiver answers only later than a client that has gone would be waited for.
  rig.receiver.kill("SIGSTOP");
  const sending = client.send(
    concat([octets(connectOctets(`127.0.0.1:${rig.upstream.port}`)), early]),
  ).then(() => client.socket.closeWrite());
  await pause(1_500);
  rig.receiver.kill("SIGCONT");
  await sending;
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  assert.equal(latin1(await client.socket.readExactly(9)), "all of it");
  assert.equal(await client.socket.waitEnd(), "fin");
});

Deno.test("a flood of early octets waits in the client's socket while the receiver does not answer", async () => {
  const size = 24 * MIB;
  await using rig = await openRig(async (connection) => {
    await checkStream(connection, 5, size);
    await connection.write("ok");
  });
  const rssBefore = rig.requester.rssBytes();
  await using client = await RawClient.connect(rig.port);
  rig.receiver.kill("SIGSTOP");
  await client.send(connectOctets(`127.0.0.1:${rig.upstream.port}`));
  let sent = 0;
  const sending = sendStream(client.socket, 5, size, { before: (at) => void (sent = at) });
  for (let last = -1; sent !== last;) {
    last = sent;
    await pause(300);
  }
  assert.ok(sent < size, "all of it was taken");
  assert.ok(rig.requester.rssBytes() - rssBefore < 16 * MIB, "kept in memory");
  rig.receiver.kill("SIGCONT");
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  await sending;
  assert.equal(latin1(await client.socket.readExactly(2)), "ok");
});

Deno.test("a CONNECT behind other requests on one connection waits for their answers, then is a tunnel", async () => {
  await using rig = await openRig();
  rig.upstream.route("/slow", async (_, connection) => {
    await pause(300);
    await connection.write(answer("slow"));
  });
  await using client = await RawClient.connect(rig.port);
  await client.send(concat([
    requestOctets("/slow"),
    requestOctets("/second"),
    octets(connectOctets(`127.0.0.1:${rig.upstream.port}`)),
    requestOctets("/inside"),
  ]));
  assert.equal(text(await client.response()), "slow");
  assert.equal(text(await client.response()), "GET /second");
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  assert.equal(text(await client.response()), "GET /inside");
  // What would be a request to the proxy belongs to the target now.
  await client.send(connectOctets("127.0.0.1:1"));
  const request = await rig.upstream.request("127.0.0.1:1");
  assert.equal(request.method, "CONNECT");
});

Deno.test("a CONNECT in HTTP/1.0 is served", async () => {
  await using rig = await openRig(echo);
  await using client = await RawClient.connect(rig.port);
  await client.send(`CONNECT 127.0.0.1:${rig.upstream.port} HTTP/1.0\r\n\r\nhello`);
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  assert.equal(latin1(await client.socket.readExactly(5)), "hello");
});

Deno.test("F28 CONNECT to a bracketed IPv6 address dials it; without brackets 400 and no dial", async () => {
  await using rig = await openRig();
  await using target: Upstream = await startUpstream(echo, "::1");
  await using client = await RawClient.connect(rig.port);
  await client.send(connectFile("F28-connect-ipv6.http", target.port));
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  await client.send("six");
  assert.equal(latin1(await client.socket.readExactly(3)), "six");
  await client.close();
  await using bare = await RawClient.connect(rig.port);
  const response = await bare.exchange(
    connectFile("F28-connect-ipv6-unbracketed.http", target.port),
  );
  assert.equal(response.status, 400);
  await bare.mustClose();
  assert.equal(target.connections.length, 1);
});

for (const end of ["client", "target"] as const) {
  Deno.test(`a reset of the ${end} in the middle of a tunnel is a reset at the other end within 2 s`, async () => {
    const accepted = Promise.withResolvers<TestSocket>();
    const over = Promise.withResolvers<void>();
    await using rig = await openRig((connection) => {
      accepted.resolve(connection);
      return over.promise;
    });
    await using client = await openTunnel(rig.port, rig.upstream.port);
    const target = await accepted.promise;
    await client.write("there");
    await target.readExactly(5);
    await target.write("back");
    await client.readExactly(4);
    const [leaves, stays] = end === "client" ? [client, target] : [target, client];
    await leaves.reset();
    assert.equal(await stays.waitEnd(2_000), "reset");
    over.resolve();
    await endedOnce(rig, "reset");
  });
}

Deno.test("fields of a CONNECT do not cross, and a body is refused", async () => {
  await using rig = await openRig(echo);
  await using client = await RawClient.connect(rig.port);
  const authority = `127.0.0.1:${rig.upstream.port}`;
  await client.send(connectOctets(authority, ["X-Own: 1", "Proxy-Connection: keep-alive"]));
  assert.equal(latin1(await client.socket.readUntil("\r\n\r\n")), HEAD);
  await client.send("first");
  assert.equal(latin1(await client.socket.readExactly(5)), "first");
  assert.equal(latin1(rig.upstream.connections[0]?.transcript ?? NOTHING), "first");
  for (const field of ["Content-Length: 3", "Transfer-Encoding: chunked"]) {
    await using other = await RawClient.connect(rig.port);
    const response = await other.exchange(connectOctets(authority, [field]) + "abc");
    assert.equal(response.status, 400, field);
    assert.deepEqual(all(response, "transfer-encoding"), []);
    await other.mustClose();
  }
  assert.equal(rig.upstream.connections.length, 1);
});

Deno.test("a CONNECT whose client leaves during the dial is given up by both roles", async () => {
  await using rig = await openRig(echo);
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  rig.receiver.kill("SIGSTOP");
  const client = await RawClient.connect(rig.port);
  await client.send(connectOctets(`127.0.0.1:${rig.upstream.port}`));
  await requests.find(() => true, { ms: 5_000, what: "the open" });
  await client.socket.reset();
  const closed = await rig.requester.flowClosed();
  assert.equal(closed["code"], "canceled");
  rig.receiver.kill("SIGCONT");
  await rig.receiver.flowClosed((event) => event["code"] === "canceled");
  // Whatever was dialled has been closed again.
  for (const connection of rig.upstream.connections) {
    await within(connection.waitEnd(2_000), 2_000, "the end of the connection that nobody wants");
  }
  assert.equal((await askTunnel(rig.port, `127.0.0.1:${rig.upstream.port}`)).status, 200);
});
