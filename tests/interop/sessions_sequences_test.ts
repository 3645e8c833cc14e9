import assert from "node:assert/strict";
import { latin1, octets } from "../helpers/bytes.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { startUpstream, type UpstreamConnection } from "../helpers/upstream.ts";
import { EventLog } from "../helpers/wait.ts";
import { type BareMessage, BareNats } from "./bare_nats.ts";
import { lastToken, parseObject } from "./ruby_wire.ts";
import { connectTunnel, socksPort, socksTunnel, TUNNEL_SETTINGS } from "./tunnels.ts";

const ROOTS = { NATS_REQUEST_SUBJECT_ROOT: "proxy", NATS_RESPONSE_SUBJECT_ROOT: "proxy" };
const HELLO = "\x00\xffSELECT 1";
const REPLY = "\xfe\x00row";

const KINDS = [
  { kind: "http_connect", method: "CONNECT", flow: "tcp_stream" },
  { kind: "socks5", method: "SOCKS5_CONNECT", flow: "socks5_stream" },
] as const;

/** Subject, frame type and payload of a message; the times of credits are made equal. */
function line(message: BareMessage): string {
  const text = latin1(message.data)
    .replace(/"timestamp":"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ"/, '"timestamp":"T"');
  const headers = message.headers.map(([name, value]) => `${name}: ${value}`).join(", ");
  return `${message.subject} [${headers}] ${text}`;
}

/** One side of the sequence, as a test writes it by hand. */
class Peer {
  readonly #nats: BareNats;
  readonly log = new EventLog<BareMessage>();

  private constructor(nats: BareNats) {
    this.#nats = nats;
  }

  static async listen(nats: BareNats, subjects: readonly string[]): Promise<Peer> {
    const peer = new Peer(nats);
    for (const subject of subjects) nats.subscribe(subject, (message) => peer.log.add(message));
    await nats.flush();
    return peer;
  }

  /** The message with this index, waited for. */
  async at(index: number): Promise<BareMessage> {
    return await this.log.find(() => true, {
      from: index,
      ms: 8_000,
      what: `message ${index}`,
      describe: () => this.log.events.map(line).join("\n"),
    });
  }

  frame(subject: string, type: string, data: string): void {
    this.#nats.publish(subject, octets(data), {
      headers: [["Nats-Session-Id", lastToken(subject)], ["Nats-Frame-Type", type]],
    });
  }
}

const frameLine = (subject: string, type: string, data: string) =>
  `${subject} [Nats-Session-Id: ${lastToken(subject)}, Nats-Frame-Type: ${type}] ${data}`;

function creditText(id: string, direction: string, serviceId: string, timestamp: string): string {
  return JSON.stringify({
    type: "flow_credit",
    request_id: id,
    direction,
    bytes: 1_048_576,
    service_id: serviceId,
    timestamp,
  });
}

/** Answers the greeting; waits for the end. */
async function database(connection: UpstreamConnection): Promise<void> {
  assert.equal(latin1(await connection.readExactly(HELLO.length)), HELLO);
  await connection.write(octets(REPLY));
  assert.equal(await connection.waitEnd(), "fin");
}

Deno.test("The sessions of wire-protocol section 12, octet for octet, with natsway as worker-1", async (t) => {
  await using nats = await startNats();
  await using target = await startUpstream(database);
  await using _receiver = await startNatsway("receiver", {
    ...ROOTS,
    NATS_URL: nats.url,
    SERVICE_ID: "worker-1",
    TARGET_ALLOW: "127.0.0.1",
  });
  await using raw = await BareNats.connect(nats.port);
  for (const [index, { kind, method, flow }] of KINDS.entries()) {
    await t.step(method, async () => {
      const id = `77de${index}`.padEnd(32, "0");
      const [events, down, up] = [
        `proxy.responses.edge-a.${id}`,
        `proxy.sessions.downstream.edge-a.${id}`,
        `proxy.sessions.upstream.worker-1.${id}`,
      ];
      const peer = await Peer.listen(raw, [events, down]);
      raw.publish(
        `proxy.requests.edge-a.${id}`,
        `{"type":"request","request_id":"${id}","reply_to":"${events}","operation":"tcp_stream",` +
          `"payload":{"host":"127.0.0.1","port":${target.port},"ingress_kind":"${kind}",` +
          `"method":"${method}","requester_service_id":"edge-a"}}`,
      );
      const established = line(await peer.at(0));
      const connection = target.connections.at(-1);
      assert.equal(
        established,
        `${events} [] {"type":"session_established","session_id":"${id}","bind_host":"127.0.0.1",` +
          `"bind_port":${connection?.remotePort},"ingress_kind":"${kind}",` +
          `"receiver_service_id":"worker-1","flow_kind":"${flow}"}`,
      );
      const credit = creditText(id, "upstream", "worker-1", "T");
      assert.equal(line(await peer.at(1)), frameLine(down, "session_credit_upstream", credit));
      const back = creditText(id, "downstream", "edge-a", "2026-06-02T08:15:30Z");
      peer.frame(up, "session_credit_downstream", back);
      peer.frame(up, "session_data", HELLO);
      assert.equal(line(await peer.at(2)), frameLine(down, "session_data_downstream", REPLY));
      peer.frame(up, "session_close", '{"type":"session_close","reason":"client_closed"}');
      // What its target took is granted again at the end; a Ruby requester ignores it by then.
      const rest = parseObject((await peer.at(3)).data);
      assert.equal(rest?.["bytes"], HELLO.length);
      assert.equal(
        line(await peer.at(4)),
        `${events} [] {"type":"session_close","reason":"target_closed"}`,
      );
      assert.equal(peer.log.events.length, 5);
    });
  }
});

Deno.test("The sessions of wire-protocol section 12, octet for octet, with natsway as edge-a", async (t) => {
  await using nats = await startNats();
  await using requester = await startNatsway("requester", {
    ...ROOTS,
    ...TUNNEL_SETTINGS,
    NATS_URL: nats.url,
    SERVICE_ID: "edge-a",
  });
  await using raw = await BareNats.connect(nats.port);
  for (const { kind, method, flow } of KINDS) {
    await t.step(method, async () => {
      const peer = await Peer.listen(raw, [
        "proxy.requests.>",
        "proxy.sessions.upstream.worker-1.>",
        "proxy.cancel.>",
      ]);
      const opening = kind === "socks5"
        ? socksTunnel(await socksPort(requester), "db.lan", 5432)
        : connectTunnel(requester.port, "db.lan:5432");
      const request = await peer.at(0);
      const id = lastToken(request.subject);
      const [events, down, up] = [
        `proxy.responses.edge-a.${id}`,
        `proxy.sessions.downstream.edge-a.${id}`,
        `proxy.sessions.upstream.worker-1.${id}`,
      ];
      const wanted = `proxy.requests.edge-a.${id} [] {"type":"request","request_id":"${id}",` +
        `"reply_to":"${events}","operation":"tcp_stream","payload":{"host":"db.lan","port":5432,` +
        `"ingress_kind":"${kind}","method":"${method}","requester_service_id":"edge-a"},"natsway":`;
      assert.ok(line(request).startsWith(wanted), line(request));
      raw.publish(
        events,
        `{"type":"session_established","session_id":"${id}","bind_host":"10.3.0.9",` +
          `"bind_port":41822,"ingress_kind":"${kind}","receiver_service_id":"worker-1",` +
          `"flow_kind":"${flow}"}`,
      );
      peer.frame(
        down,
        "session_credit_upstream",
        creditText(id, "upstream", "worker-1", "2026-06-02T08:15:30Z"),
      );
      await using tunnel = await opening;
      assert.equal(
        tunnel.answer,
        kind === "socks5"
          ? "\x05\x00\x00\x01\x0a\x03\x00\x09\xa3\x5e"
          : "HTTP/1.1 200 Connection Established",
      );
      const credit = creditText(id, "downstream", "edge-a", "T");
      assert.equal(line(await peer.at(1)), frameLine(up, "session_credit_downstream", credit));
      await tunnel.socket.write(HELLO);
      assert.equal(line(await peer.at(2)), frameLine(up, "session_data", HELLO));
      peer.frame(down, "session_data_downstream", REPLY);
      assert.equal(latin1(await tunnel.socket.readExactly(REPLY.length)), REPLY);
      await tunnel.socket.closeWrite();
      const close = '{"type":"session_close","reason":"client_closed"}';
      assert.equal(line(await peer.at(3)), frameLine(up, "session_close", close));
      raw.publish(events, '{"type":"session_close","reason":"target_closed"}');
      assert.equal(await tunnel.socket.waitEnd(), "fin");
      const rest = parseObject((await peer.at(4)).data);
      assert.equal(rest?.["bytes"], REPLY.length);
      assert.equal(peer.log.events.length, 5);
    });
  }
});
