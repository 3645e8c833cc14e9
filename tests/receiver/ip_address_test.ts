import assert from "node:assert/strict";
import {
  formatIp,
  ipForms,
  ipNetwork,
  isInNetwork,
  parseIp,
} from "../../lib/receiver/ip_address.ts";

const standard = (text: string) => {
  const ip = parseIp(text);
  return ip === null ? null : formatIp(ip);
};

Deno.test("each spelling of an address has one standard form", () => {
  const spellings: Record<string, string> = {
    "127.0.0.1": "127.0.0.1",
    "0.0.0.0": "0.0.0.0",
    "255.255.255.255": "255.255.255.255",
    "::": "0:0:0:0:0:0:0:0",
    "::1": "0:0:0:0:0:0:0:1",
    "0:0:0:0:0:0:0:1": "0:0:0:0:0:0:0:1",
    "0000::0001": "0:0:0:0:0:0:0:1",
    "2001:DB8::A": "2001:db8:0:0:0:0:0:a",
    "1:2:3:4:5:6:7::": "1:2:3:4:5:6:7:0",
    "::2:3:4:5:6:7:8": "0:2:3:4:5:6:7:8",
    "64:ff9b::192.0.2.33": "64:ff9b:0:0:0:0:c000:221",
    "::ffff:127.0.0.1": "127.0.0.1",
    "::FFFF:7f00:1": "127.0.0.1",
    "0:0:0:0:0:ffff:169.254.169.254": "169.254.169.254",
  };
  for (const [text, expected] of Object.entries(spellings)) {
    assert.equal(standard(text), expected, text);
    assert.equal(standard(expected), expected, expected);
  }
});

Deno.test("what only some programs read as an address is none", () => {
  const others = [
    "",
    "127.1",
    "2130706433",
    "0x7f000001",
    "0x7f.0.0.1",
    "0177.0.0.1",
    "127.0.0.01",
    "127.0.0.1.",
    "127.0.0.256",
    "127.0.0.1 ",
    "127.0.0.1\n",
    "1.2.3.4.5",
    "١.0.0.1",
    "localhost",
    ":",
    ":::",
    "1::2::3",
    "1:2:3:4:5:6:7",
    "1:2:3:4:5:6:7:8:9",
    "1:2:3:4:5:6:7:8::",
    "::12345",
    "::g",
    ":1",
    "1:",
    "[::1]",
    "fe80::1%eth0",
    "fe80::1%1",
    "::ffff:127.1",
    "::ffff:127.0.0.1:1",
    "127.0.0.1::",
    "::1.2.3.4.5",
    "::0x1",
  ];
  for (const text of others) assert.equal(standard(text), null, JSON.stringify(text));
});

Deno.test("a network holds what shares its prefix, and nothing of the other family", () => {
  const cases: [string, number, string, boolean][] = [
    ["10.0.0.0", 8, "10.255.255.255", true],
    ["10.0.0.0", 8, "11.0.0.0", false],
    ["10.1.2.3", 8, "10.0.0.0", true],
    ["169.254.169.254", 32, "169.254.169.254", true],
    ["169.254.169.254", 32, "169.254.169.255", false],
    ["0.0.0.0", 0, "1.2.3.4", true],
    ["0.0.0.0", 0, "::1", false],
    ["::", 0, "fd00::1", true],
    ["::", 0, "::ffff:1.2.3.4", false],
    ["fe80::", 10, "febf::1", true],
    ["fe80::", 10, "fec0::1", false],
    ["::ffff:10.0.0.0", 104, "10.9.9.9", true],
    ["::ffff:10.0.0.0", 104, "11.0.0.0", false],
    ["10.0.0.0", 8, "::ffff:10.0.0.1", true],
  ];
  for (const [network, bits, address, expected] of cases) {
    const ip = parseIp(address);
    assert.ok(ip);
    assert.equal(
      isInNetwork(ip, ipNetwork(network, bits)),
      expected,
      `${address} ${network}/${bits}`,
    );
  }
  for (const [text, bits] of [["10.0.0.0", 33], ["::", 129], ["h", 0], ["::", -1]] as const) {
    assert.throws(() => ipNetwork(text, bits), RangeError);
  }
});

Deno.test("IPv4 addresses inside IPv6 ones are found", () => {
  const cases: Record<string, string[]> = {
    "::ffff:127.0.0.1": ["127.0.0.1"],
    "::127.0.0.1": ["0:0:0:0:0:0:7f00:1", "127.0.0.1"],
    "::ffff:0:127.0.0.1": ["0:0:0:0:ffff:0:7f00:1", "127.0.0.1"],
    "64:ff9b::127.0.0.1": ["64:ff9b:0:0:0:0:7f00:1", "127.0.0.1"],
    "2002:7f00:1::5": ["2002:7f00:1:0:0:0:0:5", "127.0.0.1"],
    // RFC 4380 §4: server 65.54.227.120, client 192.0.2.45 behind port 40000.
    "2001:0:4136:e378:8000:63bf:3fff:fdd2": [
      "2001:0:4136:e378:8000:63bf:3fff:fdd2",
      "65.54.227.120",
      "192.0.2.45",
    ],
    "::": ["0:0:0:0:0:0:0:0"],
    "::1": ["0:0:0:0:0:0:0:1"],
    "2001:db8::7f00:1": ["2001:db8:0:0:0:0:7f00:1"],
  };
  for (const [text, expected] of Object.entries(cases)) {
    const ip = parseIp(text);
    assert.ok(ip);
    assert.deepEqual(ipForms(ip).map(formatIp), expected, text);
  }
});
