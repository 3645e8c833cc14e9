/**
 * ssh, sftp and rsync through natsway: by `natsway stdio`, by netcat over CONNECT and over SOCKS5.
 * @module
 */
import assert from "node:assert/strict";
import { pause } from "../helpers/wait.ts";
import { type Bridge, startBridge } from "./support/bridge.ts";
import {
  BIG_BYTES,
  FULL,
  MIB,
  randomBytes,
  sha256,
  TempFolder,
  treeDigests,
} from "./support/files.ts";
import { run, runAny } from "./support/program.ts";
import { type Sshd, startSshd } from "./support/sshd.ts";

const HOST = "127.0.0.1";
const SMALL_BYTES = 4 * MIB;
const SESSIONS = 4;
const SMALL_FILES = 200;
/** A transfer that lasts some seconds, in sftp's unit: 1000 bit/s. */
const SLOW_KBITS = FULL ? 400_000 : 80_000;

interface Way {
  readonly name: string;
  /** ssh's ProxyCommand, and the environment of ssh. */
  readonly proxy: (bridge: Bridge) => { proxyCommand: string; env: Record<string, string> };
}

const STDIO: Way = { name: "natsway stdio", proxy: (bridge) => bridge.stdio };
const CONNECT: Way = {
  name: "nc -X connect",
  proxy: (bridge) => ({ proxyCommand: `nc -X connect -x ${bridge.http} %h %p`, env: {} }),
};
const SOCKS5: Way = {
  name: "nc -X 5",
  proxy: (bridge) => ({ proxyCommand: `nc -X 5 -x ${bridge.socks} %h %p`, env: {} }),
};
const WAYS = [STDIO, CONNECT, SOCKS5];

interface Ssh {
  /** Arguments of ssh and sftp. */
  readonly options: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly sshd: Sshd;
  readonly bridge: Bridge;
}

/** Runs `work` with a server and a bridge, and with what ssh needs to go this way. */
async function withSsh(
  way: Way,
  work: (ssh: Ssh) => Promise<void>,
): Promise<void> {
  await using sshd = await startSshd();
  await using bridge = await startBridge();
  const { proxyCommand, env } = way.proxy(bridge);
  await bridge.explained(() => work({ options: sshd.options(proxyCommand), env, sshd, bridge }));
}

for (const way of WAYS) {
  Deno.test(`ssh by ${way.name} carries input, both outputs and the exit code`, async () => {
    await withSsh(way, async ({ options, env }) => {
      const input = randomBytes(SMALL_BYTES);
      const echo = await run("ssh", [...options, HOST, "cat"], { stdin: input, env });
      assert.equal(sha256(echo.stdout), sha256(input));

      const script = "printf out; printf err >&2; exit 7";
      const failed = await runAny("ssh", [...options, HOST, script], { env });
      assert.deepEqual([failed.code, failed.text, failed.stderr], [7, "out", "err"]);

      const inputs = Array.from({ length: SESSIONS }, () => randomBytes(MIB));
      const sums = await Promise.all(
        inputs.map((stdin) => run("ssh", [...options, HOST, "sha256sum"], { stdin, env })),
      );
      assert.deepEqual(sums.map(({ text }) => text.split(" ")[0]), inputs.map(sha256));
    });
  });

  Deno.test(`sftp by ${way.name} brings a big file there and back whole`, async () => {
    await withSsh(way, async ({ options, env }) => {
      await using folder = new TempFolder();
      const digest = sha256(await writeRandom(folder, "local", BIG_BYTES));
      const commands = `put ${folder.at("local")} ${folder.at("far")}\n` +
        `get ${folder.at("far")} ${folder.at("back")}\n`;
      const batch = await folder.write("batch", commands);
      await run("sftp", [...options, "-b", batch, HOST], { env });
      assert.equal(sha256(await Deno.readFile(folder.at("far"))), digest);
      assert.equal(sha256(await Deno.readFile(folder.at("back"))), digest);
    });
  });
}

for (const way of [STDIO, CONNECT]) {
  Deno.test(`sftp by ${way.name} goes on when nats-server is killed and comes back`, async () => {
    await withSsh(way, async ({ options, env, bridge }) => {
      await using folder = new TempFolder();
      const digest = sha256(await writeRandom(folder, "local", BIG_BYTES));
      const far = folder.at("far");
      const batch = await folder.write("batch", `put ${folder.at("local")} ${far}\n`);
      const limit = ["-l", `${SLOW_KBITS}`];
      const transfer = run("sftp", [...options, ...limit, "-b", batch, HOST], { env });
      let ended = false;
      const over = transfer.catch(() => {}).then(() => ended = true);
      try {
        while (!ended && await sizeOf(far) < BIG_BYTES / 4) await pause(10);
        await bridge.nats.kill("SIGKILL");
        assert.ok(await sizeOf(far) < BIG_BYTES, "the transfer was over before the cut");
        await bridge.nats.restart();
      } finally {
        await over;
        await transfer;
      }
      assert.equal(sha256(await Deno.readFile(far)), digest);
    });
  });
}

Deno.test("rsync over ssh by natsway stdio makes a tree equal, and equal again after changes", async () => {
  await withSsh(STDIO, async ({ options, env, sshd }) => {
    await using folder = new TempFolder();
    const [source, far, back] = [folder.at("source"), folder.at("far"), folder.at("back")];
    await Deno.mkdir(`${source}/deep/er`, { recursive: true });
    for (let i = 0; i < SMALL_FILES; i++) {
      await folder.write(`source/deep/${i}`, randomBytes(i * 37));
    }
    await folder.write("source/deep/er/a name with blanks, ü", randomBytes(1000));
    const big = await writeRandom(folder, "source/big", BIG_BYTES);

    // rsync hands these words to ssh; the ProxyCommand has blanks in it and so goes into a file.
    const config = await Deno.readTextFile(sshd.folder.at("ssh_config"));
    const proxy = options.filter((word) => /^(Port|ProxyCommand)=/.test(word));
    const file = await folder.write("ssh_config", `${config}${proxy.join("\n")}\n`);
    const sync = async (from: string, to: string) => {
      const words = ["--archive", "--delete", "--checksum", "--stats", `--rsh=ssh -F ${file}`];
      const { text } = await run("rsync", [...words, `${from}/`, `${to}/`], { env });
      return Number(/Total bytes sent: ([\d,]+)/.exec(text)?.[1]?.replaceAll(",", ""));
    };

    await sync(source, `${HOST}:${far}`);
    assert.deepEqual(await treeDigests(far), await treeDigests(source));
    await sync(`${HOST}:${far}`, back);
    assert.deepEqual(await treeDigests(back), await treeDigests(source));

    // A change in the middle: rsync sends what is new alone, once both ends agree on the rest.
    big.set(randomBytes(1000), big.length / 2);
    await folder.write("source/big", big);
    await Deno.remove(`${source}/deep/7`);
    const sent = await sync(source, `${HOST}:${far}`);
    assert.deepEqual(await treeDigests(far), await treeDigests(source));
    assert.ok(sent > 0 && sent < BIG_BYTES / 10, `${sent} octets were sent for a small change`);
  });
});

async function writeRandom(
  folder: TempFolder,
  name: string,
  length: number,
): Promise<Uint8Array<ArrayBuffer>> {
  const content = randomBytes(length);
  await folder.write(name, content);
  return content;
}

/** Size of a file in octets, 0 as long as there is none. */
async function sizeOf(path: string): Promise<number> {
  try {
    return (await Deno.stat(path)).size;
  } catch {
    return 0;
  }
}
