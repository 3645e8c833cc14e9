import assert from "node:assert/strict";
import { requestOctets } from "../helpers/client.ts";
import { all, json, one, type TestRequest, text } from "../helpers/http_message.ts";
import { startNatsway } from "../helpers/natsway.ts";
import { RawClient } from "../helpers/client.ts";
import { type Rig, startRig } from "../helpers/rig.ts";
import { answer } from "../helpers/upstream.ts";

/** What the upstream got for a request with these fields. */
async function seenFor(rig: Rig, target: string, fields: string[] = []): Promise<TestRequest> {
  const response = await rig.request(target, { fields });
  assert.equal(response.status, 200, text(response));
  const seen = rig.upstream.requests.findLast((request) => request.target.endsWith(target));
  assert.ok(seen, `the upstream did not get ${target}`);
  return seen;
}

const CLAIMS = [
  "X-Forwarded-For: 203.0.113.9",
  "X-Forwarded-Proto: https",
  "X-Forwarded-Host: claimed.example",
  "Forwarded: for=203.0.113.9;proto=https",
];

Deno.test("by default the upstream gets its own Host, X-Forwarded fields, and Via", async (t) => {
  await using rig = await startRig();
  await t.step("Host is the authority of UPSTREAM_URL", async () => {
    const seen = await seenFor(rig, "/host");
    assert.equal(one(seen, "host"), `127.0.0.1:${rig.upstream.port}`);
  });
  await t.step("X-Forwarded-For, -Proto and -Host tell the client's side", async () => {
    const seen = await seenFor(rig, "/forwarded");
    assert.equal(one(seen, "x-forwarded-for"), "127.0.0.1");
    assert.equal(one(seen, "x-forwarded-proto"), "http");
    assert.equal(one(seen, "x-forwarded-host"), "app.example");
  });
  await t.step(
    "Via is appended to requests and responses, with one pseudonym each way",
    async () => {
      rig.upstream.route(
        "/via",
        (_, connection) => connection.write(answer("ok", { fields: ["Via: 1.0 origin-side"] })),
      );
      const response = await rig.request("/via", { fields: ["Via: 1.0 client-side"] });
      const [seen] = rig.upstream.requestsFor("/via");
      assert.ok(seen);
      assert.match(
        all(seen, "via").join(", "),
        /^1\.0 client-side, 1\.1 natsway-[A-Za-z0-9_-]+(, 1\.1 natsway-[A-Za-z0-9_-]+)?$/,
      );
      assert.match(
        all(response, "via").join(", "),
        /^1\.0 origin-side, 1\.1 natsway-[A-Za-z0-9_-]+/,
      );
    },
  );
  await t.step("a request that carries the own pseudonym is a loop: 508", async () => {
    const seen = await seenFor(rig, "/loop-first");
    const via = all(seen, "via").join(", ");
    const response = await rig.request("/loop-second", { fields: [`Via: ${via}`] });
    assert.equal(response.status, 508);
    assert.equal(json(response)["code"], "loop");
    assert.deepEqual(rig.upstream.requestsFor("/loop-second"), []);
  });
  await t.step("the pseudonym of another natsway is no loop", async () => {
    const response = await rig.request("/no-loop", { fields: ["Via: 1.1 natsway-elsewhere1"] });
    assert.equal(response.status, 200);
  });
  await t.step(
    "Max-Forwards of TRACE and OPTIONS: 0 is answered here, else decremented",
    async () => {
      for (const method of ["TRACE", "OPTIONS"]) {
        const target = `/max/${method}`;
        const zero = await rig.request(target, { method, fields: ["Max-Forwards: 0"] });
        assert.ok(zero.status === 200 || zero.status === 204, `${zero.status}`);
        assert.deepEqual(rig.upstream.requestsFor(target), []);
        await rig.request(target, { method, fields: ["Max-Forwards: 5"] });
        const [seen] = rig.upstream.requestsFor(target);
        assert.equal(seen && one(seen, "max-forwards"), "4");
      }
      const seen = await seenFor(rig, "/max/GET", ["Max-Forwards: 0"]);
      assert.equal(one(seen, "max-forwards"), "0");
    },
  );
  await t.step("a TRACE answered here does not show credentials", async () => {
    const response = await rig.request("/max/secret", {
      method: "TRACE",
      fields: ["Max-Forwards: 0", "Authorization: Bearer s3cr3t", "Cookie: id=s3cr3t"],
    });
    assert.ok(!text(response).includes("s3cr3t"));
  });
  await t.step("Connection cannot name framing fields or Host away", async () => {
    const response = await rig.request("/named-away", {
      method: "POST",
      body: "hello",
      fields: ["Connection: content-length, host, x-gone", "X-Gone: 1"],
    });
    assert.equal(response.status, 200);
    const [seen] = rig.upstream.requestsFor("/named-away");
    assert.ok(seen);
    assert.equal(new TextDecoder().decode(seen.body ?? undefined), "hello");
    assert.notEqual(one(seen, "host"), null);
    assert.deepEqual(all(seen, "x-gone"), []);
  });
  await t.step(
    "Authorization, cookies and tracing fields pass, Proxy-Authorization does not",
    async () => {
      const trace = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
      const seen = await seenFor(rig, "/end-to-end", [
        "Authorization: Bearer x",
        "Proxy-Authorization: Basic eA==",
        `traceparent: ${trace}`,
        "tracestate: a=1",
      ]);
      assert.equal(one(seen, "authorization"), "Bearer x");
      assert.equal(one(seen, "traceparent"), trace);
      assert.equal(one(seen, "tracestate"), "a=1");
      assert.deepEqual(all(seen, "proxy-authorization"), []);
    },
  );
});

Deno.test("UPSTREAM_HOST=client, VIA=off, FORWARDED_HEADERS and a path prefix do what they say", async (t) => {
  await using rig = await startRig({
    upstreamPath: "/base/v1",
    settings: { VIA: "off" },
    receiverSettings: { UPSTREAM_HOST: "client" },
    requesterSettings: { FORWARDED_HEADERS: "replace" },
  });
  await t.step(
    "the path prefix of UPSTREAM_URL stands in front of the unchanged target",
    async () => {
      const seen = await seenFor(rig, "/a%2Fb//c?x=1&x=2");
      assert.equal(seen.target, "/base/v1/a%2Fb//c?x=1&x=2");
    },
  );
  await t.step("Host is what the client sent", async () => {
    assert.equal(one(await seenFor(rig, "/client-host"), "host"), "app.example");
  });
  await t.step("VIA=off adds nothing", async () => {
    const response = await rig.request("/no-via");
    assert.deepEqual(all(response, "via"), []);
    const seen = rig.upstream.requests.find((request) => request.target.endsWith("/no-via"));
    assert.deepEqual(seen && all(seen, "via"), []);
  });
  await t.step("F12 FORWARDED_HEADERS=replace drops what the client claims", async () => {
    const seen = await seenFor(rig, "/replace", CLAIMS);
    assert.equal(one(seen, "x-forwarded-for"), "127.0.0.1");
    assert.equal(one(seen, "x-forwarded-proto"), "http");
    assert.equal(one(seen, "x-forwarded-host"), "app.example");
    assert.ok(!all(seen, "forwarded").join().includes("203.0.113.9"));
  });
});

Deno.test("F12 FORWARDED_HEADERS=off adds nothing and does not pass a claim on alone", async () => {
  await using rig = await startRig({ requesterSettings: { FORWARDED_HEADERS: "off" } });
  const seen = await seenFor(rig, "/off", CLAIMS);
  assert.ok(!seen.raw.includes("203.0.113.9"), seen.raw);
  const plain = await seenFor(rig, "/off-plain");
  for (const name of ["x-forwarded-for", "x-forwarded-proto", "x-forwarded-host", "forwarded"]) {
    assert.deepEqual(all(plain, name), [], name);
  }
});

Deno.test("a requester whose receiver's upstream is the requester itself answers 508", async () => {
  await using rig = await startRig({ receivers: 0 });
  await using _receiver = await startNatsway("receiver", {
    ...rig.receiverSettings,
    UPSTREAM_URL: `http://127.0.0.1:${rig.port}`,
  });
  await using client = await RawClient.connect(rig.port);
  const response = await client.exchange(requestOctets("/endless"));
  assert.equal(response.status, 508);
});
