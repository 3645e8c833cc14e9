import assert from "node:assert/strict";
import {
  configText,
  dialHost,
  formatAddress,
  isLoopback,
  parseListen,
  quoted,
  type ServerConfig,
} from "../../lib/embedded/server_config.ts";
import { keptLeafCredentials, newLeafCredentials } from "../../lib/embedded/leaf_credentials.ts";
import { readLines } from "../../lib/embedded/lines.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { EventLog } from "../helpers/wait.ts";
import { tempDir } from "./support.ts";

Deno.test("a listen address is host and port, and nothing else", () => {
  assert.deepEqual(parseListen("127.0.0.1:4222"), { host: "127.0.0.1", port: 4222 });
  assert.deepEqual(parseListen("localhost:0"), { host: "localhost", port: 0 });
  assert.deepEqual(parseListen("127.0.0.1:-1"), { host: "127.0.0.1", port: 0 });
  assert.deepEqual(parseListen("[::1]:65535"), { host: "::1", port: 65535 });
  for (
    const text of [
      "",
      "4222",
      ":4222",
      "host:",
      "host:65536",
      "host:-2",
      "::1:4222",
      "a b:1",
      "h:1 ",
    ]
  ) {
    assert.throws(() => parseListen(text), StartError, text);
  }
});

Deno.test("addresses are printed and dialled as their kind needs", () => {
  assert.equal(formatAddress({ host: "::1", port: 1 }), "[::1]:1");
  assert.equal(formatAddress({ host: "localhost", port: 1 }), "localhost:1");
  assert.equal(dialHost("0.0.0.0"), "127.0.0.1");
  assert.equal(dialHost("::"), "::1");
  assert.equal(dialHost("::1"), "::1");
  assert.equal(dialHost("10.0.0.1"), "10.0.0.1");
  for (const host of ["127.0.0.1", "127.8.9.1", "::1", "localhost"]) assert.ok(isLoopback(host));
  for (const host of ["0.0.0.0", "::", "10.0.0.1", "127.example"]) assert.ok(!isLoopback(host));
});

Deno.test("the configuration finds dead clients and opens no other port", () => {
  const text = configText({
    listen: { host: "127.0.0.1", port: 0 },
    serverName: "natsway-1",
  });
  assert.match(text, /^ping_interval: "10s"$/m);
  assert.match(text, /^ping_max: 2$/m);
  assert.match(text, /^port: -1$/m);
  assert.match(text, /^host: "127\.0\.0\.1"$/m);
  assert.doesNotMatch(text, /http|jetstream|cluster|leafnodes/);
});

/** Values that a configuration could trip over. */
const VALUES = [
  'a "b" \\c',
  "tab\tline\nreturn\r",
  "$HOME {x} # y ; z // w",
  "ünï'cøde ;,🎈",
  "\\x41",
  "12345",
  " blanks ",
  "true",
  "u:p@h/%41?[x]",
];

Deno.test("nats-server takes any value as it was given: store, domain, credentials of a leaf", async () => {
  const binary = await natsServerBinary();
  for (const value of VALUES) {
    await using dir = await tempDir();
    assert.ok(!/[\n\r\t]/.test(quoted(value)));
    const hubDir = `${dir.path}/${value.replaceAll("/", "_")}`;
    const credentials = { user: `user ${value}`, password: value };
    await using hub = await startServer(binary, dir.path, {
      jetstream: { storeDir: hubDir, domain: null },
      leafnodes: { listen: { host: "127.0.0.1", port: 0 }, credentials, remote: null },
    });
    const address = await hub.found(/Listening for leafnode connections on 127\.0\.0\.1:(\d+)/);
    assert.ok((await Deno.stat(`${hubDir}/jetstream`)).isDirectory);
    await using leaf = await startServer(binary, dir.path, {
      leafnodes: {
        listen: { host: "::1", port: 0 },
        credentials: newLeafCredentials(),
        remote: {
          hostname: "127.0.0.1",
          port: Number(address),
          auth: { kind: "user", ...credentials },
        },
      },
    });
    await leaf.found(/(Leafnode connection created)/);
  }
});

Deno.test("an NKey of a remote stands beside its URL, not in it", () => {
  const seed = `SU${"A".repeat(56)}`;
  const text = configText({
    listen: { host: "127.0.0.1", port: 1 },
    serverName: "n",
    leafnodes: {
      listen: { host: "::", port: 7422 },
      credentials: { user: "u", password: "p" },
      remote: { hostname: "fd00::5", port: 7, auth: { kind: "nkey", seed } },
    },
  });
  assert.match(text, /^ {6}url: "nats:\/\/\[fd00::5\]:7"\n {6}nkey: "SUA+"$/m);
  assert.match(text, /^ {2}listen: "\[::\]:7422"$/m);
  assert.doesNotMatch(text, /jetstream/);
});

Deno.test("the blocks stand in the order of the contract, and credentials on lines of their own", () => {
  const text = configText({
    listen: { host: "127.0.0.1", port: 1 },
    serverName: "n",
    jetstream: { storeDir: "/s", domain: "hub" },
    leafnodes: {
      listen: { host: "0.0.0.0", port: 0 },
      credentials: { user: "u", password: "p" },
      remote: null,
    },
  });
  assert.match(text, /jetstream \{\n {2}store_dir: "\/s"\n {2}domain: "hub"\n\}\nleafnodes \{/);
  assert.match(text, /^ {2}listen: "0\.0\.0\.0:-1"$/m);
  assert.doesNotMatch(text, /remotes/);
  assert.deepEqual(keptLeafCredentials(text), { user: "u", password: "p" });
});

Deno.test("credentials of an existing file are found, however it quotes them", () => {
  const of = (user: string, password: string) =>
    keptLeafCredentials(`# user: no\nleafnodes {\n  ${user}\n  ${password}\n}\nuser: other\n`);
  const credentials = { user: "leaf_1", password: "p#1" };
  assert.deepEqual(of('user: "leaf_1"', 'password: "p#1"'), credentials);
  assert.deepEqual(of("user: 'leaf_1'", "password = 'p#1' # note"), credentials);
  assert.deepEqual(of("user: leaf_1", "password: p1,"), { user: "leaf_1", password: "p1" });
  assert.deepEqual(of("user:leaf_1\r", 'password: "\\x70#1"\r'), credentials);
  assert.equal(keptLeafCredentials("user: a\n"), null);
  assert.equal(keptLeafCredentials(""), null);
  for (const value of VALUES) {
    const given = { user: `u${value}`, password: value };
    const listen = { host: "127.0.0.1", port: 1 };
    const leafnodes = { listen, credentials: given, remote: null };
    assert.deepEqual(
      keptLeafCredentials(configText({ listen, serverName: "n", leafnodes })),
      given,
    );
  }
});

Deno.test("new credentials are letters and digits, and never the same", () => {
  const [one, two] = [newLeafCredentials(), newLeafCredentials()];
  assert.match(one.user, /^leaf_[A-Za-z0-9]{20}$/);
  assert.match(one.password, /^[A-Za-z0-9]{20}$/);
  assert.notEqual(one.user, two.user);
  assert.notEqual(one.password, two.password);
});

/** A real server with a generated configuration; `found` waits for a line and gives its first group. */
async function startServer(
  binary: string,
  folder: string,
  parts: Pick<ServerConfig, "jetstream" | "leafnodes">,
) {
  const file = await Deno.makeTempFile({ dir: folder, suffix: ".conf" });
  const listen = { host: "127.0.0.1", port: 0 };
  await Deno.writeTextFile(file, configText({ listen, serverName: crypto.randomUUID(), ...parts }));
  const lines = new EventLog<string>();
  const process = new Deno.Command(binary, { args: ["-c", file], stderr: "piped" }).spawn();
  const reading = readLines(process.stderr, (line) => lines.add(line))
    .then(() => lines.close("nats-server ended"));
  return {
    async found(pattern: RegExp): Promise<string> {
      const describe = () => lines.events.join("\n");
      const line = await lines.find((text) => pattern.test(text), {
        ms: 10_000,
        what: String(pattern),
        describe,
      });
      return pattern.exec(line)![1]!;
    },
    async [Symbol.asyncDispose](): Promise<void> {
      process.kill("SIGKILL");
      await process.status;
      await reading;
    },
  };
}
