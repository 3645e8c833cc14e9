import assert from "node:assert/strict";
import { localRoutes, type RoutesOptions, type ServiceView } from "../../lib/observe/routes.ts";
import { MemoryTransport } from "../helpers/unit_transport.ts";

const LOOPBACK = "127.0.0.1";
const OUTSIDE = "192.0.2.7";

function view(changes: Partial<ServiceView> = {}): ServiceView {
  return {
    role: "requester",
    serviceId: "edge-a",
    state: "ready",
    reason: null,
    transport: new MemoryTransport().status(),
    bridgeInbound: false,
    bridgeOutbound: true,
    flows: 3,
    ...changes,
  };
}

/** Asks the routes for `path`; gives status and body. */
async function ask(
  path: string,
  options: {
    routes?: Partial<RoutesOptions>;
    view?: Partial<ServiceView>;
    from?: string;
    headers?: Record<string, string>;
    method?: string;
  } = {},
): Promise<{ status: number; body: string }> {
  const app = localRoutes({
    view: () => view(options.view),
    inspect: () => new MemoryTransport().inspect(),
    access: "local",
    token: null,
    ...options.routes,
  });
  const request = new Request(new URL(path, "http://local"), {
    method: options.method ?? "GET",
    headers: options.headers ?? {},
  });
  const answer = await app(request, options.from ?? LOOPBACK);
  return { status: answer.status, body: await answer.text() };
}

Deno.test("Health is told to anybody, whatever the state", async () => {
  for (const path of ["/health", "/healthcheck"]) {
    const answer = await ask(path, {
      from: OUTSIDE,
      view: { state: "failed", reason: "x" },
      routes: { access: "off" },
    });
    assert.deepEqual(answer, { status: 200, body: '{"Status":"Healthy"}' });
  }
});

Deno.test("Readiness is told to anybody, with its reason when there is none", async () => {
  const ready = await ask("/observability/ready", { from: OUTSIDE, routes: { access: "off" } });
  assert.deepEqual(ready, {
    status: 200,
    body: '{"ready":true,"state":"ready","role":"requester","service_id":"edge-a"}',
  });
  const booting = await ask("/observability/ready", {
    from: OUTSIDE,
    view: { state: "booting", reason: "not connected to NATS" },
  });
  assert.deepEqual(booting, {
    status: 503,
    body: '{"ready":false,"state":"booting","role":"requester","service_id":"edge-a",' +
      '"reason":"not connected to NATS"}',
  });
});

Deno.test("The page about NATS has the members of http-surface.md section 6.4", async () => {
  const { status, body } = await ask("/observability/nats");
  assert.equal(status, 200);
  const page = JSON.parse(body);
  assert.match(page.ts, /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/);
  assert.equal(page.service_id, "edge-a");
  assert.equal(page.role, "requester");
  assert.equal(page.backend, "core");
  assert.equal(page.state, "ready");
  assert.equal(page.error, null);
  assert.equal(page.bridge_inbound, false);
  assert.equal(page.bridge_outbound, true);
  assert.equal(page.mode_details.backend_mode, "core");
  assert.equal(page.mode_details.jetstream_available, false);
  const { connection } = page;
  assert.equal(connection.status, "connected");
  assert.equal(connection.connected, true);
  assert.equal(connection.disconnected, false);
  assert.equal(connection.closed, false);
  assert.equal(connection.draining, false);
  assert.equal(connection.last_error, null);
  assert.equal(connection.server_info, null);
});

const NATS = "/observability/nats";

Deno.test("OBSERVABILITY_ACCESS=local answers loopback peers that speak for themselves", async () => {
  for (const from of ["127.0.0.1", "127.8.9.10", "::1", "::ffff:127.0.0.1"]) {
    assert.equal((await ask(NATS, { from })).status, 200, from);
    for (const name of ["X-Forwarded-For", "Forwarded"]) {
      const headers = { [name]: "for=1.2.3.4" };
      assert.equal((await ask(NATS, { from, headers })).status, 403, `${from} ${name}`);
    }
  }
  for (
    const from of [
      OUTSIDE,
      "10.0.0.1",
      "::ffff:10.0.0.1",
      "2001:db8::1",
      "127.0.0.1.evil",
      "1127.0.0.1",
      "",
    ]
  ) {
    const { status, body } = await ask(NATS, { from });
    assert.equal(status, 403, from);
    assert.match(body, /OBSERVABILITY_TOKEN.*OBSERVABILITY_ACCESS=open.*"code":"access_denied"/);
  }
});

Deno.test("OBSERVABILITY_ACCESS=open answers all, off answers none", async () => {
  const headers = { "X-Forwarded-For": "1.2.3.4" };
  assert.equal(
    (await ask(NATS, { from: OUTSIDE, headers, routes: { access: "open" } })).status,
    200,
  );
  assert.equal((await ask(NATS, { routes: { access: "off" } })).status, 403);
});

Deno.test("The bearer of OBSERVABILITY_TOKEN reads from anywhere, nobody else by it", async () => {
  const routes = { access: "off", token: "s3cret" } as const;
  const asked = async (authorization: string) =>
    (await ask(NATS, { from: OUTSIDE, headers: { authorization }, routes })).status;
  assert.equal(await asked("Bearer s3cret"), 200);
  assert.equal(await asked("bearer  s3cret"), 200);
  for (
    const wrong of [
      "Bearer s3cre",
      "Bearer s3crets",
      "Bearer S3cret",
      "Bearer",
      "Basic s3cret",
      "s3cret",
      "Bearer a s3cret",
      "Bearer \xff",
    ]
  ) {
    assert.equal(await asked(wrong), 403, wrong);
  }
  const none = await ask(NATS, {
    from: OUTSIDE,
    headers: { authorization: "Bearer null" },
    routes: { access: "off", token: null },
  });
  assert.equal(none.status, 403);
});

Deno.test("The guard holds for other spellings of the path, and unknown pages tell no stranger", async () => {
  for (
    const path of [
      "/observability/%6eats",
      "/observability/./nats",
      "/observability//nats",
      "/observability/flows",
      "/observability",
      "/observability/",
    ]
  ) {
    assert.equal((await ask(path, { from: OUTSIDE })).status, 403, path);
  }
  for (
    const path of ["/observability/flows", "/observabilityx", "/observability", "/healthy", "/"]
  ) {
    assert.equal((await ask(path)).status, 404, path);
  }
});

Deno.test("HEAD is answered like GET, without a body", async () => {
  for (const path of ["/health", "/observability/ready", NATS]) {
    assert.deepEqual(await ask(path, { method: "HEAD" }), { status: 200, body: "" });
  }
});
