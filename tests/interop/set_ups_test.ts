import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { RubyReceiver } from "./ruby_receiver.ts";
import { RubyRequester } from "./ruby_requester.ts";
import {
  type Asker,
  askNatsway,
  askRuby,
  bodyText,
  placeSettings,
  routeEcho,
  routeTicks,
  SET_UPS,
  values,
  writeChunked,
} from "./sides.ts";
import { connectTunnel, echo } from "./tunnels.ts";

const STREAM_BYTES = 3 * 1024 * 1024;
const LARGE_BYTES = 600_000;
const TUNNEL_BYTES = 1_300_000;

function routes(upstream: Upstream): void {
  routeEcho(upstream);
  routeTicks(upstream);
  const stream = pattern(STREAM_BYTES, 7);
  upstream.route(
    "/stream",
    (_, connection) => writeChunked(connection, "text/event-stream; charset=utf-8", stream),
  );
  upstream.route("/large", (_, connection) => connection.write(answer(pattern(LARGE_BYTES))));
  upstream.route(
    "/plain",
    (request, connection) =>
      connection.write(answer(`{"target":"${request.target}"}`, {
        fields: ["Content-Type: application/json", "X-Kept: yes"],
      })),
  );
}

/** What must work between any two peers that find each other. */
async function exercise(ask: Asker, upstream: Upstream): Promise<void> {
  const plain = await ask("/plain?full=1", { fields: [["Accept", "*/*"]] });
  assert.equal(plain.status, 200, bodyText(plain));
  assert.equal(bodyText(plain), '{"target":"/plain?full=1"}');
  assert.deepEqual(values(plain, "x-kept"), ["yes"]);
  const body = '{"n":[1,2,3],"t":"\u00e9\u{1f600}"}';
  const echoed = await ask("/echo", {
    method: "POST",
    body,
    fields: [["Content-Type", "application/json"]],
  });
  assert.equal(bodyText(echoed), body);
  const large = await ask("/large");
  assert.equal(sha256(large.body), sha256(pattern(LARGE_BYTES)));
  const streamed = await ask("/stream");
  assert.ok(streamed.complete);
  assert.equal(sha256(streamed.body), sha256(pattern(STREAM_BYTES, 7)), "the credit's way");
  assert.deepEqual(upstream.faults, []);
}

/** The client of a stream leaves: the upstream's connection must end, which shows the cancel's way. */
async function leaveTicks(port: number, upstream: Upstream, path: string): Promise<void> {
  await using client = await RawClient.connect(port);
  await client.send(requestOctets(path));
  await client.socket.readUntil("data: 3\n\n");
  await client.close();
  const request = await upstream.request(path);
  const connection = upstream.connections.find((one) => one.requests.includes(request));
  await connection?.waitEnd();
}

/** A tunnel, in a CONNECT of natsway's requester or as the double opens it: subjects 3 and 4. */
async function tunnelsThrough(opener: Natsway | RubyRequester, target: Upstream): Promise<void> {
  const bytes = pattern(TUNNEL_BYTES);
  if (opener instanceof RubyRequester) {
    const session = opener.openSession("127.0.0.1", target.port);
    assert.equal((await session.opened).status, 200);
    await session.write(bytes);
    assert.equal(sha256(await session.received(bytes.length)), sha256(bytes));
    session.leave();
    assert.equal(await session.ended, "target_closed");
    return;
  }
  await using tunnel = await connectTunnel(opener.port, `127.0.0.1:${target.port}`);
  const sent = tunnel.socket.write(bytes);
  assert.equal(sha256(await tunnel.socket.readExactly(bytes.length)), sha256(bytes));
  await sent;
  await tunnel.socket.closeWrite();
  assert.equal(await tunnel.socket.waitEnd(), "fin");
}

for (const setUp of SET_UPS) {
  Deno.test(`${setUp.name}: natsway and Ruby peers find each other`, async (t) => {
    await using nats = await startNats({ config: setUp.natsConfig ?? "" });
    await using upstream = await startUpstream();
    await using target = await startUpstream(echo);
    routes(upstream);
    const { port } = nats;
    const rubyPlace = { port, ...setUp.requester, serviceId: "ruby-edge" };
    const startDouble = () =>
      RubyReceiver.start({
        port,
        ...setUp.receiver,
        serviceId: "ruby-worker",
        upstreamUrl: upstream.url,
      });
    await using requester = await startNatsway("requester", {
      ...placeSettings(port, setUp.requester),
      PROXY_AUTH_ENABLED: "false",
    });

    await t.step("nobody listens: a 503 at once", async () => {
      const response = await askNatsway(requester.port)("/nobody");
      assert.equal(response.status, 503);
      assert.match(bodyText(response), /"no_receiver"/);
    });

    await t.step(
      `Ruby to Ruby: ${setUp.rubyToRuby ? "works" : "does not work"}, as the table says`,
      async () => {
        await using double = await startDouble();
        await using edge = await RubyRequester.start({
          ...rubyPlace,
          responseTimeoutMs: setUp.rubyToRuby ? 10_000 : 1_000,
        });
        if (setUp.rubyToRuby) {
          await exercise(askRuby(edge), upstream);
          await tunnelsThrough(edge, target);
        } else assert.equal((await edge.ask("/plain").done).status, 504);
        assert.deepEqual([double.violations, edge.violations], [[], []]);
      },
    );

    await t.step("natsway's requester with a Ruby receiver", async () => {
      await using double = await startDouble();
      await exercise(askNatsway(requester.port), upstream);
      await leaveTicks(requester.port, upstream, "/ticks/to-ruby");
      assert.equal(double.cancels.events.length, 1);
      await tunnelsThrough(requester, target);
      double.assertContent();
    });

    await using _receiver = await startNatsway("receiver", {
      ...placeSettings(port, setUp.receiver),
      UPSTREAM_URL: upstream.url,
      TARGET_ALLOW: "127.0.0.1",
    });

    await t.step("a Ruby requester with natsway's receiver", async () => {
      await using edge = await RubyRequester.start(rubyPlace);
      await exercise(askRuby(edge), upstream);
      const call = edge.ask("/ticks/from-ruby");
      await call.event("response_chunk");
      call.leave();
      const request = await upstream.request("/ticks/from-ruby");
      await upstream.connections.find((one) => one.requests.includes(request))?.waitEnd();
      await call.done;
      await tunnelsThrough(edge, target);
      edge.assertContent();
    });

    await t.step("natsway to natsway", async () => {
      const ask = askNatsway(requester.port);
      await exercise(ask, upstream);
      await leaveTicks(requester.port, upstream, "/ticks/natsway");
      await tunnelsThrough(requester, target);
      const binary = octets("\x00\xff\xfe");
      const echoed = await ask("/echo/binary", { method: "POST", body: binary });
      assert.deepEqual(echoed.body, binary);
    });
  });
}
