import assert from "node:assert/strict";
import { targetRules } from "../../lib/config/target_rules.ts";
import { FlowError } from "../../lib/errors.ts";
import { type DialOptions, dialTarget, type Target } from "../../lib/receiver/dial.ts";
import { canonicalTargetHost, lookupAddresses } from "../../lib/receiver/resolve.ts";
import { TargetPolicy } from "../../lib/receiver/target_policy.ts";
import { within } from "../helpers/wait.ts";

const NOBODY = { hasName: () => false, hasAddress: () => false };

function policy({ allow = "", deny = "" } = {}): TargetPolicy {
  const rules = (text: string) => text === "" ? [] : targetRules.parse(text);
  return new TargetPolicy({ allow: rules(allow), deny: rules(deny), own: NOBODY });
}

/** Dials within the test's patience, with no policy unless one is given. */
function dialing(
  hostname: string,
  port: number,
  options: Partial<DialOptions> = {},
): Promise<Deno.TcpConn> {
  const all = {
    policy: null,
    connectTimeoutMs: 10_000,
    signal: new AbortController().signal,
    ...options,
  };
  return within(dialTarget({ hostname, port }, all), 15_000, `a dial of ${hostname}`);
}

function failing(code: string, message = /./): (error: unknown) => boolean {
  return (error) => {
    assert.ok(error instanceof FlowError, String(error));
    assert.equal(error.code, code, error.message);
    assert.match(error.message, message);
    return true;
  };
}

/** Attempts that end as the test says, by address; each is noted. */
class Script {
  readonly tried: string[] = [];
  readonly ended: string[] = [];
  readonly #errors: Readonly<Record<string, Error | "hang">>;

  constructor(errors: Readonly<Record<string, Error | "hang">>) {
    this.#errors = errors;
  }

  readonly connect = ({ hostname }: Target, signal: AbortSignal): Promise<Deno.TcpConn> => {
    this.tried.push(hostname);
    const error = this.#errors[hostname] ?? new Error(`no script for ${hostname}`);
    if (error !== "hang") return Promise.reject(error);
    return new Promise((_, reject) =>
      signal.addEventListener("abort", () => {
        this.ended.push(hostname);
        reject(signal.reason);
      })
    );
  };
}

const refused = () => new Deno.errors.ConnectionRefused("x");
const withCode = (code: string) => Object.assign(new Error(`x ${code}`), { code });

/** A listener that takes connections and keeps them until the end. */
function listen(hostname: string, port = 0) {
  const listener = Deno.listen({ hostname, port });
  const accepted: Deno.Conn[] = [];
  const done = (async () => {
    for await (const socket of listener) accepted.push(socket);
  })();
  return {
    port: listener.addr.port,
    async [Symbol.asyncDispose]() {
      listener.close();
      await done;
      for (const socket of accepted) socket.close();
    },
  };
}

/** A listener that never answers a SYN: its queue is full, and nobody accepts. */
async function startSilent(hostname: string) {
  const listener = Deno.listen({ hostname, port: 0, tcpBacklog: 0 });
  const parked = await Deno.connect({ hostname, port: listener.addr.port });
  return {
    port: listener.addr.port,
    [Symbol.dispose]() {
      parked.close();
      listener.close();
    },
  };
}

Deno.test("an address is dialled as it stands, in every standard spelling", async () => {
  await using four = listen("127.0.0.1");
  await using six = listen("::1");
  const resolve = () => Promise.reject(new Error("an address is never looked up"));
  const hosts: [string, number, string][] = [
    ["127.0.0.1", four.port, "127.0.0.1"],
    ["::ffff:127.0.0.1", four.port, "127.0.0.1"],
    ["::1", six.port, "::1"],
    ["0:0:0:0:0:0:0:1", six.port, "::1"],
  ];
  for (const [host, port, remote] of hosts) {
    using socket = await dialing(host, port, { resolve });
    assert.equal(socket.remoteAddr.hostname, remote, host);
  }
});

Deno.test("a name is looked up with the system's own files", async () => {
  assert.ok((await lookupAddresses("localhost")).includes("127.0.0.1"));
  await using four = listen("127.0.0.1");
  using socket = await dialing("LocalHost", four.port);
  assert.equal(socket.remoteAddr.hostname, "127.0.0.1");
});

Deno.test("a connection works after the race that it won", async () => {
  const listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  using _ = listener;
  const [socket, served] = await Promise.all([
    dialing("two.test", listener.addr.port, {
      resolve: () => Promise.resolve(["::1", "127.0.0.1"]),
    }),
    listener.accept(),
  ]);
  using _client = socket;
  using _server = served;
  await served.write(new TextEncoder().encode("late"));
  const buffer = new Uint8Array(8);
  assert.equal(await socket.read(buffer), 4);
});

Deno.test("the second address joins after 250 ms when the first does not answer", async () => {
  using silent = await startSilent("::1");
  await using four = listen("127.0.0.1", silent.port);
  const before = performance.now();
  using socket = await dialing("two.test", four.port, {
    resolve: () => Promise.resolve(["127.0.0.1", "::1"]),
  });
  assert.equal(socket.remoteAddr.hostname, "127.0.0.1");
  assert.ok(performance.now() - before >= 240);
});

Deno.test("F27: a target that never answers a SYN is given up after CONNECT_TIMEOUT", async () => {
  using silent = await startSilent("127.0.0.1");
  const dial = dialing("127.0.0.1", silent.port, { connectTimeoutMs: 300 });
  await assert.rejects(dial, failing("target_timeout", /within 0\.3 s \(CONNECT_TIMEOUT\)/));
});

Deno.test("a dial that is cancelled while it waits for an answer says so", async () => {
  using silent = await startSilent("127.0.0.1");
  const abort = new AbortController();
  const dial = dialing("127.0.0.1", silent.port, { signal: abort.signal });
  abort.abort();
  await assert.rejects(dial, failing("canceled"));
});

Deno.test("addresses are tried in turn, IPv6 first, each family in the order of the system", async () => {
  const found = ["10.0.0.1", "10.0.0.2", "fd00::1", "10.0.0.3", "fd00::2", "10.0.0.1"];
  const order = ["fd00:0:0:0:0:0:0:1", "10.0.0.1", "fd00:0:0:0:0:0:0:2", "10.0.0.2", "10.0.0.3"];
  const script = new Script(Object.fromEntries(order.map((address) => [address, refused()])));
  const resolve = () => Promise.resolve(found);
  const dial = dialing("many.test", 80, { resolve, connect: script.connect });
  await assert.rejects(dial, failing("target_refused", /many\.test:80/));
  assert.deepEqual(script.tried, order);
});

Deno.test("of several failures the most telling is reported", async () => {
  const timeout = new Deno.errors.TimedOut("x");
  const cases: [Error | "hang", Error | "hang", string][] = [
    [refused(), withCode("EHOSTUNREACH"), "target_refused"],
    ["hang", refused(), "target_refused"],
    ["hang", withCode("EHOSTUNREACH"), "target_unreachable"],
    [withCode("EHOSTUNREACH"), timeout, "target_unreachable"],
    // No route from here for one family says nothing about the target.
    [withCode("ENETUNREACH"), "hang", "target_timeout"],
    [withCode("ENETUNREACH"), timeout, "target_timeout"],
    [withCode("ENETUNREACH"), withCode("ENETUNREACH"), "target_unreachable"],
    ["hang", "hang", "target_timeout"],
  ];
  for (const [six, four, code] of cases) {
    const script = new Script({ "fd00:0:0:0:0:0:0:1": six, "10.0.0.1": four });
    const dial = dialing("two.test", 80, {
      resolve: () => Promise.resolve(["fd00::1", "10.0.0.1"]),
      connect: script.connect,
      connectTimeoutMs: 300,
    });
    await assert.rejects(dial, failing(code), `${code} for ${six} and ${four}`);
    const hanging = [six, four].filter((it) => it === "hang").length;
    assert.equal(script.ended.length, hanging);
  }
});

Deno.test("a name that does not resolve is not found, and one that is no name is not looked up", async () => {
  const failure = Object.assign(new Error("getaddrinfo ENOTFOUND x"), { code: "ENOTFOUND" });
  await assert.rejects(
    dialing("gone.test", 80, { resolve: () => Promise.reject(failure) }),
    failing("target_not_found", /gone\.test:80 does not resolve/),
  );
  await assert.rejects(
    dialing("empty.test", 80, { resolve: () => Promise.resolve([]) }),
    failing("target_not_found"),
  );
  const resolve = () => Promise.reject(new Error("must not be looked up"));
  const names = [
    "",
    ".",
    "a..b",
    "a b",
    "a\0b",
    "fe80::1%lo",
    "[::1]",
    "a/b",
    "é:1",
    "x".repeat(255),
  ];
  for (const name of names) {
    const is = failing("target_not_found", /is no name and no address/);
    await assert.rejects(dialing(name, 80, { resolve }), is, JSON.stringify(name));
  }
});

Deno.test("CONNECT_TIMEOUT and a cancel end a look-up that hangs", async () => {
  const resolve = () => new Promise<never>(() => {});
  await assert.rejects(
    dialing("slow.test", 80, { resolve, connectTimeoutMs: 20 }),
    failing("target_timeout", /slow\.test:80/),
  );
  const abort = new AbortController();
  const dial = dialing("slow.test", 80, { resolve, signal: abort.signal });
  abort.abort();
  await assert.rejects(dial, failing("canceled"));
});

Deno.test("the name is looked up in the spelling that the policy saw", async () => {
  const seen: string[] = [];
  const resolve = (name: string) => {
    seen.push(name);
    return Promise.resolve([]);
  };
  for (const name of ["DB.Test", "db.test.", "ｄb.test", "bücher.test", "127.1", "0x7F000001"]) {
    await assert.rejects(dialing(name, 80, { resolve }), failing("target_not_found"));
  }
  assert.deepEqual(seen, [
    "db.test",
    "db.test.",
    "db.test",
    "xn--bcher-kva.test",
    "127.1",
    "0x7f000001",
  ]);
  // Wide digits are digits: this one needs no look-up.
  assert.equal(canonicalTargetHost("１２７.0.0.1"), "127.0.0.1");
});

Deno.test("F52: what the policy denies is never dialled", async () => {
  const script = new Script({});
  const resolve = (name: string) =>
    Promise.resolve(name === "127.1" ? ["127.0.0.1"] : ["169.254.169.254", "::1"]);
  const hosts = [
    "127.0.0.1",
    "127.1",
    "0x7f000001",
    "::ffff:127.0.0.1",
    "::",
    "localhost",
    "rebind.test",
    "169.254.169.254",
  ];
  for (const host of hosts) {
    const dial = dialing(host, 80, { policy: policy(), resolve, connect: script.connect });
    await assert.rejects(dial, failing("target_denied"), host);
  }
  assert.deepEqual(script.tried, []);
});

Deno.test("F52: the address that was judged is dialled, whatever a second look-up would give", async () => {
  await using four = listen("127.0.0.1");
  const answers = ["127.0.0.1", "169.254.169.254"];
  using socket = await dialing("changing.test", four.port, {
    policy: policy({ allow: `127.0.0.1:${four.port}` }),
    resolve: () => Promise.resolve([answers.shift() ?? "nothing"]),
  });
  assert.equal(socket.remoteAddr.hostname, "127.0.0.1");
  assert.deepEqual(answers, ["169.254.169.254"]);
});

Deno.test("an address that is denied is left out, and the others are dialled", async () => {
  const script = new Script({ "10.0.0.1": refused() });
  const resolve = () => Promise.resolve(["127.0.0.1", "10.0.0.1", "fe80::1%eth0", "::1"]);
  const dial = dialing("mixed.test", 80, { policy: policy(), resolve, connect: script.connect });
  await assert.rejects(dial, failing("target_refused"));
  assert.deepEqual(script.tried, ["10.0.0.1"]);
});

Deno.test("a name that the policy denies is not looked up", async () => {
  let lookups = 0;
  const resolve = () => {
    lookups++;
    return Promise.resolve(["8.8.8.8"]);
  };
  const rules = policy({ deny: "*.bad.test" });
  await assert.rejects(
    dialing("a.bad.test", 80, { policy: rules, resolve }),
    failing("target_denied"),
  );
  assert.equal(lookups, 0);
});
