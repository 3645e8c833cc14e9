import assert from "node:assert/strict";
import { targetRules } from "../../lib/config/target_rules.ts";
import { FlowError } from "../../lib/errors.ts";
import { formatIp } from "../../lib/receiver/ip_address.ts";
import { canonicalTargetHost } from "../../lib/receiver/resolve.ts";
import { type OwnTargets, TargetPolicy } from "../../lib/receiver/target_policy.ts";

const NOTHING: OwnTargets = { hasName: () => false, hasAddress: () => false };

function policy(
  { allow = "", deny = "", own = NOTHING }: { allow?: string; deny?: string; own?: OwnTargets } =
    {},
): TargetPolicy {
  const rules = (text: string) => text === "" ? [] : targetRules.parse(text);
  return new TargetPolicy({ allow: rules(allow), deny: rules(deny), own });
}

/** What a dial of `host` would meet: its name is judged, then `address`, which it resolves to. */
function verdict(policy: TargetPolicy, host: string, port: number, address = host): string {
  const canonical = canonicalTargetHost(host);
  assert.ok(canonical !== null, host);
  try {
    policy.checkName(canonical, port);
    policy.checkAddress(canonical, address, port);
    return "allowed";
  } catch (error) {
    assert.ok(error instanceof FlowError && error.code === "target_denied", String(error));
    return error.message.replace(/^The receiver may not connect to [^ ]+: /, "");
  }
}

/** Fails unless the host's name alone is enough to deny it. */
function deniedByName(policy: TargetPolicy, host: string, port: number): void {
  assert.throws(() => policy.checkName(host, port), { code: "target_denied" }, host);
}

Deno.test("F52: the built-in list denies an address in every spelling", () => {
  const denied: Record<string, string[]> = {
    loopback: [
      "127.0.0.1",
      "127.255.255.254",
      "::1",
      "0:0:0:0:0:0:0:1",
      "::ffff:127.0.0.1",
      "::FFFF:7F00:1",
      "::127.0.0.1",
      "::ffff:0:127.0.0.1",
      "64:ff9b::127.0.0.1",
      "64:ff9b::7f00:1",
      "2002:7f00:1::",
      "2001:0:7f00:1::",
      "2001:0:102:304::80ff:fffe",
    ],
    "link-local": [
      "169.254.169.254",
      "169.254.0.1",
      "fe80::1",
      "febf::1",
      "::ffff:169.254.169.254",
      "::ffff:a9fe:a9fe",
      "::a9fe:a9fe",
      "64:ff9b::169.254.169.254",
      "2002:a9fe:a9fe::1",
      "2001:0:102:304:0:0:5601:5601",
    ],
    "cloud metadata": [
      "100.100.100.200",
      "168.63.129.16",
      "192.0.0.192",
      "fd00:ec2::254",
      "FD00:0EC2:0:0:0:0:0:0254",
      "fd00:ec2::23",
      "fd20:ce::254",
      "::ffff:100.100.100.200",
    ],
    multicast: ["224.0.0.1", "239.255.255.255", "ff02::1", "::ffff:224.0.0.1"],
    unspecified: ["0.0.0.0", "0.1.2.3", "::", "::ffff:0.0.0.0", "64:ff9b::", "::5"],
    broadcast: ["255.255.255.255", "::ffff:255.255.255.255"],
    "local NAT64": ["64:ff9b:1::8.8.8.8", "64:ff9b:1:a9fe:a9:fe00::"],
  };
  for (const [what, addresses] of Object.entries(denied)) {
    for (const address of addresses) {
      const expected = `${what} addresses need a rule in TARGET_ALLOW`;
      assert.equal(verdict(policy(), address, 80), expected, address);
      assert.equal(verdict(policy(), "innocent.example", 80, address), expected, address);
    }
  }
});

Deno.test("without rules all other addresses are allowed, private ones too", () => {
  const addresses = [
    "8.8.8.8",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.0.1",
    "100.64.0.1",
    "100.100.100.201",
    "126.255.255.255",
    "128.0.0.0",
    "169.253.255.255",
    "223.255.255.255",
    "240.0.0.1",
    "2001:db8::1",
    "fd00:ec2::253",
    "fd00::1",
    "fec0::1",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
    "2002:808:808::1",
    "2001:0:808:808::f7f7:f7f7",
  ];
  for (const address of addresses) assert.equal(verdict(policy(), address, 80), "allowed", address);
});

Deno.test("names of this machine and of metadata services are denied before a look-up", () => {
  const names = [
    "localhost",
    "LOCALHOST",
    "localhost.",
    "a.localhost",
    "metadata.google.internal",
    "Metadata.Google.Internal.",
    "ｍetadata.google.internal",
  ];
  for (const name of names) deniedByName(policy(), canonicalTargetHost(name) ?? "", 80);
  for (const name of ["localhost.example", "notlocalhost", "google.internal"]) {
    assert.equal(verdict(policy(), name, 80, "8.8.8.8"), "allowed", name);
  }
});

Deno.test("an address that cannot be judged is denied, whatever the rules say", () => {
  const open = policy({ allow: "h,0.0.0.0/0,::/0" });
  for (const address of ["fe80::1%lo", "127.1", "", "h", "::ffff:127.1"]) {
    assert.match(verdict(policy(), "h", 80, address), /cannot be judged/, address);
    assert.match(verdict(open, "h", 80, address), /cannot be judged/, address);
  }
});

Deno.test("F52: a rule with host and port in TARGET_ALLOW lets exactly that through", () => {
  const one = policy({ allow: "127.0.0.1:5432" });
  assert.equal(verdict(one, "127.0.0.1", 5432), "allowed");
  assert.equal(verdict(one, "::ffff:127.0.0.1", 5432), "allowed");
  assert.equal(verdict(one, "db.example", 5432, "127.0.0.1"), "allowed");
  const others: [string, number][] = [
    ["127.0.0.1", 5433],
    ["127.0.0.2", 5432],
    ["::1", 5432],
    ["169.254.169.254", 5432],
    ["8.8.8.8", 5432],
  ];
  for (const [host, port] of others) {
    assert.equal(verdict(one, host, port), "TARGET_ALLOW does not name it", host);
  }
});

Deno.test("a name in TARGET_ALLOW opens whatever it resolves to, and no other name", () => {
  const one = policy({ allow: "db.internal:5432,*.apps.example:80|443" });
  assert.equal(verdict(one, "DB.internal.", 5432, "10.0.0.1"), "allowed");
  assert.equal(verdict(one, "db.internal", 5432, "127.0.0.1"), "allowed");
  assert.equal(verdict(one, "a.b.apps.example", 443, "::1"), "allowed");
  deniedByName(one, "db.internal", 5433);
  deniedByName(one, "apps.example", 443);
  deniedByName(one, "evilapps.example", 443);
  deniedByName(one, "other.internal", 5432);
  // The address of the name is not the name.
  assert.equal(verdict(one, "10.0.0.1", 5432), "TARGET_ALLOW does not name it");
});

Deno.test("a name without a rule is looked up when a network could still allow it", () => {
  const one = policy({ allow: "10.0.0.0/8:443" });
  assert.equal(verdict(one, "app.example", 443, "10.1.1.1"), "allowed");
  assert.equal(verdict(one, "localhost", 443, "10.1.1.1"), "allowed");
  assert.equal(verdict(one, "app.example", 443, "8.8.8.8"), "TARGET_ALLOW does not name it");
  deniedByName(one, "app.example", 80);
});

Deno.test("TARGET_DENY goes before TARGET_ALLOW, by name and by address", () => {
  const one = policy({
    allow: "*.example,0.0.0.0/0,::/0",
    deny: "bad.example,10.0.0.0/8,[fd00::/8]:22",
  });
  assert.equal(verdict(one, "good.example", 80, "8.8.8.8"), "allowed");
  deniedByName(one, "bad.example", 80);
  assert.equal(verdict(one, "good.example", 80, "10.1.1.1"), "TARGET_DENY names it");
  for (const host of ["10.1.1.1", "::ffff:10.1.1.1", "64:ff9b::10.1.1.1", "2002:a01:101::"]) {
    assert.equal(verdict(one, host, 80), "TARGET_DENY names it", host);
  }
  assert.equal(verdict(one, "fd00::1", 22), "TARGET_DENY names it");
  assert.equal(verdict(one, "fd00::1", 23), "allowed");
  assert.equal(verdict(policy({ deny: "8.8.8.8" }), "10.0.0.1", 80), "allowed");
  assert.match(verdict(policy({ deny: "8.8.8.8" }), "127.0.0.1", 80), /^loopback/);
});

Deno.test("own listeners and NATS servers are denied whatever TARGET_ALLOW says", () => {
  const own: OwnTargets = {
    hasName: (name, port) => name === "nats.example" && port === 4222,
    hasAddress: (address, port) => formatIp(address) === "10.0.0.9" && port === 4222,
  };
  const open = policy({ allow: "*.example,nats.example,0.0.0.0/0,::/0", own });
  deniedByName(open, "nats.example", 4222);
  deniedByName(open, "NATS.example.", 4222);
  for (const host of ["10.0.0.9", "::ffff:10.0.0.9", "64:ff9b::a00:9"]) {
    assert.match(verdict(open, host, 4222), /^natsway's own listeners/, host);
    assert.equal(verdict(open, host, 4223), "allowed", host);
  }
  assert.match(verdict(open, "alias.example", 4222, "10.0.0.9"), /^natsway's own listeners/);
});

Deno.test("a refusal names the target as it was asked for, and not what it resolved to", () => {
  assert.throws(
    () => policy().checkAddress("internal.example", "169.254.169.254", 80),
    (error: Error) =>
      error.message.includes("internal.example:80") && !error.message.includes("169.254"),
  );
  assert.throws(() => policy().checkAddress("0:0:0:0:0:0:0:1", "0:0:0:0:0:0:0:1", 80), /\[0:0:0:/);
});
