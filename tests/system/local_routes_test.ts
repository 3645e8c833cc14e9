import assert from "node:assert/strict";
import { RawClient, request, requestOctets } from "../helpers/client.ts";
import { json, one, text } from "../helpers/http_message.ts";
import { MODE } from "../helpers/mode.ts";
import type { Natsway } from "../helpers/natsway.ts";
import { startRig } from "../helpers/rig.ts";

/** What the page tells of the stream and the consumer of a role. */
function assertStreamDetails(details: Record<string, unknown>, { role, log }: Natsway): void {
  const id = log.events.find((event) => event["service_id"] !== undefined)?.["service_id"];
  assert.equal(details["stream"], "proxy");
  assert.equal(
    details["consumer"],
    role === "receiver" ? "nats-proxy" : `nats-proxy-responses-${id}`,
  );
  assert.equal(details["js_api_prefix"], "$JS.API");
  for (
    const name of ["stream_messages", "stream_bytes", "stream_last_seq", "consumer_num_pending"]
  ) {
    assert.equal(typeof details[name], "number", name);
  }
  assert.equal((details["consumer_info"] as Record<string, unknown>)["name"], details["consumer"]);
}

Deno.test("local routes are served in both roles and never cross", async (t) => {
  await using rig = await startRig();
  const { upstream } = rig;
  const roles: Natsway[] = [rig.requester, rig.receiver];
  for (const role of roles) {
    await t.step(`the ${role.role} answers its health routes`, async () => {
      for (const path of ["/health", "/healthcheck"]) {
        const response = await request(role.port, path);
        assert.equal(response.status, 200);
        assert.equal(text(response), '{"Status":"Healthy"}');
        assert.equal(one(response, "content-type")?.split(";")[0], "application/json");
        const head = await request(role.port, path, { method: "HEAD" });
        assert.equal(head.status, 200);
      }
    });
    await t.step(`the ${role.role} tells that it is ready`, async () => {
      const response = await request(role.port, "/observability/ready");
      assert.equal(response.status, 200);
      assert.equal(json(response)["ready"], true);
    });
    await t.step(`the ${role.role} shows its NATS connection`, async () => {
      const response = await request(role.port, "/observability/nats");
      assert.equal(response.status, 200, text(response));
      const body = json(response);
      assert.equal(body["role"], role.role);
      assert.equal(body["backend"], MODE);
      assert.equal(body["state"], "ready");
      assert.equal(body["error"], null);
      assert.equal(body["bridge_inbound"], role.role === "receiver");
      assert.equal(body["bridge_outbound"], role.role === "requester");
      const details = body["mode_details"] as Record<string, unknown>;
      assert.equal(details["jetstream_available"], MODE === "jetstream");
      if (MODE === "core") assert.equal(details["backend_mode"], "core");
      else assertStreamDetails(details, role);
      const connection = body["connection"] as Record<string, unknown>;
      assert.equal(connection["status"], "connected");
      assert.equal(connection["connected"], true);
      assert.equal(connection["disconnected"], false);
      assert.equal(connection["closed"], false);
      assert.equal(connection["draining"], false);
      assert.equal(
        typeof (connection["server_info"] as Record<string, unknown>)["version"],
        "string",
      );
      assert.equal(typeof body["service_id"], "string");
      assert.equal(typeof body["ts"], "string");
    });
    await t.step(`the ${role.role} answers unknown observability routes with 404`, async () => {
      const response = await request(role.port, "/observability/no-such-page");
      assert.equal(response.status, 404);
      assert.equal((await request(role.port, "/observabilityx")).status, 404);
    });
    await t.step(`the ${role.role} never bridges a local path with another method`, async () => {
      for (const method of ["POST", "PUT", "DELETE"]) {
        for (const path of ["/health", "/healthcheck", "/observability/nats"]) {
          const response = await request(role.port, path, { method, body: "x" });
          assert.ok([404, 405].includes(response.status), `${method} ${path}: ${response.status}`);
        }
      }
    });
    await t.step(`the ${role.role} keeps the connection after a local answer`, async () => {
      await using client = await RawClient.connect(role.port);
      assert.equal((await client.exchange(requestOctets("/health"))).status, 200);
      assert.equal((await client.exchange(requestOctets("/healthcheck"))).status, 200);
    });
  }
  await t.step("a page is refused when the request came through another proxy", async () => {
    for (const field of ["X-Forwarded-For: 10.0.0.1", "Forwarded: for=10.0.0.1"]) {
      const response = await rig.request("/observability/nats", { fields: [field] });
      assert.equal(response.status, 403);
      assert.match(text(response), /OBSERVABILITY_(TOKEN|ACCESS)/);
      const ready = await rig.request("/observability/ready", { fields: [field] });
      assert.equal(ready.status, 200);
    }
  });
  await t.step("nothing local reached the upstream", () => {
    assert.deepEqual(upstream.requests.map((seen) => seen.target), []);
  });
  await t.step("paths that only look local are bridged", async () => {
    for (const path of ["/healthy", "/health/x", "/metrics", "/HEALTH", "/x/health"]) {
      assert.equal(text(await rig.request(path)), `GET ${path}`);
    }
  });
  await t.step("a receiver's port serves nothing else", async () => {
    const before = upstream.requests.length;
    for (const target of ["/", "/anything", `${upstream.url}/absolute`, "/metrics"]) {
      const response = await request(rig.receiver.port, target);
      assert.equal(response.status, 503, target);
    }
    const connect = await request(rig.receiver.port, `127.0.0.1:${upstream.port}`, {
      method: "CONNECT",
      fields: [`Host: 127.0.0.1:${upstream.port}`],
    });
    assert.equal(connect.status, 503);
    assert.equal(upstream.requests.length, before);
  });
  await t.step(
    "absolute-form and CONNECT at the requester are not bridged to the upstream",
    async () => {
      const before = upstream.requests.length;
      const absolute = await rig.request(`http://127.0.0.1:${upstream.port}/absolute`);
      assert.ok(absolute.status >= 400, `${absolute.status}`);
      const connect = await rig.request(`127.0.0.1:${upstream.port}`, {
        method: "CONNECT",
        fields: [`Host: 127.0.0.1:${upstream.port}`],
      });
      assert.ok(connect.status >= 400, `${connect.status}`);
      const local = await rig.request("http://anywhere.example/health");
      assert.ok(local.status >= 400, "an absolute URL with a local path is proxy traffic");
      assert.equal(upstream.requests.length, before);
    },
  );
});

Deno.test("OBSERVABILITY_TOKEN opens the pages to its bearer, OBSERVABILITY_ACCESS=off closes them", async () => {
  await using rig = await startRig({
    requesterSettings: { OBSERVABILITY_ACCESS: "off", OBSERVABILITY_TOKEN: "letmein-12345" },
    receiverSettings: { OBSERVABILITY_ACCESS: "off" },
  });
  const page = "/observability/nats";
  const withToken = (token: string) => ({ fields: [`Authorization: Bearer ${token}`] });
  assert.equal((await rig.request(page)).status, 403);
  assert.equal((await rig.request(page, withToken("wrong"))).status, 403);
  assert.equal((await rig.request(page, withToken("letmein-12345"))).status, 200);
  assert.equal((await request(rig.receiver.port, page)).status, 403);
  for (const role of [rig.requester, rig.receiver]) {
    assert.equal((await request(role.port, "/observability/ready")).status, 200);
    assert.equal((await request(role.port, "/health")).status, 200);
  }
});

Deno.test("every flow is logged once on each side, with the same request id", async () => {
  await using rig = await startRig();
  for (let i = 0; i < 5; i++) await rig.request(`/logged/${i}`, { method: "POST", body: "hello" });
  await rig.request("/observability/ready");
  const ids: string[][] = [];
  for (const role of [rig.requester, rig.receiver]) {
    role.kill("SIGTERM");
    await role.ended();
    const closed = role.log.events.filter((event) => event.message === "flow closed");
    assert.equal(closed.length, 5, role.described("one line for each flow"));
    for (const event of closed) {
      assert.equal(event["code"], "ok");
      assert.equal(event["status"], 200);
      assert.equal(typeof event["kind"], "string");
      assert.equal(typeof event["ms"], "number");
    }
    ids.push(closed.map((event) => String(event["request_id"])).sort());
  }
  assert.deepEqual(ids[0], ids[1]);
  assert.equal(new Set(ids[0]).size, 5);
});
