import assert from "node:assert/strict";
import { pattern } from "../helpers/bytes.ts";
import { startNats } from "../helpers/nats_server.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { startUpstream, type Upstream } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";
import { RubyRequester } from "./ruby_requester.ts";
import { bodyText, chunkedHead, httpChunk, routeTicks } from "./sides.ts";

const STREAM_TIMEOUT_S = 1.5;

/** Waits until the receiver has left the connection of the request for `path`. */
async function upstreamGone(upstream: Upstream, path: string): Promise<void> {
  const request = await upstream.request(path);
  await upstream.connections.find((connection) => connection.requests.includes(request))?.waitEnd();
}

function endingRows(edge: RubyRequester, upstream: Upstream): Row[] {
  return [
    {
      name: "a stream that its client leaves ends at the upstream, by the cancel's owner form",
      run: async () => {
        const call = edge.ask("/ticks/owner");
        await call.event("response_chunk");
        call.leave();
        await upstreamGone(upstream, "/ticks/owner");
        await call.done;
        assert.ok(call.sawEnd);
        assert.ok(call.chunksAfterCancel <= 50, "it went on long after the cancel");
        const error = await call.event("response_error");
        assert.equal(error["error"], "stream canceled: downstream_disconnect");
      },
    },
    {
      name: "the cancel's early form ends a request that has no answer yet",
      run: async () => {
        upstream.route("/end/early", (_, connection) => connection.waitEnd(60_000));
        const call = edge.ask("/end/early");
        await upstream.request("/end/early");
        call.leaveEarly();
        await upstreamGone(upstream, "/end/early");
        await call.event("response_end");
      },
    },
    {
      name: "a stream whose upstream breaks has its error in-band, and ends",
      run: async () => {
        upstream.route("/end/broken", async (_, connection) => {
          await connection.write(chunkedHead("text/event-stream"));
          await connection.write(httpChunk("data: 1\n\n"));
          return "close";
        });
        const call = edge.ask("/end/broken");
        const response = await call.done;
        assert.equal(bodyText(response), "data: 1\n\n");
        assert.match(response.inBand ?? "", /^Upstream unavailable: ./);
        await call.event("response_end");
      },
    },
    {
      name: "a buffered answer whose upstream breaks is no 200",
      run: async () => {
        upstream.route("/end/short", async (_, connection) => {
          await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nshort");
          return "close";
        });
        assert.ok((await edge.ask("/end/short").done).status >= 502);
      },
    },
    {
      name: "an upstream that closes without an answer: 503 Upstream unavailable",
      run: async () => {
        upstream.route("/end/nothing", () => "close");
        const response = await edge.ask("/end/nothing", { method: "POST", body: "x" }).done;
        assert.equal(response.status, 503);
        assert.match(bodyText(response), /^\{"error":"Upstream unavailable: .*"/);
      },
    },
    {
      name: "an upstream that does not answer in time: 503 Upstream unavailable",
      run: async () => {
        upstream.route("/end/late", (_, connection) => connection.waitEnd(60_000));
        const response = await edge.ask("/end/late").done;
        assert.equal(response.status, 503);
        assert.match(bodyText(response), /^\{"error":"Upstream unavailable: .*"/);
      },
    },
    {
      name:
        "a stream that is quiet for longer than STREAM_RESPONSE_TIMEOUT is kept by empty chunks",
      run: async () => {
        upstream.route("/end/idle", async (_, connection) => {
          await connection.write(chunkedHead("text/event-stream"));
          await connection.write(httpChunk("data: 1\n\n"));
          await pause(STREAM_TIMEOUT_S * 2_000);
          await connection.write(httpChunk("data: 2\n\n"));
          await connection.write("0\r\n\r\n");
        });
        const response = await edge.ask("/end/idle").done;
        assert.equal(response.inBand, null);
        assert.equal(bodyText(response), "data: 1\n\ndata: 2\n\n");
      },
    },
    {
      name: "a buffered answer that pauses for longer than STREAM_RESPONSE_TIMEOUT is kept as well",
      run: async () => {
        upstream.route("/end/pause", async (_, connection) => {
          await connection.write("HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nfour");
          await pause(STREAM_TIMEOUT_S * 2_000);
          await connection.write("more");
        });
        const response = await edge.ask("/end/pause").done;
        assert.equal(response.status, 200);
        assert.equal(bodyText(response), "fourmore");
      },
    },
    {
      name: "a reader that stalls gets the error of section 7, and the upstream is left",
      run: async () => {
        const piece = httpChunk(pattern(32_768));
        const left = Promise.withResolvers<void>();
        upstream.route("/end/stall", async (_, connection) => {
          await connection.write(chunkedHead("text/event-stream"));
          try {
            while (true) await connection.write(piece);
          } catch {
            left.resolve();
          }
          return "close";
        });
        const go = Promise.withResolvers<void>();
        const call = edge.ask("/end/stall", { onBody: () => go.promise });
        const error = await call.event("response_error");
        assert.equal(error["error"], "Response flow credit timeout");
        await call.event("response_end");
        go.resolve();
        await call.done;
        await within(left.promise, 10_000, "the end of the upstream's connection");
      },
    },
  ];
}

Deno.test("responses end at a Ruby requester as the contract says", async (t) => {
  await using nats = await startNats();
  await using upstream = await startUpstream();
  routeTicks(upstream);
  await using receiver = await startNatsway("receiver", {
    NATS_URL: nats.url,
    UPSTREAM_URL: upstream.url,
    SERVICE_ID: "worker-1",
    NATS_RESPONSE_TIMEOUT: "2",
    STREAM_RESPONSE_TIMEOUT: String(STREAM_TIMEOUT_S),
  });
  await using edge = await RubyRequester.start({
    port: nats.port,
    serviceId: "edge-a",
    responseTimeoutMs: 5_000,
    streamTimeoutMs: STREAM_TIMEOUT_S * 1_000,
  });
  await runRows(t, endingRows(edge, upstream));
  await t.step("nothing came that a Ruby requester has no place for", () => {
    // What follows an answer that has ended for its client finds no id at a Ruby peer either.
    edge.dropped.length = 0;
    edge.assertContent();
  });
  assert.ok(receiver.running);
});
