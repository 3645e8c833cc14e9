/**
 * For reset_test.ts: an HTTP port that breaks off what it answers. Prints its port.
 * @module
 */
import type { IngressRequest } from "../../lib/ingress/connection.ts";
import { octets } from "../helpers/bytes.ts";
import { PortRig } from "../helpers/unit_server.ts";

const BODY = octets("abc".repeat(100));

async function tunnel(request: IngressRequest): Promise<void> {
  const socket = request.takeSocket(octets("HTTP/1.1 200 OK\r\n\r\n"));
  await socket?.reader.more();
  socket?.reset();
}

const { server } = new PortRig((request) => {
  const { head, response } = request;
  if (head.method === "CONNECT") {
    void tunnel(request);
    return;
  }
  response.start({
    status: 200,
    fields: null,
    declaredLength: head.target === "/declared" ? 1_000 : -1,
  });
  response.body(BODY);
  if (head.target === "/whole") response.end();
  else response.abort();
});
await Deno.stdout.write(new TextEncoder().encode(`${server.port}`));
