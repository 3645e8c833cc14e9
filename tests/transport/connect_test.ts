import assert from "node:assert/strict";
import { StartError } from "../../lib/errors.ts";
import type { NatsAuth } from "../../lib/transport/auth.ts";
import { freePort, startNats } from "../helpers/nats_server.ts";
import { pause } from "../helpers/wait.ts";
import { decode, encode, restartUnder, startLink, TestLink } from "./support.ts";

/** An NKey user pair made for these tests; the seed opens nothing. */
const NKEY_PUBLIC = "UCAS5WA6Z4MQFHCRFFGPEXLFIAV56F6VHEO2T6WQHD2SIKBUCWBNYJ6E";
const NKEY_SEED = "SUACUMDX45GTJFXE5KJRLUWAVZ36OUDVWBY4F2QEIDBCYXJM3FXJBY5ZKI";

Deno.test("a link that is made before its server connects as soon as there is one", async () => {
  const port = freePort();
  await using a = new TestLink(`nats://127.0.0.1:${port}`);
  a.link.subscribe({ subject: "early", label: "early", deliver: () => got++ });
  let got = 0;
  assert.equal(a.link.connected, false);
  assert.equal(a.link.status().status, "connecting");
  assert.equal(a.link.publish("early", []), false);
  assert.equal(a.link.maxPayload, 0);
  await a.logger.lines.find(() => true, { ms: 5000, what: "the reason" });
  await a.attempts(2);
  assert.equal(a.logger.lines.events.length, 1, "one line for one reason");
  await using _server = await startNats({ port });
  await a.until(true);
  assert.ok(a.link.publish("early", [encode("x")]));
  await a.link.flush();
  assert.equal(got, 1);
});

Deno.test("a link that never connected can be closed, at any moment", async () => {
  const port = freePort();
  for (const ms of [0, 1, 100, 700]) {
    const a = new TestLink(`nats://127.0.0.1:${port}`);
    if (ms > 0) await pause(ms);
    await a[Symbol.asyncDispose]();
    assert.equal(a.link.status().status, "closed");
    assert.deepEqual(a.changes.events, []);
  }
});

Deno.test("several URLs: a dead first one is passed over, and the link moves when its server ends", async () => {
  await using first = await startNats();
  await using second = await startNats();
  const urls = [`nats://127.0.0.1:${freePort()}`, first.url, second.url];
  await using a = new TestLink(urls);
  await a.until(true);
  assert.equal(a.link.status().server, `127.0.0.1:${first.port}`);
  await first.kill("SIGKILL");
  await a.until(false);
  await a.until(true);
  assert.equal(a.link.status().server, `127.0.0.1:${second.port}`);
});

Deno.test("a server name with several addresses is tried at each of them", async () => {
  // The name may stand for ::1 and 127.0.0.1; the server listens on the latter only.
  await using server = await startNats();
  await using a = await startLink(`nats://LOCALHOST:${server.port}`);
  assert.equal(a.link.status().server, `localhost:${server.port}`);
});

const ACCOUNTS = `authorization { users = [
  { user: alice, password: "s3cret:@/word" }
  { nkey: ${NKEY_PUBLIC} }
] }`;
const TOKEN = `authorization { token: "t0ken-s3cret" }`;

const GOOD: readonly [string, string, NatsAuth | undefined, string][] = [
  ["user and password", ACCOUNTS, { kind: "user", user: "alice", password: "s3cret:@/word" }, ""],
  ["NKey", ACCOUNTS, { kind: "nkey", seed: `${NKEY_SEED}\n` }, ""],
  ["token", TOKEN, { kind: "token", token: "t0ken-s3cret" }, ""],
  ["user and password in the URL", ACCOUNTS, undefined, "alice:s3cret:@/word@"],
  ["token in the URL", TOKEN, undefined, "t0ken-s3cret@"],
];
for (const [name, config, auth, userInfo] of GOOD) {
  Deno.test(`a link connects with ${name}, and no log line or status holds the secret`, async () => {
    await using server = await startNats({ config });
    const url = `nats://${userInfo}127.0.0.1:${server.port}`;
    await using a = await startLink(url, auth === undefined ? {} : { auth });
    await a.link.flush();
    await restartUnder(server, a);
    const said = a.logger.text + JSON.stringify(a.link.status());
    assert.doesNotMatch(said, /s3cret/);
    assert.doesNotMatch(said, new RegExp(NKEY_SEED));
  });
}

Deno.test("a link connects with a credentials file of an operator's account", async () => {
  const { operator, account, creds } = await makeCreds();
  await using server = await startNats({
    config: `operator: ${operator.jwt}\nresolver: MEMORY\n` +
      `resolver_preload: { ${account.id}: ${account.jwt} }`,
  });
  await using a = await startLink(server.url, { auth: { kind: "creds", creds } });
  await a.link.flush();
});

Deno.test("refused credentials are logged once and tried on until the server takes them", async () => {
  await using server = await startNats({ config: ACCOUNTS });
  const auth: NatsAuth = { kind: "user", user: "bob", password: "hunter2-s3cret" };
  await using a = new TestLink(server.url, { auth });
  await a.logger.lines.find(() => true, { ms: 5000, what: "the refusal" });
  await server.logged(/(authentication error[^]*){3}/);
  assert.deepEqual(a.logger.lines.events.map(({ fields }) => fields.error), [
    "Authorization Violation",
  ]);
  assert.equal(a.link.status().lastError, "Authorization Violation");
  assert.equal(a.link.status().status, "connecting");
  server.configure(`authorization { user: bob, password: "hunter2-s3cret" }`);
  await server.restart();
  await a.until(true);

  // And the same after it had been connected: a client of nats-core would close for good.
  server.configure(ACCOUNTS);
  const before = server.log.length;
  await server.restart();
  await server.logged(/(authentication error[^]*){3}/, before);
  server.configure(`authorization { user: bob, password: "hunter2-s3cret" }`);
  await server.restart();
  await a.until(true);
  assert.doesNotMatch(a.logger.text, /hunter2/);
});

Deno.test("a seed or a credentials file that is none stops the start without showing it", () => {
  for (
    const auth of [
      { kind: "nkey", seed: "SUNOTASEED-s3cret" },
      { kind: "creds", creds: "-----BEGIN s3cret-----\n" },
      { kind: "nkey", seed: "" },
    ] as const
  ) {
    assert.throws(
      () => new TestLink("nats://127.0.0.1:1", { auth }),
      (error) => error instanceof StartError && !error.message.includes("s3cret"),
      JSON.stringify(auth),
    );
  }
});

Deno.test("a server that is no NATS server is an error with a clear text, tried on", async () => {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  const serving = (async () => {
    const conn = await listener.accept();
    await conn.write(encode("HTTP/1.1 400 Bad Request\r\n\r\n"));
    conn.close();
  })();
  await using a = new TestLink(`nats://127.0.0.1:${listener.addr.port}`);
  const line = await a.logger.lines.find(() => true, { ms: 5000, what: "the reason" });
  assert.match(String(line.fields.error), /no NATS server/);
  await serving;
});

for (const garbage of ["MSG x 1 zz\r\n", "WHAT?\r\n", "HMSG x 1 9 5\r\n"]) {
  for (const at of ["with the PONG", "after it"]) {
    Deno.test(`${JSON.stringify(garbage)} ${at} ends the connection, and the next one works`, async () => {
      await using server = new ScriptedServer(async (conn, connection) => {
        await conn.write(encode('INFO {"max_payload":1000,"version":"2.15.2","headers":true}\r\n'));
        await conn.read(new Uint8Array(4096));
        if (connection > 1) return void await conn.write(encode("PONG\r\n"));
        if (at === "with the PONG") return void await conn.write(encode(`PONG\r\n${garbage}`));
        await conn.write(encode("PONG\r\n"));
        await conn.read(new Uint8Array(4096));
        await conn.write(encode(garbage));
      });
      await using a = new TestLink(server.url);
      a.link.subscribe({ subject: "x", label: "x", deliver: () => {} });
      await a.logger.lines.find(({ level }) => level === "warning", {
        ms: 5000,
        what: "a complaint",
      });
      await a.until(true);
      assert.equal(server.connections, 2);
    });
  }
}

/** Plays a NATS server: one script for each connection, which then answers pings. */
class ScriptedServer implements AsyncDisposable {
  readonly #listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  readonly #conns: Deno.Conn[] = [];
  readonly #pumps: Promise<void>[] = [];
  readonly #serving: Promise<void>;

  constructor(script: (conn: Deno.Conn, connection: number) => Promise<void>) {
    this.#serving = this.#serve(script);
  }

  get url(): string {
    return `nats://127.0.0.1:${this.#listener.addr.port}`;
  }

  get connections(): number {
    return this.#conns.length;
  }

  async #serve(script: (conn: Deno.Conn, connection: number) => Promise<void>): Promise<void> {
    for await (const conn of this.#listener) {
      const connection = this.#conns.push(conn);
      this.#pumps.push(script(conn, connection).then(() => answerPings(conn)).catch(() => {}));
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#listener.close();
    for (const conn of this.#conns) conn.close();
    await this.#serving;
    await Promise.all(this.#pumps);
  }
}

async function answerPings(conn: Deno.Conn): Promise<void> {
  const bytes = new Uint8Array(4096);
  for (let count = await conn.read(bytes); count !== null; count = await conn.read(bytes)) {
    const pings = decode(bytes.subarray(0, count)).split("PING\r\n").length - 1;
    await conn.write(encode("PONG\r\n".repeat(pings)));
  }
}

/** An operator, an account and a user, as `nsc` would make them. */
async function makeCreds(): Promise<{
  operator: { jwt: string };
  account: { id: string; jwt: string };
  creds: string;
}> {
  const { nkeys } = await import("@nats-io/nats-core/internal");
  const operator = nkeys.createOperator();
  const account = nkeys.createAccount();
  const user = nkeys.createUser();
  const base64url = (bytes: Uint8Array) =>
    btoa(String.fromCharCode(...bytes)).replaceAll("+", "-").replaceAll("/", "_").replace(
      /=+$/,
      "",
    );
  const sign = (
    issuer: typeof operator,
    subject: string,
    nats: Record<string, unknown>,
  ): string => {
    const json = (value: unknown) => base64url(encode(JSON.stringify(value)));
    const body = `${json({ typ: "JWT", alg: "ed25519-nkey" })}.${
      json({
        jti: crypto.randomUUID(),
        iat: Math.floor(Date.now() / 1000),
        iss: issuer.getPublicKey(),
        name: "test",
        sub: subject,
        nats: { ...nats, version: 2 },
      })
    }`;
    return `${body}.${base64url(issuer.sign(encode(body)))}`;
  };
  const limits = { subs: -1, conn: -1, leaf: -1, imports: -1, exports: -1, data: -1, payload: -1 };
  const userJwt = sign(account, user.getPublicKey(), {
    type: "user",
    subs: -1,
    data: -1,
    payload: -1,
  });
  const seed = new TextDecoder().decode(user.getSeed());
  return {
    operator: { jwt: sign(operator, operator.getPublicKey(), { type: "operator" }) },
    account: {
      id: account.getPublicKey(),
      jwt: sign(operator, account.getPublicKey(), {
        type: "account",
        limits: { ...limits, wildcards: true },
      }),
    },
    creds: `-----BEGIN NATS USER JWT-----\n${userJwt}\n------END NATS USER JWT------\n\n` +
      `-----BEGIN USER NKEY SEED-----\n${seed}\n------END USER NKEY SEED------\n`,
  };
}
