import assert from "node:assert/strict";
import { coreTest } from "../helpers/mode.ts";
import { caseFile, octets } from "../helpers/bytes.ts";
import { RawClient } from "../helpers/client.ts";
import { all, json, one, type TestResponse, text } from "../helpers/http_message.ts";
import { jsonOf, NatsClient } from "../helpers/nats_client.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { pause } from "../helpers/wait.ts";
import { DeafTarget } from "./deaf.ts";
import { askTunnel, connectOctets, OPEN_PROXY } from "./tunnels.ts";

/** "At once", with room for a busy machine. */
const AT_ONCE_MS = 1_000;

/** One CONNECT that is refused; the connection must be closed behind the answer. */
async function refused(port: number, data: Uint8Array | string): Promise<TestResponse> {
  await using client = await RawClient.connect(port);
  const response = await client.exchange(data);
  assert.deepEqual(response.interim, []);
  assert.equal(response.complete, true);
  assert.notEqual(await client.socket.waitEnd(2_000), "open");
  return response;
}

function assertFailure(response: TestResponse, status: number, code: string): void {
  assert.equal(response.status, status, text(response));
  assert.equal(json(response)["code"], code, text(response));
  assert.notEqual(json(response)["message"] ?? json(response)["error"], "");
}

function openRig(settings: Record<string, string> = {}, receivers: 0 | 1 = 1): Promise<Rig> {
  return startRig({ receivers, settings, requesterSettings: OPEN_PROXY });
}

Deno.test("F27 CONNECT to a port that refuses, to a name that does not resolve: 502, never a 2xx first", async () => {
  await using rig = await openRig();
  assertFailure(
    await refused(rig.port, caseFile("F27-connect-refused.http")),
    502,
    "target_refused",
  );
  const unknown = await refused(rig.port, caseFile("F27-connect-unresolvable.http"));
  assertFailure(unknown, 502, "target_not_found");
  for (const code of ["target_refused", "target_not_found"]) {
    for (const role of [rig.requester, rig.receiver]) {
      await role.flowClosed((event) => event["code"] === code);
    }
  }
});

Deno.test("F27 CONNECT to a target that never answers the dial: 504 within CONNECT_TIMEOUT", async () => {
  await using target = await DeafTarget.start();
  await using rig = await openRig({ CONNECT_TIMEOUT: "1" });
  const started = performance.now();
  const response = await refused(rig.port, connectOctets(`127.0.0.1:${target.port}`));
  const took = performance.now() - started;
  assertFailure(response, 504, "target_timeout");
  assert.ok(took > 900 && took < 3_000, `after ${took} ms`);
});

coreTest(
  "a stream keeps a request until somebody comes",
  "F37 CONNECT while no receiver is there: 503 no_receiver within 2 s",
  async () => {
    await using rig = await openRig({}, 0);
    const started = performance.now();
    assertFailure(await refused(rig.port, connectOctets("127.0.0.1:1")), 503, "no_receiver");
    assert.ok(performance.now() - started < 2_000);
  },
);

Deno.test("CONNECT while NATS is down: 503 nats_down at once", async () => {
  await using rig = await openRig();
  const { mark } = rig.requester;
  await rig.nats.stop();
  await rig.requester.event("not ready", { from: mark });
  const started = performance.now();
  assertFailure(await refused(rig.port, connectOctets("127.0.0.1:1")), 503, "nats_down");
  assert.ok(performance.now() - started < AT_ONCE_MS);
});

Deno.test("a receiver that takes the open and never answers: 504 after NATS_RESPONSE_TIMEOUT, and a cancel for the pool", async () => {
  await using rig = await openRig({ NATS_RESPONSE_TIMEOUT: "1" }, 0);
  await using silent = await NatsClient.connect(rig.nats.port);
  const opens = await silent.subscribe("to.proxy.requests.>", "nats-proxy");
  const cancels = await silent.subscribe("to.proxy.cancel.>");
  const started = performance.now();
  const response = await refused(rig.port, connectOctets("127.0.0.1:7"));
  const took = performance.now() - started;
  assertFailure(response, 504, "response_timeout");
  assert.ok(took > 900 && took < 3_000, `after ${took} ms`);
  const open = await opens.find(() => true, { ms: 1_000, what: "the open" });
  const { request_id: id, reply_to: replyTo, operation, payload } = jsonOf(open);
  assert.equal(operation, "tcp_stream");
  assert.equal((payload as Record<string, unknown>)["host"], "127.0.0.1");
  assert.equal((payload as Record<string, unknown>)["port"], 7);
  const early = await cancels.find(() => true, { ms: 2_000, what: "a cancel" });
  assert.equal(early.subject, `to.proxy.cancel._pool.${id}`);
  // The answer that comes too late is told to end: its target must not stay open.
  const from = cancels.events.length;
  await silent.publish(
    String(replyTo),
    JSON.stringify({
      type: "session_established",
      session_id: id,
      receiver_service_id: "late-1",
      flow_kind: "tcp_stream",
      natsway: {
        v: 1,
        instance: "lateinstancelateinsta1",
        features: ["raw"],
        max_msg: 1048576,
        ttl_ms: 0,
        window: 65536,
        epoch: "0102030405060708",
      },
    }),
  );
  const late = await cancels.find((m) => m.subject === `to.proxy.cancel.late-1.${id}`, {
    ms: 2_000,
    what: "a cancel for the late receiver",
    from,
  });
  assert.equal(jsonOf(late)["request_id"], id);
});

/** What no CONNECT may ask for. */
const BAD_AUTHORITIES = [
  "example.com",
  ":443",
  "example.com:",
  "example.com:0",
  "example.com:65536",
  "example.com:99999999999999999999",
  "example.com:-1",
  "example.com:+443",
  "example.com:0x1bb",
  "example.com:443a",
  "::1:443",
  "[::1]",
  "[::1]443",
  "[::1:443",
  "::1]:443",
  "[]:443",
  "[example.com]:443",
  "[::g]:443",
  "[::1]]:443",
  "user@example.com:443",
  "http://example.com:443",
  "http://example.com:443/",
  "/example.com:443",
  "example.com:443/",
  "example.com:443?x",
  "example.com:443#x",
  "*",
  "/",
  `${"a".repeat(300)}:443`,
];

Deno.test("bad CONNECT targets: 400, the connection is closed, and nothing crosses NATS", async () => {
  await using rig = await openRig();
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  for (const authority of BAD_AUTHORITIES) {
    await using client = await RawClient.connect(rig.port);
    const data = `CONNECT ${authority} HTTP/1.1\r\nHost: example.com\r\n\r\n`;
    const response = await client.exchange(octets(data));
    assert.equal(response.status, 400, authority);
    assert.notEqual(await client.socket.waitEnd(2_000), "open");
  }
  await spy.flush();
  assert.deepEqual(requests.events.map((message) => message.subject), []);
});

Deno.test("without PROXY_AUTH_ENABLED=false CONNECT is answered 404 as by nats-proxy's lock, and nothing crosses NATS", async () => {
  await using rig = await startRig();
  await using spy = await NatsClient.connect(rig.nats.port);
  const requests = await spy.subscribe("to.proxy.requests.>");
  const { port } = rig.upstream;
  const locked = [rig.requester];
  await using other = await startNatsway("requester", {
    ...rig.requesterSettings,
    PROXY_AUTH_ENABLED: "False",
  });
  locked.push(other);
  for (const requester of locked) {
    const response = await refused(
      requester.port,
      connectOctets(`127.0.0.1:${port}`, ["Proxy-Authorization: Basic YWxpY2U6czNjcjpldA=="]),
    );
    assert.equal(response.status, 404);
    assert.equal(text(response), "Not Found");
    assert.equal(one(response, "content-type"), "text/plain");
    assert.deepEqual(all(response, "proxy-authenticate"), []);
  }
  await spy.flush();
  assert.deepEqual(requests.events, []);
  assert.equal(rig.upstream.connections.length, 0);
  // The reverse endpoint still works.
  assert.equal((await rig.request("/still")).status, 200);
});

Deno.test("CONNECT on a receiver's port is refused without a dial", async () => {
  await using rig = await startRig({ settings: OPEN_PROXY });
  const response = await refused(
    rig.receiver.port,
    connectOctets(`127.0.0.1:${rig.upstream.port}`),
  );
  assert.equal(response.status, 503, text(response));
  assert.equal(rig.upstream.connections.length, 0);
});

Deno.test("a receiver that is killed while it dials: the client is answered, not left alone", async () => {
  await using target = await DeafTarget.start();
  await using rig = await openRig({ NATS_RESPONSE_TIMEOUT: "2", CONNECT_TIMEOUT: "20" });
  const { mark } = rig.requester;
  const asking = askTunnel(rig.port, `127.0.0.1:${target.port}`);
  await pause(500);
  rig.receiver.kill("SIGKILL");
  await using tunnel = await asking;
  assert.equal(tunnel.status, 504, tunnel.head);
  await rig.requester.flowClosed((event) => event["code"] === "response_timeout", { from: mark });
});
