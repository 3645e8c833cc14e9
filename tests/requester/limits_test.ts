import assert from "node:assert/strict";
import { dataFrame, headFrame, RequesterRig } from "../helpers/unit_requester.ts";

Deno.test("A receiver that sends without credit to a client that takes nothing is cut off", async () => {
  using rig = new RequesterRig();
  const sent = rig.send();
  sent.client.hold();
  rig.answer(sent, headFrame({ fin: false, body: "abc" }));
  const piece = "x".repeat(500_000);
  let at = 4;
  for (let i = 0; i < 40 && rig.end === ""; i++, at += piece.length) {
    rig.answer(sent, dataFrame(at, piece));
  }
  assert.equal(rig.end, "target_broken");
  assert.ok(at < 6_000_000, `${at} octets were taken`);
  assert.equal(rig.transport.to("to.proxy.cancel.worker-1.").length, 1);
  sent.client.release();
  assert.equal(await sent.client.ended, "broken");
});

Deno.test("A response head over MAX_HEADER_BYTES is answered 502 and its owner cancelled", async () => {
  using rig = new RequesterRig({ maxHeaderBytes: 1000 });
  const sent = rig.send();
  rig.answer(sent, headFrame({ fields: `X: ${"y".repeat(1000)}\r\n`, body: "hello" }));
  const text = await sent.client.text();
  assert.match(text, /^HTTP\/1.1 502 /);
  assert.match(text, /MAX_HEADER_BYTES \(1000\).*"code":"head_too_large"/);
  assert.equal(rig.end, "head_too_large");
});
