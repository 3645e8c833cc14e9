/**
 * An sshd of a test's own, with keys of its own, that takes the user who runs the test.
 * @module
 */
import { freePort } from "../../helpers/nats_server.ts";
import { isRoot, TempFolder } from "./files.ts";
import { Program, run } from "./program.ts";

/** sshd starts itself anew for a connection and so wants its full path. */
const SSHD = "/usr/sbin/sshd";
/** Where sshd locks up its unprivileged half; Debian makes it when the service starts. */
const PRIVILEGE_SEPARATION = "/run/sshd";
/** Name of the server's key in the clients' list of known hosts. */
const HOST_KEY_ALIAS = "natsway-test";

/** See {@link startSshd}. */
export class Sshd implements AsyncDisposable {
  constructor(
    readonly port: number,
    readonly folder: TempFolder,
    readonly program: Program,
  ) {}

  /**
   * Arguments by which ssh, sftp and scp find and know this server, without the host: `via` is their
   * ProxyCommand, where `%h` and `%p` are host and port; none for a direct connection.
   */
  options(via: string | null): string[] {
    return [
      ...["-F", this.folder.at("ssh_config")],
      ...["-o", `Port=${this.port}`],
      ...(via === null ? [] : ["-o", `ProxyCommand=${via}`]),
    ];
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.program[Symbol.asyncDispose]();
    await this.folder[Symbol.asyncDispose]();
  }
}

/** Starts a server and waits until it listens. Use it with `await using`. */
export async function startSshd(): Promise<Sshd> {
  const folder = new TempFolder();
  try {
    for (const key of ["host_key", "user_key"]) {
      await run("ssh-keygen", ["-q", "-t", "ed25519", "-N", "", "-f", folder.at(key)]);
    }
    await Deno.copyFile(folder.at("user_key.pub"), folder.at("authorized_keys"));
    const hostKey = await Deno.readTextFile(folder.at("host_key.pub"));
    await folder.write("known_hosts", `${HOST_KEY_ALIAS} ${hostKey}`);
    await folder.write("sshd_config", serverConfig(folder));
    await folder.write("ssh_config", clientConfig(folder));
    if (isRoot()) await Deno.mkdir(PRIVILEGE_SEPARATION, { recursive: true, mode: 0o755 });
    const port = freePort();
    const program = await Program.start(
      SSHD,
      ["-D", "-e", "-f", folder.at("sshd_config"), "-p", `${port}`],
      { ready: /Server listening on 127\.0\.0\.1/ },
    );
    return new Sshd(port, folder, program);
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
}

function serverConfig(folder: TempFolder): string {
  return [
    "ListenAddress 127.0.0.1",
    `HostKey ${folder.at("host_key")}`,
    `AuthorizedKeysFile ${folder.at("authorized_keys")}`,
    // The folder lies below one that all may write to.
    "StrictModes no",
    "PidFile none",
    "UsePAM no",
    "PasswordAuthentication no",
    "PermitRootLogin prohibit-password",
    "Subsystem sftp internal-sftp",
    // Several clients log in at the same moment.
    "MaxStartups 100",
    "",
  ].join("\n");
}

function clientConfig(folder: TempFolder): string {
  return [
    `IdentityFile ${folder.at("user_key")}`,
    "IdentitiesOnly yes",
    "BatchMode yes",
    `HostKeyAlias ${HOST_KEY_ALIAS}`,
    `UserKnownHostsFile ${folder.at("known_hosts")}`,
    "GlobalKnownHostsFile none",
    "StrictHostKeyChecking yes",
    "LogLevel ERROR",
    "",
  ].join("\n");
}
