import assert from "node:assert/strict";
import { startNats } from "../helpers/nats_server.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { startUpstream } from "../helpers/upstream.ts";
import { RubyReceiver } from "./ruby_receiver.ts";
import { RubyRequester } from "./ruby_requester.ts";
import { type Asker, askNatsway, askRuby, bodyText, routeEcho, writeChunked } from "./sides.ts";

const EACH = 60;

Deno.test("four requesters and a pool of two, Ruby and natsway: every answer finds its asker", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  routeEcho(upstream);
  upstream.route("/sse", (request, connection) =>
    writeChunked(
      connection,
      "text/event-stream",
      new TextEncoder().encode(`data: ${request.target}\n\n`.repeat(2_000)),
    ));
  const { port, url } = nats;
  await using double = await RubyReceiver.start({
    port,
    serviceId: "ruby-worker",
    upstreamUrl: upstream.url,
    responseRoot: "from.proxy",
  });
  await using receiver = await startNatsway("receiver", {
    NATS_URL: url,
    UPSTREAM_URL: upstream.url,
    SERVICE_ID: "worker-1",
  });
  await using first = await startNatsway("requester", { NATS_URL: url, SERVICE_ID: "edge-1" });
  await using second = await startNatsway("requester", { NATS_URL: url, SERVICE_ID: "edge-2" });
  // The quick start's root, so that a Ruby receiver's stripped events reach Ruby requesters too.
  const quick = { port, responseRoot: "proxy" };
  await using third = await RubyRequester.start({ ...quick, serviceId: "ruby-edge-1" });
  await using fourth = await RubyRequester.start({ ...quick, serviceId: "ruby-edge-2" });
  const askers: [string, Asker][] = [
    ["edge-1", askNatsway(first.port)],
    ["edge-2", askNatsway(second.port)],
    ["ruby-edge-1", askRuby(third)],
    ["ruby-edge-2", askRuby(fourth)],
  ];

  await t.step("texts, echoed", async () => {
    await Promise.all(askers.flatMap(([name, ask]) =>
      Array.from({ length: EACH }, async (_, i) => {
        const body = `${name} asks for ${i}`;
        const response = await ask(`/echo/${name}/${i}`, { method: "POST", body });
        assert.equal(bodyText(response), body);
      })
    ));
    assert.equal(upstream.requests.length, askers.length * EACH, "each ran once");
  });

  await t.step("streams, side by side", async () => {
    await Promise.all(askers.flatMap(([name, ask]) =>
      Array.from({ length: 10 }, async (_, i) => {
        const path = `/sse/${name}/${i}`;
        const response = await ask(path);
        assert.ok(response.complete);
        assert.equal(bodyText(response), `data: ${path}\n\n`.repeat(2_000));
      })
    ));
  });

  await t.step("both receivers had their part", () => {
    const atDouble = double.requests.events.length;
    const all = upstream.requests.length;
    assert.ok(atDouble > all / 10 && atDouble < all * 0.9, `${atDouble} of ${all} at the double`);
  });

  await t.step("no Ruby requester saw what was not its own", () => {
    for (const edge of [third, fourth]) {
      assert.deepEqual(edge.violations, []);
      assert.deepEqual(edge.dropped, []);
    }
    double.assertContent();
  });
  assert.ok(receiver.running && first.running && second.running);
});
