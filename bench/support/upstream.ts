/**
 * The fixed server behind every candidate: nginx with one worker and two files.
 * @module
 */
import { BenchProcess, freePort } from "./process.ts";

/** Bodies by path. */
export const FILES = { "/1k": 1024, "/10m": 10 * 1024 * 1024 } as const;

/** A body that no candidate can answer by chance. */
export function fileBody(bytes: number): Uint8Array<ArrayBuffer> {
  const body = new Uint8Array(bytes);
  for (let i = 0; i < bytes; i++) body[i] = 0x61 + (i ^ (i >>> 8)) % 26;
  return body;
}

/** Starts it on a free port of loopback; its files live in `folder`. */
export async function startUpstream(
  nginx: string,
  folder: string,
): Promise<{ port: number; process: BenchProcess; config: string }> {
  const port = freePort();
  await Deno.mkdir(`${folder}/www`);
  for (const [path, bytes] of Object.entries(FILES)) {
    await Deno.writeFile(`${folder}/www${path}`, fileBody(bytes));
  }
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `  ${name}_temp_path ${folder}/${name};`);
  const config = [
    "daemon off;",
    "worker_processes 1;",
    // A worker of another user could not read the files of root.
    ...(Deno.uid() === 0 ? ["user root;"] : []),
    `pid ${folder}/nginx.pid;`,
    "events { worker_connections 4096; }",
    "http {",
    ...temporary,
    "  access_log off;",
    "  default_type application/octet-stream;",
    "  sendfile on;",
    "  tcp_nodelay on;",
    "  keepalive_requests 1000000000;",
    "  open_file_cache max=10 inactive=1h;",
    "  server {",
    `    listen 127.0.0.1:${port} backlog=1024;`,
    `    root ${folder}/www;`,
    "  }",
    "}",
    "",
  ].join("\n");
  await Deno.writeTextFile(`${folder}/nginx.conf`, config);
  const process = new BenchProcess({
    name: "nginx",
    command: nginx,
    args: ["-e", "stderr", "-p", folder, "-c", `${folder}/nginx.conf`],
  });
  return { port, process, config };
}
