import assert from "node:assert/strict";
import {
  cancelSubject,
  controlSubject,
  isIdToken,
  isReplySubject,
  isServiceId,
  planePatterns,
  POOL_TOKEN,
  requestSubject,
  resolveReply,
  responseSubject,
  withoutFrom,
} from "../../lib/protocol/subjects.ts";

const DEFAULT = { request: "to.proxy", response: "from.proxy" };
const ID = "9c41";

Deno.test("The subjects are those of the contract's table", () => {
  assert.equal(requestSubject(DEFAULT, "edge-a", ID), "to.proxy.requests.edge-a.9c41");
  assert.equal(responseSubject(DEFAULT, "edge-a", ID), "from.proxy.responses.edge-a.9c41");
  assert.equal(controlSubject(DEFAULT, "worker-1", ID), "to.proxy.control.worker-1.9c41");
  assert.equal(cancelSubject(DEFAULT, "worker-1", ID), "to.proxy.cancel.worker-1.9c41");
  assert.equal(cancelSubject(DEFAULT, POOL_TOKEN, ID), "to.proxy.cancel._pool.9c41");
});

Deno.test("planePatterns hears both forms of the responses, and one of everything else", () => {
  assert.deepEqual(planePatterns(DEFAULT, "s1"), {
    responses: ["from.proxy.responses.s1.>", "proxy.responses.s1.>"],
    sessionsDownstream: ["from.proxy.sessions.downstream.s1.>"],
    sessionsUpstream: ["to.proxy.sessions.upstream.s1.>"],
    control: ["to.proxy.control.s1.>"],
    cancel: ["to.proxy.cancel.s1.>"],
    poolCancel: "to.proxy.cancel._pool.>",
  });
  const plain = planePatterns({ request: "proxy", response: "proxy" }, "s1");
  assert.deepEqual(plain.responses, ["proxy.responses.s1.>"]);
});

/** What nats-proxy does with a reply subject before it publishes an event. */
const rubyReply = (replyTo: string) => withoutFrom(replyTo);
/** What the requester of the row hears: Ruby only its own form, natsway both. */
const rubyPatterns = (root: string) => [`${root}.responses.edge-a.>`];
/** How the two-account mapping shows the server account's subjects to the client account. */
const mapped = (subject: string) => `from.${subject}`;
const hears = (patterns: readonly string[], subject: string) =>
  patterns.some((pattern) => subject.startsWith(pattern.slice(0, -1)));

Deno.test("Every deployment of section 1.1 works in Core once either side is natsway", () => {
  const rows = [
    { name: "default roots", requester: "from.proxy", receiver: "from.proxy", two: false },
    { name: "RES_ROOT=proxy on both", requester: "proxy", receiver: "proxy", two: false },
    { name: "no prefix at all", requester: "proxy", receiver: "proxy", two: false },
    { name: "two accounts", requester: "from.proxy", receiver: "proxy", two: true },
  ];
  for (const { name, requester, receiver, two } of rows) {
    const roots = { request: "to.proxy", response: requester };
    const replyTo = responseSubject(roots, "edge-a", ID);
    const natsway = resolveReply(replyTo, receiver, ID);
    assert.ok(natsway !== null, name);
    for (const [who, published] of [["natsway", natsway], ["Ruby", rubyReply(replyTo)]] as const) {
      const subject = two ? mapped(published) : published;
      const both = planePatterns(roots, "edge-a").responses;
      assert.ok(hears(both, subject), `${name}: natsway requester, ${who} receiver, ${subject}`);
      if (who === "natsway") {
        assert.ok(hears(rubyPatterns(requester), subject), `${name}: Ruby requester, ${subject}`);
      }
    }
  }
});

Deno.test("resolveReply keeps what is below the own root, and strips one from. elsewhere", () => {
  const rows: [string, string, string | null][] = [
    ["from.proxy.responses.a.9c41", "from.proxy", "from.proxy.responses.a.9c41"],
    ["proxy.responses.a.9c41", "from.proxy", "proxy.responses.a.9c41"],
    ["from.proxy.responses.a.9c41", "proxy", "proxy.responses.a.9c41"],
    ["proxy.responses.a.9c41", "proxy", "proxy.responses.a.9c41"],
    ["from.from.proxy.responses.a.9c41", "proxy", "from.proxy.responses.a.9c41"],
    ["from.from.proxy.responses.a.9c41", "from.proxy", "from.proxy.responses.a.9c41"],
    ["from.from.from.proxy.responses.a.9c41", "proxy", null],
    ["a.b.responses.x.9c41", "a.b", "a.b.responses.x.9c41"],
  ];
  for (const [replyTo, root, expected] of rows) {
    assert.equal(resolveReply(replyTo, root, ID), expected, `${replyTo} at ${root}`);
  }
});

Deno.test("A reply subject that could reach anything else is refused", () => {
  const attacks = [
    "",
    "$SYS.REQ.USER.INFO",
    "_INBOX.abc",
    "to.proxy.requests.a.9c41",
    "to.proxy.cancel._pool.9c41",
    "from.proxy.sessions.downstream.a.9c41",
    "other.responses.a.9c41",
    "xfrom.proxy.responses.a.9c41",
    "from.proxyresponses.a.9c41",
    "from.proxy.responses.9c41",
    "from.proxy.responses.a.b.9c41",
    "from.proxy.responses.a.9c41.more",
    "from.proxy.responses.a.other",
    "from.proxy.responses.a.",
    "from.proxy.responses..9c41",
    "from.proxy.responses.*.9c41",
    "from.proxy.responses.a.*",
    "from.proxy.responses.a.>",
    "from.proxy.responses.>",
    "from.proxy.responses.a b.9c41",
    "from.proxy.responses.a\t.9c41",
    "from.proxy.responses.a\r\nPUB x 0\r\n.9c41",
    "from.proxy.responses.a\0.9c41",
    "from.proxy.responses.a\x7f.9c41",
    `from.proxy.responses.${"x".repeat(129)}.9c41`,
    "FROM.proxy.responses.a.9c41",
  ];
  for (const root of ["from.proxy", "proxy"]) {
    for (const replyTo of attacks) {
      assert.equal(resolveReply(replyTo, root, ID), null, `${JSON.stringify(replyTo)} at ${root}`);
    }
  }
});

Deno.test("Without a request id any id token will do, and nothing else", () => {
  assert.equal(
    resolveReply("from.proxy.responses.a.anything_7", "from.proxy", null),
    "from.proxy.responses.a.anything_7",
  );
  for (const id of ["*", ">", "", "a b", "x".repeat(65), "ü"]) {
    assert.equal(resolveReply(`from.proxy.responses.a.${id}`, "from.proxy", null), null, id);
  }
});

Deno.test("isReplySubject strips nothing: the forms of the own root only", () => {
  for (const subject of ["proxy", "from.proxy", "from.from.proxy"]) {
    assert.ok(isReplySubject(`${subject}.responses.a.q`, "from.proxy", null), subject);
  }
  assert.ok(!isReplySubject("from.from.proxy.responses.a.q", "proxy", null));
});

Deno.test("isIdToken takes one token of 1 to 64 of A-Z a-z 0-9 _ -", () => {
  for (const id of ["a", "A-z_0", "x".repeat(64), "00112233445566778899aabbccddeeff"]) {
    assert.ok(isIdToken(id), id);
  }
  for (
    const id of ["", "a.b", "*", ">", "a b", "ü", "x".repeat(65), "a\n", 7, null, undefined, []]
  ) {
    assert.ok(!isIdToken(id), String(id));
  }
});

Deno.test("isServiceId takes what can stand in a subject that is published to", () => {
  for (const id of ["srv-1a2b3c4d", "host.example.com", "büro"]) {
    assert.ok(isServiceId(id), id);
  }
  for (
    const id of ["", ".", "a.", ".a", "a..b", "*", ">", "a.>", "a b", "a\r\nb", "a\0", "a\x7f"]
  ) {
    assert.ok(!isServiceId(id), JSON.stringify(id));
  }
  assert.ok(!isServiceId("x".repeat(129)) && !isServiceId("a.".repeat(20) + "a"));
});
