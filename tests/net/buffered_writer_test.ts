import assert from "node:assert/strict";
import { pooledBytes } from "../../lib/net/buffer_pool.ts";
import { BufferedWriter } from "../../lib/net/buffered_writer.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** A sink whose writes end when the test says so. It keeps the view, as the kernel would. */
class HeldSink {
  readonly writes: { bytes: Uint8Array; settle: PromiseWithResolvers<number> }[] = [];
  readonly taken: string[] = [];
  open = 0;

  write(bytes: Uint8Array): Promise<number> {
    assert.equal(this.open++, 0, "a second write began before the first had ended");
    const settle = Promise.withResolvers<number>();
    this.writes.push({ bytes, settle });
    return settle.promise;
  }

  /** Ends the oldest write after `count` octets, which are read only now. */
  async finish(count?: number): Promise<void> {
    const write = this.writes.shift();
    assert.ok(write !== undefined, "no write is in flight");
    const n = count ?? write.bytes.length;
    this.taken.push(decode(write.bytes.subarray(0, n)));
    this.open--;
    write.settle.resolve(n);
    await turn();
  }

  async refuse(error: Error): Promise<void> {
    this.open--;
    this.writes.shift()?.settle.reject(error);
    await turn();
  }
}

/** Lets all microtasks run. */
const turn = () => new Promise<void>((resolve) => setTimeout(resolve, 0));

Deno.test("writes of one turn go out in one write, those during a write in the next", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink);
  writer.write(encode("a"));
  writer.write(encode("b"));
  assert.equal(sink.writes.length, 0);
  await turn();
  writer.write(encode("c"));
  writer.write(encode("d"));
  await turn();
  assert.equal(sink.writes.length, 1);
  await sink.finish();
  await sink.finish();
  assert.deepEqual(sink.taken, ["ab", "cd"]);
  assert.equal(writer.pendingBytes, 0);
});

Deno.test("a write copies: the caller's buffer may be reused at once", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink);
  const bytes = encode("xhellox");
  writer.write(bytes, 1, 6);
  bytes.fill(0);
  await turn();
  await sink.finish();
  assert.deepEqual(sink.taken, ["hello"]);
});

Deno.test("a buffer in flight is never refilled, however many writes follow", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink, { capacityBytes: 4096 });
  let expected = "";
  for (let round = 0; round < 20; round++) {
    const text = String.fromCharCode(97 + round).repeat(3000);
    expected += text;
    writer.write(encode(text));
    await turn();
    if (round % 3 === 2) await sink.finish();
  }
  while (sink.writes.length > 0) await sink.finish();
  assert.equal(sink.taken.join(""), expected);
});

Deno.test("a sink that takes a part is given the rest", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink);
  writer.write(encode("0123456789"));
  await turn();
  await sink.finish(3);
  assert.equal(writer.pendingBytes, 7);
  await sink.finish(6);
  await sink.finish();
  assert.deepEqual(sink.taken, ["012", "345678", "9"]);
});

Deno.test("reserve and commit encode in place; what is not committed was never there", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink, { capacityBytes: 4096 });
  writer.write(encode("<"));
  let at = writer.reserve(100);
  writer.buffer.set(encode("lost"), at);
  writer.commit(0);
  at = writer.reserve(10_000);
  writer.buffer.set(encode("kept>"), at);
  writer.commit(5);
  await turn();
  await sink.finish();
  assert.deepEqual(sink.taken, ["<kept>"]);
});

Deno.test("drained waits for the low mark, flushed for everything", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink, { lowMarkBytes: 100 });
  await writer.drained();
  await writer.flushed();
  writer.write(new Uint8Array(1000));
  await turn();
  const order: string[] = [];
  const drained = writer.drained().then(() => order.push(`drained at ${writer.pendingBytes}`));
  const flushed = writer.flushed().then(() => order.push(`flushed at ${writer.pendingBytes}`));
  await sink.finish(500);
  assert.deepEqual(order, []);
  await sink.finish(400);
  assert.deepEqual(order, ["drained at 100"]);
  await sink.finish();
  await Promise.all([drained, flushed]);
  assert.deepEqual(order, ["drained at 100", "flushed at 0"]);
});

Deno.test("flushNow does not wait for the end of the turn", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink);
  writer.flushNow();
  writer.write(encode("now"));
  writer.flushNow();
  assert.equal(sink.writes.length, 1);
  writer.flushNow();
  await turn();
  assert.equal(sink.writes.length, 1);
  await sink.finish();
  assert.deepEqual(sink.taken, ["now"]);
});

Deno.test("a failed write ends the writer: onError once, waiters woken, later writes ignored", async () => {
  const sink = new HeldSink();
  const errors: Error[] = [];
  const writer = new BufferedWriter(sink, { onError: (error) => errors.push(error) });
  writer.write(new Uint8Array(100_000));
  await turn();
  writer.write(encode("more"));
  const drained = writer.drained();
  const flushed = assert.rejects(writer.flushed(), /broken pipe/);
  await sink.refuse(new Error("broken pipe"));
  await drained;
  await flushed;
  assert.deepEqual(errors.map(({ message }) => message), ["broken pipe"]);
  assert.equal(writer.failed, errors[0]);
  writer.write(encode("ignored"));
  writer.commit(writer.reserve(10));
  await turn();
  assert.equal(sink.writes.length, 0);
  assert.equal(writer.pendingBytes, 0);
  await writer.drained();
  await assert.rejects(writer.flushed(), /broken pipe/);
});

Deno.test("fail during a write drops what is pending and does not call onError", async () => {
  const sink = new HeldSink();
  const errors: Error[] = [];
  const writer = new BufferedWriter(sink, { onError: (error) => errors.push(error) });
  writer.write(encode("in flight"));
  await turn();
  writer.write(encode("pending"));
  writer.fail(new Error("closed"));
  assert.equal(writer.pendingBytes, 0);
  await sink.refuse(new Error("the socket was closed"));
  assert.equal(sink.writes.length, 0);
  assert.deepEqual(errors, []);
  assert.equal(writer.failed?.message, "closed");
});

Deno.test("a sink that throws, or takes nothing, fails the writer", async () => {
  for (
    const write of [
      () => {
        throw new Error("thrown");
      },
      () => Promise.resolve(0),
    ]
  ) {
    const writer = new BufferedWriter({ write });
    writer.write(encode("x"));
    await assert.rejects(writer.flushed());
    assert.ok(writer.failed !== null);
  }
});

Deno.test("an idle writer holds no buffer, and a grown one does not stay large", async () => {
  const sink = new HeldSink();
  const writer = new BufferedWriter(sink, { capacityBytes: 64 * 1024 });
  // Both classes are in the pool now, so that only giving back can change its size.
  writer.write(new Uint8Array(1));
  await turn();
  writer.write(new Uint8Array(500_000));
  await sink.finish();
  await sink.finish();
  const idle = pooledBytes();
  writer.write(new Uint8Array(1));
  assert.equal(pooledBytes(), idle - 64 * 1024, "one buffer of the base size is taken");
  await turn();
  await sink.finish();
  assert.equal(pooledBytes(), idle, "and given back");
});

Deno.test("a million small writes to a real socket arrive in order", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const [client, server] = await Promise.all([
    Deno.connect({ hostname: "127.0.0.1", port: listener.addr.port }),
    listener.accept(),
  ]);
  const total = 1_000_000;
  const reading = (async () => {
    const buffer = new Uint8Array(65_536);
    let at = 0;
    for (let n = await server.read(buffer); n !== null; n = await server.read(buffer)) {
      for (let i = 0; i < n; i++, at++) {
        if (buffer[i] !== (Math.floor(at / 4) >> ((at & 3) * 8) & 0xff)) return `differs at ${at}`;
      }
    }
    return at;
  })();
  const writer = new BufferedWriter(client);
  const word = new Uint8Array(4);
  for (let i = 0; i < total; i++) {
    new DataView(word.buffer).setUint32(0, i, true);
    writer.write(word);
    if (i % 1000 === 0) await writer.drained();
  }
  await writer.flushed();
  client.close();
  assert.equal(await reading, total * 4);
  server.close();
});
