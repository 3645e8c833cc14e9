/**
 * Reply subjects that a peer names: what may be published to stays in the bridge's own plane.
 * @module
 */
import assert from "node:assert/strict";
import { isReplySubject, resolveReply } from "../../lib/protocol/subjects.ts";
import { checkPublishSubject } from "../../lib/transport/publish_encoder.ts";
import { fuzz, mutateOctets } from "../helpers/unit_fuzz.ts";

const encoder = new TextEncoder();

Deno.test("Whatever the reply subject, what may be used can be published to and stays in its plane", async () => {
  const pieces = [
    "from.",
    "proxy",
    ".responses.",
    "a",
    ".",
    "q",
    "*",
    ">",
    " ",
    "\r\n",
    "\0",
    "to.",
  ];
  await fuzz(7_000_003, (random) => {
    const subject = random.below(2) === 0
      ? Array.from({ length: random.below(10) }, () => random.pick(pieces)).join("")
      : new TextDecoder().decode(
        mutateOctets(encoder.encode("from.proxy.responses.edge-a.q"), random),
      );
    const root = random.pick(["from.proxy", "proxy"]);
    const used = resolveReply(subject, root, random.pick(["q", null]));
    if (used !== null) {
      checkPublishSubject(used);
      assert.match(used, /^(?:from\.){0,2}proxy\.responses\.[^.*>\s]+\.[A-Za-z0-9_-]+$/);
    }
    if (isReplySubject(subject, root, null)) checkPublishSubject(subject);
    return subject;
  });
});
