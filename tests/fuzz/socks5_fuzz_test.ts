/**
 * Any octets from a SOCKS5 client are read alike however they are cut, within bounds, or refused.
 * @module
 */
import assert from "node:assert/strict";
import { type Socks5Auth, Socks5Handshake } from "../../lib/requester/socks5_handshake.ts";
import { encodeReply } from "../../lib/requester/socks5_messages.ts";
import { concat, latin1, octets } from "../helpers/bytes.ts";
import { fuzz, mutateOctets, type Random } from "../helpers/unit_fuzz.ts";

const SAMPLES = [
  "\x05\x01\x00\x05\x01\x00\x01\x7f\x00\x00\x01\x46\xa0GET / HTTP/1.1\r\n\r\n",
  "\x05\x02\x00\x02\x05\x01\x00\x03\x0btarget.test\x46\xa0",
  `\x05\x01\x00\x05\x01\x00\x04${"\0".repeat(15)}\x01\x46\xa0`,
  "\x05\x01\x00\x05\x02\x00\x01\x7f\x00\x00\x01\x46\xa0",
  "\x05\x01\x02\x01\x05alice\x05wrong",
  "\x04\x01\x00\x50\x7f\x00\x00\x01me\0",
].map(octets);
/** The longest greeting and the longest request. */
const MAX_HANDSHAKE_BYTES = 257 + 262;

interface Result {
  consumed: number;
  answers: string;
  outcome: unknown;
}

function readCut(bytes: Uint8Array, auth: Socks5Auth, nextSize: () => number): Result {
  const handshake = new Socks5Handshake({ auth });
  const answers: Uint8Array[] = [];
  let consumed = 0;
  for (let at = 0; at < bytes.length;) {
    const piece = bytes.subarray(at, at + nextSize());
    at += piece.length;
    const before = handshake.outcome;
    const taken = handshake.push(piece);
    assert.ok(before === null || taken === 0, "octets were taken behind the end");
    assert.ok(taken === piece.length || handshake.outcome !== null, "octets were left in between");
    consumed += taken;
    answers.push(...handshake.takeAnswers());
  }
  return { consumed, answers: latin1(concat(answers)), outcome: handshake.outcome };
}

function someInput(random: Random): Uint8Array {
  if (random.below(8) === 0) return random.bytes(random.below(40));
  return mutateOctets(random.pick(SAMPLES), random);
}

Deno.test("A mutated SOCKS5 handshake is read alike whole and in pieces, and has one end", async () => {
  await fuzz(15_000_017, (random) => {
    const bytes = someInput(random);
    const auth = random.pick(["none", "none", "locked"] as const);
    const shown = JSON.stringify(latin1(bytes));
    const whole = readCut(bytes, auth, () => bytes.length);
    assert.deepEqual(readCut(bytes, auth, () => 1), whole, shown);
    assert.deepEqual(readCut(bytes, auth, () => 1 + random.below(9)), whole, shown);
    assert.ok(whole.consumed <= MAX_HANDSHAKE_BYTES, shown);
    // Method and reply, each at most once.
    assert.match(
      whole.answers,
      // deno-lint-ignore no-control-regex -- it is octets that are matched
      /^(|\x05\x00|\x05\xff|\x00\x5b\x00{6}|\x05\x00\x05[\x01\x07\x08]\x00\x01\x00{6})$/,
      shown,
    );
    const outcome = whole.outcome as { kind: string; host?: string; port?: number } | null;
    if (outcome?.kind === "target") {
      assert.equal(auth, "none", shown);
      assert.ok(outcome.port! >= 1 && outcome.port! <= 65535, shown);
      assert.match(outcome.host!, /^[^\s[\]/?#@\\]{1,255}$/, shown);
    } else if (outcome === null) assert.equal(whole.consumed, bytes.length, shown);
    return shown;
  });
});

Deno.test("A reply is whole for any text of an address", async () => {
  await fuzz(16_000_057, (random) => {
    const pieces = [
      "1",
      "255",
      "256",
      ".",
      ":",
      "::",
      "f",
      "ffff",
      "%",
      "eth0",
      "[",
      "]",
      "x",
      " ",
    ];
    const host = Array.from({ length: random.below(12) }, () => random.pick(pieces)).join("");
    const port = random.below(65536);
    const reply = encodeReply(0, host, port);
    const length = reply[3] === 1 ? 10 : 22;
    assert.equal(reply.length, length, JSON.stringify(host));
    const shownPort = reply[length - 2]! * 256 + reply[length - 1]!;
    assert.ok(shownPort === port || shownPort === 0, JSON.stringify(host));
    return host;
  });
});
