import assert from "node:assert/strict";
import {
  adoptDurable,
  planeConsumerConfig,
  planeConsumerName,
  poolCancelConsumerName,
  requestConsumerConfig,
  type SentConfig,
} from "../../../lib/transport/jetstream/consumer_configs.ts";

const SETTINGS = {
  stream: "proxy",
  base: "nats-proxy",
  serviceId: "srv-1",
  responseTimeoutMs: 30_000,
  streamResponseTimeoutMs: 30_000,
};

Deno.test("the durable is made with the octets that nats-proxy would send", () => {
  assert.equal(
    JSON.stringify(requestConsumerConfig(SETTINGS, "proxy.requests.>")),
    '{"durable_name":"nats-proxy","ack_policy":"explicit","deliver_policy":"new",' +
      '"filter_subject":"proxy.requests.>","max_ack_pending":200,"max_waiting":20,' +
      '"ack_wait":60000000000,"max_deliver":3}',
  );
});

Deno.test("ack_wait is the larger timeout and 30 s", () => {
  const ackWait = (responseTimeoutMs: number, streamResponseTimeoutMs: number) =>
    requestConsumerConfig({ ...SETTINGS, responseTimeoutMs, streamResponseTimeoutMs }, "x.>")
      .ack_wait;
  assert.equal(ackWait(5000, 90_000), 120_000_000_000);
  assert.equal(ackWait(45_500, 0), 75_500_000_000);
});

Deno.test("a plane's consumer has a name, a filter and a time of inactivity", () => {
  const name = planeConsumerName(SETTINGS, "sessions.upstream");
  assert.equal(
    JSON.stringify(planeConsumerConfig(SETTINGS, name, "proxy.sessions.upstream.srv-1.>")),
    '{"name":"nats-proxy-sessions-upstream-srv-1","ack_policy":"explicit",' +
      '"deliver_policy":"new","filter_subject":"proxy.sessions.upstream.srv-1.>",' +
      '"inactive_threshold":90000000000}',
  );
});

Deno.test("consumer names are those of the contract", () => {
  assert.deepEqual(
    (["responses", "sessions.downstream", "sessions.upstream", "control", "cancel"] as const)
      .map((plane) => planeConsumerName(SETTINGS, plane)),
    [
      "nats-proxy-responses-srv-1",
      "nats-proxy-sessions-downstream-srv-1",
      "nats-proxy-sessions-upstream-srv-1",
      "nats-proxy-control-srv-1",
      "nats-proxy-cancel-srv-1",
    ],
  );
  assert.equal(poolCancelConsumerName(SETTINGS), "nats-proxy-cancel-pool-srv-1");
});

const LISTEN = "to.proxy.requests.>";
const existing = (filter: string, more: SentConfig = {}): SentConfig => ({
  ...requestConsumerConfig(SETTINGS, filter),
  ...more,
});

Deno.test("a durable with either form of LISTEN_SUBJECT is adopted", () => {
  for (const filter of [LISTEN, "proxy.requests.>"]) {
    assert.deepEqual(adoptDurable(SETTINGS, LISTEN, existing(filter)), {
      kind: "adopt",
      differences: [],
    });
  }
  const { filter_subject: _, ...rest } = existing("x");
  assert.equal(
    adoptDurable(SETTINGS, LISTEN, { ...rest, filter_subjects: [LISTEN] }).kind,
    "adopt",
  );
});

Deno.test("other limits are named and adopted", () => {
  assert.deepEqual(
    adoptDurable(SETTINGS, LISTEN, existing(LISTEN, { ack_wait: 5e9, max_deliver: -1 })),
    {
      kind: "adopt",
      differences: [
        "ack_wait 5000000000 instead of 60000000000",
        "max_deliver -1 instead of 3",
      ],
    },
  );
});

Deno.test("another filter, a push consumer and one without settlements are refused", () => {
  const refused = (config: SentConfig) => {
    const adoption = adoptDurable(SETTINGS, LISTEN, config);
    return adoption.kind === "refuse" ? adoption.reason : "";
  };
  assert.match(refused(existing("other.>")), /nats-proxy.*proxy.*other\.>.*to\.proxy\.requests/);
  assert.match(refused(existing("")), /filter none/);
  assert.match(
    refused({ ...existing(""), filter_subjects: [LISTEN, "x"] }),
    /to\.proxy\.requests\.>, x/,
  );
  assert.match(refused(existing(LISTEN, { deliver_subject: "push" })), /push consumer/);
  assert.match(refused(existing(LISTEN, { ack_policy: "none" } as SentConfig)), /ack policy none/);
});
