import assert from "node:assert/strict";
import { connectTransport } from "../../../lib/transport/jetstream/auto_transport.ts";
import { type ApiFailure, crossesAccounts } from "../../../lib/transport/jetstream/management.ts";
import { decideBackend, fixedBackend } from "../../../lib/transport/jetstream/resolver.ts";
import type { AutoTransport } from "../../../lib/transport/jetstream/auto_transport.ts";
import { planePatterns } from "../../../lib/protocol/subjects.ts";
import { freePort, startNats } from "../../helpers/nats_server.ts";
import { EventLog, within } from "../../helpers/wait.ts";
import { decode, encode, RecordingLogger, serversOf } from "../support.ts";
import { eventually, JsServer, ROOTS, STREAM } from "./support.ts";

Deno.test("core and jetstream are what the setting says, auto is not known by itself", () => {
  assert.deepEqual(fixedBackend("core"), { backend: "core", reason: "NATS_MODE=core" });
  assert.deepEqual(fixedBackend("jetstream"), {
    backend: "jetstream",
    reason: "NATS_MODE=jetstream",
  });
  assert.equal(fixedBackend("auto"), null);
});

Deno.test("auto decides by a sure answer alone", () => {
  const rows: [ApiFailure["kind"] | "info", "core" | "jetstream" | null][] = [
    ["info", "jetstream"],
    ["stream_not_found", "core"],
    ["not_enabled", "core"],
    ["no_responders", "core"],
    ["timeout", null],
    ["other", null],
    ["consumer_not_found", null],
  ];
  for (const [kind, backend] of rows) {
    const decision = decideBackend("s", kind === "info" ? "info" : { kind, text: "why" });
    assert.equal(decision.kind === "resolved" ? decision.resolution.backend : null, backend, kind);
  }
});

Deno.test("the server's own API prefix is told from one of another account", () => {
  assert.ok(!crossesAccounts(null));
  assert.ok(!crossesAccounts("$JS.API"));
  assert.ok(!crossesAccounts("$JS.hub.API"));
  assert.ok(crossesAccounts("JS.PROXY.API"));
});

class Auto implements AsyncDisposable {
  readonly logger = new RecordingLogger();
  readonly readiness = new EventLog<string | null>();
  readonly transport: AutoTransport;

  constructor(url: string, serviceId: string, mode: "auto" | "core" | "jetstream" = "auto") {
    this.transport = connectTransport({
      mode,
      servers: serversOf(url),
      logger: this.logger,
      stream: STREAM,
      base: "nats-proxy",
      serviceId,
      responseTimeoutMs: 30_000,
      streamResponseTimeoutMs: 30_000,
      apiPrefix: null,
      subjects: {
        requests: "proxy.requests.>",
        queueGroup: "nats-proxy",
        ...planePatterns(ROOTS, serviceId),
      },
    });
    this.transport.onReadiness((reason) => this.readiness.add(reason));
  }

  async ready(): Promise<void> {
    await eventually(10_000, () => {
      const { notReady, connected, backend } = this.transport.status();
      assert.deepEqual([notReady, connected, backend === "auto"], [null, true, false]);
      return Promise.resolve();
    });
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await within(this.transport.close(), 10_000, "the end of close()");
  }
}

async function roundTrip(url: string, backend: "core" | "jetstream", mode?: "core" | "jetstream") {
  await using requester = new Auto(url, "edge", mode);
  await using receiver = new Auto(url, "worker", mode);
  const answers = new EventLog<string>();
  requester.transport.consumePlane("responses", ({ data }) => answers.add(decode(data)));
  const consumer = receiver.transport.consumeRequests((delivery) => {
    receiver.transport.publish(`proxy.responses.edge.${delivery.token}`, [delivery.data]);
    delivery.ack();
  });
  await Promise.all([requester.ready(), receiver.ready()]);
  await Promise.all([requester.transport.flush(), receiver.transport.flush()]);
  assert.equal(requester.transport.status().backend, backend);
  assert.ok(requester.transport.publish("proxy.requests.edge.a", [encode("hello")]));
  await answers.find((text) => text === "hello", { ms: 5000, what: "the answer" });
  consumer.more();
  await consumer.pause();
  const details = await requester.transport.inspect();
  if (backend === "core") {
    assert.deepEqual(details, { backend_mode: "core", jetstream_available: false });
    assert.equal(requester.transport.counts, null);
  } else {
    assert.equal(details.jetstream_available, true);
    assert.equal(details.consumer, "nats-proxy-responses-edge");
    assert.equal(details.stream_messages, (await requester.transport.inspect()).stream_last_seq);
  }
}

Deno.test("auto finds the stream and carries everything through it", async () => {
  await using js = await JsServer.start();
  await roundTrip(js.server.url, "jetstream");
});

Deno.test("auto takes Core when there is no stream, and when the server has no JetStream", async () => {
  await using js = await JsServer.start({ subjects: null });
  await roundTrip(js.server.url, "core");
  await using plain = await startNats();
  await roundTrip(plain.url, "core");
});

Deno.test("auto takes Core when JetStream is off for the account", async () => {
  await using js = await JsServer.start({
    subjects: null,
    config: `accounts { A { users: [{user: a, password: a}] }, B { jetstream: enabled,
      users: [{user: b, password: b}] } }\nno_auth_user: b`,
  });
  await roundTrip(`nats://a:a@127.0.0.1:${js.server.port}`, "core");
});

Deno.test("a chosen mode asks nothing", async () => {
  await using js = await JsServer.start();
  await roundTrip(js.server.url, "core", "core");
  await roundTrip(js.server.url, "jetstream", "jetstream");
});

Deno.test("auto waits for the first connection", async () => {
  const port = freePort();
  await using auto = new Auto(`nats://127.0.0.1:${port}`, "edge");
  assert.equal(auto.transport.status().backend, "auto");
  assert.match(auto.transport.status().notReady ?? "", /asking whether stream proxy/);
  assert.equal(auto.transport.publish("proxy.requests.edge.a", []), false);
  await using _server = await startNats({ port });
  await auto.ready();
  assert.equal(auto.transport.status().backend, "core");
});

Deno.test("auto does not decide while the API is silent or fails", async () => {
  await using server = await startNats();
  await using operator = new Auto(server.url, "operator", "core");
  await operator.ready();
  let answer = "";
  operator.transport.link.subscribe({
    subject: "$JS.API.STREAM.INFO.proxy",
    label: "a server in trouble",
    deliver: (_token, _data, reply) => {
      if (answer !== "") operator.transport.link.publish(reply, [encode(answer)]);
    },
  });
  await operator.transport.flush();
  await using auto = new Auto(server.url, "edge");
  await auto.logger.lines.find(({ fields }) => /no answer in time/.test(String(fields.error)), {
    ms: 10_000,
    what: "the silence in the log",
  });
  answer = JSON.stringify({
    error: { code: 503, err_code: 10008, description: "JetStream system temporarily unavailable" },
  });
  await auto.logger.lines.find(({ fields }) => /unavailable/.test(String(fields.error)), {
    ms: 10_000,
    what: "the failure in the log",
  });
  assert.equal(auto.transport.status().backend, "auto");
  answer = JSON.stringify({
    error: { code: 404, err_code: 10059, description: "stream not found" },
  });
  await auto.ready();
  assert.equal(auto.transport.status().backend, "core");
});
