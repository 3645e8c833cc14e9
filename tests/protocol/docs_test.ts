/**
 * The golden blocks of docs/protocol.md against what the code encodes.
 * @module
 */
import assert from "node:assert/strict";
import { encodeCancel } from "../../lib/protocol/cancel.ts";
import { encodeCredit } from "../../lib/protocol/credit.ts";
import { encodeHttpRequest } from "../../lib/protocol/envelope.ts";
import { encodeResponseError } from "../../lib/protocol/events.ts";
import {
  encodeClose,
  encodeDataPrefix,
  encodeEof,
  encodeGone,
  encodeHeadPrefix,
  encodeProbe,
  encodeWindow,
} from "../../lib/protocol/frames.ts";
import { encodeHello } from "../../lib/protocol/hello.ts";
import { encodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { encodeSessionEstablished, encodeSessionRequest } from "../../lib/protocol/session.ts";
import { concat, octets } from "../helpers/bytes.ts";

const PAGE = Deno.readTextFileSync(new URL("../../docs/protocol.md", import.meta.url));
const ID = "00112233445566778899aabbccddeeff";
const EPOCH = octets("\xa1\xa2\xa3\xa4\xa5\xa6\xa7\xa8");
const NOW = new Date("2026-06-02T08:15:30Z");

const requester = {
  instance: "0123456789abcdef0123456789abcdef",
  features: ["raw"],
  maxMsg: 1_048_576,
  ttlMs: 30_000,
  window: 262_144,
};
const head = {
  status: 200,
  reason: octets(""),
  info: octets("{}"),
  fields: octets("A: b\r\n"),
  declaredLength: 5,
};
const receiver = {
  receiverServiceId: "worker-1",
  peer: {
    instance: "fedcba9876543210fedcba9876543210",
    features: ["raw"],
    maxMsg: 1_048_576,
    ttlMs: 0,
    window: 0,
  },
};

/** By the name that stands in the page. */
const ENCODED: Readonly<Record<string, Uint8Array>> = {
  envelope: encodeHttpRequest({
    requestId: ID,
    replyTo: `from.proxy.responses.edge-a.${ID}`,
    method: "POST",
    path: "/orders?draft=1",
    headers: { accept: "*/*", "content-type": "application/json" },
    head: [
      ["Host", "shop.test"],
      ["Accept", "*/*"],
      ["Content-Type", "application/json"],
      ["Content-Length", "14"],
    ],
    body: { kind: "text", text: '{"sku": "A-1"}' },
    peer: requester,
  }).slice(),
  head: concat([encodeHeadPrefix(EPOCH, head, true), octets("hello")]),
  info: encodeResponseInfo({ ...receiver, code: null }),
  "info-failure": encodeResponseInfo({ ...receiver, code: "target_refused" }),
  data: concat([encodeDataPrefix(EPOCH, 4097, false), octets("abc")]),
  fin: concat([encodeDataPrefix(EPOCH, 4097, true), octets("abc")]),
  eof: encodeEof(EPOCH, 4100),
  close: encodeClose(EPOCH, 4100, "reset"),
  gone: encodeGone(EPOCH, "gone"),
  probe: encodeProbe(EPOCH, 5_000_000_000, 7, "worker-1"),
  window: encodeWindow(EPOCH, 4100, 266_244, 7),
  resend: encodeWindow(EPOCH, 4100, 266_244, 7, true),
  credit: encodeCredit(
    { requestId: ID, direction: "response", bytes: 1_048_576, serviceId: "edge-a" },
    NOW,
  ),
  cancel: encodeCancel({
    requestId: ID,
    reason: "downstream_disconnect",
    serviceId: "edge-a",
    epoch: "a1a2a3a4a5a6a7a8",
  }, NOW),
  "session-request": encodeSessionRequest({
    requestId: ID,
    replyTo: `from.proxy.responses.edge-a.${ID}`,
    host: "db.lan",
    port: 5432,
    ingressKind: "http_connect",
    method: "CONNECT",
    requesterServiceId: "edge-a",
    peer: requester,
  }).slice(),
  "session-established": encodeSessionEstablished({
    sessionId: ID,
    bindHost: "10.3.0.9",
    bindPort: 41_822,
    ingressKind: "http_connect",
    receiverServiceId: "worker-1",
    natsway: { peer: { ...receiver.peer, window: 262_144 }, epoch: EPOCH },
  }),
  hello: encodeHello({ requestId: ID, replyTo: `from.proxy.responses.edge-a.${ID}` }),
  "response-error": encodeResponseError(
    "Upstream unavailable: the upstream closed",
    "target_broken",
  ),
};

function hex(bytes: Uint8Array): string {
  return Array.from(bytes, (octet) => octet.toString(16).padStart(2, "0")).join(" ");
}

Deno.test("docs/protocol.md shows what the code encodes, octet for octet", () => {
  const seen: string[] = [];
  for (const [, kind, name, block] of PAGE.matchAll(/^ *```(\w+) golden=(\S+)\n([^]*?)^ *```$/gm)) {
    const encoded = ENCODED[name!];
    assert.ok(encoded !== undefined, `the page shows ${name}, which the test does not know`);
    seen.push(name!);
    const shown = kind === "json"
      ? JSON.stringify(JSON.parse(block!))
      : block!.trim().replace(/\s+/g, " ");
    assert.equal(shown, kind === "json" ? new TextDecoder().decode(encoded) : hex(encoded), name);
  }
  assert.deepEqual(seen.sort(), Object.keys(ENCODED).sort(), "every form is shown once");
});
