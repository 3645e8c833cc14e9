import assert from "node:assert/strict";
import { octets, pattern } from "../helpers/bytes.ts";
import { json, text } from "../helpers/http_message.ts";
import { MODE } from "../helpers/mode.ts";
import { jsonOf, NatsClient } from "../helpers/nats_client.ts";
import { newId, PeerCall, QUIET_MS } from "../helpers/nats_peer.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";

const REQUESTER_ID = "edge-1";
const RECEIVER_ID = "rec-1";

function hostileRows(rig: Rig, nats: NatsClient): Row[] {
  const noise = [
    new Uint8Array(),
    pattern(16),
    pattern(70_000),
    octets("{}"),
    octets("[]"),
    octets("null"),
    octets('{"type":"response_start"}'),
    octets('{"type":"flow_credit","bytes":-1}'),
    octets('{"type":"flow_credit","bytes":1e300,"direction":"response","request_id":"x"}'),
    octets('{"type":"cancel","cancel":{}}'),
    octets('{"type":"unheard-of"}'),
    octets(`${"[".repeat(100_000)}`),
    octets(`{"a":${"[".repeat(5_000)}${"]".repeat(5_000)}}`),
  ];
  const planes = [
    `from.proxy.responses.${REQUESTER_ID}.x`,
    `proxy.responses.${REQUESTER_ID}.x`,
    `from.proxy.responses.${REQUESTER_ID}`,
    `from.proxy.sessions.downstream.${REQUESTER_ID}.x`,
    `to.proxy.sessions.upstream.${RECEIVER_ID}.x`,
    `to.proxy.control.${RECEIVER_ID}.x`,
    `to.proxy.cancel.${RECEIVER_ID}.x`,
    "to.proxy.cancel._pool.x",
    "to.proxy.requests.x",
    "to.proxy.requests.a.b.c.d.e",
  ];
  return [
    {
      name: "noise on every plane of both roles changes nothing",
      run: async () => {
        for (const plane of planes) {
          for (const data of noise) {
            await nats.publish(plane, data);
            await nats.publish(plane, data, {
              reply: "from.proxy.responses.a.b",
              headers: ["Nats-Frame-Type: session_data", "X: \xff"],
            });
          }
        }
        await nats.flush();
        assert.equal((await rig.request("/after-noise")).status, 200);
      },
    },
    ...[
      "foreign.subject",
      "from.proxy.responses.>",
      "from.proxy.responses.*.x",
      "$SYS.REQ.SERVER.PING",
      "$JS.API.STREAM.CREATE.evil",
      "to.proxy.requests.a.b",
      "from.proxy.responses.peer-1.someone-elses-id",
      "from.proxy.responses.peer-1.x y",
      "",
    ].map((replyTo): Row => ({
      name: `a reply_to of ${JSON.stringify(replyTo)} is not published to`,
      run: async () => {
        const path = `/foreign/${newId()}`;
        const call = new PeerCall(nats);
        const spied = replyTo !== "" && !/[*> ]/.test(replyTo) ? replyTo : "foreign.none";
        const spy = await nats.subscribe(spied);
        await call.send(
          call.envelope({ reply_to: replyTo, payload: { method: "GET", path, headers: {} } }),
        );
        await assert.rejects(
          spy.find((message) => message.subject === spied && !message.data.includes(0x47), {
            ms: QUIET_MS,
            what: "a message",
          }),
          /not within/,
        );
        await call.unanswered();
        assert.deepEqual(rig.upstream.requestsFor(path), [], "it was run although nobody can hear");
        assert.equal((await rig.request("/after-foreign")).status, 200);
      },
    })),
    {
      name: "noise on the reply subject of a live request does not break it",
      run: async () => {
        const go = Promise.withResolvers<void>();
        rig.upstream.route("/live", async (_, connection) => {
          await go.promise;
          await connection.write(answer("alive"));
        });
        const requests = await nats.subscribe(`to.proxy.requests.${REQUESTER_ID}.*`);
        const response = rig.request("/live");
        const seen = await requests.find(
          (message) => new TextDecoder().decode(message.data).includes("/live"),
          { ms: 5_000, what: "the request on NATS" },
        );
        const replyTo = String(jsonOf(seen)["reply_to"]);
        const harmless = [
          new Uint8Array(),
          pattern(16),
          octets("{}"),
          octets("[]"),
          octets("null"),
          octets('{"stream":"proxy","seq":1}'),
        ];
        for (const data of harmless) {
          await nats.publish(replyTo, data);
        }
        await nats.flush();
        go.resolve();
        assert.equal(text(await response), "alive");
      },
    },
    {
      name: "the request on NATS follows the contract",
      run: async () => {
        const requests = await nats.subscribe(`to.proxy.requests.${REQUESTER_ID}.*`);
        await rig.request("/contract?x=%2F", {
          method: "POST",
          body: '{"sku": "A-1"}',
          fields: [
            "Content-Type: application/json",
            "X-Dup: 1",
            "X-Dup: 2",
            "traceparent: 00-a-b-01",
          ],
        });
        const seen = await requests.find(
          (message) => new TextDecoder().decode(message.data).includes("/contract"),
          { ms: 5_000, what: "the request on NATS" },
        );
        const envelope = jsonOf(seen);
        const id = seen.subject.split(".").at(-1);
        assert.equal(envelope["type"], "request");
        assert.equal(envelope["request_id"], id);
        assert.match(String(id), /^[A-Za-z0-9_-]{16,64}$/);
        assert.equal(envelope["reply_to"], `from.proxy.responses.${REQUESTER_ID}.${id}`);
        // In JetStream the stream's own answer goes there.
        if (MODE === "core") assert.equal(seen.reply, envelope["reply_to"]);
        else assert.match(seen.reply, /^_INBOX\./);
        assert.equal(envelope["operation"], "http_request");
        const payload = envelope["payload"] as Record<string, unknown>;
        assert.equal(payload["method"], "POST");
        assert.equal(payload["path"], "/contract?x=%2F");
        assert.equal(payload["body"], '{"sku": "A-1"}');
        const headers = payload["headers"] as Record<string, unknown>;
        assert.equal(headers["content-type"], "application/json");
        assert.equal("host" in headers, false);
        assert.equal("content-length" in headers, false);
        assert.match(seen.headers, /^traceparent: 00-a-b-01\r$/m);
        const natsway = envelope["natsway"] as Record<string, unknown>;
        assert.equal(natsway["v"], 1);
        assert.equal(typeof natsway["instance"], "string");
        assert.ok(Array.isArray(natsway["features"]));
      },
    },
  ];
}

Deno.test("noise on NATS and foreign reply subjects never end a role", async (t) => {
  await using rig = await startRig({
    requesterSettings: { SERVICE_ID: REQUESTER_ID },
    receiverSettings: { SERVICE_ID: RECEIVER_ID },
  });
  await using nats = await NatsClient.connect(rig.nats.port);
  await runRows(t, hostileRows(rig, nats));
  await t.step("afterwards both roles run, are ready and serve", async () => {
    assert.ok(rig.requester.running && rig.receiver.running);
    assert.equal(json(await rig.request("/observability/ready"))["ready"], true);
    for (let i = 0; i < 20; i++) assert.equal((await rig.request(`/fine/${i}`)).status, 200);
    assert.doesNotMatch(rig.requester.stderr + rig.receiver.stderr, /Uncaught|unhandled/i);
  });
});
