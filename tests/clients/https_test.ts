/**
 * curl and openssl s_client to an https server: TLS is between them and the server, natsway carries it.
 * @module
 */
import assert from "node:assert/strict";
import { type Bridge, startBridge } from "./support/bridge.ts";
import { BIG_BYTES, MIB, randomBytes, sha256, TempFolder } from "./support/files.ts";
import { type HttpsServer, startHttps } from "./support/https_server.ts";
import { run, runAny } from "./support/program.ts";

const PARALLEL = 12;
/** curl's code for a certificate that it cannot trust. */
const UNTRUSTED = 60;

const WAYS: readonly { name: string; words: (bridge: Bridge) => string[] }[] = [
  { name: "CONNECT", words: (bridge) => ["-x", `http://${bridge.http}`] },
  { name: "--socks5-hostname", words: (bridge) => ["--socks5-hostname", bridge.socks] },
  { name: "--socks5", words: (bridge) => ["--socks5", bridge.socks] },
];

for (const { name, words } of WAYS) {
  Deno.test(`curl by ${name} downloads and uploads over https`, async () => {
    const content = randomBytes(BIG_BYTES);
    await using server = await startHttps(content);
    await using bridge = await startBridge();
    await bridge.explained(async () => {
      const url = `https://localhost:${server.port}`;
      const proxy = [...words(bridge), "--noproxy", "", "-sS", "--fail"];
      const trusting = [...proxy, "--cacert", server.ca];

      const got = await run("curl", [...trusting, `${url}/down`]);
      assert.equal(sha256(got.stdout), sha256(content));

      const body = randomBytes(MIB * 8);
      const upload = [...trusting, "-T", "-", "-H", "Expect:", `${url}/up`];
      assert.equal((await run("curl", upload, { stdin: body })).text, sha256(body));

      // Not the proxy but the server shows the certificate: without its CA nothing may come.
      const distrusting = await runAny("curl", [...proxy, `${url}/down`]);
      assert.equal(distrusting.code, UNTRUSTED, distrusting.stderr);
      assert.equal(distrusting.stdout.length, 0);
    });
  });
}

Deno.test("curl by CONNECT keeps a tunnel for several requests and opens many at once", async () => {
  const content = randomBytes(MIB);
  await using server = await startHttps(content);
  await using bridge = await startBridge();
  await using folder = new TempFolder();
  await bridge.explained(async () => {
    const url = `https://localhost:${server.port}`;
    const proxy = ["-x", `http://${bridge.http}`, "--noproxy", "", "-sS", "--cacert", server.ca];
    const report = "%{http_connect} %{http_code} %{http_version} %{num_connects}\n";

    const files = [1, 2, 3].map((i) => folder.at(`kept-${i}`));
    const targets = files.flatMap((file, i) => ["-o", file, `${url}/${i}`]);
    const kept = await run("curl", [...proxy, "-w", report, ...targets]);
    // The second and third request open nothing: they go over the tunnel of the first.
    const lines = kept.text.trim().split("\n");
    assert.deepEqual(lines.map((line) => line.split(" ").slice(1).join(" ")), [
      "200 2 1",
      "200 2 0",
      "200 2 0",
    ]);
    assert.equal(lines[0]?.split(" ")[0], "200");

    const many = Array.from({ length: PARALLEL }, (_, i) => folder.at(`many-${i}`));
    const parallel = ["--http1.1", "-Z", "--parallel-immediate", "--parallel-max", `${PARALLEL}`];
    await run("curl", [...proxy, ...parallel, ...many.flatMap((f, i) => ["-o", f, `${url}/${i}`])]);
    for (const file of [...files, ...many]) {
      assert.equal(sha256(await Deno.readFile(file)), sha256(content), file);
    }
  });
});

/** A GET by openssl s_client, by hand: the response's head and body. */
async function getByOpenssl(server: HttpsServer, words: readonly string[]) {
  const { stdout, stderr } = await run("openssl", [
    ...["s_client", ...words, "-servername", "localhost", "-verify_hostname", "localhost"],
    ...["-CAfile", server.ca, "-verify_return_error", "-quiet"],
  ], { stdin: "GET /openssl HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n" });
  const end = new TextDecoder("latin1").decode(stdout).indexOf("\r\n\r\n");
  assert.ok(end > 0, `no response head: ${stderr}`);
  const head = new TextDecoder().decode(stdout.subarray(0, end));
  return { head, body: stdout.subarray(end + 4), stderr };
}

Deno.test("openssl s_client speaks TLS with a server through -proxy and through a forward", async () => {
  const content = randomBytes(MIB);
  await using server = await startHttps(content);
  await using bridge = await startBridge({ forwardTo: [server.port] });
  await bridge.explained(async () => {
    const ways = [
      ["-proxy", bridge.http, "-connect", `localhost:${server.port}`],
      ["-connect", `127.0.0.1:${bridge.forward(server.port)}`],
    ];
    for (const words of ways) {
      const { head, body, stderr } = await getByOpenssl(server, words);
      assert.match(head, /^HTTP\/1\.1 200 /);
      assert.match(head, /^x-request: GET \/openssl$/m);
      assert.equal(sha256(body), sha256(content));
      assert.match(stderr, /CN = natsway test CA/);
    }
  });
});
