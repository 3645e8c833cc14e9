import assert from "node:assert/strict";
import {
  LaneProtocolError,
  LaneSplitter,
  type LaneTarget,
} from "../../lib/transport/lane_splitter.ts";
import { decode, encode, seeded } from "./support.ts";

/** What came out, in order: `lane …` for a message of the lane, else the bytes passed on. */
class Recorder {
  readonly events: string[] = [];
  readonly errors: unknown[] = [];
  readonly targets = new Map<number, LaneTarget>();
  readonly splitter: LaneSplitter;
  bytes = 0;

  constructor(...sids: number[]) {
    for (const sid of sids) this.listen(sid);
    this.splitter = new LaneSplitter({
      targets: this.targets,
      passOn: (bytes) => this.#passed(decode(bytes)),
      onMessage: (bytes) => this.bytes += bytes,
      onHandlerError: (error) => this.errors.push(error),
    });
  }

  listen(sid: number, act: () => void = () => {}): void {
    this.targets.set(sid, {
      active: true,
      deliver: (token, data, reply, headers) => {
        const head = headers === null ? "" : ` headers=${JSON.stringify(decode(headers))}`;
        this.events.push(`lane ${sid} ${token} ${reply || "-"} ${decode(data)}${head}`);
        act();
      },
    });
  }

  /** Neighbouring runs are one: where they are cut means nothing. */
  #passed(text: string): void {
    const last = this.events.length - 1;
    if (last >= 0 && !this.events[last]?.startsWith("lane ")) this.events[last] += text;
    else this.events.push(text);
  }

  /** Feeds `pieces` through one buffer that is overwritten as a read buffer is. */
  feed(pieces: Iterable<Uint8Array>): this {
    let kept = new Uint8Array(0);
    for (const piece of pieces) {
      const buffer = new Uint8Array(kept.length + piece.length);
      buffer.set(kept);
      buffer.set(piece, kept.length);
      const start = this.splitter.scan(buffer, 0, buffer.length);
      kept = buffer.slice(start);
      buffer.fill(0x58);
    }
    assert.equal(kept.length, 0, "something was left over");
    return this;
  }
}

const INPUT = encode(
  'INFO {"server_id":"M","max_payload":1048576}\r\n' +
    "PING\r\n+OK\r\n" +
    "MSG a.b.token1 7 5\r\nhello\r\n" +
    "MSG other.x 3 _INBOX.q 20\r\nMSG a.b.c 7 1\r\nx\r\n\r\n\r\n" +
    "MSG a.b.token2 7 from.r.1 21\r\n\r\nMSG x 7 5\r\nPING\r\n\r\n\r\n" +
    "HMSG a.b.token3 7 21 24\r\nNATS/1.0\r\na: PING\r\n\r\nabc\r\n" +
    "HMSG single 7 r.s 16 16\r\nNATS/1.0 503\r\n\r\n\r\n" +
    "MSG empty.payload 7 0\r\n\r\n" +
    "HMSG other.x 3 12 13\r\nNATS/1.0\r\n\r\nM\r\n" +
    "-ERR 'Permissions Violation for Subscription to \"MSG\"'\r\n" +
    "PONG\r\n",
);
const EXPECTED = [
  'INFO {"server_id":"M","max_payload":1048576}\r\nPING\r\n+OK\r\n',
  "lane 7 token1 - hello",
  "MSG other.x 3 _INBOX.q 20\r\nMSG a.b.c 7 1\r\nx\r\n\r\n\r\n",
  "lane 7 token2 from.r.1 \r\nMSG x 7 5\r\nPING\r\n\r\n",
  'lane 7 token3 - abc headers="NATS/1.0\\r\\na: PING\\r\\n\\r\\n"',
  'lane 7 single r.s  headers="NATS/1.0 503\\r\\n\\r\\n"',
  "lane 7 payload - ",
  "HMSG other.x 3 12 13\r\nNATS/1.0\r\n\r\nM\r\n" +
  "-ERR 'Permissions Violation for Subscription to \"MSG\"'\r\nPONG\r\n",
];

Deno.test("LaneSplitter tells lane messages from the rest, in order", () => {
  assert.deepEqual(new Recorder(7).feed([INPUT]).events, EXPECTED);
});

Deno.test("LaneSplitter finds the same wherever the input is cut", () => {
  for (let cut = 0; cut <= INPUT.length; cut++) {
    const { events } = new Recorder(7).feed([INPUT.subarray(0, cut), INPUT.subarray(cut)]);
    assert.deepEqual(events, EXPECTED, `cut at ${cut}`);
  }
  const bytes = Array.from(INPUT, (octet) => Uint8Array.of(octet));
  assert.deepEqual(new Recorder(7).feed(bytes).events, EXPECTED, "byte by byte");
});

Deno.test("LaneSplitter passes everything on when it knows no subscription", () => {
  assert.deepEqual(new Recorder().feed([INPUT]).events, [decode(INPUT)]);
});

Deno.test("LaneSplitter says how many bytes it needs for a whole message", () => {
  const { splitter } = new Recorder(7);
  const head = encode("MSG a.b 7 100000\r\nab");
  assert.equal(splitter.scan(head, 0, head.length), 0);
  assert.equal(splitter.needBytes, "MSG a.b 7 100000\r\n".length + 100_000 + 2);
});

Deno.test("LaneSplitter goes on after a target that throws", () => {
  const recorder = new Recorder();
  recorder.listen(7, () => {
    throw new Error("boom");
  });
  recorder.feed([encode("MSG a.1 7 1\r\nx\r\nMSG a.2 7 1\r\ny\r\nPING\r\n")]);
  assert.deepEqual(recorder.events, ["lane 7 1 - x", "lane 7 2 - y", "PING\r\n"]);
  assert.equal(recorder.errors.length, 2);
});

Deno.test("LaneSplitter stops at once when a target says so", () => {
  const recorder = new Recorder();
  recorder.listen(7, () => recorder.splitter.stop());
  const input = encode("PING\r\nMSG a.1 7 1\r\nx\r\nMSG a.2 7 1\r\ny\r\nPING\r\n");
  recorder.splitter.scan(input, 0, input.length);
  assert.deepEqual(recorder.events, ["PING\r\n", "lane 7 1 - x"]);
});

Deno.test("LaneSplitter drops messages of a subscription that has ended", () => {
  const recorder = new Recorder();
  recorder.targets.set(7, { active: false, deliver: () => assert.fail("it was delivered") });
  recorder.feed([encode("MSG a.1 7 1\r\nx\r\nPING\r\n")]);
  assert.deepEqual(recorder.events, ["PING\r\n"]);
});

Deno.test("LaneSplitter reads tokens and reply subjects that are not ASCII", () => {
  const { events } = new Recorder(7).feed([encode("MSG a.zürich 7 böb.é 1\r\nx\r\n")]);
  assert.deepEqual(events, ["lane 7 zürich böb.é x"]);
});

Deno.test("LaneSplitter takes tabs and runs of blanks as the server's parser does", () => {
  const { events } = new Recorder(7).feed([encode("MSG  a.1\t7   1\r\nx\r\n")]);
  assert.deepEqual(events, ["lane 7 1 - x"]);
});

Deno.test("LaneSplitter refuses message lines that cannot be read", () => {
  for (
    const line of [
      "MSG a 7",
      "MSG a 7 r 1 2",
      "MSG a 7 x",
      "MSG a 7 -1",
      "MSG a 7 99999999999",
      "HMSG a 7 5",
      "HMSG a 7 9 5",
      "HMSG a 7 r 1 2 3",
      "MSG",
      "Mx",
    ]
  ) {
    const input = encode(`${line}\r\n`);
    assert.throws(
      () => new Recorder(7).splitter.scan(input, 0, input.length),
      LaneProtocolError,
      line,
    );
  }
  const endless = encode("MSG " + "a".repeat(70_000));
  assert.throws(() => new Recorder(7).splitter.scan(endless, 0, endless.length), LaneProtocolError);
});

Deno.test("LaneSplitter never hangs, crashes or loses its place on mutated input", () => {
  const seed = Math.floor(Math.random() * 2 ** 32);
  const random = seeded(seed);
  for (let round = 0; round < 3000; round++) {
    const input = INPUT.slice();
    for (let i = 0; i < 1 + random() * 4; i++) {
      input[Math.floor(random() * input.length)] = Math.floor(random() * 256);
    }
    const { splitter } = new Recorder(7);
    try {
      const start = splitter.scan(input, 0, input.length);
      assert.ok(start >= 0 && start <= input.length && splitter.needBytes > 0, `seed ${seed}`);
    } catch (error) {
      assert.ok(error instanceof LaneProtocolError, `seed ${seed}: ${error}`);
    }
  }
});
