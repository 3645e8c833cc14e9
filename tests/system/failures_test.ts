import assert from "node:assert/strict";
import { concat } from "../helpers/bytes.ts";
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
      name: "a broken chunk in the body leaves an incomplete message",
      run: async () => {
        const seen = Promise.withResolvers<void>();
        upstream.route("/bad-chunk", async (_, connection) => {
          await connection.write(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
          );
          await seen.promise;
          await connection.write("ZZ\r\n");
        });
        const response = await rig.request("/bad-chunk", { onBody: () => seen.resolve() });
        assert.equal(text(response), "hello");
        assert.equal(response.complete, false);
      },
    },
    {
      name: "a broken chunk that comes with the head is 502 or an incomplete message",
      run: async () => {
        upstream.route("/bad-at-once", async (_, connection) => {
          await connection.write(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\nZZ\r\n",
          );
        });
        const response = await rig.request("/bad-at-once");
        if (response.status === 200) assert.equal(response.complete, false);
        else assert.equal(json(response)["code"], "target_broken");
      },
    },
    ...[0, 100].map((laterMs): Row => ({
      name: `octets behind a whole upstream answer, ${laterMs} ms later, are never the next answer`,
      // A request of another row on that connection, before the surplus comes, could not be helped.
      alone: true,
      run: async () => {
        const path = `/surplus-${laterMs}`;
        const evil = answer("evil");
        upstream.route(path, async (_, connection) => {
          if (laterMs === 0) {
            await connection.write(concat([answer("ok"), evil]));
          } else {
            await connection.write(answer("ok"));
            await pause(laterMs);
            await connection.write(evil);
          }
        });
        await using client = await rig.connect();
        for (let i = 0; i < 5; i++) {
          assert.equal(text(await client.exchange(requestOctets(path))), "ok");
          // By then the surplus has reached the receiver's idle connection.
          await pause(laterMs * 2);
          assert.equal(text(await client.exchange(requestOctets("/fine"))), "GET /fine");
        }
      },
    })),
    {
      name: "F55 kept connections that the upstream closes cost no GET, and no POST runs twice",
      run: async () => {
        upstream.route("/closing", async (_, connection) => {
          await connection.write(answer("once"));
          return "close";
        });
        for (let i = 0; i < 40; i++) {
          const post = i % 2 === 1;
          const target = `/closing/${i}`;
          const response = await rig.request(target, post ? { method: "POST", body: "x" } : {});
          // A POST whose octets were already sent may have run: it is not repeated.
          if (post && response.status === 502) {
            assert.equal(json(response)["code"], "target_broken");
          } else assert.equal(response.status, 200, text(response));
          if (post) assert.ok(upstream.requestsFor(target).length <= 1);
        }
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
