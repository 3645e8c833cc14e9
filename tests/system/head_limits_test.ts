import assert from "node:assert/strict";
import { octets } from "../helpers/bytes.ts";
import { json, one, text } from "../helpers/http_message.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { type Row, runRows } from "../helpers/rows.ts";
import { answer } from "../helpers/upstream.ts";

/** Defaults of MAX_HEADER_BYTES, and the number that the answer must name. */
const LIMIT = 65_536;
const zeros = (count: number) => "0".repeat(count);

/** The octets of the case, as its `printf` makes them. */
function withCookie(size: number): Uint8Array {
  return octets(`GET /f59 HTTP/1.1\r\nHost: app.example\r\nCookie: a=${zeros(size)}\r\n\r\n`);
}

function withTarget(size: number): Uint8Array {
  return octets(`GET /${zeros(size)} HTTP/1.1\r\nHost: app.example\r\n\r\n`);
}

/** A request over the limit: refused with the limit named, closed, and unknown to the upstream. */
function refused(rig: Rig, name: string, sent: Uint8Array, status: number): Row {
  return {
    name,
    run: async () => {
      const before = rig.upstream.requests.length;
      await using client = await rig.connect();
      // The answer comes before all of it was taken.
      client.send(sent).catch(() => {});
      const response = await client.response();
      assert.equal(response.status, status, text(response));
      assert.match(text(response), new RegExp(`MAX_HEADER_BYTES.*${LIMIT}`));
      assert.equal(one(response, "connection")?.toLowerCase(), "close");
      await client.mustClose();
      const seen = rig.upstream.requests.slice(before).filter((one) => one.raw.length > LIMIT);
      assert.deepEqual(seen, []);
    },
  };
}

/** An answer with a Set-Cookie of that size. */
function answers(rig: Rig, size: number, status: number): Row {
  return {
    name: `F59 a Set-Cookie of ${size} octets in the answer: ${status}`,
    run: async () => {
      const path = `/answer/f59/${size}`;
      rig.upstream.route(path, async (_, connection) => {
        await connection.write(answer("ok", { fields: [`Set-Cookie: a=${zeros(size)}`] }));
        return "close";
      });
      const response = await rig.request(path);
      assert.equal(response.status, status, text(response).slice(0, 200));
      if (status === 200) assert.equal(one(response, "set-cookie"), `a=${zeros(size)}`);
      else {
        assert.equal(json(response)["code"], "head_too_large");
        assert.match(text(response), new RegExp(`MAX_HEADER_BYTES.*${LIMIT}`));
      }
    },
  };
}

for (const receivers of [1, 2] as const) {
  Deno.test(`heads of the sizes of F59, with receivers: ${receivers}`, async (t) => {
    await using rig = await startRig({ receivers });
    await runRows(t, [
      {
        name: "F59 a cookie of 20 000 octets passes with the default settings",
        run: async () => {
          await using client = await rig.connect();
          const response = await client.exchange(withCookie(20_000));
          assert.equal(response.status, 200, text(response));
          const seen = await rig.upstream.request("/f59");
          assert.equal(one(seen, "cookie"), `a=${zeros(20_000)}`);
          await client.mustStayOpen();
        },
      },
      {
        name: "F59 a target of 8 000 octets passes with the default settings",
        run: async () => {
          await using client = await rig.connect();
          const response = await client.exchange(withTarget(8_000));
          assert.equal(response.status, 200, text(response));
          const seen = await rig.upstream.request("/000");
          assert.equal(seen.target, `/${zeros(8_000)}`);
        },
      },
      refused(rig, "F59 a cookie of 1 000 000 octets: 431", withCookie(1_000_000), 431),
      refused(rig, "F59 a target of 1 000 000 octets: 414", withTarget(1_000_000), 414),
      answers(rig, 20_000, 200),
      answers(rig, 1_000_000, 502),
    ]);
  });
}
