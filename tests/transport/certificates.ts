/**
 * Certificates for one test, made by openssl.
 * @module
 */

/** PEM texts, and the files for a server; gone at the end of the scope. */
export interface Certificates extends AsyncDisposable {
  readonly folder: string;
  readonly ca: string;
  readonly clientCert: string;
  readonly clientKey: string;
}

/** An authority, a server certificate for localhost and 127.0.0.1, and one for a client. */
export async function makeCertificates(): Promise<Certificates> {
  const folder = await Deno.makeTempDir({ prefix: "natsway-tls-" });
  const openssl = async (...args: string[]) => {
    const { success, stderr } = await new Deno.Command("openssl", { args, cwd: folder }).output();
    if (!success) throw new Error(`openssl ${args[0]}: ${new TextDecoder().decode(stderr)}`);
  };
  const key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];
  const days = ["-days", "2"];
  const ca = ["-keyout", "ca.key", "-out", "ca.pem", "-subj", "/CN=test authority"];
  await openssl("req", "-x509", ...key, ...days, ...ca);
  for (const name of ["server", "client"]) {
    await Deno.writeTextFile(
      `${folder}/${name}.ext`,
      "subjectAltName=DNS:localhost,IP:127.0.0.1\n",
    );
    const request = ["-keyout", `${name}.key`, "-out", `${name}.csr`, "-subj", `/CN=${name}`];
    await openssl("req", "-new", ...key, ...request);
    const signing = [
      "-CA",
      "ca.pem",
      "-CAkey",
      "ca.key",
      "-CAcreateserial",
      "-extfile",
      `${name}.ext`,
    ];
    await openssl("x509", "-req", ...days, ...signing, "-in", `${name}.csr`, "-out", `${name}.pem`);
  }
  const read = (name: string) => Deno.readTextFile(`${folder}/${name}`);
  return {
    folder,
    ca: await read("ca.pem"),
    clientCert: await read("client.pem"),
    clientKey: await read("client.key"),
    [Symbol.asyncDispose]: () => Deno.remove(folder, { recursive: true }),
  };
}
