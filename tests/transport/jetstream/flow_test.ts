import assert from "node:assert/strict";
import type { Delivery } from "../../../lib/transport/types.ts";
import { EventLog } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { JsServer, Peer, STREAM } from "./support.ts";

Deno.test("a request waits for a receiver, and the answer comes back on the response plane", async () => {
  await using js = await JsServer.start();
  await using requester = new Peer(js.server.url, "edge");
  const answers = new EventLog<string>();
  requester.transport.consumePlane("responses", ({ token, data, reply }) => {
    assert.equal(reply, "");
    answers.add(`${token} ${decode(data)}`);
  });
  await requester.until(null);
  await using receiver = new Peer(js.server.url, "worker");
  const requests = new EventLog<Delivery>();
  receiver.transport.consumeRequests((delivery) => {
    requests.add(delivery);
    receiver.transport.publish(`proxy.responses.edge.${delivery.token}`, [
      encode("answer to "),
      delivery.data,
    ]);
    delivery.ack();
  });
  await receiver.until(null);
  assert.ok(requester.transport.publish("proxy.requests.edge.id1", [encode("ask")]));
  await answers.find((text) => text === "id1 answer to ask", { ms: 5000, what: "the answer" });
  const [delivery] = requests.events;
  assert.equal(delivery?.deliveries, 1);
  assert.equal(delivery?.redelivered, false);
  assert.equal(delivery?.lastDelivery, false);
  await receiver.transport.flush();
  const { num_ack_pending, num_pending } = await js.manager.consumers.info(STREAM, "nats-proxy");
  assert.equal(num_ack_pending, 0);
  assert.equal(num_pending, 0);
});

Deno.test("a plane keeps the order of its messages over many pulls, of all sizes", async () => {
  await using js = await JsServer.start();
  await using requester = new Peer(js.server.url, "edge");
  await using receiver = new Peer(js.server.url, "worker");
  const count = 3000;
  const seen: number[] = [];
  const done = Promise.withResolvers<void>();
  requester.transport.consumePlane("sessions.downstream", ({ data }) => {
    const view = new DataView(data.buffer, data.byteOffset, data.byteLength);
    seen.push(view.getUint32(0));
    assert.ok(data.subarray(4).every((octet) => octet === (view.getUint32(0) & 0xff)));
    if (seen.length === count) done.resolve();
  });
  await Promise.all([requester.until(null), receiver.connected()]);
  for (let i = 0; i < count; i++) {
    const message = new Uint8Array(4 + (i % 7 === 0 ? 60_000 : i % 100)).fill(i & 0xff);
    new DataView(message.buffer).setUint32(0, i);
    if (receiver.transport.congested) await receiver.transport.drained();
    assert.ok(receiver.transport.publish("proxy.sessions.downstream.edge.t1", [message]));
  }
  await done.promise;
  assert.deepEqual(seen, Array.from({ length: count }, (_, i) => i));
  await requester.transport.flush();
  const info = await js.manager.consumers.info(STREAM, "nats-proxy-sessions-downstream-edge");
  assert.equal(info.num_ack_pending, 0);
  assert.deepEqual(receiver.transport.counts.lost, 0);
});

Deno.test("a publish that no stream takes, and one that the stream refuses, are reported as lost", async () => {
  await using js = await JsServer.start({ subjects: null });
  await using peer = new Peer(js.server.url, "edge");
  const lost = new EventLog<string>();
  const publish = (id: string) =>
    peer.transport.publish(`proxy.requests.edge.${id}`, [encode("x")], {
      onLost: (reason) => lost.add(`${id}: ${reason}`),
    });
  await peer.connected();
  assert.ok(publish("none"));
  await lost.find((text) => /^none: no stream/.test(text), { ms: 5000, what: "the loss" });
  await js.addStream(["proxy.>"], false, { max_msgs: 1, discard: "new" });
  publish("first");
  publish("second");
  await lost.find((text) => /^second: maximum messages exceeded/.test(text), {
    ms: 5000,
    what: "the refusal",
  });
  assert.equal(lost.events.length, 2);
  assert.equal(peer.transport.counts.published, 1);
  assert.equal(peer.transport.counts.lost, 2);
});
