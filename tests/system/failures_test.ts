import assert from "node:assert/strict";
import { requestOctets } from "../helpers/client.ts";
import { json, one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer, startUpstream } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";

/** The upstream must see the client's leaving within this time (cases F22). */
const CANCEL_MS = 2_000;

/** How the connection of a request for `path` ends at the upstream; resolves when it does. */
function upstreamEnd(rig: Rig, path: string, before: string[]): Promise<string> {
  const end = Promise.withResolvers<string>();
  rig.upstream.route(path, async (_, connection) => {
    for (const piece of before) await connection.write(piece);
    end.resolve(await connection.waitEnd(30_000));
    return "close";
  });
  return end.promise;
}

function gone(how: "FIN" | "RST", when: "before the head" | "in the body", rig: Rig): Row {
  const path = `/gone-${how}-${when.split(" ")[0]}`;
  return {
    name: `a client that leaves with ${how} ${when} ends the upstream call`,
    run: async () => {
      const pieces = when === "in the body"
        ? ["HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n"]
        : [];
      const ended = upstreamEnd(rig, path, pieces);
      const mark = rig.receiver.mark;
      const client = await rig.connect();
      await client.send(requestOctets(path));
      await rig.upstream.request(path);
      if (when === "in the body") await client.socket.readUntil("hello");
      await (how === "FIN" ? client.close() : client.socket.reset());
      await within(ended, CANCEL_MS, "the end of the upstream call");
      const closed = await rig.receiver.flowClosed((event) => event["code"] === "canceled", {
        from: mark,
      });
      await rig.requester.flowClosed((event) => event["request_id"] === closed["request_id"]);
    },
  };
}

function failing(
  name: string,
  path: string,
  status: number,
  code: string,
  rig: Rig,
  act: () => void,
): Row {
  return {
    name: `F56 ${name}: ${status} ${code}`,
    run: async () => {
      act();
      const mark = rig.requester.mark;
      const response = await rig.request(path);
      assert.equal(response.status, status, text(response));
      assert.equal(one(response, "content-type")?.split(";")[0], "application/json");
      assert.equal(json(response)["code"], code);
      assert.equal(typeof json(response)["error"], "string");
      await rig.requester.flowClosed(
        (event) => event["code"] === code && event["status"] === status,
        { from: mark },
      );
    },
  };
}

Deno.test("upstream failures and leaving clients", async (t) => {
  await using rig = await startRig({
    requesterSettings: { NATS_RESPONSE_TIMEOUT: "3" },
    receiverSettings: { UPSTREAM_TIMEOUT: "1" },
  });
  const { upstream } = rig;
  const close = (path: string, ...pieces: string[]) => () =>
    upstream.route(path, async (_, connection) => {
      for (const piece of pieces) await connection.write(piece);
      return "close";
    });
  await runRows(t, [
    gone("FIN", "in the body", rig),
    gone("RST", "in the body", rig),
    failing(
      "the upstream closes before a head",
      "/closes",
      502,
      "target_broken",
      rig,
      close("/closes"),
    ),
    failing(
      "the upstream closes within a head",
      "/half-head",
      502,
      "target_broken",
      rig,
      close("/half-head", "HTTP/1.1 200 OK\r\nX-Half: "),
    ),
    failing(
      "the upstream sends garbage",
      "/garbage",
      502,
      "target_broken",
      rig,
      close("/garbage", "\x00\x01\x02 no HTTP at all\r\n\r\n"),
    ),
    failing(
      "the upstream's head is malformed",
      "/malformed",
      502,
      "target_broken",
      rig,
      close("/malformed", "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
    ),
    failing(
      "the upstream accepts and says nothing",
      "/silent",
      504,
      "target_timeout",
      rig,
      () => void upstreamEnd(rig, "/silent", []),
    ),
    {
      name: "an upstream that resets in the body leaves an incomplete message",
      run: async () => {
        upstream.route("/reset", async (_, connection) => {
          await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\n0123456789");
          await pause(100);
          await connection.reset();
          return "close";
        });
        const response = await rig.request("/reset");
        assert.equal(response.status, 200);
        assert.equal(text(response), "0123456789");
        assert.equal(response.complete, false);
      },
    },
    {
      name: "a broken chunk of the upstream leaves an incomplete message",
      run: async () => {
        upstream.route("/bad-chunk", async (_, connection) => {
          await connection.write(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n",
          );
        });
        const response = await rig.request("/bad-chunk");
        assert.equal(text(response), "hello");
        assert.equal(response.complete, false);
      },
    },
    {
      name: "octets behind a whole upstream answer never become the next answer",
      run: async () => {
        upstream.route("/surplus", async (_, connection) => {
          await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
          await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil");
        });
        await using client = await rig.connect();
        for (let i = 0; i < 5; i++) {
          assert.equal(text(await client.exchange(requestOctets("/surplus"))), "ok");
          assert.equal(text(await client.exchange(requestOctets("/fine"))), "GET /fine");
        }
      },
    },
    {
      name: "F55 a kept upstream connection that the upstream closes costs no request",
      run: async () => {
        upstream.route("/closing", async (_, connection) => {
          await connection.write(answer("once"));
          return "close";
        });
        for (let i = 0; i < 20; i++) {
          const response = await rig.request(
            "/closing",
            i % 2 ? { method: "POST", body: "x" } : {},
          );
          assert.equal(response.status, 200, text(response));
        }
        assert.equal(upstream.requestsFor("/closing").length, 20);
      },
    },
  ]);
});

Deno.test("a client that leaves before the head ends the upstream call", async (t) => {
  await using rig = await startRig();
  await runRows(t, [gone("FIN", "before the head", rig), gone("RST", "before the head", rig)]);
});

Deno.test("no response within NATS_RESPONSE_TIMEOUT is 504 and ends the upstream call", async () => {
  await using rig = await startRig({ requesterSettings: { NATS_RESPONSE_TIMEOUT: "1.5" } });
  const ended = upstreamEnd(rig, "/late", []);
  const started = performance.now();
  const response = await rig.request("/late");
  const ms = performance.now() - started;
  assert.equal(response.status, 504);
  assert.equal(json(response)["error"], "Gateway Timeout");
  assert.equal(json(response)["message"], "No response from bridge within 1.5s");
  assert.equal(json(response)["code"], "response_timeout");
  assert.ok(ms > 1_400 && ms < 3_000, `after ${ms} ms`);
  await within(ended, CANCEL_MS, "the end of the upstream call");
  assert.equal((await rig.request("/next")).status, 200);
});

Deno.test("F56 an upstream that refuses, or whose name is unknown, is 502 at once", async () => {
  await using upstream = await startUpstream();
  const port = upstream.port;
  await upstream.stop();
  for (
    const [url, code] of [
      [`http://127.0.0.1:${port}`, "target_refused"],
      ["http://no-such-name.invalid:80", "target_not_found"],
    ] as const
  ) {
    await using rig = await startRig({ receiverSettings: { UPSTREAM_URL: url } });
    const response = await within(rig.request("/refused"), 8_000, `the answer for ${url}`);
    assert.equal(response.status, 502);
    assert.equal(json(response)["code"], code);
    await rig.receiver.flowClosed((event) => event["code"] === code);
  }
});

Deno.test("a receiver without UPSTREAM_URL answers 503 for origin-form targets", async () => {
  await using rig = await startRig({ receiverSettings: { UPSTREAM_URL: "" } });
  const response = await rig.request("/nowhere");
  assert.equal(response.status, 503);
  assert.match(text(response), /UPSTREAM_URL/);
});

Deno.test("a saturated receiver makes requests wait or answers 503 overloaded with Retry-After", async () => {
  await using rig = await startRig({ receiverSettings: { RECEIVER_MAX_INFLIGHT: "2" } });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const first = [rig.request("/held/0"), rig.request("/held/1")];
  await Promise.all([rig.upstream.request("/held/0"), rig.upstream.request("/held/1")]);
  const more = Array.from({ length: 30 }, (_, i) => rig.request(`/held/${i + 2}`));
  // Those that do not wait are answered without the upstream's help.
  const refused: number[] = [];
  for (const answered of more) answered.then((response) => refused.push(response.status));
  const rejected = await within(
    Promise.any(more.map(async (answered) => {
      const response = await answered;
      assert.equal(response.status, 503);
      return response;
    })),
    10_000,
    "a 503 while both slots and the queue are taken",
  );
  assert.equal(json(rejected)["code"], "overloaded");
  assert.match(one(rejected, "retry-after") ?? "", /^\d+$/);
  assert.ok(rig.upstream.requestsFor("/held").length <= 2, "more than the slots were taken");
  assert.equal(refused.includes(200), false);
  release.resolve();
  const all = await Promise.all([...first, ...more]);
  for (const response of all) {
    if (response.status === 503) assert.equal(json(response)["code"], "overloaded");
    else assert.equal(text(response), "held");
  }
  assert.ok(all.filter((response) => response.status === 200).length >= 4, "the queue was lost");
  const served = rig.upstream.requestsFor("/held").length;
  assert.equal(served, all.filter((response) => response.status === 200).length);
  // It is back in the pool.
  assert.equal((await rig.request("/relaxed")).status, 200);
});

Deno.test("a saturated receiver leaves new requests to the other one", async () => {
  await using rig = await startRig({
    receivers: 2,
    receiverSettings: { RECEIVER_MAX_INFLIGHT: "4" },
  });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const held = Array.from({ length: 8 }, (_, i) => rig.request(`/held/${i}`));
  await pause(300);
  release.resolve();
  for (const response of await Promise.all(held)) assert.equal(text(response), "held");
});

Deno.test("MAX_FLOWS at the requester bounds live flows with 503 overloaded", async () => {
  await using rig = await startRig({ requesterSettings: { MAX_FLOWS: "3" } });
  const release = Promise.withResolvers<void>();
  rig.upstream.route("/held", async (_, connection) => {
    await release.promise;
    await connection.write(answer("held"));
  });
  const held = [0, 1, 2].map((i) => rig.request(`/held/${i}`));
  await Promise.all([0, 1, 2].map((i) => rig.upstream.request(`/held/${i}`)));
  const over = await rig.request("/over");
  assert.equal(over.status, 503);
  assert.equal(json(over)["code"], "overloaded");
  assert.notEqual(one(over, "retry-after"), null);
  release.resolve();
  for (const response of await Promise.all(held)) assert.equal(text(response), "held");
  assert.equal((await rig.request("/again")).status, 200);
});

for (const signal of ["SIGKILL", "SIGSTOP"] as const) {
  Deno.test(`F54 a receiver that gets ${signal} in the middle of a body: incomplete within PEER_TIMEOUT, never a clean end`, async () => {
    const peerTimeoutS = 6;
    await using rig = await startRig({ settings: { PEER_TIMEOUT: String(peerTimeoutS) } });
    rig.upstream.route("/half", async (_, connection) => {
      await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
      await connection.waitEnd(60_000);
      return "close";
    });
    await using client = await rig.connect();
    await client.send(requestOctets("/half"));
    await client.socket.readUntil("hello");
    const reading = client.socket.readUntil("\r\n0\r\n\r\n", 60_000).then(
      () => "clean end",
      () => client.socket.end,
    );
    const started = performance.now();
    rig.receiver.kill(signal);
    const end = await reading;
    const ms = performance.now() - started;
    assert.notEqual(end, "clean end");
    assert.notEqual(end, "open");
    // The clock of extensions.md section 6 starts with the first unanswered probe, which is sent
    // after a third of PEER_TIMEOUT of silence.
    assert.ok(ms < (peerTimeoutS * 4 / 3) * 1000 + 2_000, `after ${ms} ms`);
    const closed = await rig.requester.flowClosed((event) => event["code"] !== "ok");
    assert.equal(closed["code"], "peer_lost");
    if (signal === "SIGSTOP") {
      rig.receiver.kill("SIGCONT");
      const response = await within(rig.request("/back"), 15_000, "an answer after SIGCONT");
      assert.equal(response.status, 200);
    } else {
      await rig.addReceiver();
      assert.equal((await rig.request("/back")).status, 200);
    }
  });
}

Deno.test("F54 of two receivers one is killed while idle: later requests succeed", async () => {
  await using rig = await startRig({ receivers: 2, settings: { PEER_TIMEOUT: "4" } });
  rig.receiver.kill("SIGKILL");
  await rig.receiver.ended();
  for (let i = 0; i < 30; i++) {
    assert.equal((await rig.request(`/still/${i}`)).status, 200);
  }
});

Deno.test("F58 a requester that is killed frees what it had running at the receiver", async () => {
  await using rig = await startRig({ settings: { PEER_TIMEOUT: "4" } });
  const ended = upstreamEnd(rig, "/orphan", [
    "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
  ]);
  await using client = await rig.connect();
  await client.send(requestOctets("/orphan"));
  await client.socket.readUntil("hello");
  rig.requester.kill("SIGKILL");
  await within(ended, (4 * 4 / 3) * 1000 + 2_000, "the end of the orphaned upstream call");
  const closed = await rig.receiver.flowClosed((event) => event["code"] !== "ok");
  assert.equal(closed["code"], "peer_lost");
});
