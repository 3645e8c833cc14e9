import assert from "node:assert/strict";
import { decodeCancel, encodeCancel, wireTime } from "../../lib/protocol/cancel.ts";
import { octets } from "../helpers/bytes.ts";
import { creditHeaders, creditSizes, encodeCredit, readCredit } from "../../lib/protocol/credit.ts";

const NOW = new Date("2026-06-02T08:15:30.987Z");
const text = (data: Uint8Array) => new TextDecoder().decode(data);
const bytes = (value: unknown) =>
  new TextEncoder().encode(typeof value === "string" ? value : JSON.stringify(value));

/** The grant of the contract's SSE sequence. */
const CREDIT = '{"type":"flow_credit","request_id":"9c41","direction":"response","bytes":1048576,' +
  '"service_id":"edge-a","timestamp":"2026-06-02T08:15:30Z"}';
/** The cancel of the same sequence. */
const CANCEL = '{"type":"cancel","request_id":"9c41","cancel":{"request_id":"9c41",' +
  '"service_id":"edge-a","reason":"downstream_disconnect","timestamp":"2026-06-02T08:15:30Z"}}';

Deno.test("encodeCredit writes the grant of the contract, and readCredit reads it", () => {
  const credit = {
    requestId: "9c41",
    direction: "response",
    bytes: 1048576,
    serviceId: "edge-a",
  } as const;
  assert.equal(text(encodeCredit(credit, NOW)), CREDIT);
  assert.equal(readCredit(bytes(CREDIT), "9c41", "response"), 1048576);
});

Deno.test("creditHeaders names the session and the type of the frame", () => {
  for (
    const [direction, type] of [
      ["response", "response_credit"],
      ["upstream", "session_credit_upstream"],
      ["downstream", "session_credit_downstream"],
    ] as const
  ) {
    assert.equal(
      text(creditHeaders(direction, "9c41")),
      `NATS/1.0\r\nNats-Session-Id: 9c41\r\nNats-Frame-Type: ${type}\r\n\r\n`,
    );
  }
});

Deno.test("readCredit takes numeric strings and ignores what it does not know", () => {
  const value = JSON.parse(CREDIT);
  assert.equal(readCredit(bytes({ ...value, bytes: "262144" }), "9c41", "response"), 262144);
  assert.equal(
    readCredit(bytes({ ...value, epoch: "x", service_id: 7 }), "9c41", "response"),
    1048576,
  );
});

Deno.test("readCredit refuses other flows, other directions and impossible amounts", () => {
  const value = JSON.parse(CREDIT);
  assert.equal(readCredit(bytes(CREDIT), "other", "response"), null);
  assert.equal(readCredit(bytes(CREDIT), "9c41", "upstream"), null);
  for (
    const amount of [0, -1, 1.5, 2 ** 53, "0", "-5", "1e9", "", "0x10", " 7", null, true, [7], {}]
  ) {
    const granted = readCredit(bytes({ ...value, bytes: amount }), "9c41", "response");
    assert.equal(granted, null, JSON.stringify(amount));
  }
  for (const other of ["", "{", "[]", "7", '{"type":"flow_credit"}', '{"type":"x","bytes":5}']) {
    assert.equal(readCredit(bytes(other), "9c41", "response"), null, other);
  }
});

Deno.test("creditSizes follow from max_payload", () => {
  assert.deepEqual(creditSizes(1_048_576), {
    chunk: 32_768,
    initial: 1_048_576,
    batch: 262_144,
    cap: 4_194_304,
  });
  assert.equal(creditSizes(65_536).chunk, 32_768);
  assert.equal(creditSizes(65_535).chunk, 32_767);
  assert.equal(creditSizes(0).chunk, 1);
});

Deno.test("encodeCancel writes the cancel of the contract, with an epoch where there is one", () => {
  const cancel = {
    requestId: "9c41",
    serviceId: "edge-a",
    reason: "downstream_disconnect",
    epoch: null,
  };
  assert.equal(text(encodeCancel(cancel, NOW)), CANCEL);
  assert.deepEqual(decodeCancel(bytes(CANCEL)), cancel);
  const one = { ...cancel, epoch: "a1a2a3a4a5a6a7a8" };
  assert.equal(
    text(encodeCancel(one, NOW)),
    CANCEL.slice(0, -2) + ',"epoch":"a1a2a3a4a5a6a7a8"}}',
  );
  assert.deepEqual(decodeCancel(encodeCancel(one, NOW)), one);
});

Deno.test("decodeCancel takes either request_id, and an empty reason for a client that left", () => {
  const read = (value: unknown) => decodeCancel(bytes(value));
  const none = { reason: "downstream_disconnect", serviceId: "", epoch: null };
  assert.deepEqual(read({ type: "cancel", request_id: "q", cancel: {} }), {
    requestId: "q",
    ...none,
  });
  assert.deepEqual(read({ type: "cancel", cancel: { request_id: "q", reason: "" } }), {
    requestId: "q",
    ...none,
  });
  assert.equal(
    read({ type: "cancel", request_id: "outer", cancel: { request_id: "inner" } })?.requestId,
    "inner",
  );
  assert.equal(
    read({ type: "cancel", request_id: "outer", cancel: { request_id: 7 } })?.requestId,
    "outer",
  );
});

Deno.test("decodeCancel refuses what is no cancel", () => {
  for (
    const value of [
      "",
      "[]",
      "null",
      { type: "request", request_id: "q", cancel: {} },
      { type: "cancel", request_id: "q" },
      { type: "cancel", request_id: "q", cancel: [] },
      { type: "cancel", request_id: 7, cancel: {} },
      { type: "cancel", request_id: "", cancel: { request_id: "" } },
    ]
  ) {
    assert.equal(decodeCancel(bytes(value)), null, JSON.stringify(value));
  }
});

Deno.test("decodeCancel refuses an epoch that is no text: it must not end other executions", () => {
  for (const epoch of [5, true, {}, ["aa"], ""]) {
    const cancel = { request_id: "q", reason: "r", epoch };
    assert.equal(decodeCancel(octets(JSON.stringify({ type: "cancel", cancel }))), null);
  }
  const cancel = { request_id: "q", reason: "r", epoch: null };
  assert.equal(decodeCancel(octets(JSON.stringify({ type: "cancel", cancel })))?.epoch, null);
});

Deno.test("wireTime has whole seconds in UTC", () => {
  assert.equal(wireTime(NOW), "2026-06-02T08:15:30Z");
});
