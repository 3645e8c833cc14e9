import assert from "node:assert/strict";
import { octets, pattern } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { type BareMessage, BareNats } from "./bare_nats.ts";
import { complaints, planeOf, type ShapeRoots } from "./contract_shapes.ts";
import { RubyReceiver } from "./ruby_receiver.ts";
import { RubyRequester } from "./ruby_requester.ts";
import { withoutFrom } from "./ruby_wire.ts";
import { chunkedHead, httpChunk } from "./sides.ts";
import { type Asker, askNatsway, askRuby, routeEcho, routeTicks, writeChunked } from "./sides.ts";
import { connectTunnel, echo, socksPort, socksTunnel, TUNNEL_SETTINGS } from "./tunnels.ts";

const TRACE = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

function routes(upstream: Upstream): void {
  routeEcho(upstream);
  routeTicks(upstream);
  upstream.route(
    "/stream",
    (_, connection) => writeChunked(connection, "text/event-stream", pattern(2_000_000)),
  );
  upstream.route(
    "/cookies",
    (_, connection) =>
      connection.write(answer("x", { fields: ["Set-Cookie: a=1", "SET-COOKIE: b=2"] })),
  );
  upstream.route("/cut", async (_, connection) => {
    await connection.write(chunkedHead("application/x-ndjson"));
    await connection.write(httpChunk("{}\n"));
    return "close";
  });
  upstream.route("/none", () => "close");
  upstream.route("/bare", (_, connection) => connection.write("HTTP/1.1 204 X\r\n\r\n"));
}

/** A bit of everything that makes a message on NATS. */
async function traffic(ask: Asker): Promise<void> {
  for (const path of ["/stream", "/cookies", "/cut", "/none", "/bare"]) await ask(path);
  for (const method of ["GET", "POST", "DELETE", "PUT"]) {
    const fields = [["Traceparent", TRACE], ["X-A", "1"], ["X-A", "2"]] as const;
    await ask("/echo", { method, body: '{"a": 1}', fields });
  }
}

for (const [request, response] of [["to.proxy", "from.proxy"], ["acme.in", "acme.out"]] as const) {
  Deno.test(`all that natsway publishes fits the contract: ${request}, ${response}`, async (t) => {
    await using nats = await startNats();
    await using upstream = await startUpstream();
    await using target = await startUpstream(echo);
    routes(upstream);
    const { port } = nats;
    const roots: ShapeRoots = { request, responses: [response, withoutFrom(response)] };
    await using spy = await BareNats.connect(port);
    const seen: BareMessage[] = [];
    spy.subscribe(">", (message) => seen.push(message));
    await spy.flush();
    const settings = {
      NATS_URL: nats.url,
      // A subscriber on `>` takes the question of NATS_MODE=auto, which then waits for an answer.
      NATS_MODE: "core",
      NATS_REQUEST_SUBJECT_ROOT: request,
      NATS_RESPONSE_SUBJECT_ROOT: response,
    };
    const place = { port, requestRoot: request, responseRoot: response };
    const judge = () => {
      const bad = seen.flatMap((message) =>
        isBetweenNatsways(message, request)
          ? []
          : complaints(message, roots).map((one) => `${message.subject}: ${one}`)
      );
      assert.deepEqual(bad, []);
    };

    await t.step("its requester, with a Ruby receiver", async () => {
      const tunnels = { ...settings, ...TUNNEL_SETTINGS };
      await using requester = await startNatsway("requester", tunnels);
      await using double = await RubyReceiver.start({
        ...place,
        serviceId: "ruby-worker",
        upstreamUrl: upstream.url,
      });
      const ask = askNatsway(requester.port);
      await traffic(ask);
      await ask("/echo", { method: "POST", body: octets("\xff") }); // natsway_http: refused
      await using client = await RawClient.connect(requester.port);
      await client.send(requestOctets("/ticks/1"));
      await client.socket.readUntil("data: 3\n\n");
      await client.close();
      await double.cancels.find(() => true, { ms: 5_000, what: "the cancel" });
      await throughTunnels(requester, target.port);
      await spy.flush();
      double.assertContent();
      judge();
      assertPlanes(seen, roots, ["requests", "control", "cancel", "sessions.upstream"]);
    });

    seen.length = 0;
    await t.step("its receiver, with a Ruby requester", async () => {
      await using _receiver = await startNatsway("receiver", {
        ...settings,
        UPSTREAM_URL: upstream.url,
        TARGET_ALLOW: "127.0.0.1",
      });
      await using edge = await RubyRequester.start({ ...place, serviceId: "ruby-edge" });
      await traffic(askRuby(edge));
      const call = edge.ask("/ticks/2");
      await call.event("response_chunk");
      call.leave();
      await call.event("response_end");
      for (const kind of ["http_connect", "socks5"] as const) {
        const session = edge.openSession("127.0.0.1", target.port, kind);
        assert.equal((await session.opened).status, 200);
        await session.write(pattern(600_000));
        await session.received(600_000);
        if (kind === "socks5") session.cancel();
        else session.leave();
        await session.ended;
      }
      for (const id of ["early-1", "early-2"]) {
        const bad = edge.open(id);
        edge.nats.publish(
          edge.requestSubject(id),
          JSON.stringify({ type: "other", request_id: id, reply_to: edge.replySubject(id) }),
        );
        await bad.done;
      }
      await spy.flush();
      edge.assertContent();
      const answered = seen.filter((one) => one.subject.startsWith(`${response}.responses.`));
      assert.ok(answered.length > 50, `${answered.length} events`);
      // What the double itself sent wrong on purpose is not natsway's.
      for (let i = seen.length - 1; i >= 0; i--) {
        if (seen[i]?.subject.includes(".requests.ruby-edge.early-")) seen.splice(i, 1);
      }
      judge();
      assertPlanes(seen, roots, ["responses", "sessions.downstream"]);
    });

    seen.length = 0;
    await t.step("both of them, to each other: the subjects of the contract alone", async () => {
      await using receiver = await startNatsway("receiver", {
        ...settings,
        UPSTREAM_URL: upstream.url,
        TARGET_ALLOW: "127.0.0.1",
      });
      const tunnels = { ...settings, ...TUNNEL_SETTINGS };
      await using requester = await startNatsway("requester", tunnels);
      await traffic(askNatsway(requester.port));
      await using client = await RawClient.connect(requester.port);
      await client.send(requestOctets("/ticks/3"));
      await client.socket.readUntil("data: 3\n\n");
      await client.close();
      await receiver.flowClosed((line) => line["code"] === "canceled");
      await throughTunnels(requester, target.port);
      await spy.flush();
      const strange = seen.filter((one) =>
        !isBetweenNatsways(one, request) && planeOf(one.subject, roots) === null
      );
      assert.deepEqual(strange.map((one) => one.subject), []);
      assertPlanes(seen, roots, ["requests", "responses", "sessions.upstream"]);
      assertPlanes(seen, roots, ["sessions.downstream", "control", "cancel"]);
    });
  });
}

/** A CONNECT and a SOCKS5 session through natsway, with enough bytes for credit to come back. */
async function throughTunnels(requester: Natsway, port: number): Promise<void> {
  const from = requester.mark;
  const bytes = pattern(600_000);
  for (const kind of ["connect", "socks5"]) {
    await using tunnel = kind === "connect"
      ? await connectTunnel(requester.port, `127.0.0.1:${port}`)
      : await socksTunnel(await socksPort(requester), "127.0.0.1", port);
    const sent = tunnel.socket.write(bytes);
    assert.deepEqual(await tunnel.socket.readExactly(bytes.length), bytes);
    await sent;
    await tunnel.socket.closeWrite();
    assert.equal(await tunnel.socket.waitEnd(), "fin");
  }
  for (const method of ["CONNECT", "SOCKS5_CONNECT"]) {
    const line = await requester.flowClosed((event) => event["method"] === method, { from });
    assert.equal(line["code"], "ok");
  }
}

function assertPlanes(seen: BareMessage[], roots: ShapeRoots, planes: readonly string[]): void {
  for (const plane of planes) {
    assert.ok(seen.some((message) => planeOf(message.subject, roots) === plane), plane);
  }
}

/** The pool's cancels and the presence of ADR-32: no Ruby peer listens there. */
function isBetweenNatsways(message: BareMessage, requestRoot: string): boolean {
  return message.subject.startsWith(`${requestRoot}.cancel._pool.`) ||
    message.subject.startsWith("$SRV.") || message.subject.startsWith("_INBOX.");
}

Deno.test("the spy complains about what would break a Ruby peer", () => {
  const roots: ShapeRoots = { request: "to.proxy", responses: ["from.proxy", "proxy"] };
  const judged = (subject: string, data: unknown, headers: [string, string][] = []) =>
    complaints({
      subject,
      reply: "",
      headers,
      data: data instanceof Uint8Array ? data : new TextEncoder().encode(JSON.stringify(data)),
    }, roots);
  const reply = "from.proxy.responses.edge.id-1";
  const DOWN = "session_data_downstream";
  const sessionHeaders = (type: string): [string, string][] => [
    ["Nats-Session-Id", "id-1"],
    ["Nats-Frame-Type", type],
  ];
  const down = "from.proxy.sessions.downstream.edge.id-1";
  assert.deepEqual(judged(down, octets("x"), sessionHeaders(DOWN)), []);
  assert.deepEqual(judged(reply, { type: "response_end" }), []);
  assert.deepEqual(judged("proxy.responses.edge.id-1", { type: "response_chunk", body: "" }), []);
  const bad: [string, unknown, [string, string][]?][] = [
    [reply, octets("\x01\x02")],
    [reply, { type: "response_trailer" }],
    [reply, { type: "response_chunk", body_encoding: "base64", body_base64: "a b=" }],
    [reply, { type: "response_end", more: 1 }],
    [reply, { type: "response_end" }, [["Reply-To", "x"]]],
    ["from.proxy.responses.edge.i/d", { type: "response_end" }],
    ["proxy.elsewhere.id-1", { type: "response_end" }],
    ["to.proxy.control.worker.id-1", { type: "flow_credit" }],
    ["to.proxy.cancel.worker.id-1", { type: "cancel", request_id: "id-1" }],
    ["to.proxy.requests.edge.id-1", { type: "request", request_id: "id-2" }],
    ["to.proxy.sessions.upstream.worker.id-1", octets("x")],
    ["to.proxy.sessions.upstream.worker.id-1", octets("x"), sessionHeaders("natsway")],
    ["to.proxy.sessions.upstream.worker.id-1", octets("x"), sessionHeaders("session_close")],
    ["from.proxy.sessions.downstream.edge.id-1", octets("x"), sessionHeaders("session_data")],
    ["from.proxy.sessions.downstream.edge.id-1", octets(""), sessionHeaders(DOWN)],
    ["from.proxy.sessions.downstream.edge.id-1", pattern(32_769), sessionHeaders(DOWN)],
    ["from.proxy.sessions.downstream.edge.id-2", octets("x"), sessionHeaders(DOWN)],
    ["from.proxy.sessions.downstream.a.b.id-1", octets("x"), sessionHeaders(DOWN)],
  ];
  for (const [subject, data, headers] of bad) {
    assert.notDeepEqual(judged(subject, data, headers), [], `${subject} ${JSON.stringify(data)}`);
  }
});
