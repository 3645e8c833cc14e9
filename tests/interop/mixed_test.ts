import assert from "node:assert/strict";
import { octets, pattern, sha256 } from "../helpers/bytes.ts";
import { RawClient, requestOctets } from "../helpers/client.ts";
import { json, text } from "../helpers/http_message.ts";
import { startNats } from "../helpers/nats_server.ts";
import { type Natsway, startNatsway } from "../helpers/natsway.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";
import { RubyReceiver } from "./ruby_receiver.ts";
import { askNatsway, bodyText, routeEcho, routeTicks } from "./sides.ts";

/** Published once, and at most four times more (extensions.md section 2). */
const MOST_PUBLISHES = 5;

interface Pool extends AsyncDisposable {
  readonly natsUrl: string;
  readonly upstream: Upstream;
  readonly requester: Natsway;
  readonly double: RubyReceiver;
}

/** A pool that holds a Ruby receiver, and a requester that knows it may. */
async function startPool(): Promise<Pool> {
  const stack = new AsyncDisposableStack();
  try {
    const nats = stack.use(await startNats());
    const upstream = stack.use(await startUpstream());
    routeEcho(upstream);
    routeTicks(upstream);
    const requester = stack.use(
      await startNatsway("requester", { NATS_URL: nats.url, PEERS: "mixed" }),
    );
    const place = { port: nats.port, serviceId: "ruby-worker" };
    const double = stack.use(await RubyReceiver.start({ ...place, upstreamUrl: upstream.url }));
    const parts = stack.move();
    return {
      natsUrl: nats.url,
      upstream,
      requester,
      double,
      [Symbol.asyncDispose]: () => parts.disposeAsync(),
    };
  } catch (error) {
    await stack.disposeAsync();
    throw error;
  }
}

Deno.test("PEERS=mixed with Ruby receivers alone", async (t) => {
  await using pool = await startPool();
  const { requester, double, upstream } = pool;
  const ask = askNatsway(requester.port);

  await t.step("what they cannot carry is published five times in all, then a 502", async () => {
    for (const [method, body] of [["POST", octets("\xff\x00")], ["PROPFIND", "x"]] as const) {
      const before = double.requests.events.length;
      const response = await ask(`/lacks/${method}`, { method, body });
      assert.equal(response.status, 502);
      assert.equal(json(response)["code"], "peer_lacks");
      assert.match(String(json(response)["message"]), /PEERS/);
      const seen = double.requests.events.slice(before);
      assert.equal(seen.length, MOST_PUBLISHES);
      assert.equal(new Set(seen.map((one) => one.id)).size, MOST_PUBLISHES, "a new id each time");
      assert.ok(seen.every((one) => one.envelope["operation"] === "natsway_http"));
    }
    assert.deepEqual(upstream.requests, [], "nothing ran");
  });

  await t.step("large bodies of text are buffered for http_request", async () => {
    for (const size of [70_000, 400_000]) {
      const body = `"${"\u00e9".repeat(size / 2)}`.slice(0, size / 2);
      const response = await ask(`/echo/${size}`, { method: "POST", body });
      assert.equal(response.status, 200, bodyText(response).slice(0, 300));
      assert.equal(bodyText(response), body);
      const request = double.requests.events.at(-1);
      assert.equal(request?.envelope["operation"], "http_request");
    }
  });

  await t.step("a body of text that comes in pieces is buffered too", async () => {
    await using client = await RawClient.connect(requester.port);
    await client.send(
      "POST /echo/chunked HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n",
    );
    for (const piece of ["5\r\nfirst\r\n", "7\r\n second\r\n", "0\r\n\r\n"]) {
      await client.send(piece);
    }
    assert.equal(text(await client.response({ method: "POST" })), "first second");
  });

  await t.step("a body that fits no message is a 413 that says why", async () => {
    const response = await ask("/big", { method: "POST", body: "x".repeat(2_000_000) });
    assert.equal(response.status, 413);
  });

  await t.step(
    "a client that leaves before the answer: early cancel on the flow's subject",
    async () => {
      upstream.route("/early", async (_, connection) => {
        await connection.waitEnd(60_000);
      });
      await using client = await RawClient.connect(requester.port);
      await client.send(requestOctets("/early"));
      await upstream.request("/early");
      await client.close();
      const cancel = await double.cancels.find(() => true, { ms: 5_000, what: "the early cancel" });
      const id = double.requests.events.at(-1)?.id;
      assert.match(cancel.subject, new RegExp(`^to\\.proxy\\.requests\\..*\\.${id}$`));
    },
  );

  await t.step("nothing came that a Ruby receiver trips over", () => double.assertContent());
});

Deno.test("PEERS=mixed with a Ruby and a natsway receiver", async (t) => {
  await using pool = await startPool();
  const { requester, double, upstream } = pool;
  await using receiver = await startNatsway("receiver", {
    NATS_URL: pool.natsUrl,
    UPSTREAM_URL: upstream.url,
  });
  const ask = askNatsway(requester.port);

  await t.step(
    "what only natsway carries gets there, or is a 502; nothing runs twice",
    async () => {
      const body = pattern(5_000);
      const before = double.requests.events.length;
      const responses = await Promise.all(
        Array.from({ length: 60 }, (_, i) => ask(`/echo/bin/${i}-`, { method: "POST", body })),
      );
      for (const [i, response] of responses.entries()) {
        const runs = upstream.requestsFor(`/echo/bin/${i}-`).length;
        if (response.status === 200) {
          assert.equal(sha256(response.body), sha256(body));
          assert.equal(runs, 1);
        } else {
          assert.equal(json(response)["code"], "peer_lacks", bodyText(response));
          assert.equal(runs, 0);
        }
      }
      const whole = responses.filter((response) => response.status === 200).length;
      // Each publish finds natsway with one half, so one in 32 finds the double five times.
      assert.ok(whole >= 45, `${whole} of 60 got through`);
      assert.ok(double.requests.events.length > before, "the double was never asked");
    },
  );

  await t.step("what both carry is shared by both, and never published again", async () => {
    const mark = upstream.requests.length;
    const before = double.requests.events.length;
    const paths = Array.from({ length: 100 }, (_, i) => `/echo/text/${i}-`);
    const responses = await Promise.all(
      paths.map((path) => ask(path, { method: "POST", body: path })),
    );
    for (const [i, response] of responses.entries()) assert.equal(bodyText(response), paths[i]);
    assert.equal(upstream.requests.length, mark + 100);
    const atDouble = double.requests.events.length - before;
    assert.ok(atDouble > 10 && atDouble < 90, `${atDouble} of 100 at the double`);
  });

  await t.step("the same words from an upstream are its own answer", async () => {
    const words = '{"error":"No handler registered for operation=natsway_http"}';
    upstream.route("/own-words", async (request, connection) => {
      await request.readBody();
      const fields = ["Content-Type: application/json"];
      await connection.write(answer(words, { status: "503 X", fields }));
    });
    for (let i = 0; i < 10; i++) {
      const response = await ask(`/own-words/${i}`, { method: "POST", body: "text" });
      assert.equal(response.status, 503);
      assert.equal(bodyText(response), words);
      assert.equal(upstream.requestsFor(`/own-words/${i}`).length, 1);
    }
  });

  await t.step("nothing came that a Ruby receiver trips over", () => double.assertContent());
  assert.ok(receiver.running && requester.running);
});
