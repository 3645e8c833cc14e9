import assert from "node:assert/strict";
import { MessageTooLargeError } from "../../../lib/errors.ts";
import { EventLog } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { JsServer, Peer, STREAM } from "./support.ts";

Deno.test("a message larger than all that is asked for at once still comes", async () => {
  await using js = await JsServer.start({ config: "max_payload: 8388608" });
  await using peer = new Peer(js.server.url, "edge");
  const sizes = new EventLog<number>();
  peer.transport.consumePlane("responses", ({ data }) => sizes.add(data.length));
  await peer.until(null);
  const large = 8_388_608 - 100;
  for (const size of [10, large, 20, large]) {
    assert.ok(peer.transport.publish("proxy.responses.edge.a", [new Uint8Array(size)]));
  }
  await sizes.find(() => sizes.events.length === 4, { ms: 10_000, what: "all messages" });
  assert.deepEqual(sizes.events, [10, large, 20, large]);
});

Deno.test("the smaller of the server's and the stream's limits is the largest message", async () => {
  await using js = await JsServer.start({ subjects: null });
  await js.addStream(["proxy.>"], false, { max_msg_size: 1000 });
  await using peer = new Peer(js.server.url, "edge");
  peer.transport.consumePlane("responses", () => {});
  await peer.until(null);
  assert.equal(peer.transport.maxPayload, 1000);
  const publish = (bytes: number) =>
    peer.transport.publish("proxy.responses.edge.a", [new Uint8Array(bytes)]);
  assert.throws(() => publish(1001), MessageTooLargeError);
  assert.ok(publish(1000));
  await peer.transport.flush();
  assert.deepEqual([peer.transport.counts.published, peer.transport.counts.lost], [1, 0]);
});

Deno.test("a handler that fails does not stop its plane, and the message is settled", async () => {
  await using js = await JsServer.start();
  await using peer = new Peer(js.server.url, "edge");
  const seen = new EventLog<string>();
  peer.transport.consumePlane("control", ({ data }) => {
    const text = decode(data);
    seen.add(text);
    if (text === "bad") throw new Error("a mistake");
  });
  await peer.until(null);
  for (const text of ["bad", "good"]) {
    peer.transport.publish("proxy.control.edge.a", [encode(text)]);
  }
  await seen.find((text) => text === "good", { ms: 5000, what: "the next message" });
  await peer.transport.flush();
  const info = await js.manager.consumers.info(STREAM, "nats-proxy-control-edge");
  assert.equal(info.num_ack_pending, 0);
});

Deno.test("headers and the last token of the subject come along; Nats-Subject counts as the subject", async () => {
  await using js = await JsServer.start();
  await using peer = new Peer(js.server.url, "edge");
  const seen = new EventLog<string>();
  peer.transport.consumePlane("responses", ({ token, headers }) => {
    seen.add(`${token} ${headers === null ? "none" : decode(headers)}`);
  });
  await peer.until(null);
  const headers = (text: string) => encode(`NATS/1.0\r\n${text}\r\n\r\n`);
  peer.transport.publish("proxy.responses.edge.a", [], { headers: headers("A: b") });
  peer.transport.publish("proxy.responses.edge.b", []);
  peer.transport.publish("proxy.responses.edge.c", [], {
    headers: headers("Nats-Subject: proxy.responses.edge.d"),
  });
  // A stored message that looks like a status is none.
  peer.transport.publish("proxy.responses.edge.e", [], {
    headers: encode("NATS/1.0 409 Consumer Deleted\r\n\r\n"),
  });
  await seen.find((text) => text.startsWith("e "), { ms: 5000, what: "all messages" });
  assert.deepEqual(seen.events.map((text) => text.split(" ")[0]), ["a", "b", "d", "e"]);
  assert.match(seen.events[0] ?? "", /^a NATS\/1\.0\r\nA: b/);
  assert.equal(peer.notReady, null);
});

Deno.test("senders wait while the window of unanswered publishes is full, and what an outage leaves unanswered is lost", async () => {
  await using js = await JsServer.start();
  await using peer = new Peer(js.server.url, "edge");
  await peer.connected();
  const { transport } = peer;
  await transport.flush();
  await js.server.kill("SIGSTOP");
  const lost = new EventLog<string>();
  const payload = [new Uint8Array(16 * 1024)];
  let sent = 0;
  while (!transport.congested) {
    sent++;
    assert.ok(
      transport.publish("proxy.responses.edge.a", payload, { onLost: (why) => lost.add(why) }),
    );
  }
  let drained = false;
  const waiting = transport.drained().then(() => drained = true);
  await Promise.resolve();
  assert.equal(drained, false);
  await js.server.kill("SIGCONT");
  await waiting;
  await transport.flush();
  assert.deepEqual([transport.counts.published, transport.counts.lost], [sent, 0]);

  await js.server.kill("SIGSTOP");
  for (let i = 0; i < 3; i++) {
    transport.publish("proxy.responses.edge.a", payload, { onLost: (why) => lost.add(why) });
  }
  const flushed = assert.rejects(transport.flush());
  await js.server.kill("SIGKILL");
  await flushed;
  assert.deepEqual(lost.events, Array(3).fill("the NATS link went down"));
  await transport.drained();
});

Deno.test("a publish that is not answered in time is lost", async () => {
  await using js = await JsServer.start({ subjects: null });
  await using peer = new Peer(js.server.url, "edge");
  await peer.connected();
  js.operator.link.subscribe({ subject: "proxy.>", label: "silent", deliver: () => {} });
  await js.operator.link.flush();
  const lost = new EventLog<string>();
  peer.transport.publish("proxy.responses.edge.a", [], { onLost: (why) => lost.add(why) });
  await lost.find((why) => /did not answer in time/.test(why), { ms: 10_000, what: "the loss" });
});

Deno.test("the inspection shows stream and consumer, or why it cannot", async () => {
  await using js = await JsServer.start({ subjects: null });
  await using peer = new Peer(js.server.url, "edge");
  await peer.connected();
  const failed = await peer.transport.inspect();
  assert.deepEqual(Object.keys(failed), [
    "stream",
    "consumer",
    "js_api_prefix",
    "jetstream_available",
    "inspection_error",
  ]);
  assert.match(String(failed.inspection_error), /^error: \w+: .*stream not found/i);
  await js.addStream();
  peer.transport.consumePlane("responses", () => {});
  await peer.until(null);
  const details = await peer.transport.inspect();
  assert.deepEqual(Object.keys(details), [
    "stream",
    "consumer",
    "js_api_prefix",
    "jetstream_available",
    "stream_messages",
    "stream_bytes",
    "stream_first_seq",
    "stream_last_seq",
    "consumer_num_pending",
    "stream_info",
    "consumer_info",
  ]);
  assert.deepEqual(
    [details.stream, details.consumer, details.js_api_prefix, details.stream_messages],
    ["proxy", "nats-proxy-responses-edge", null, 0],
  );
});
