import assert from "node:assert/strict";
import { decodeResponseInfo } from "../../lib/protocol/response_info.ts";
import { EDGE, ReceiverRig } from "../helpers/unit_receiver.ts";

function hello(id: string, replyTo: string): string {
  return JSON.stringify({ type: "hello", request_id: id, reply_to: replyTo });
}

Deno.test("a receiver answers a hello with its info, its own limit in it", async () => {
  await using rig = await ReceiverRig.start();
  rig.transport.maxPayload = 70_000;
  rig.transport.deliver("pool", "h1", hello("h1", `from.proxy.responses.${EDGE}.h1`));
  const [sent] = rig.transport.all;
  assert.equal(sent?.subject, `from.proxy.responses.${EDGE}.h1`);
  assert.equal(decodeResponseInfo(sent.payload)?.peer.maxMsg, 70_000);
});

Deno.test("a hello whose subjects do not fit is dropped and answered nowhere", async () => {
  await using rig = await ReceiverRig.start();
  for (
    const [token, id, replyTo] of [
      ["other", "h1", `from.proxy.responses.${EDGE}.h1`],
      ["h1", "h1", `from.proxy.responses.${EDGE}.h2`],
      ["h1", "h1", "$SYS.REQ.SERVER.PING"],
      ["h1", "h1", `to.proxy.requests.${EDGE}.h1`],
    ] as const
  ) rig.transport.deliver("pool", token, hello(id, replyTo));
  assert.deepEqual(rig.transport.all, []);
  assert.equal(rig.receiver.dropped.get("cancel that cannot be read"), 4);
});
