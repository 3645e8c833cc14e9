import assert from "node:assert/strict";
import { planePatterns } from "../../../lib/protocol/subjects.ts";
import { EventLog } from "../../helpers/wait.ts";
import { decode, encode } from "../support.ts";
import { JsServer, Peer, STREAM } from "./support.ts";

/** The mapping of wire-protocol.md section 1.1, with service exports of the usual kind. */
const ACCOUNTS = `
accounts {
  SERVER {
    jetstream: enabled
    users: [{user: s, password: s}]
    exports: [
      {stream: "proxy.responses.>"}, {stream: "proxy.sessions.downstream.>"}
      {service: "$JS.API.>"}, {service: "$JS.ACK.>"}
    ]
    imports: [
      {stream: {account: CLIENT, subject: "to.proxy.requests.>"}, to: "proxy.requests.>"}
      {stream: {account: CLIENT, subject: "to.proxy.sessions.upstream.>"}, to: "proxy.sessions.upstream.>"}
      {stream: {account: CLIENT, subject: "to.proxy.cancel.>"}, to: "proxy.cancel.>"}
      {stream: {account: CLIENT, subject: "to.proxy.control.>"}, to: "proxy.control.>"}
      {service: {account: CLIENT, subject: "_INBOX.>"}}
    ]
  }
  CLIENT {
    users: [{user: c, password: c}]
    exports: [
      {stream: "to.proxy.requests.>"}, {stream: "to.proxy.sessions.upstream.>"}
      {stream: "to.proxy.cancel.>"}, {stream: "to.proxy.control.>"}
      {service: "_INBOX.>"}
    ]
    imports: [
      {stream: {account: SERVER, subject: "proxy.responses.>"}, to: "from.proxy.responses.>"}
      {stream: {account: SERVER, subject: "proxy.sessions.downstream.>"}, to: "from.proxy.sessions.downstream.>"}
      {service: {account: SERVER, subject: "$JS.API.>"}, to: "JS.PROXY.API.>"}
      {service: {account: SERVER, subject: "$JS.ACK.>"}}
    ]
  }
}
no_auth_user: s
`;

Deno.test("a requester in another account works through the mapped API, in order and without loss", async () => {
  await using js = await JsServer.start({ config: ACCOUNTS });
  const client = `nats://c:c@127.0.0.1:${js.server.port}`;
  await using requester = new Peer(client, "edge", {
    apiPrefix: "JS.PROXY.API",
    subjects: {
      requests: "to.proxy.requests.>",
      ...planePatterns({ request: "to.proxy", response: "from.proxy" }, "edge"),
    },
  });
  const answers = new EventLog<string>();
  const frames = new EventLog<string>();
  requester.transport.consumePlane("responses", ({ token, data }) => {
    answers.add(`${token} ${decode(data)}`);
  });
  requester.transport.consumePlane("sessions.downstream", ({ data }) => {
    frames.add(decode(data.subarray(0, 5)));
  });
  await using receiver = new Peer(js.server.url, "worker");
  const upstream = new EventLog<string>();
  receiver.transport.consumeRequests((delivery) => {
    receiver.transport.publish(`proxy.responses.edge.${delivery.token}`, [delivery.data]);
    delivery.ack();
  }, { free: () => 10 });
  receiver.transport.consumePlane("sessions.upstream", ({ data }) => upstream.add(decode(data)));
  await Promise.all([requester.until(null), receiver.until(null)]);

  assert.ok(requester.transport.publish("to.proxy.requests.edge.id1", [encode("hello")]));
  await answers.find((text) => text === "id1 hello", { ms: 5000, what: "the answer" });
  assert.ok(requester.transport.publish("to.proxy.sessions.upstream.worker.id1", [encode("up")]));
  await upstream.find((text) => text === "up", { ms: 5000, what: "the client's bytes" });

  const count = 1500;
  const filler = new Uint8Array(2000);
  for (let i = 0; i < count; i++) {
    if (receiver.transport.congested) await receiver.transport.drained();
    const number = encode(String(i).padStart(5, "0"));
    assert.ok(receiver.transport.publish("proxy.sessions.downstream.edge.id1", [number, filler]));
  }
  await frames.find(() => frames.events.length === count, { ms: 20_000, what: "all frames" });
  assert.deepEqual(
    frames.events,
    Array.from({ length: count }, (_, i) => String(i).padStart(5, "0")),
  );
  assert.deepEqual([requester.transport.counts.lost, receiver.transport.counts.lost], [0, 0]);

  const gone = requester.until(/consumer nats-proxy-responses-edge/);
  await js.manager.consumers.delete(STREAM, "nats-proxy-responses-edge");
  await gone;
  await requester.until(null);
  requester.transport.publish("to.proxy.requests.edge.id2", [encode("again")]);
  await answers.find((text) => text === "id2 again", { ms: 5000, what: "the answer" });
});
