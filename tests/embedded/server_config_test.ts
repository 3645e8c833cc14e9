import assert from "node:assert/strict";
import {
  configText,
  dialHost,
  formatAddress,
  isLoopback,
  parseListen,
  quoted,
} from "../../lib/embedded/server_config.ts";
import { readLines } from "../../lib/embedded/lines.ts";
import { StartError } from "../../lib/errors.ts";
import { natsServerBinary } from "../helpers/nats_server.ts";
import { namesIn, tempDir } from "./support.ts";

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
    portsDir: "/p",
  });
  assert.match(text, /^ping_interval: "10s"$/m);
  assert.match(text, /^ping_max: 2$/m);
  assert.match(text, /^port: -1$/m);
  assert.match(text, /^host: "127\.0\.0\.1"$/m);
  assert.doesNotMatch(text, /http|jetstream|cluster|leafnodes/);
});

Deno.test("nats-server reads any value as it was given", async () => {
  await using dir = await tempDir();
  const binary = await natsServerBinary();
  const values = ['a "b" \\c', "tab\tline\nreturn\r", "$HOME {x} # y ; z", "ünï'cøde ;,", "\\x41"];
  for (const value of values) {
    assert.ok(!/[\n\r\t]/.test(quoted(value)));
    // The server writes its ports file into the folder of that very name.
    const portsDir = `${dir.path}/${value}`;
    await Deno.mkdir(portsDir);
    const file = `${dir.path}/test.conf`;
    const listen = { host: "127.0.0.1", port: 0 };
    await Deno.writeTextFile(file, configText({ listen, serverName: "one", portsDir }));
    const watcher = Deno.watchFs(portsDir);
    const process = new Deno.Command(binary, { args: ["-c", file], stderr: "piped" }).spawn();
    const stop = readLines(process.stderr, () => {});
    for await (const _ of watcher) {
      if ((await namesIn(portsDir)).length > 0) break;
    }
    process.kill("SIGINT");
    await stop;
    await process.status;
  }
});
