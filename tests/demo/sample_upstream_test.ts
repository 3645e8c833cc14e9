import assert from "node:assert/strict";
import {
  bigBytes,
  DEFAULT_BIG_BYTES,
  type SampleUpstream,
  startSampleUpstream,
} from "../../lib/demo/sample_upstream.ts";

async function withUpstream(run: (upstream: SampleUpstream) => Promise<void>): Promise<void> {
  const upstream = await startSampleUpstream();
  try {
    await run(upstream);
  } finally {
    await upstream.stop();
  }
}

async function sha256(bytes: Uint8Array<ArrayBuffer>): Promise<string> {
  return new Uint8Array(await crypto.subtle.digest("SHA-256", bytes)).toHex();
}

Deno.test("the sample upstream answers with text and JSON", () =>
  withUpstream(async ({ url }) => {
    for (const path of ["/", "/text"]) {
      const response = await fetch(url + path);
      assert.equal(response.status, 200);
      assert.match(response.headers.get("content-type")!, /^text\/plain/);
      assert.match(await response.text(), /^Hello from the sample upstream/);
    }
    const json = await fetch(`${url}/json`);
    assert.match(json.headers.get("content-type")!, /^application\/json/);
    assert.deepEqual((await json.json()).numbers, [1, 2, 3]);
  }));

Deno.test("the sample upstream sends its ticks one after the other and then ends", () =>
  withUpstream(async ({ url }) => {
    const startedAt = performance.now();
    const response = await fetch(`${url}/sse`);
    assert.equal(response.headers.get("content-type"), "text/event-stream");
    let body = "";
    let firstAt = NaN;
    for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
      if (body === "") firstAt = performance.now();
      body += chunk;
    }
    const endedAt = performance.now();
    assert.equal(body.match(/^data: \d of 5$/gm)?.length, 5);
    assert.ok(endedAt - firstAt > 500, `the ticks came within ${endedAt - firstAt} ms`);
    assert.ok(firstAt - startedAt < endedAt - firstAt, "the first tick waits for nothing");
    assert.equal(
      await (await fetch(`${url}/sse?n=1`)).text(),
      "id: 1\nevent: tick\ndata: 1 of 1\n\n",
    );
    assert.equal(await (await fetch(`${url}/sse?n=0`)).text(), "");
  }));

Deno.test("the sample upstream gives a body back byte for byte for any method", () =>
  withUpstream(async ({ url }) => {
    const body = Uint8Array.from({ length: 100_000 }, (_, i) => (i * 7) & 0xff);
    for (const method of ["POST", "PUT", "PATCH", "DELETE", "REPORT"]) {
      const headers = { "content-type": "x-made/up", "x-one": "1" };
      const response = await fetch(`${url}/echo?a=%20b`, { method, headers, body });
      assert.equal(response.status, 200);
      assert.equal(response.headers.get("content-type"), "x-made/up");
      assert.equal(response.headers.get("x-request-method"), method);
      assert.equal(response.headers.get("x-request-target"), "/echo?a=%20b");
      assert.equal(response.headers.get("x-request-field-x-one"), "1");
      assert.deepEqual(await response.bytes(), body);
    }
    const empty = await fetch(`${url}/echo`);
    assert.equal((await empty.bytes()).length, 0);
  }));

Deno.test("the sample upstream shows a request as text", () =>
  withUpstream(async ({ url }) => {
    const response = await fetch(`${url}/echo/request?q=1`, { headers: { "x-two": "2" } });
    assert.match(await response.text(), /^GET \/echo\/request\?q=1\n(.+\n)*x-two: 2\n/);
  }));

Deno.test("a big download has the length and the hash that its fields say", () =>
  withUpstream(async ({ url }) => {
    for (const bytes of [0, 1, 65_521, 65_536, 200_001]) {
      const response = await fetch(`${url}/big?bytes=${bytes}`);
      assert.equal(response.headers.get("content-length"), String(bytes));
      const body = await response.bytes();
      assert.deepEqual(body, bigBytes(0, bytes));
      assert.equal(response.headers.get("x-sha256"), await sha256(body));
    }
    const whole = await fetch(`${url}/big`);
    const body = await whole.bytes();
    assert.equal(body.length, DEFAULT_BIG_BYTES);
    assert.equal(whole.headers.get("x-sha256"), await sha256(body));
    const head = await fetch(`${url}/big?bytes=5000000000`, { method: "HEAD" });
    assert.equal(head.headers.get("content-length"), "5000000000");
    assert.equal(await head.text(), "");
  }));

Deno.test("the sample upstream answers late, with a given status, and says what is wrong", () =>
  withUpstream(async ({ url }) => {
    const startedAt = performance.now();
    assert.match(await (await fetch(`${url}/slow?ms=150`)).text(), /^This took \d+ ms/);
    assert.ok(performance.now() - startedAt >= 145);
    for (const status of [200, 201, 204, 304, 404, 418, 503]) {
      const response = await fetch(`${url}/status/${status}`);
      assert.equal(response.status, status);
      await response.body?.cancel();
    }
    for (
      const [path, status] of [
        ["/status/100", 400],
        ["/status/x", 404],
        ["/sse?n=-1", 400],
        ["/big?bytes=1e3", 400],
        ["/slow?ms=", 400],
        ["/nothing", 404],
      ] as const
    ) {
      const response = await fetch(url + path);
      assert.equal(response.status, status, path);
      await response.text();
    }
  }));

Deno.test("the sample upstream survives a client that leaves in the middle", () =>
  withUpstream(async ({ url }) => {
    for (const path of ["/sse?n=10000", "/big?bytes=1000000000"]) {
      const response = await fetch(url + path);
      const reader = response.body!.getReader();
      await reader.read();
      await reader.cancel();
    }
    assert.equal((await (await fetch(`${url}/json`)).json()).numbers.length, 3);
  }));

Deno.test("stopping the sample upstream ends running answers and frees the port", async () => {
  const upstream = await startSampleUpstream();
  const ticks = await fetch(`${upstream.url}/sse?n=10000`);
  const reader = ticks.body!.getReader();
  await reader.read();
  const startedAt = performance.now();
  await Promise.all([upstream.stop(), upstream.stop()]);
  assert.ok(performance.now() - startedAt < 2000);
  while (!(await reader.read()).done);
  const again = await startSampleUpstream({ port: upstream.port });
  assert.equal(again.port, upstream.port);
  await assert.rejects(startSampleUpstream({ port: upstream.port }), Deno.errors.AddrInUse);
  await again.stop();
});
