import assert from "node:assert/strict";
import { octets } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { all, json, one, type TestResponse, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";

const HEADER_TIMEOUT_S = 2;
const KEEPALIVE_TIMEOUT_S = 3;
/** Default of MAX_HEADER_BYTES, to be named in the answer. */
const MAX_HEADER_BYTES = 65_536;

/** A refusal is JSON of the contract's shape and closes the connection. */
function assertRefusal(response: TestResponse, ...statuses: number[]): void {
  assert.ok(statuses.includes(response.status), `${response.startLine}: ${text(response)}`);
  assert.equal(typeof json(response)["error"], "string");
  assert.equal(response.complete, true);
}

function malformedRow(rig: Rig, name: string, input: string, statuses = [400]): Row {
  return {
    name: `${name} is answered ${statuses.join(" or ")} and closed`,
    run: async () => {
      await using client = await rig.connect();
      const response = await client.exchange(octets(input), { method: "GET" });
      assertRefusal(response, ...statuses);
      await client.mustClose();
    },
  };
}

function rows(rig: Rig): Row[] {
  const { upstream } = rig;
  return [
    {
      name: "a connection serves many requests, also when their octets come one by one",
      run: async () => {
        await using client = await rig.connect();
        for (let i = 0; i < 20; i++) {
          assert.equal(text(await client.exchange(requestOctets(`/many/${i}`))), `GET /many/${i}`);
        }
        await client.socket.writeInPieces(requestOctets("/piecewise"), 1);
        assert.equal(text(await client.response()), "GET /piecewise");
      },
    },
    {
      name: "fifty pipelined requests are answered in order, each once",
      run: async () => {
        upstream.route("/pipe/", async (request, connection) => {
          await pause((Number(request.path.slice(6)) * 7) % 20);
          await connection.write(answer(request.path));
        });
        await using client = await rig.connect();
        const whole = Array.from({ length: 50 }, (_, i) => requestOctets(`/pipe/${i}`));
        for (const piece of whole) client.send(piece).catch(() => {});
        for (let i = 0; i < 50; i++) {
          assert.equal(text(await client.response()), `/pipe/${i}`);
        }
        assert.equal(upstream.requestsFor("/pipe/").length, 50);
      },
    },
    {
      name: "requests on several upstream connections reuse them when they are idle",
      run: async () => {
        await using client = await rig.connect();
        for (let i = 0; i < 10; i++) await client.exchange(requestOctets(`/reuse/${i}`));
        const used = upstream.connections.filter((connection) =>
          connection.requests.some((request) => request.target.startsWith("/reuse/"))
        );
        assert.ok(used.length < 10, `${used.length} connections for 10 requests`);
      },
    },
    {
      name: "a client that asks for close gets its answer and then the end",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange(
          requestOctets("/close", { fields: ["Connection: close"] }),
        );
        assert.equal(one(response, "connection")?.toLowerCase(), "close");
        await client.mustClose();
      },
    },
    {
      name: "an HTTP/1.0 client gets no chunks and the connection closes",
      run: async () => {
        upstream.route("/old/chunked", async (_, connection) => {
          await connection.write(
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n",
          );
        });
        await using client = await rig.connect();
        const response = await client.exchange(requestOctets("/old/chunked", {
          version: "HTTP/1.0",
        }));
        assert.deepEqual(all(response, "transfer-encoding"), []);
        assert.equal(text(response), "hello");
        assert.equal(response.complete, true);
        await client.mustClose();
      },
    },
    {
      name: "an HTTP/1.0 client keeps its connection only when it asks",
      run: async () => {
        await using client = await rig.connect();
        const old = { version: "HTTP/1.0", fields: ["Connection: keep-alive"] };
        const first = await client.exchange(requestOctets("/old/keep", old));
        assert.equal(text(first), "GET /old/keep");
        assert.equal(one(first, "connection")?.toLowerCase(), "keep-alive");
        const second = await client.exchange(requestOctets("/old/end", { version: "HTTP/1.0" }));
        assert.equal(text(second), "GET /old/end");
        await client.mustClose();
      },
    },
    {
      name: "an HTTP/1.0 request without Host is served",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange("GET /old/nohost HTTP/1.0\r\n\r\n");
        assert.equal(text(response), "GET /old/nohost");
        const [seen] = upstream.requestsFor("/old/nohost");
        assert.equal(seen?.version, "HTTP/1.1");
      },
    },
    malformedRow(rig, "an HTTP/1.1 request without Host", "GET / HTTP/1.1\r\n\r\n"),
    malformedRow(rig, "a request with two Hosts", "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"),
    malformedRow(rig, "a bare LF", "GET /lf HTTP/1.1\nHost: a\n\n"),
    malformedRow(rig, "a request line with two blanks", "GET  / HTTP/1.1\r\nHost: a\r\n\r\n"),
    malformedRow(rig, "a NUL in a value", "GET / HTTP/1.1\r\nHost: a\r\nX: a\0b\r\n\r\n"),
    malformedRow(rig, "an octet above 7E in a target", "GET /caf\xe9 HTTP/1.1\r\nHost: a\r\n\r\n"),
    malformedRow(rig, "noise", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n"),
    malformedRow(rig, "HTTP/2.0", "GET / HTTP/2.0\r\nHost: a\r\n\r\n", [400, 505]),
    malformedRow(
      rig,
      "a bad Content-Length",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5x\r\n\r\nhello",
    ),
    malformedRow(
      rig,
      "a negative Content-Length",
      "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: -1\r\n\r\n",
    ),
    malformedRow(
      rig,
      "a chunked coding that is not last",
      "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, gzip\r\n\r\n",
    ),
    {
      name: "an empty line in front of a request line is skipped",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange("\r\n" + text({ body: requestOctets("/crlf") }), {
          method: "GET",
        });
        assert.equal(text(response), "GET /crlf");
      },
    },
    ...[["request field", "X"], ["cookie", "Cookie"]].map(([what, field]): Row => ({
      name: `F59 a ${what} of 20 000 octets passes`,
      run: async () => {
        const value = "a=" + "0".repeat(20_000);
        const response = await rig.request(`/f59/${field}`, { fields: [`${field}: ${value}`] });
        assert.equal(response.status, 200, text(response));
        const [seen] = upstream.requestsFor(`/f59/${field}`);
        assert.equal(seen && one(seen, field as string), value);
      },
    })),
    {
      name: "F59 a target of 8 000 octets passes",
      run: async () => {
        const target = `/f59/long/${"0".repeat(8_000)}`;
        const response = await rig.request(target);
        assert.equal(response.status, 200, text(response));
        assert.equal(upstream.requestsFor("/f59/long/")[0]?.target, target);
      },
    },
    {
      name: "F59 a field of 1 000 000 octets is answered 431 with the limit named, and closed",
      run: async () => {
        await using client = await rig.connect();
        const fields = [`Cookie: a=${"0".repeat(1_000_000)}`];
        client.send(requestOctets("/f59/huge", { fields })).catch(() => {});
        const response = await client.response();
        assertRefusal(response, 431);
        assert.match(text(response), /MAX_HEADER_BYTES/);
        assert.match(text(response), new RegExp(`${MAX_HEADER_BYTES}`));
        await client.mustClose();
        assert.deepEqual(upstream.requestsFor("/f59/huge"), []);
      },
    },
    {
      name: "F59 a target of 1 000 000 octets is answered 414 with the limit named, and closed",
      run: async () => {
        await using client = await rig.connect();
        client.send(requestOctets(`/f59/target/${"0".repeat(1_000_000)}`)).catch(() => {});
        const response = await client.response();
        assertRefusal(response, 414);
        assert.match(text(response), /MAX_HEADER_BYTES/);
        await client.mustClose();
      },
    },
    {
      name: "F59 a response field of 20 000 octets passes",
      run: async () => {
        const value = "0".repeat(20_000);
        upstream.route(
          "/f59/answer",
          (_, connection) => connection.write(answer("ok", { fields: [`X-Long: ${value}`] })),
        );
        const response = await rig.request("/f59/answer");
        assert.equal(response.status, 200, text(response));
        assert.equal(one(response, "x-long"), value);
      },
    },
    {
      name: "F59 a response field of 1 000 000 octets is answered 502 with the limit named",
      run: async () => {
        upstream.route("/f59/huge-answer", async (_, connection) => {
          await connection.write(answer("ok", { fields: [`X-Long: ${"0".repeat(1_000_000)}`] }));
          return "close";
        });
        const response = await rig.request("/f59/huge-answer");
        assert.equal(response.status, 502);
        assert.match(text(response), /MAX_HEADER_BYTES/);
        assert.equal(json(response)["code"], "head_too_large");
      },
    },
  ];
}

Deno.test("client connections: keep-alive, pipelining, versions, malformed input, limits", async (t) => {
  await using rig = await startRig();
  await runRows(t, rows(rig));
});

Deno.test("MAX_HEADER_BYTES sets the head limit of both directions", async (t) => {
  await using rig = await startRig({ settings: { MAX_HEADER_BYTES: "2000" } });
  const { upstream } = rig;
  upstream.route("/answer/", async (request, connection) => {
    const fields = [`X-Long: ${"0".repeat(Number(request.path.slice(8)))}`];
    await connection.write(answer("ok", { fields }));
  });
  await t.step("a request head below it passes", async () => {
    const response = await rig.request("/", { fields: [`X: ${"0".repeat(1_500)}`] });
    assert.equal(response.status, 200);
  });
  await t.step("a request head above it is answered 431", async () => {
    const response = await rig.request("/", { fields: [`X: ${"0".repeat(2_500)}`] });
    assert.equal(response.status, 431);
    assert.match(text(response), /2000/);
  });
  await t.step("a response head below it passes", async () => {
    assert.equal((await rig.request("/answer/1500")).status, 200);
  });
  await t.step("a response head above it is answered 502", async () => {
    const response = await rig.request("/answer/2500");
    assert.equal(response.status, 502);
    assert.match(text(response), /2000/);
  });
});

Deno.test("a head that does not come in time ends the connection, whatever trickles in", async (t) => {
  await using rig = await startRig({
    settings: {
      HEADER_TIMEOUT: String(HEADER_TIMEOUT_S),
      KEEPALIVE_TIMEOUT: String(KEEPALIVE_TIMEOUT_S),
    },
  });
  /** Measures from the first octet until the connection ends; says what came. */
  const untilEnd = async (drip: boolean, input: string) => {
    await using client = await rig.connect();
    const started = performance.now();
    await client.send(input);
    let going = drip;
    const dripping = (async () => {
      while (going) {
        await pause(300);
        await client.send("x").catch(() => (going = false));
      }
    })();
    await client.socket.waitEnd((KEEPALIVE_TIMEOUT_S + 5) * 1000);
    going = false;
    const ms = performance.now() - started;
    await dripping;
    return { ms, got: new TextDecoder().decode(client.socket.transcript) };
  };
  const inTime = (ms: number, seconds: number) =>
    assert.ok(ms > seconds * 1000 - 500 && ms < seconds * 1000 + 2_000, `ended after ${ms} ms`);
  await runRows(t, [
    {
      name: "a silent partial head",
      run: async () => {
        const { ms, got } = await untilEnd(false, "GET /slow HTTP/1.1\r\nX-Slow: ");
        inTime(ms, HEADER_TIMEOUT_S);
        assert.match(got, /^(HTTP\/1\.1 408 |$)/);
      },
    },
    {
      name: "a partial head that grows an octet at a time",
      run: async () =>
        inTime((await untilEnd(true, "GET /slow HTTP/1.1\r\nX: ")).ms, HEADER_TIMEOUT_S),
    },
    {
      name: "an idle connection after a whole exchange is closed by KEEPALIVE_TIMEOUT, silently",
      run: async () => {
        await using client = await rig.connect();
        await client.exchange(requestOctets("/idle"));
        const started = performance.now();
        const octetsBefore = client.socket.receivedBytes;
        await client.socket.waitEnd((KEEPALIVE_TIMEOUT_S + 5) * 1000);
        inTime(performance.now() - started, KEEPALIVE_TIMEOUT_S);
        assert.equal(client.socket.receivedBytes, octetsBefore);
      },
    },
    {
      name: "normal requests are served meanwhile, and a slow answer is not cut by these limits",
      run: async () => {
        rig.upstream.route("/takes-long", async (_, connection) => {
          await pause((Math.max(HEADER_TIMEOUT_S, KEEPALIVE_TIMEOUT_S) + 1) * 1000);
          await connection.write(answer("late"));
        });
        const late = rig.request("/takes-long");
        for (let i = 0; i < 10; i++) {
          const response = await within(rig.request(`/meanwhile/${i}`), 2_000, "a normal request");
          assert.equal(response.status, 200);
          await pause(100);
        }
        assert.equal(text(await late), "late");
      },
    },
  ]);
});
