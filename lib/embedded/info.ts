/**
 * The greeting of a NATS server.
 * @module
 */

/** What is of interest in the INFO line. */
export interface ServerInfo {
  readonly serverName: string;
  readonly version: string;
}

const MAX_INFO_BYTES = 64 * 1024;

/**
 * Connects, reads the INFO line (NATS client protocol) and closes; nothing is sent.
 * @returns `null` when nobody listens, or what comes in time is no INFO line
 */
export async function readServerInfo(
  hostname: string,
  port: number,
  timeoutMs: number,
): Promise<ServerInfo | null> {
  let connection: Deno.TcpConn;
  try {
    connection = await Deno.connect({ hostname, port });
  } catch {
    return null;
  }
  let isOpen = true;
  const close = () => {
    if (isOpen) connection.close();
    isOpen = false;
  };
  const timer = setTimeout(close, timeoutMs);
  try {
    return parseInfo(await readLine(connection));
  } catch {
    return null;
  } finally {
    clearTimeout(timer);
    close();
  }
}

async function readLine(connection: Deno.TcpConn): Promise<string> {
  const buffer = new Uint8Array(MAX_INFO_BYTES);
  let length = 0;
  while (length < buffer.length) {
    const count = await connection.read(buffer.subarray(length));
    if (count === null) break;
    length += count;
    const end = buffer.subarray(0, length).indexOf(0x0a);
    if (end >= 0) return new TextDecoder().decode(buffer.subarray(0, end));
  }
  throw new Error("no line");
}

function parseInfo(line: string): ServerInfo | null {
  if (!line.startsWith("INFO ")) return null;
  const info = JSON.parse(line.slice(5)) as { server_name?: unknown; version?: unknown };
  if (typeof info.server_name !== "string" || typeof info.version !== "string") return null;
  return { serverName: info.server_name, version: info.version };
}
