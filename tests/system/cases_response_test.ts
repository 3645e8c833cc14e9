import assert from "node:assert/strict";
import { caseFile, indexOf, latin1, octets } from "../helpers/bytes.ts";
import { requestOctets } from "../helpers/client.ts";
import { all, one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";

/** The head must be there within this time although the upstream keeps its connection open. */
const HEAD_MS = 1_000;

/** The upstream answers `path` with the file's octets and keeps its connection open. */
function answerFile(rig: Rig, path: string, file: string): void {
  rig.upstream.route(path, async (_, connection) => {
    await connection.write(caseFile(file));
  });
}

/** The body of an upstream file: what stands behind its empty line. */
function fileBody(file: string): Uint8Array {
  const octetsOfFile = caseFile(file);
  return octetsOfFile.subarray(indexOf(octetsOfFile, octets("\r\n\r\n")) + 4);
}

function headRow(rig: Rig, file: string, length: string | null): Row {
  return {
    name: `F14 HEAD passes ${file} without a body and the connection goes on`,
    run: async () => {
      const path = `/f14-${file}`;
      answerFile(rig, path, file);
      await using client = await rig.connect();
      const head = latin1(caseFile("F14-head.http")).replace("/f14", path);
      const response = await client.exchange(head, { ms: HEAD_MS });
      assert.equal(response.status, 200);
      assert.equal(one(response, "content-type"), "application/json");
      assert.equal(one(response, "content-length"), length);
      assert.equal(rig.upstream.requestsFor(path)[0]?.method, "HEAD");
      assert.equal(await client.socket.nothingFollows(500), "open");
      const next = await client.exchange(requestOctets("/after-f14"));
      assert.equal(text(next), "GET /after-f14");
      await client.mustStayOpen();
    },
  };
}

function bodilessRow(rig: Rig, file: string, status: number, field: [string, string]): Row {
  return {
    name: `F15 ${file} ends at the empty line and the connection goes on`,
    run: async () => {
      const path = `/f15-${status}`;
      answerFile(rig, path, file);
      await using client = await rig.connect();
      const response = await client.exchange(requestOctets(path), { ms: HEAD_MS });
      assert.equal(response.status, status);
      assert.equal(one(response, field[0]), field[1]);
      if (status === 204) {
        assert.deepEqual(all(response, "content-length"), []);
        assert.deepEqual(all(response, "transfer-encoding"), []);
      }
      assert.equal(await client.socket.nothingFollows(500), "open");
      const next = await client.exchange(requestOctets("/after-f15"));
      assert.equal(text(next), "GET /after-f15");
      await client.mustStayOpen();
    },
  };
}

function shortRow(rig: Rig, file: string, framing: "length" | "chunked"): Row {
  return {
    name: `F17 ${file} reaches the client as an incomplete message and is logged`,
    run: async () => {
      const path = `/f17-${framing}`;
      rig.upstream.route(path, async (_, connection) => {
        await connection.write(caseFile(file));
        return "close";
      });
      const marks = [rig.requester.mark, ...rig.receivers.map((receiver) => receiver.mark)];
      await using client = await rig.connect();
      const response = await client.exchange(requestOctets(path));
      assert.equal(response.status, 200);
      assert.equal(text(response), "0123456789");
      assert.equal(response.framing, framing);
      assert.equal(response.complete, false, "the message looks whole");
      await client.mustClose();
      // Other rows run at the same time.
      const closed = await rig.requester.flowClosed((event) => event["target"] === path, {
        from: marks[0] as number,
      });
      assert.equal(closed["code"], "target_broken");
      assert.notEqual(closed["request_id"], undefined);
      const sides = rig.receivers.map((receiver, i) =>
        receiver.flowClosed((event) => event["request_id"] === closed["request_id"], {
          from: marks[i + 1] as number,
          ms: 3_000,
        })
      );
      const owner = await Promise.any(sides);
      await Promise.allSettled(sides);
      assert.equal(owner["code"], "target_broken");
    },
  };
}

function rows(rig: Rig): Row[] {
  const { upstream } = rig;
  return [
    {
      name: "F13 three Set-Cookie lines keep their number, order and octets",
      run: async () => {
        answerFile(rig, "/f13", "F13-upstream-set-cookie.http");
        await using client = await rig.connect();
        const response = await client.exchange(requestOctets("/f13"));
        assert.deepEqual(all(response, "set-cookie"), [
          "sid=1; Path=/",
          "lang=en; Expires=Wed, 09 Jun 2032 10:18:14 GMT; Path=/",
          "sid=1; Path=/app",
        ]);
        assert.equal(text(response), "ok");
        await client.mustStayOpen();
      },
    },
    headRow(rig, "F14-upstream-head-length.http", "9757"),
    headRow(rig, "F14-upstream-head-chunked.http", null),
    bodilessRow(rig, "F15-upstream-304-chunked.http", 304, ["etag", '"v1"']),
    bodilessRow(rig, "F15-upstream-204-length.http", 204, ["x-id", "7"]),
    {
      name: "F16 a coded body, its fields and Accept-Encoding pass unchanged",
      run: async () => {
        answerFile(rig, "/f16", "F16-upstream-gzip.http");
        const asked = [["Accept-Encoding: gzip"], ["Accept-Encoding: identity"], []];
        await using client = await rig.connect();
        for (const fields of asked) {
          const response = await client.exchange(requestOctets("/f16", { fields }));
          assert.deepEqual(response.body, fileBody("F16-upstream-gzip.http"));
          assert.equal(one(response, "content-encoding"), "gzip");
          assert.equal(one(response, "content-length"), "29");
          assert.equal(one(response, "etag"), '"g1"');
        }
        assert.deepEqual(
          upstream.requestsFor("/f16").map((request) => one(request, "accept-encoding")),
          ["gzip", "identity", null],
        );
        await client.mustStayOpen();
      },
    },
    shortRow(rig, "F17-upstream-short-length.http", "length"),
    shortRow(rig, "F17-upstream-short-chunked.http", "chunked"),
    {
      name: "F19 a redirect is passed on, not followed",
      run: async () => {
        answerFile(rig, "/f19", "F19-upstream-302.http");
        await using client = await rig.connect();
        const response = await client.exchange(requestOctets("/f19"));
        assert.equal(response.status, 302);
        assert.equal(one(response, "location"), "http://127.0.0.1:18080/f19-elsewhere");
        assert.equal(one(response, "set-cookie"), "s=1; Path=/");
        assert.equal(response.bodyBytes, 0);
        await client.mustStayOpen();
        assert.equal(upstream.requestsFor("/f19").length, 1);
      },
    },
    {
      name: "an answer from an HTTP/1.0 upstream that ends by closing becomes a whole 1.1 message",
      run: async () => {
        upstream.route("/http10", async (_, connection) => {
          await connection.write("HTTP/1.0 200 Fine\r\nContent-Type: text/plain\r\n\r\nold style");
          return "close";
        });
        await using client = await rig.connect();
        const response = await client.exchange(requestOctets("/http10"));
        assert.equal(response.version, "HTTP/1.1");
        assert.equal(text(response), "old style");
        assert.equal(response.complete, true);
        assert.notEqual(response.framing, "close");
        const next = await client.exchange(requestOctets("/after-http10"));
        assert.equal(text(next), "GET /after-http10");
      },
    },
    {
      name: "a response without Date gets one, an existing Date stays",
      run: async () => {
        upstream.route("/date/none", (_, connection) => connection.write(answer()));
        const date = "Sun, 06 Nov 1994 08:49:37 GMT";
        upstream.route(
          "/date/own",
          (_, connection) => connection.write(answer("ok", { fields: [`Date: ${date}`] })),
        );
        const without = await rig.request("/date/none");
        assert.match(one(without, "date") ?? "", /^\w{3}, \d\d \w{3} \d{4} \d\d:\d\d:\d\d GMT$/);
        assert.equal(one(await rig.request("/date/own"), "date"), date);
      },
    },
    {
      name: "status, reason and field order of an unusual answer survive",
      run: async () => {
        upstream.route("/odd", (_, connection) =>
          connection.write(
            answer("{}", {
              status: "418 I'm a  teapot",
              fields: ["X-B: 2", "x-a: 1", "X-b: 3", "Vary: Accept", "X-Raw: caf\u00e9"],
            }),
          ));
        const response = await rig.request("/odd");
        assert.equal(response.status, 418);
        assert.deepEqual(
          response.fields.filter(([name]) => /^x-[ab]$/i.test(name)),
          [["X-B", "2"], ["x-a", "1"], ["X-b", "3"]],
        );
        assert.equal(one(response, "vary"), "Accept");
        assert.equal(one(response, "x-raw"), "caf\xc3\xa9");
        assert.equal(text(response), "{}");
      },
    },
  ];
}

for (const receivers of [1, 2] as const) {
  Deno.test(`responses of the case files, with receivers: ${receivers}`, async (t) => {
    await using rig = await startRig({ receivers });
    await runRows(t, rows(rig));
  });
}
