/**
 * For reset_test.ts: a listener that ends its connections in the way that the first argument says, at
 * the address of the second, as soon as they have said something. Prints its port.
 * @module
 */
import { resetConnection } from "../../lib/net/reset.ts";

const [how, hostname = "127.0.0.1"] = Deno.args;
const listener = Deno.listen({ hostname, port: 0 });
await Deno.stdout.write(new TextEncoder().encode(`${listener.addr.port}`));
const earlier: Deno.TcpConn[] = [];
for await (const connection of listener) {
  const buffer = new Uint8Array(16);
  const size = await connection.read(buffer);
  switch (how) {
    case "reset":
      resetConnection(connection);
      break;
    case "half-close":
      await connection.closeWrite();
      resetConnection(connection);
      break;
    case "reset-earlier":
      for (const one of earlier.splice(0)) resetConnection(one);
      await connection.write(buffer.subarray(0, size ?? 0));
      earlier.push(connection);
      break;
    default:
      connection.close();
  }
}
