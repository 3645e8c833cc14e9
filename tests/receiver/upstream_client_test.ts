import assert from "node:assert/strict";
import { FlowError } from "../../lib/errors.ts";
import { dial, dialError, showTarget } from "../../lib/receiver/dial.ts";
import { UpstreamClient } from "../../lib/receiver/upstream_client.ts";
import {
  StaleConnectionError,
  type UpstreamConnection,
} from "../../lib/receiver/upstream_connection.ts";
import { latin1 } from "../helpers/bytes.ts";
import { envelope, ReceiverRig } from "../helpers/unit_receiver.ts";
import { answer, startUpstream, type Upstream } from "../helpers/upstream.ts";

const GET = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";
const never = new AbortController().signal;

class Client implements Disposable {
  readonly client: UpstreamClient;
  constructor(upstream: Upstream, maxHeaderBytes = 4_096) {
    this.client = new UpstreamClient({
      target: { hostname: "127.0.0.1", port: upstream.port },
      connectTimeoutMs: 5_000,
      maxHeaderBytes,
    });
  }

  /** One whole exchange on a kept connection or a fresh one; the body as text. */
  async exchange(kept: UpstreamConnection | undefined = this.client.reuse(Infinity)) {
    const connection = kept ?? await this.client.open(never);
    connection.send(GET, null);
    await connection.readHead("GET");
    let piece = connection.bufferedBody();
    let text = latin1(piece.buffer.subarray(piece.start, piece.end));
    while (!piece.last) {
      piece = await connection.readBody();
      text += latin1(piece.buffer.subarray(piece.start, piece.end));
    }
    this.client.release(connection);
    return { text, connection };
  }

  [Symbol.dispose](): void {
    this.client.close();
  }
}

Deno.test("A connection is used again, the last one first", async () => {
  await using upstream = await startUpstream();
  using rig = new Client(upstream);
  const first = await rig.exchange();
  const second = await rig.exchange();
  assert.equal(second.connection, first.connection);
  assert.equal(second.connection.exchanges, 2);
  const a = await rig.client.open(never);
  const b = await rig.client.open(never);
  await rig.exchange(a);
  await rig.exchange(b);
  assert.equal(rig.client.idle, 3);
  assert.equal(rig.client.reuse(Infinity), b);
  assert.equal(rig.client.reuse(Infinity), a);
  a.close();
  b.close();
  assert.equal(upstream.connections.length, 3);
});

Deno.test("A connection that is older than allowed is left where it is", async () => {
  await using upstream = await startUpstream();
  using rig = new Client(upstream);
  await rig.exchange();
  assert.equal(rig.client.reuse(-1), undefined);
  assert.equal(rig.client.idle, 1);
});

for (
  const [name, head] of [
    ["Connection: close", "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok"],
    ["HTTP/1.0", "HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"],
    ["octets behind the message", "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok!"],
  ] as const
) {
  Deno.test(`A connection is not kept after ${name}`, async () => {
    await using upstream = await startUpstream(async (connection) => {
      await connection.readUntil("\r\n\r\n");
      await connection.write(head);
      await connection.waitEnd();
    });
    using rig = new Client(upstream);
    const { text, connection } = await rig.exchange();
    assert.equal(text, "ok");
    assert.equal(connection.closed, true);
    assert.equal(rig.client.idle, 0);
  });
}

Deno.test("A body that ends with its connection is whole at the close, and nothing is kept", async () => {
  await using upstream = await startUpstream(async (connection) => {
    await connection.readUntil("\r\n\r\n");
    await connection.write("HTTP/1.1 200 OK\r\n\r\nall of it");
  });
  using rig = new Client(upstream);
  const { text } = await rig.exchange();
  assert.equal(text, "all of it");
  assert.equal(rig.client.idle, 0);
});

Deno.test("An idle connection that the upstream ends, or speaks on out of turn, is forgotten", async () => {
  for (const last of ["", "HTTP/1.1 408 Request Timeout\r\n\r\n"]) {
    const gate = Promise.withResolvers<void>();
    await using upstream = await startUpstream(async (connection) => {
      await connection.readUntil("\r\n\r\n");
      await connection.write(answer("ok"));
      await gate.promise;
      await connection.write(last);
    });
    using rig = new Client(upstream);
    const { connection } = await rig.exchange();
    assert.equal(rig.client.idle, 1);
    gate.resolve();
    const limit = Date.now() + 5_000;
    while (!connection.closed && Date.now() < limit) await new Promise((go) => setTimeout(go, 5));
    assert.equal(connection.closed, true);
    assert.equal(rig.client.idle, 0);
    assert.equal(rig.client.reuse(Infinity), undefined);
  }
});

Deno.test("The end before the first octet is stale, within the head it is broken", async () => {
  for (
    const [sent, stale] of [["", true], ["HTTP/1.1 200 O", false], [
      "HTTP/1.1 103 E\r\n\r\n",
      false,
    ]] as const
  ) {
    await using upstream = await startUpstream(async (connection) => {
      await connection.readUntil("\r\n\r\n");
      await connection.write(sent);
    });
    using rig = new Client(upstream);
    const connection = await rig.client.open(never);
    connection.send(GET, null);
    await assert.rejects(
      connection.readHead("GET"),
      (error) =>
        stale
          ? error instanceof StaleConnectionError
          : error instanceof FlowError && error.code === "target_broken",
    );
    connection.close();
  }
});

Deno.test("An idempotent request is sent once more when its kept connection is dead, an unsafe one never", async () => {
  for (const [method, expected] of [["GET", 2], ["PUT", 2], ["POST", 1], ["PATCH", 1]] as const) {
    let requests = 0;
    await using rig = await ReceiverRig.start(async (connection) => {
      await connection.readUntil("\r\n\r\n");
      if (connection.index === 0) {
        await connection.write(answer("first"));
        await connection.readUntil("\r\n\r\n");
        requests++;
        return; // without a word: the connection was dead
      }
      requests++;
      await connection.write(answer("again", { fields: ["Connection: close"] }));
    });
    const payload = { method, path: "/", headers: {}, body: null, head: [] };
    rig.request(envelope("q1", { payload: { ...payload, method: "GET" } }));
    await rig.frames("q1");
    rig.request(envelope("q2", { payload }));
    const [frame] = await rig.frames("q2");
    assert.equal(requests, expected, method);
    assert.equal(frame?.head?.status, expected === 2 ? 200 : 502, method);
  }
});

Deno.test("A kept connection that breaks after the first octet is no reason to send anything again", async () => {
  let requests = 0;
  await using rig = await ReceiverRig.start(async (connection) => {
    for (;;) {
      await connection.readUntil("\r\n\r\n");
      requests++;
      if (requests === 2) return void await connection.write("HTTP/1.1 2");
      await connection.write(answer("ok"));
    }
  });
  rig.request(envelope("q1"));
  await rig.frames("q1");
  rig.request(envelope("q2"));
  const [frame] = await rig.frames("q2");
  assert.equal(frame?.head?.status, 502);
  assert.equal(requests, 2);
});

Deno.test("A client that was closed keeps and opens nothing", async () => {
  await using upstream = await startUpstream();
  using rig = new Client(upstream);
  const connection = await rig.client.open(never);
  rig.client.close();
  rig.client.release(connection);
  assert.equal(connection.closed, true);
  await assert.rejects(rig.client.open(never), FlowError);
});

Deno.test("A dial that is refused says so", async () => {
  const port = await freePort();
  await assert.rejects(
    dial({ hostname: "127.0.0.1", port }, 5_000, never),
    (error) =>
      error instanceof FlowError && error.code === "target_refused" &&
      error.message.includes(`127.0.0.1:${port}`),
  );
});

Deno.test("A dial that is cancelled, before or while it runs, says so", async () => {
  await using upstream = await startUpstream();
  const target = { hostname: "127.0.0.1", port: upstream.port };
  await assert.rejects(
    dial(target, 5_000, AbortSignal.abort()),
    (error) => error instanceof FlowError && error.code === "canceled",
  );
  const abort = new AbortController();
  const dialing = dial(target, 5_000, abort.signal);
  abort.abort();
  const outcome = await dialing.then((socket) => socket.close(), (error) => error);
  if (outcome !== undefined) assert.equal(outcome.code, "canceled");
});

Deno.test("Each way in which a dial fails has its code", () => {
  const target = { hostname: "db.lan", port: 5432 };
  for (
    const [error, code] of [
      [new Deno.errors.ConnectionRefused("x"), "target_refused"],
      [new Deno.errors.TimedOut("x"), "target_timeout"],
      [
        new Error("failed to lookup address information: Name or service not known"),
        "target_not_found",
      ],
      [new Error("Network is unreachable (os error 101)"), "target_unreachable"],
      [new Error("No route to host (os error 113)"), "target_unreachable"],
      [new Error("something else"), "target_unreachable"],
      ["not even an error", "target_unreachable"],
    ] as const
  ) {
    const failure = dialError(error, target);
    assert.equal(failure.code, code, String(error));
    assert.ok(failure.message.includes("db.lan:5432"));
  }
  assert.equal(showTarget({ hostname: "::1", port: 80 }), "[::1]:80");
});

async function freePort(): Promise<number> {
  await using upstream = await startUpstream();
  return upstream.port;
}
