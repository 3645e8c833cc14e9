import assert from "node:assert/strict";
import { parseIp } from "../../lib/receiver/ip_address.ts";
import { type OwnAddress, OwnAddresses } from "../../lib/receiver/own_addresses.ts";

const INTERFACES = ["127.0.0.1", "10.0.0.9", "::1", "fd00::9", "fe80::9"];

/** What is own, written `host:port` with the last colon before the port. */
function own(
  { listeners = [], servers = [], names = {} }: {
    listeners?: string[];
    servers?: string[];
    names?: Record<string, string[]>;
  },
): OwnAddresses {
  const split = (text: string): OwnAddress => {
    const at = text.lastIndexOf(":");
    return { hostname: text.slice(0, at), port: Number(text.slice(at + 1)) };
  };
  return new OwnAddresses({
    listeners: () => listeners.map(split),
    servers: () => servers.map(split),
    interfaces: () => INTERFACES,
    resolve: (name) =>
      names[name] === undefined
        ? Promise.reject(new Error("unknown"))
        : Promise.resolve(names[name]),
  });
}

/** Those of `addresses` that are own at `port`. */
function ownAmong(it: OwnAddresses, port: number, addresses: readonly string[]): string[] {
  return addresses.filter((text) => {
    const ip = parseIp(text);
    assert.ok(ip, text);
    return it.hasAddress(ip, port);
  });
}

const LOCAL = [
  "127.0.0.1",
  "127.0.0.2",
  "127.255.255.254",
  "::1",
  "::ffff:127.0.0.1",
  "0.0.0.0",
  "::",
  "::ffff:0.0.0.0",
  "10.0.0.9",
  "::ffff:10.0.0.9",
  "fd00::9",
  "fe80::9",
];
const REMOTE = ["10.0.0.8", "8.8.8.8", "fd00::8", "128.0.0.1", "0.0.0.1"];

Deno.test("a listener on all addresses is own at every address of this machine", () => {
  for (const host of ["0.0.0.0", "::"]) {
    const it = own({ listeners: [`${host}:7000`] });
    assert.deepEqual(ownAmong(it, 7000, [...LOCAL, ...REMOTE]), LOCAL, host);
    assert.deepEqual(ownAmong(it, 7001, LOCAL), [], host);
  }
});

Deno.test("a listener on one address is own there, and where a connection to no address goes", () => {
  const loopback = own({ listeners: ["127.0.0.1:7000"] });
  assert.deepEqual(ownAmong(loopback, 7000, [...LOCAL, ...REMOTE]), [
    "127.0.0.1",
    "::ffff:127.0.0.1",
    "0.0.0.0",
    "::ffff:0.0.0.0",
  ]);
  assert.deepEqual(ownAmong(own({ listeners: ["::1:7000"] }), 7000, LOCAL), ["::1", "::"]);
  assert.deepEqual(ownAmong(own({ listeners: ["10.0.0.9:7000"] }), 7000, LOCAL), [
    "10.0.0.9",
    "::ffff:10.0.0.9",
  ]);
});

Deno.test("a NATS server elsewhere is own at its addresses alone", async () => {
  const it = own({
    servers: ["nats.example:4222", "10.0.0.8:4223"],
    names: { "nats.example": ["8.8.8.8", "2001:db8::1"] },
  });
  await it.refresh();
  assert.deepEqual(ownAmong(it, 4222, [...LOCAL, ...REMOTE, "2001:db8::1"]), [
    "8.8.8.8",
    "2001:db8::1",
  ]);
  assert.deepEqual(ownAmong(it, 4223, [...LOCAL, ...REMOTE]), ["10.0.0.8"]);
});

Deno.test("a NATS server on this machine is own at all its addresses", async () => {
  const names = { localhost: ["127.0.0.1"], "me.example": ["10.0.0.9"] };
  for (const host of ["localhost", "me.example", "127.0.0.1", "10.0.0.9", "::1", "0.0.0.0"]) {
    const it = own({ servers: [`${host}:4222`], names });
    await it.refresh();
    assert.deepEqual(ownAmong(it, 4222, [...LOCAL, ...REMOTE]), LOCAL, host);
    assert.deepEqual(ownAmong(it, 4223, LOCAL), [], host);
  }
});

Deno.test("a name is own before it is looked up, at its port", () => {
  const it = own({ listeners: ["Gate.Example:7000"], servers: ["nats.example.:4222"] });
  assert.equal(it.hasName("nats.example", 4222), true);
  assert.equal(it.hasName("gate.example", 7000), true);
  assert.equal(it.hasName("nats.example", 7000), false);
  assert.equal(it.hasName("a.nats.example", 4222), false);
});

Deno.test("refresh takes new addresses, and keeps the old ones of a name that fails", async () => {
  const names: Record<string, string[]> = { "nats.example": ["10.0.0.8"] };
  const it = own({ servers: ["nats.example:4222"], names });
  assert.deepEqual(ownAmong(it, 4222, REMOTE), []);
  await it.refresh();
  assert.deepEqual(ownAmong(it, 4222, REMOTE), ["10.0.0.8"]);
  names["nats.example"] = ["8.8.8.8"];
  await it.refresh();
  assert.deepEqual(ownAmong(it, 4222, REMOTE), ["8.8.8.8"]);
  delete names["nats.example"];
  await it.refresh();
  assert.deepEqual(ownAmong(it, 4222, REMOTE), ["8.8.8.8"]);
});

Deno.test("servers and ports that come later count from then on", () => {
  const listeners: OwnAddress[] = [];
  const it = new OwnAddresses({ listeners: () => listeners, servers: () => [] });
  assert.deepEqual(ownAmong(it, 7000, ["127.0.0.1"]), []);
  listeners.push({ hostname: "0.0.0.0", port: 7000 });
  const here = Deno.networkInterfaces().map(({ address }) => address.replace(/%.*/, ""));
  assert.deepEqual(ownAmong(it, 7000, here), here);
});
