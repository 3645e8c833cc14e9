import assert from "node:assert/strict";
import { caseFile, latin1 } from "../helpers/bytes.ts";
import { all, one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";
import { pause } from "../helpers/wait.ts";

/** Sends a malformed file: 400, the connection is closed, the upstream sees nothing of it. */
async function refused(rig: Rig, file: string, path: string): Promise<void> {
  await using client = await rig.connect();
  const response = await client.exchange(caseFile(file));
  assert.equal(response.status, 400);
  assert.equal(response.complete, true);
  await client.mustClose();
  assert.deepEqual(rig.upstream.requestsFor(path), []);
}

function rows(rig: Rig): Row[] {
  const { upstream } = rig;
  return [
    {
      name: "F02 the request-target reaches the upstream octet by octet",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F02-path-bytes.http"));
        assert.equal(response.status, 200);
        const [seen] = upstream.requestsFor("/f02");
        assert.equal(seen?.target, "/f02/queues/%2F/a%2fb//c/../d/./e;v=1?x=%2f&&y=&z");
        await client.mustStayOpen();
      },
    },
    {
      name: "F03 Content-Length with Transfer-Encoding is refused and nothing is smuggled",
      run: () => refused(rig, "F03-cl-and-te.http", "/f03"),
    },
    {
      name: "F04 two Content-Length fields that differ are refused",
      run: () => refused(rig, "F04-two-content-lengths.http", "/f04"),
    },
    {
      name: "F05 a blank before the colon is refused",
      run: () => refused(rig, "F05-space-before-colon.http", "/f05"),
    },
    {
      name: "F05 a folded field line is refused",
      run: () => refused(rig, "F05-obs-fold.http", "/f05"),
    },
    {
      name: "F06 fields that Connection names and hop-by-hop fields stay behind, both ways",
      run: async () => {
        upstream.route("/f06", async (_, connection) => {
          await connection.write(
            answer("ok", { fields: ["Connection: X-Up", "X-Up: 1", "X-Stay: 2"] }),
          );
        });
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F06-connection-nominated.http"));
        assert.equal(response.status, 200);
        assert.deepEqual(all(response, "x-up"), []);
        assert.deepEqual(all(response, "x-stay"), ["2"]);
        await client.mustClose();
        const [seen] = upstream.requestsFor("/f06");
        assert.ok(seen);
        assert.deepEqual(all(seen, "x-end"), ["keep"]);
        for (const name of ["x-hop", "keep-alive", "proxy-connection"]) {
          assert.deepEqual(all(seen, name), [], name);
        }
        const options = all(seen, "connection").join(",").toLowerCase().split(/[ ,]+/);
        if (all(seen, "te").length > 0) assert.ok(options.includes("te"), "TE without Connection");
        assert.ok(!options.includes("x-hop"));
      },
    },
    {
      name: "F09 a DELETE without framing fields gets no body and no Transfer-Encoding",
      run: async () => {
        upstream.route("/f09", async (request, connection) => {
          await request.readBody();
          await connection.write(answer());
        });
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F09-delete-no-body.http"));
        assert.equal(response.status, 200);
        const seen = upstream.requestsFor("/f09").find((r) => r.method === "DELETE");
        assert.ok(seen);
        assert.deepEqual(all(seen, "transfer-encoding"), []);
        assert.ok([null, "0"].includes(one(seen, "content-length")));
        assert.equal(seen.body?.length, 0);
        await client.mustStayOpen();
      },
    },
    {
      name: "F09 a GET with a body keeps its body and its length",
      run: async () => {
        upstream.route("/f09", async (request, connection) => {
          await request.readBody();
          await connection.write(answer());
        });
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F09-get-with-body.http"));
        assert.equal(response.status, 200);
        const seen = upstream.requestsFor("/f09").find((r) => r.method === "GET");
        assert.ok(seen);
        assert.equal(one(seen, "content-length"), "5");
        assert.deepEqual(all(seen, "transfer-encoding"), []);
        assert.equal(latin1(seen.body ?? new Uint8Array()), "hello");
        await client.mustStayOpen();
      },
    },
    {
      name: "F10 field lines keep octets, order, case and repetition",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F10-header-bytes.http"));
        assert.equal(response.status, 200);
        const [seen] = upstream.requestsFor("/f10");
        assert.ok(seen);
        const wanted = ["x-empty", "x-dup", "x-latin1", "x-utf8", "x-tab"];
        assert.deepEqual(seen.fields.filter(([name]) => wanted.includes(name.toLowerCase())), [
          ["X-Empty", ""],
          ["X-Dup", "1"],
          ["x-dup", "2"],
          ["X-Dup", "1"],
          ["X-Latin1", "caf\xe9"],
          ["X-Utf8", "caf\xc3\xa9"],
          ["X-Tab", "a\tb"],
        ]);
        assert.equal(all(seen, "cookie").join("; "), "a=1; b=2");
        await client.mustStayOpen();
      },
    },
    {
      name: "F11 pipelined requests are answered in order, then the connection closes",
      run: async () => {
        upstream.route("/f11/slow", async (_, connection) => {
          await pause(1_000);
          await connection.write(answer("slow"));
        });
        upstream.route("/f11/fast", (_, connection) => connection.write(answer("fast")));
        await using client = await rig.connect();
        const first = await client.exchange(caseFile("F11-pipelined.http"));
        assert.equal(text(first), "slow");
        assert.equal(text(await client.response()), "fast");
        await client.mustClose();
      },
    },
    {
      name: "F12 the last address that the upstream can read is the client's own",
      run: async () => {
        await using client = await rig.connect();
        const response = await client.exchange(caseFile("F12-forwarded-for.http"));
        assert.equal(response.status, 200);
        const [seen] = upstream.requestsFor("/f12");
        assert.ok(seen);
        // FORWARDED_HEADERS=append, the default: the client's list stays in front.
        const list = all(seen, "x-forwarded-for").join(", ").split(/\s*,\s*/);
        assert.deepEqual(list, ["203.0.113.9", "127.0.0.1"]);
        const forwarded = all(seen, "forwarded").join(", ");
        if (forwarded !== "") {
          assert.match(forwarded.split(",").at(-1) ?? "", /for="?127\.0\.0\.1/i);
        }
        await client.mustStayOpen();
      },
    },
  ];
}

for (const receivers of [1, 2] as const) {
  Deno.test(`requests of the case files, with receivers: ${receivers}`, async (t) => {
    await using rig = await startRig({ receivers });
    await runRows(t, rows(rig));
  });
}
