import assert from "node:assert/strict";
import { base64Length, jsonStringBytes } from "../../lib/protocol/json.ts";
import { decodeBase64, encodeBase64 } from "../../lib/protocol/base64.ts";
import { peerInfoJson, readPeerInfo } from "../../lib/protocol/peer.ts";
import {
  decodeResponseInfo,
  encodeResponseInfo,
  ResponseInfoCache,
} from "../../lib/protocol/response_info.ts";
import { octets } from "../helpers/bytes.ts";

const PEER = { instance: "i-1", features: ["raw"], maxMsg: 1048576, ttlMs: 30000, window: 65536 };
const text = (data: Uint8Array) => new TextDecoder().decode(data);

Deno.test("readPeerInfo reads what peerInfoJson writes", () => {
  assert.equal(
    JSON.stringify(peerInfoJson(PEER)),
    '{"v":1,"instance":"i-1","features":["raw"],"max_msg":1048576,"ttl_ms":30000,"window":65536}',
  );
  assert.deepEqual(readPeerInfo(peerInfoJson(PEER)), PEER);
});

Deno.test("readPeerInfo ignores unknown members, features and a higher version", () => {
  const later = {
    ...peerInfoJson(PEER),
    v: 9,
    features: ["raw", "x", 7, null],
    epoch: "e",
    more: {},
  };
  assert.deepEqual(readPeerInfo(later), { ...PEER, features: ["raw", "x"] });
  const odd = { v: 1, instance: "i-1", features: "raw", max_msg: -1, ttl_ms: 1.5, window: "7" };
  assert.deepEqual(readPeerInfo(odd), {
    instance: "i-1",
    features: [],
    maxMsg: 0,
    ttlMs: 0,
    window: 0,
  });
});

Deno.test("readPeerInfo takes what is no natsway object for a Ruby peer", () => {
  for (
    const value of [
      undefined,
      null,
      7,
      "x",
      [],
      {},
      { v: 0, instance: "i" },
      { v: "1", instance: "i" },
      { v: 1 },
      { v: 1, instance: "" },
      { v: 1, instance: "a.b" },
      { v: 1, instance: "x".repeat(65) },
    ]
  ) {
    assert.equal(readPeerInfo(value), null, JSON.stringify(value));
  }
});

Deno.test("The info of a head has golden octets, and a code only in a failure", () => {
  const info = { receiverServiceId: "worker-1", peer: PEER, code: null };
  const golden = '{"receiver_service_id":"worker-1","natsway":{"v":1,"instance":"i-1",' +
    '"features":["raw"],"max_msg":1048576,"ttl_ms":30000,"window":65536}}';
  assert.equal(text(encodeResponseInfo(info)), golden);
  assert.deepEqual(decodeResponseInfo(octets(golden)), info);
  const failed = { ...info, code: "target_refused" };
  assert.equal(text(encodeResponseInfo(failed)), golden.slice(0, -1) + ',"code":"target_refused"}');
  assert.deepEqual(decodeResponseInfo(encodeResponseInfo(failed)), failed);
});

Deno.test("decodeResponseInfo refuses what names no receiver or no natsway", () => {
  for (const value of ["", "{", "[]", "{}", '{"receiver_service_id":"a"}', '{"natsway":{}}']) {
    assert.equal(decodeResponseInfo(octets(value)), null, value);
  }
});

Deno.test("ResponseInfoCache remembers a few peers, and failures of none", () => {
  const cache = new ResponseInfoCache(2);
  const info = (name: string, code: string | null = null) =>
    encodeResponseInfo({ receiverServiceId: name, peer: PEER, code });
  const first = cache.read(info("a"));
  assert.equal(first?.receiverServiceId, "a");
  assert.equal(cache.read(info("a")), first, "the same object: it was not parsed again");
  const failed = cache.read(info("a", "gap"));
  assert.equal(failed?.code, "gap");
  assert.notEqual(cache.read(info("a", "gap")), failed);
  cache.read(info("b"));
  cache.read(info("c"));
  assert.notEqual(cache.read(info("a")), first, "the oldest went");
  assert.equal(cache.read(octets("{}")), null);
});

Deno.test("The cache keeps its own copy of an info whose buffer is used again", () => {
  const cache = new ResponseInfoCache();
  const buffer = encodeResponseInfo({ receiverServiceId: "aaaa", peer: PEER, code: null });
  cache.read(buffer);
  buffer.set(encodeResponseInfo({ receiverServiceId: "bbbb", peer: PEER, code: null }));
  assert.equal(cache.read(buffer)?.receiverServiceId, "bbbb");
});

Deno.test("Base64 is that of RFC 4648 section 10", () => {
  for (
    const [plain, coded] of [
      ["", ""],
      ["f", "Zg=="],
      ["fo", "Zm8="],
      ["foo", "Zm9v"],
      ["foob", "Zm9vYg=="],
      ["fooba", "Zm9vYmE="],
      ["foobar", "Zm9vYmFy"],
      ["\xfb\xff\xfe", "+//+"],
    ] as const
  ) {
    assert.equal(encodeBase64(octets(plain)), coded);
    assert.deepEqual(decodeBase64(coded), octets(plain));
    assert.equal(base64Length(plain.length), coded.length);
  }
});

Deno.test("decodeBase64 is strict", () => {
  for (
    const coded of [
      "Z",
      "Zg",
      "Zg=",
      "Zg===",
      "Z===",
      "=",
      "====",
      "Zm9v\n",
      "Zm 9",
      "-_--",
      "Zg==Zg==",
      "Zmé9",
    ]
  ) {
    assert.equal(decodeBase64(coded), null, coded);
  }
});

Deno.test("jsonStringBytes counts what JSON.stringify makes", () => {
  const encoder = new TextEncoder();
  for (const plain of ["", "abc", 'a"b\\c', "\b\f\n\r\t", "\0\x01\x1f\x7f", "ü€😀", "\u2028"]) {
    const want = encoder.encode(JSON.stringify(plain)).length;
    assert.equal(jsonStringBytes(plain, encoder.encode(plain).length), want, JSON.stringify(plain));
  }
});
