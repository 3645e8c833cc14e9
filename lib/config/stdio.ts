/**
 * What `natsway stdio HOST:PORT` takes from its arguments and from the settings.
 * @module
 */
import { canonicalHost } from "./addresses.ts";
import { quoteItem } from "./kinds.ts";
import type { Loaded } from "./load.ts";
import type { Config } from "./settings.ts";

/** Where the one session goes. */
export interface StdioTarget {
  /** Name or address, without brackets. */
  readonly host: string;
  readonly port: number;
}

const ACCEPTED = "accepted: HOST:PORT, an IPv6 address in brackets, port from 1 to 65535";

/** Reads the target; null with one more of `mistakes` when it cannot be used. */
export function readStdioTarget(
  operand: string | undefined,
  mistakes: string[],
): StdioTarget | null {
  const match = /^(.+):(\d{1,5})$/s.exec(operand ?? "");
  const host = canonicalHost(match?.[1] ?? "");
  const port = Number(match?.[2]);
  if (host !== null && port >= 1 && port <= 65535) return { host, port };
  const what = operand === undefined
    ? "natsway stdio has no target"
    : `${quoteItem(operand)} is no target`;
  mistakes.push(`${what}: ${ACCEPTED}`);
  return null;
}

/** Letters of a SERVICE_ID that are kept, so that what is added has room. */
const KEPT_ID_CHARACTERS = 55;

/**
 * The settings of such a process. It logs only what is wrong, unless LOG_LEVEL says otherwise: its
 * standard error is the user's terminal. Its SERVICE_ID is its own, since several may run beside a
 * service with the same environment.
 */
export function stdioConfig({ config, sources }: Loaded): Config {
  const random = crypto.getRandomValues(new Uint8Array(4)).toHex();
  return Object.freeze({
    ...config,
    ...(sources.logLevel === "default" ? { logLevel: "warning" as const } : {}),
    ...(sources.serviceId === "default"
      ? {}
      : { serviceId: `${config.serviceId.slice(0, KEPT_ID_CHARACTERS)}-${random}` }),
  });
}
