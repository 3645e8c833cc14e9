/**
 * An https server in the test's own process, with a certificate of a CA that openssl makes for it.
 * @module
 */
import { sha256, TempFolder } from "./files.ts";
import { run } from "./program.ts";

const DAYS = "2";

/** See {@link startHttps}. */
export class HttpsServer implements AsyncDisposable {
  constructor(
    readonly port: number,
    readonly folder: TempFolder,
    readonly server: Deno.HttpServer<Deno.NetAddr>,
  ) {}

  /** File of the CA that the server's certificate is of, valid for `localhost` and 127.0.0.1. */
  get ca(): string {
    return this.folder.at("ca.pem");
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.server.shutdown();
    await this.folder[Symbol.asyncDispose]();
  }
}

/**
 * Starts a server on 127.0.0.1. GET answers with `content`, whatever the path is, and PUT or POST
 * with the SHA-256 of the body, both with the method and path as the client sent them in
 * `x-request`. Use it with `await using`.
 */
export async function startHttps(content: Uint8Array<ArrayBuffer>): Promise<HttpsServer> {
  const folder = new TempFolder();
  try {
    await makeCertificates(folder);
    const server = Deno.serve({
      hostname: "127.0.0.1",
      port: 0,
      cert: await Deno.readTextFile(folder.at("server.pem")),
      key: await Deno.readTextFile(folder.at("server.key")),
      onListen: () => {},
    }, async (request) => {
      const headers = { "x-request": `${request.method} ${new URL(request.url).pathname}` };
      if (request.method === "GET") return new Response(content, { headers });
      return new Response(sha256(await request.bytes()), { headers });
    });
    return new HttpsServer(server.addr.port, folder, server);
  } catch (error) {
    await folder[Symbol.asyncDispose]();
    throw error;
  }
}

async function makeCertificates(folder: TempFolder): Promise<void> {
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"];
  await run("openssl", [
    ...["req", "-x509", ...key, "-subj", "/CN=natsway test CA", "-days", DAYS],
    ...["-addext", "keyUsage=critical,keyCertSign"],
    ...["-keyout", folder.at("ca.key"), "-out", folder.at("ca.pem")],
  ]);
  await run("openssl", [
    ...["req", ...key, "-subj", "/CN=localhost"],
    ...["-keyout", folder.at("server.key"), "-out", folder.at("server.csr")],
  ]);
  const extensions = await folder.write(
    "server.ext",
    "basicConstraints=CA:FALSE\nsubjectAltName=DNS:localhost,IP:127.0.0.1\n",
  );
  await run("openssl", [
    ...["x509", "-req", "-in", folder.at("server.csr"), "-days", DAYS, "-extfile", extensions],
    ...["-CA", folder.at("ca.pem"), "-CAkey", folder.at("ca.key"), "-CAcreateserial"],
    ...["-out", folder.at("server.pem")],
  ]);
}
