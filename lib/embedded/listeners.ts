/**
 * Whether an address is free for nats-server.
 * @module
 */
import { StartError } from "../errors.ts";
import { formatAddress, type ListenAddress } from "./server_config.ts";

/**
 * Binds the address for a moment; nobody is connected to.
 * @param setting what to set to get another one
 * @throws {StartError} somebody listens there; anything else is left for nats-server to say
 */
export function assertFree(listen: ListenAddress, setting: string): void {
  if (listen.port === 0) return;
  try {
    Deno.listen({ hostname: listen.host, port: listen.port }).close();
  } catch (error) {
    if (error instanceof Deno.errors.AddrInUse) throw addressInUse(formatAddress(listen), setting);
  }
}

/** What a start says that cannot have its address. */
export function addressInUse(address: string, setting: string): StartError {
  return new StartError(
    `the embedded nats-server cannot listen on ${address}: the address is in use. Stop ` +
      `what holds it, or set ${setting}`,
  );
}
