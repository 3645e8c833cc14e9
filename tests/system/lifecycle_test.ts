import assert from "node:assert/strict";
import { backendSettings } from "../helpers/backend.ts";
import { RawClient, request, requestOctets } from "../helpers/client.ts";
import { text } from "../helpers/http_message.ts";
import { freePort, startNats } from "../helpers/nats_server.ts";
import { runNatsway, startNatsway, TEST_SETTINGS } from "../helpers/natsway.ts";
import { commandLine } from "../helpers/proc.ts";
import { startRig } from "../helpers/rig.ts";
import { answer, startUpstream } from "../helpers/upstream.ts";
import { pause, within } from "../helpers/wait.ts";

/** How long the running request takes while a role stops. */
const WORK_MS = 2_000;

for (const role of ["requester", "receiver"] as const) {
  for (const signal of ["SIGTERM", "SIGINT"] as const) {
    Deno.test(`F53 the first ${signal} lets the ${role} finish its running request, then it exits 0`, async () => {
      await using rig = await startRig();
      rig.upstream.route("/works", async (_, connection) => {
        await pause(WORK_MS);
        await connection.write(answer("done"));
      });
      const stopping = role === "requester" ? rig.requester : rig.receiver;
      await using client = await rig.connect();
      await client.send(requestOctets("/works"));
      await rig.upstream.request("/works");
      stopping.kill(signal);
      await stopping.event("stopping");
      const response = await client.response();
      assert.equal(text(response), "done");
      assert.equal(response.complete, true);
      const status = await stopping.ended();
      assert.equal(status.code, 0, stopping.described("exit code"));
      assert.equal(status.signal, null);
      await stopping.event("stopped");
    });
  }
}

for (const role of ["requester", "receiver"] as const) {
  Deno.test(`F53 the second SIGTERM ends the ${role} at once`, async () => {
    await using rig = await startRig();
    rig.upstream.route("/hangs", async (_, connection) => {
      await connection.waitEnd(60_000);
    });
    const stopping = role === "requester" ? rig.requester : rig.receiver;
    await using client = await rig.connect();
    await client.send(requestOctets("/hangs"));
    await rig.upstream.request("/hangs");
    stopping.kill("SIGTERM");
    await stopping.event("stopping");
    assert.equal(stopping.running, true);
    const started = performance.now();
    stopping.kill("SIGTERM");
    await stopping.ended(2_000);
    assert.ok(performance.now() - started < 2_000);
  });
}

Deno.test("SHUTDOWN_GRACE bounds the drain: what still runs ends visibly and the exit is 0", async () => {
  await using rig = await startRig({ settings: { SHUTDOWN_GRACE: "1" } });
  rig.upstream.route("/endless", async (_, connection) => {
    await connection.write("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n");
    await connection.waitEnd(60_000);
  });
  await using client = await rig.connect();
  await client.send(requestOctets("/endless"));
  await client.socket.readUntil("hello");
  const started = performance.now();
  rig.receiver.kill("SIGTERM");
  const status = await rig.receiver.ended(8_000);
  assert.ok(performance.now() - started > 900);
  assert.equal(status.code, 0);
  // No invented last chunk: the client can tell that the message is not whole.
  const rest = await client.socket.readUntil("0\r\n\r\n", 3_000).then(() => "whole", () => "cut");
  assert.equal(rest, "cut");
  assert.notEqual(client.socket.end, "open");
});

Deno.test("F53 during the drain of one receiver new requests go to the other at once", async () => {
  await using rig = await startRig({ receivers: 2 });
  rig.upstream.route("/slow", async (_, connection) => {
    await pause(WORK_MS);
    await connection.write(answer("slow"));
  });
  const slow = Array.from({ length: 6 }, (_, i) => rig.request(`/slow/${i}`));
  await Promise.all(Array.from({ length: 6 }, (_, i) => rig.upstream.request(`/slow/${i}`)));
  rig.receiver.kill("SIGTERM");
  await rig.receiver.event("stopping");
  for (let i = 0; i < 20; i++) {
    const response = await within(rig.request(`/new/${i}`), 1_500, `new request ${i}`);
    assert.equal(response.status, 200);
  }
  for (const response of await Promise.all(slow)) assert.equal(text(response), "slow");
  assert.equal((await rig.receiver.ended()).code, 0);
});

Deno.test("during its drain a role is not ready, and says so on kept connections", async () => {
  await using rig = await startRig();
  rig.upstream.route("/slow", async (_, connection) => {
    await pause(WORK_MS);
    await connection.write(answer("slow"));
  });
  await using client = await rig.connect();
  await client.exchange(requestOctets("/kept"));
  const slow = rig.request("/slow");
  await rig.upstream.request("/slow");
  await using health = await rig.connect();
  await health.exchange(requestOctets("/observability/ready"));
  rig.requester.kill("SIGTERM");
  await rig.requester.event("stopping");
  await health.send(requestOctets("/observability/ready"));
  // Either answered 503 on the connection that was there already, or the idle connection is closed.
  const outcome = await health.response().then(
    (response) => response.status,
    () => health.socket.end,
  );
  assert.ok(outcome === 503 || outcome === "fin" || outcome === "reset", `${outcome}`);
  await rig.requester.event((event) => event.message === "not ready");
  assert.equal(text(await slow), "slow");
  assert.equal((await rig.requester.ended()).code, 0);
  await client.socket.waitEnd(2_000);
});

Deno.test("F39 SIGTERM while NATS is away ends both roles with exit 0", async () => {
  const url = `nats://127.0.0.1:${freePort()}`;
  for (const role of ["requester", "receiver"]) {
    await using natsway = await startNatsway(
      role,
      {
        NATS_URL: url,
        ...(role === "receiver" ? { UPSTREAM_URL: "http://127.0.0.1:1" } : {}),
      },
      { waitFor: "listening" },
    );
    natsway.kill("SIGTERM");
    assert.equal((await natsway.ended(5_000)).code, 0, natsway.described(role));
  }
});

Deno.test("F62 a taken HTTP port: exit 3 within 5 s and one line with role, address and port", async () => {
  await using occupant = await startUpstream();
  await using nats = await startNats();
  for (const role of ["requester", "receiver"]) {
    const result = await runNatsway([role], {
      ...TEST_SETTINGS,
      LOG_LEVEL: "error",
      NATS_URL: nats.url,
      PORT: String(occupant.port),
    });
    assert.equal(result.code, 3, result.stderr);
    assert.ok(result.ms < 5_000, `${result.ms} ms`);
    const lines = result.stderr.trim().split("\n");
    assert.equal(lines.length, 1, result.stderr);
    assert.match(lines[0] ?? "", new RegExp(`${role}.*127\\.0\\.0\\.1:${occupant.port}`));
    assert.doesNotMatch(result.stderr, /\n\s+at /);
  }
});

Deno.test("F62 a requester that restarts under load binds its port at once", async () => {
  await using rig = await startRig();
  const port = rig.port;
  let going = true;
  const load = (async () => {
    while (going) {
      await request(port, "/load").catch(() => {});
      await pause(5);
    }
  })();
  try {
    let requester = rig.requester;
    for (let i = 0; i < 3; i++) {
      requester.kill("SIGTERM");
      assert.equal((await requester.ended()).code, 0);
      requester = await startNatsway("requester", {
        ...rig.requesterSettings,
        PORT: String(port),
      });
      try {
        assert.equal((await request(port, "/bound")).status, 200);
      } finally {
        if (i === 2) await requester[Symbol.asyncDispose]();
      }
    }
  } finally {
    going = false;
    await load;
  }
});

Deno.test("F61 wrong settings end the start before anything listens, one line for each", async () => {
  const result = await runNatsway(["requester", "--no-such-flag=1"], {
    PORT: "70000",
    MAX_FLOWS: "many",
  });
  assert.equal(result.code, 2, result.stderr);
  const lines = result.stderr.trim().split("\n");
  for (const part of [/no-such-flag/, /PORT.*70000/, /MAX_FLOWS.*many/]) {
    assert.equal(lines.filter((line) => part.test(line)).length, 1, `${part} in ${result.stderr}`);
  }
  assert.doesNotMatch(result.stderr, /\n\s+at /);
  assert.doesNotMatch(result.stderr, /"listening"/);
});

Deno.test("F61 a misplaced setting and a near-miss variable are warnings, and the start goes on", async () => {
  await using nats = await startNats();
  await using requester = await startNatsway("requester", {
    NATS_URL: nats.url,
    RECEIVER_MAX_INFLIGHT: "5",
    MAX_FLOWZ: "7",
  });
  await requester.event((event) =>
    event.level === "warning" && JSON.stringify(event).includes("RECEIVER_MAX_INFLIGHT")
  );
  await requester.event((event) =>
    event.level === "warning" && JSON.stringify(event).includes("MAX_FLOWZ")
  );
});

Deno.test("F63 no secret is in any output, page or process title", async () => {
  const secrets = ["h1dden-nats", "h1dden-token", "h1dden-auth", "h1dden-cookie", "h1dden-query"];
  const config = `authorization { user: "app", password: "h1dden-nats" }`;
  await using rig = await startRig({
    natsConfig: config,
    natsUser: { user: "app", pass: "h1dden-nats" },
    receivers: 0,
    requesterSettings: { NATS_USER: "app", NATS_PASSWORD: "h1dden-nats" },
  });
  const url = `nats://app:h1dden-nats@127.0.0.1:${rig.nats.port}`;
  await using requester = await startNatsway("requester", {
    ...backendSettings(),
    NATS_URL: url,
    OBSERVABILITY_TOKEN: "h1dden-token",
  });
  await using receiver = await startNatsway("receiver", {
    ...backendSettings(),
    NATS_URL: url,
    UPSTREAM_URL: rig.upstream.url,
  });
  const fields = ["Authorization: Bearer h1dden-auth", "Cookie: id=h1dden-cookie"];
  for (const target of ["/f63?key=h1dden-query", "/f63"]) {
    assert.equal((await request(requester.port, target, { fields })).status, 200);
  }
  rig.upstream.route("/f63/broken", () => "close");
  await request(requester.port, "/f63/broken", { fields });
  const pages: string[] = [];
  for (const role of [requester, receiver]) {
    for (const page of ["/health", "/healthcheck", "/observability/ready", "/observability/nats"]) {
      pages.push((await request(role.port, page)).raw, text(await request(role.port, page)));
    }
  }
  const titles = [requester, receiver].flatMap((role) => commandLine(role.pid));
  const settings = { NATS_URL: url, OBSERVABILITY_TOKEN: "h1dden-token" };
  const help = await runNatsway(["--help"], settings);
  const shown = await runNatsway(["settings"], settings);
  const wrong = await runNatsway(["requester"], {
    ...settings,
    NATS_URL: "nats://app:h1dden-nats@:99999",
  });
  await rig.nats.stop();
  await requester.event("not ready");
  const everything = [
    ...pages,
    ...titles,
    ...[help, shown, wrong].flatMap((result) => [result.stdout, result.stderr]),
    ...[requester, receiver].flatMap((role) => [role.stdout, role.stderr]),
  ].join("\n");
  for (const secret of secrets) {
    assert.ok(!everything.includes(secret), `${secret} is shown`);
    assert.ok(!everything.includes(encodeURIComponent(secret)));
  }
  assert.equal(wrong.code, 2, wrong.stderr);
  assert.match(shown.stdout, /OBSERVABILITY_TOKEN.*\bset\b/i);
});

Deno.test("F63 a NATS server that refuses the password: the log shows the address without its user part", async () => {
  await using nats = await startNats({
    config: `authorization { user: "app", password: "right" }`,
  });
  await using requester = await startNatsway(
    "requester",
    { NATS_URL: `nats://app:wr0ng-pass@127.0.0.1:${nats.port}` },
    { waitFor: "listening" },
  );
  await requester.event((event) =>
    (event.level === "warning" || event.level === "error") &&
    JSON.stringify(event).includes(`127.0.0.1:${nats.port}`)
  );
  assert.ok(!requester.stderr.includes("wr0ng-pass"));
  assert.ok(!/app:|app@/.test(requester.stderr));
  await using client = await RawClient.connect(requester.port);
  assert.equal((await client.exchange(requestOctets("/"))).status, 503);
});
