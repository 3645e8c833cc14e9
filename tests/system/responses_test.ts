import assert from "node:assert/strict";
import { concat, octets, pattern, sha256 } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import type { UpstreamConnection } from "../helpers/upstream.ts";
import { answer } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";

const MIB = 1_048_576;
const SIZES = [0, 1, 1_023, 32_768, 131_071, 131_072, 131_073, MIB, 5 * MIB, 50 * MIB];
/** One MiB of octets that large answers repeat, each MiB changed by its number. */
const BLOCK = pattern(MIB, 7);

/** The octets of an answer of `size`: the block, with the MiB's number in front of each. */
function* blocks(size: number): Generator<Uint8Array<ArrayBuffer>> {
  for (let at = 0, i = 0; at < size; at += MIB, i++) {
    const block = BLOCK.slice(0, Math.min(MIB, size - at));
    if (block.length >= 4) new DataView(block.buffer).setUint32(0, i);
    yield block;
  }
}

function digestOf(size: number): string {
  return sha256(concat([...blocks(size)]));
}

async function writeLength(connection: UpstreamConnection, size: number): Promise<void> {
  await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
  for (const block of blocks(size)) await connection.write(block);
}

async function writeChunked(connection: UpstreamConnection, size: number): Promise<void> {
  await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
  for (const block of blocks(size)) {
    for (let at = 0; at < block.length; at += 50_000) {
      const piece = block.subarray(at, at + 50_000);
      await connection.write(
        concat([octets(`${piece.length.toString(16)}\r\n`), piece, octets("\r\n")]),
      );
    }
  }
  await connection.write("0\r\n\r\n");
}

function routes(rig: Rig): void {
  rig.upstream.route(
    "/length/",
    (request, connection) => writeLength(connection, Number(request.path.split("/")[2])),
  );
  rig.upstream.route(
    "/chunked/",
    (request, connection) => writeChunked(connection, Number(request.path.split("/")[2])),
  );
}

function sizeRows(rig: Rig): Row[] {
  return SIZES.flatMap((size) =>
    (["length", "chunked"] as const).map((framing): Row => ({
      name: `a response of ${size} octets, ${framing}, arrives octet by octet`,
      run: async () => {
        await using client = await rig.connect();
        await client.send(requestOctets(`/${framing}/${size}`));
        const response = await client.response({ collect: false, ms: 30_000 });
        assert.equal(response.bodyBytes, size);
        assert.equal(response.bodySha256, digestOf(size));
        assert.equal(response.complete, true);
        if (framing === "length") assert.equal(one(response, "content-length"), String(size));
        const next = await client.exchange(requestOctets("/after"));
        assert.equal(text(next), "GET /after");
      },
    }))
  );
}

Deno.test("responses from nothing to 50 MiB arrive octet by octet", async (t) => {
  await using rig = await startRig();
  routes(rig);
  await runRows(t, [
    ...sizeRows(rig),
    {
      name: "thirty responses at once, of many sizes, each arrive whole",
      alone: true,
      run: async () => {
        await Promise.all(Array.from({ length: 30 }, async (_, i) => {
          const size = [10, 40_000, 300_000, 2 * MIB][i % 4] as number;
          const target = `/${i % 2 === 0 ? "length" : "chunked"}/${size}`;
          const response = await rig.request(target, { collect: false, ms: 30_000 });
          assert.equal(response.complete, true, target);
          assert.equal(response.bodySha256, digestOf(size), target);
        }));
      },
    },
    {
      name: "a response that comes in small pieces is passed on as it comes",
      alone: true,
      run: async () => {
        rig.upstream.route("/ticks", async (_, connection) => {
          await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n");
          for (let i = 0; i < 3; i++) {
            await connection.write(`5\r\ntick${i}\r\n`);
            await pause(400);
          }
          await connection.write("0\r\n\r\n");
        });
        const times: number[] = [];
        const started = performance.now();
        const response = await rig.request("/ticks", {
          onBody: () => void times.push(performance.now() - started),
        });
        assert.equal(text(response), "tick0tick1tick2");
        assert.ok((times[0] as number) < 400, `first piece after ${times[0]} ms`);
        assert.ok((times.at(-1) as number) > 700, `last piece after ${times.at(-1)} ms`);
      },
    },
  ]);
});

Deno.test("a client that reads nothing slows the upstream down and costs little memory", async () => {
  const size = 64 * MIB;
  await using rig = await startRig();
  let written = 0;
  const taken = Promise.withResolvers<void>();
  rig.upstream.route("/flood", async (_, connection) => {
    await connection.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
    const piece = BLOCK.subarray(0, 65_536);
    while (written < size) {
      await connection.write(piece);
      written += piece.length;
    }
    taken.resolve();
  });
  await rig.request("/warm-up");
  const roles = [rig.requester, rig.receiver];
  const before = roles.map((role) => role.rssBytes());
  await using client = await rig.connect();
  await client.send(requestOctets("/flood"));
  await client.socket.readUntil("\r\n\r\n");
  // The upstream stops being able to write: no progress for a second.
  let last = -1;
  const limit = performance.now() + 20_000;
  while (written !== last) {
    assert.ok(performance.now() < limit, "the upstream is still being read after 20 s");
    last = written;
    await pause(1_000);
  }
  // 4 MiB for the flow, and what four pairs of kernel socket buffers may hold.
  assert.ok(written <= 32 * MIB, `${written} octets were taken for a client that reads nothing`);
  roles.forEach((role, i) => {
    const grown = role.rssBytes() - (before[i] as number);
    assert.ok(grown < 64 * MIB, `${role.role} grew by ${Math.round(grown / MIB)} MiB`);
  });
  // Others keep their speed meanwhile.
  for (let i = 0; i < 10; i++) {
    const response = await within(rig.request(`/others/${i}`), 1_000, "a request beside the flood");
    assert.equal(response.status, 200);
  }
  // The reader wakes up: everything arrives.
  let got = client.socket.unread.length;
  await client.socket.readExactly(got);
  while (got < size) {
    const piece = await client.socket.read(20_000);
    assert.notEqual(piece, null, `ended after ${got} octets`);
    got += piece?.length ?? 0;
  }
  assert.equal(got, size);
  await within(taken.promise, 5_000, "the end of the upstream's writing");
  const closed = await rig.requester.flowClosed((event) => Number(event["received_bytes"]) >= size);
  assert.equal(closed["code"], "ok");
});

Deno.test("a slow reader gets every octet however long it pauses", async () => {
  const size = 12 * MIB;
  await using rig = await startRig({ settings: { PEER_TIMEOUT: "3" } });
  routes(rig);
  await using client = await rig.connect();
  await client.send(requestOctets(`/length/${size}`));
  let next = performance.now() + 1_000;
  const response = await client.response({
    collect: false,
    ms: 30_000,
    onBody: async () => {
      // Two pauses, each longer than PEER_TIMEOUT: slow is not lost.
      if (performance.now() < next) return;
      next = Infinity;
      await pause(5_000);
    },
  });
  assert.equal(response.complete, true);
  assert.equal(response.bodySha256, digestOf(size));
});

Deno.test("two receivers share large and small responses", async () => {
  await using rig = await startRig({ receivers: 2 });
  routes(rig);
  await Promise.all(Array.from({ length: 16 }, async (_, i) => {
    const size = i % 2 === 0 ? 100 : 3 * MIB;
    const response = await rig.request(`/length/${size}`, { collect: false, ms: 30_000 });
    assert.equal(response.bodySha256, digestOf(size));
  }));
  for (const receiver of rig.receivers) {
    await receiver.flowClosed((event) => event["code"] === "ok");
  }
  rig.upstream.route("/last", (_, connection) => connection.write(answer("last")));
  assert.equal(text(await rig.request("/last")), "last");
});
