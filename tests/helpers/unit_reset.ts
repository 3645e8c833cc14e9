/**
 * Resets of connections in tests.
 * @module
 */
import { resetConnection } from "../../lib/net/reset.ts";

/**
 * Loads what the first reset of a process loads, which stays: to be called outside of tests, since a
 * test that leaves a library loaded fails.
 */
export function loadReset(): void {
  const nowhere = { transport: "tcp", hostname: "127.0.0.1", port: 0 } as const;
  resetConnection({ localAddr: nowhere, remoteAddr: nowhere, close: () => {} });
}
