import assert from "node:assert/strict";
import { headFrame, RequesterRig } from "../helpers/unit_requester.ts";

Deno.test("A response head over MAX_HEADER_BYTES is answered 502 and its owner cancelled", async () => {
  using rig = new RequesterRig({ maxHeaderBytes: 1000 });
  const sent = rig.send();
  rig.answer(sent, headFrame({ fields: `X: ${"y".repeat(1000)}\r\n`, body: "hello" }));
  const text = await sent.client.text();
  assert.match(text, /^HTTP\/1.1 502 /);
  assert.match(text, /MAX_HEADER_BYTES \(1000\).*"code":"head_too_large"/);
  assert.equal(rig.end, "head_too_large");
  assert.equal(rig.transport.to("to.proxy.cancel.").length, 1);
});
