/**
 * psql and pg_dump through a static forward.
 * @module
 */
import assert from "node:assert/strict";
import { startBridge } from "./support/bridge.ts";
import { MIB, randomBytes, sha256, TempFolder } from "./support/files.ts";
import { startPostgres } from "./support/postgres.ts";
import { run, runAny } from "./support/program.ts";

const ROWS = 50_000;
const CLIENTS = 8;
const LARGE_VALUE = randomBytes(4 * MIB);
/** One line for all rows, the same on every server that has the same rows. */
const DIGEST_SQL =
  "select count(*), sum(id), md5(string_agg(id || text, ',' order by id)) from rows";

function psql(env: Record<string, string>, sql: string, stdin = "") {
  const words = ["--no-psqlrc", "--quiet", "--tuples-only", "--no-align", "-v", "ON_ERROR_STOP=1"];
  return run("psql", [...words, "--command", sql], { env, stdin });
}

/** Rows in a form that \copy reads. */
function csv(): string {
  return Array.from({ length: ROWS }, (_, i) => `${i},row ${i} ü ${"x".repeat(i % 50)}\n`).join("");
}

/** A dump without the lines that differ every time: pg_dump's key against hidden psql commands. */
function withoutKey(dump: string): string {
  return dump.replace(/^\\(un)?restrict .*$/gm, "");
}

Deno.test("psql and pg_dump through a forward see what PostgreSQL has", async () => {
  await using postgres = await startPostgres();
  await using bridge = await startBridge({ forwardTo: [postgres.port] });
  await bridge.explained(async () => {
    const port = bridge.forward(postgres.port);
    const far = postgres.env(port);
    const direct = postgres.env(postgres.port);

    await psql(far, "create table rows (id int primary key, text text not null)");
    await psql(far, "\\copy rows from stdin csv", csv());
    const digest = (await psql(far, DIGEST_SQL)).text;
    assert.ok(digest.startsWith(`${ROWS}|${ROWS * (ROWS - 1) / 2}|`), digest);
    assert.equal((await psql(direct, DIGEST_SQL)).text, digest);
    const back = await psql(far, "\\copy (select * from rows order by id) to stdout csv");
    assert.equal(sha256(back.text), sha256(csv()));

    await psql(far, "create table large (value bytea)");
    const hex = LARGE_VALUE.toHex();
    await psql(far, "\\copy large from stdin", `\\\\x${hex}\n`);
    const sum = await psql(direct, "select encode(sha256(value), 'hex') from large");
    assert.equal(sum.text.trim(), sha256(LARGE_VALUE));

    const dump = (await run("pg_dump", ["--no-owner"], { env: far })).text;
    const local = (await run("pg_dump", ["--no-owner"], { env: direct })).text;
    assert.ok(dump.includes(hex), "the dump lacks the large value");
    assert.equal(sha256(withoutKey(dump)), sha256(withoutKey(local)));

    await psql(far, "create database restored");
    await using folder = new TempFolder();
    const file = await folder.write("dump.sql", dump);
    const restored = postgres.env(port, "restored");
    await run("psql", ["--no-psqlrc", "--quiet", "-v", "ON_ERROR_STOP=1", "-f", file], {
      env: restored,
    });
    assert.equal((await psql(restored, DIGEST_SQL)).text, digest);
  });
});

Deno.test("psql through a forward: clients at the same time, an error, a wrong password", async () => {
  await using postgres = await startPostgres();
  await using bridge = await startBridge({ forwardTo: [postgres.port] });
  await bridge.explained(async () => {
    const env = postgres.env(bridge.forward(postgres.port));
    await psql(env, "create table hits (client int)");
    const one = (i: number) =>
      psql(env, `insert into hits select ${i} from generate_series(1, 100); select ${i}`);
    const answers = await Promise.all(Array.from({ length: CLIENTS }, (_, i) => one(i)));
    assert.deepEqual(answers.map(({ text }) => text.trim()), answers.map((_, i) => `${i}`));
    const counts = await psql(env, "select count(*), count(distinct client) from hits");
    assert.equal(counts.text.trim(), `${100 * CLIENTS}|${CLIENTS}`);

    await assert.rejects(psql(env, "select * from nowhere"), /relation "nowhere" does not exist/);
    const words = ["--no-psqlrc", "--command", "select 1"];
    const refused = await runAny("psql", words, { env: { ...env, PGPASSWORD: "wrong" } });
    assert.equal(refused.code, 2);
    assert.match(refused.stderr, /password authentication failed/);
  });
});
