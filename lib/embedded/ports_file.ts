/**
 * The file in which nats-server says which ports it has.
 * @module
 */

/** Where clients reach a server on this machine. */
export interface ClientListener {
  readonly scheme: "nats" | "tls";
  /** IPv6 without brackets. */
  readonly hostname: string;
  readonly port: number;
}

/**
 * The client listener by the ports file in `folder`; `null` while there is none, or only half of one.
 * Of several addresses one of the loopback interface is taken.
 */
export async function clientListener(folder: string): Promise<ClientListener | null> {
  try {
    for await (const entry of Deno.readDir(folder)) {
      if (!entry.name.endsWith(".ports")) continue;
      const found = parsePorts(await Deno.readTextFile(`${folder}/${entry.name}`));
      if (found !== null) return found;
    }
  } catch {
    // Its writer is not done yet, or all is removed since the server has ended.
  }
  return null;
}

function parsePorts(text: string): ClientListener | null {
  const { nats = [] } = JSON.parse(text) as { nats?: readonly unknown[] };
  const listeners = nats.map(parseUrl).filter((one) => one !== null);
  return listeners.find(({ hostname }) => hostname === "127.0.0.1") ??
    listeners.find(({ hostname }) => hostname === "::1" || hostname.startsWith("127.")) ??
    listeners[0] ?? null;
}

function parseUrl(url: unknown): ClientListener | null {
  const found = /^(nats|tls):\/\/(?:\[([^\]]+)\]|([^:]+)):(\d{1,5})$/.exec(String(url));
  const hostname = found?.[2] ?? found?.[3];
  if (hostname === undefined) return null;
  return { scheme: found![1] as "nats" | "tls", hostname, port: Number(found![4]) };
}
