import assert from "node:assert/strict";
import { concat, octets, pattern } from "../helpers/bytes.ts";
import { one } from "../helpers/http_message.ts";
import { NatsClient } from "../helpers/nats_client.ts";
import { PeerCall } from "../helpers/nats_peer.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";

const RECEIVER_ID = "rec-1";

function peerRows(rig: Rig, nats: NatsClient): Row[] {
  const { upstream } = rig;
  return [
    {
      name: "a plain GET of a Ruby-like peer is answered with the contract's three events",
      run: async () => {
        upstream.route("/peer/get", (_, connection) =>
          connection.write(answer('{"qty":7}', {
            fields: ["Content-Type: application/json; charset=utf-8", "X-A: 1", "X-A: 2"],
          })));
        const call = new PeerCall(nats);
        const payload = { method: "get", path: "/peer/get?full=1", headers: { accept: "*/*" } };
        await call.send(call.envelope({ payload }), { headers: ["traceparent: 00-ab-cd-01"] });
        const events = await call.answered();
        assert.deepEqual(events.map((event) => event["type"]), [
          "response_start",
          "response_chunk",
          "response_end",
        ]);
        const [start, chunk] = events as [Record<string, unknown>, Record<string, unknown>];
        assert.equal(start["status"], 200);
        assert.equal(start["request_id"], call.id);
        assert.equal(start["flow_kind"], "http_request");
        assert.equal(start["receiver_service_id"], RECEIVER_ID);
        assert.equal(start["content_type"], "application/json");
        assert.equal(start["streaming"], false);
        const headers = start["headers"] as Record<string, unknown>;
        assert.equal(headers["content-length"], "9");
        assert.deepEqual(headers["x-a"], ["1", "2"]);
        assert.equal(chunk["body"], '{"qty":7}');
        const [seen] = upstream.requestsFor("/peer/get");
        assert.equal(seen?.startLine, "GET /peer/get?full=1 HTTP/1.1");
        assert.equal(seen && one(seen, "accept"), "*/*");
      },
    },
    {
      name: "an answer that is no UTF-8 comes as base64, a long one in several chunks",
      run: async () => {
        const body = pattern(100_000);
        upstream.route("/peer/binary", (_, connection) => connection.write(answer(body)));
        const call = new PeerCall(nats);
        await call.send(call.envelope({ payload: { method: "GET", path: "/peer/binary" } }));
        const events = await call.answered();
        const pieces = events.filter((event) => event["type"] === "response_chunk").map((event) =>
          event["body_encoding"] === "base64"
            ? octets(atob(String(event["body_base64"])))
            : new TextEncoder().encode(String(event["body"] ?? ""))
        );
        assert.deepEqual(concat(pieces), body);
        for (const piece of pieces) assert.ok(piece.length <= 32_768);
      },
    },
    ...([
      ["a string", "x=1&y=2", "x=1&y=2", null],
      ["an object", { sku: "A-1", n: [1, null] }, '{"sku":"A-1","n":[1,null]}', "application/json"],
      ["a number", 42, "42", "application/json"],
      ["null", null, "", null],
      ["false", false, "", null],
    ] as const).map(([name, body, wanted, type], i): Row => ({
      name: `a Ruby-like peer's body that is ${name} reaches the upstream as the contract says`,
      run: async () => {
        const path = `/peer/body-${i}`;
        upstream.route(path, async (request, connection) => {
          await request.readBody();
          await connection.write(answer());
        });
        const call = new PeerCall(nats);
        await call.send(call.envelope({ payload: { method: "POST", path, headers: {}, body } }));
        await call.answered();
        const [seen] = upstream.requestsFor(path);
        assert.ok(seen);
        assert.equal(new TextDecoder().decode(seen.body ?? undefined), wanted);
        assert.equal(one(seen, "content-type"), type);
      },
    })),
    {
      name: "a peer's fields cannot smuggle: CR, LF and framing names are refused or dropped",
      run: async () => {
        const call = new PeerCall(nats);
        await call.send(call.envelope({
          payload: {
            method: "GET",
            path: "/peer/smuggle",
            headers: {
              "x-a": "1\r\nX-Evil: 1",
              "x b": "2",
              "transfer-encoding": "chunked",
              "content-length": "500",
              "x-ok": "3",
            },
          },
        }));
        await call.answered();
        for (const seen of upstream.requestsFor("/peer/smuggle")) {
          assert.ok(!/^x-evil:/im.test(seen.raw), seen.raw);
          assert.ok(!/^content-length: 500/im.test(seen.raw), seen.raw);
          assert.ok(!/^transfer-encoding:/im.test(seen.raw), seen.raw);
        }
      },
    },
    ...["/peer/a b", "/peer/\r\nX-Evil: 1\r\n", "no-slash", "/peer/\u0000", "/peer/\u20ac"].map((
      path,
    ): Row => ({
      name: `a peer's path cannot smuggle: ${JSON.stringify(path)}`,
      run: async () => {
        const before = upstream.requests.length;
        const call = new PeerCall(nats);
        await call.send(call.envelope({ payload: { method: "GET", path, headers: {} } }));
        const [start] = await call.answered();
        assert.ok(Number(start?.["status"]) >= 400, JSON.stringify(start));
        assert.ok(!upstream.requests.slice(before).some((seen) => /evil/i.test(seen.raw)));
      },
    })),
  ];
}

Deno.test("a requesting peer that is not natsway is served as the contract says", async (t) => {
  await using rig = await startRig({ receiverSettings: { SERVICE_ID: RECEIVER_ID } });
  await using nats = await NatsClient.connect(rig.nats.port);
  await runRows(t, peerRows(rig, nats));
});
