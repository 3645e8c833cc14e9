/**
 * Static TCP forwards.
 * @module
 */
import { canonicalHost, formatHostPort } from "./addresses.ts";
import { type Kind, quoteItem, RefusedError } from "./kinds.ts";

/** A port of the requester whose connections all go to one target. */
export interface ForwardRule {
  /** Name or address to listen on, without brackets. */
  readonly bindHost: string;
  /** Port to listen on; 0 for any free one. */
  readonly port: number;
  /** Name or address that the receiver connects to, without brackets. */
  readonly targetHost: string;
  readonly targetPort: number;
}

/** `[bind_host:]port=target_host:target_port`, several with a comma. */
export const forwardRules: Kind<readonly ForwardRule[]> = {
  placeholder: "rules",
  accepted:
    "[bind_host:]port=target_host:target_port, an IPv6 address in brackets, bind port from 0 " +
    "to 65535 (0: any free port); several with a comma",
  repeatable: true,
  parse(text) {
    const rules = text.trim().split(/\s*,\s*/).map(parseRule);
    const seen = new Set<string>();
    for (const { bindHost, port } of rules) {
      const bind = formatHostPort(bindHost, port);
      if (port !== 0 && seen.has(bind)) throw new RefusedError(`${bind} is there twice`);
      seen.add(bind);
    }
    return Object.freeze(rules);
  },
  show: (value) => value.map(forwardText),
};

/** A forward as it is written. */
export function forwardText({ bindHost, port, targetHost, targetPort }: ForwardRule): string {
  return `${formatHostPort(bindHost, port)}=${formatHostPort(targetHost, targetPort)}`;
}

/** Whether only this machine can connect to a listener on `bindHost`: 127.0.0.0/8, ::1, localhost. */
export function isLoopbackHost(bindHost: string): boolean {
  return bindHost === "localhost" || bindHost === "::1" ||
    /^127\.\d+\.\d+\.\d+$/.test(bindHost);
}

function parseRule(text: string): ForwardRule {
  const match = /^(?:(.+):)?(\d{1,5})=(.+):(\d{1,5})$/s.exec(text);
  const bindHost = canonicalHost(match?.[1] ?? "127.0.0.1");
  const targetHost = canonicalHost(match?.[3] ?? "");
  const [port, targetPort] = [Number(match?.[2]), Number(match?.[4])];
  const usable = port <= 65535 && targetPort > 0 && targetPort <= 65535 && !text.includes("*");
  if (bindHost === null || targetHost === null || !usable) {
    throw new RefusedError(`${quoteItem(text)} is no forward`);
  }
  return Object.freeze({ bindHost, port, targetHost, targetPort });
}
