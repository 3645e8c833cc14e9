/**
 * Whether answers would be heard.
 * @module
 */
import type { Transport } from "../transport/types.ts";

/**
 * A question to be asked before each request. In JetStream an answer that comes before there is a
 * consumer for it is never delivered, so a connection alone is not enough.
 */
export function hearing(transport: Transport, started: () => boolean): () => boolean {
  let inService = transport.status().notReady === null;
  transport.onReadiness((notReady) => inService = notReady === null);
  return () => started() && inService && transport.connected;
}
