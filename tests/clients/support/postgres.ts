/**
 * A PostgreSQL server of a test's own, in a folder of its own.
 * @module
 */
import { freePort } from "../../helpers/nats_server.ts";
import { isRoot, randomBytes, sha256, TempFolder } from "./files.ts";
import { Program, run } from "./program.ts";

/** Debian keeps the server's programs by version, off the PATH. */
const VERSIONS = "/usr/lib/postgresql";
/** PostgreSQL refuses to run as root; Debian's package brings this user. */
const SERVER_USER = "postgres";
const DATABASE_USER = "tester";

/** See {@link startPostgres}. */
export class Postgres implements AsyncDisposable {
  constructor(
    readonly port: number,
    readonly folder: TempFolder,
    readonly program: Program,
    readonly password: string,
  ) {}

  /** Environment by which psql, pg_dump and the like log in at `port`. */
  env(port: number, database = "postgres"): Record<string, string> {
    return {
      PGHOST: "127.0.0.1",
      PGPORT: `${port}`,
      PGUSER: DATABASE_USER,
      PGPASSWORD: this.password,
      PGDATABASE: database,
      PGCONNECT_TIMEOUT: "10",
    };
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

/** Makes a cluster, starts its server and waits until it takes clients. Use it with `await using`. */
export async function startPostgres(): Promise<Postgres> {
  const folder = new TempFolder();
  try {
    const programs = `${VERSIONS}/${await newestVersion()}/bin`;
    const asServer = isRoot()
      ? ["setpriv", "--reuid", SERVER_USER, "--regid", SERVER_USER, "--init-groups"]
      : ["env"];
    const [command, ...words] = asServer as [string, ...string[]];
    const password = sha256(randomBytes(32));
    const passwordFile = await folder.write("password", password);
    if (isRoot()) await run("chown", ["-R", `${SERVER_USER}:`, folder.path]);
    const data = folder.at("data");
    const initdb = ["--no-sync", "--no-instructions", "--encoding=UTF8", "--locale=C"];
    await run(command, [
      ...words,
      `${programs}/initdb`,
      ...initdb,
      "--auth=scram-sha-256",
      `--username=${DATABASE_USER}`,
      `--pwfile=${passwordFile}`,
      `--pgdata=${data}`,
    ], { cwd: "/" });
    const port = freePort();
    const settings = [`port=${port}`, "listen_addresses=127.0.0.1", "unix_socket_directories="];
    const program = await Program.start(
      command,
      [
        ...words,
        `${programs}/postgres`,
        ...["-D", data, "-c", "fsync=off"],
        ...settings.flatMap((setting) => ["-c", setting]),
      ],
      // SIGINT is its fast shutdown: SIGTERM would wait for clients.
      { ready: /ready to accept connections/, cwd: "/", stopSignal: "SIGINT" },
    );
    return new Postgres(port, folder, program, password);
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
}

async function newestVersion(): Promise<string> {
  const versions: string[] = [];
  for await (const entry of Deno.readDir(VERSIONS)) versions.push(entry.name);
  const newest = versions.sort((a, b) => Number(b) - Number(a))[0];
  if (newest === undefined) throw new Error(`no PostgreSQL in ${VERSIONS}: install postgresql`);
  return newest;
}
