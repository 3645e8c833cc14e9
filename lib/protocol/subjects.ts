/**
 * Subjects of the six planes (wire-protocol.md section 1) and the rules for `to.` and `from.`
 * (section 1.1).
 * @module
 */

/** The two roots that a process publishes to and listens on. */
export interface Roots {
  readonly request: string;
  readonly response: string;
}

/** Token that stands for "every receiver" in the cancel plane; never a SERVICE_ID. */
export const POOL_TOKEN = "_pool";

const TOKEN = /^[A-Za-z0-9_-]{1,64}$/;
// deno-lint-ignore no-control-regex -- control characters are what must be refused
const REPLY_TOKEN = /^[^\s\x00-\x1f\x7f.*>]{1,128}$/;
// deno-lint-ignore no-control-regex -- as above
const SERVICE_ID = /^[^\s\x00-\x1f\x7f.*>]{1,128}(?:\.[^\s\x00-\x1f\x7f.*>]{1,128}){0,15}$/;

/** Whether `text` can be an id: one subject token of 1 to 64 of `A-Z a-z 0-9 _ -`. */
export function isIdToken(text: unknown): text is string {
  return typeof text === "string" && TOKEN.test(text);
}

/**
 * Whether a SERVICE_ID that a peer gave can stand in a subject that is published to. nats-proxy takes
 * any text for its own, so dots are allowed; blanks, wildcards and empty tokens are not.
 */
export function isServiceId(text: string): boolean {
  return SERVICE_ID.test(text);
}

/** Removes one leading `from.`, as the two-account mapping of nats-proxy does. */
export function withoutFrom(subject: string): string {
  return subject.startsWith("from.") ? subject.slice(5) : subject;
}

/** Subject 1: requests of one requester. */
export function requestSubject(roots: Roots, requesterId: string, id: string): string {
  return `${roots.request}.requests.${requesterId}.${id}`;
}

/** Subject 2: where a requester wants the events of one flow. */
export function responseSubject(roots: Roots, requesterId: string, id: string): string {
  return `${roots.response}.responses.${requesterId}.${id}`;
}

/** Subject 3: client bytes of one session, to the receiver that owns it. */
export function upstreamSubject(roots: Roots, receiverId: string, id: string): string {
  return `${roots.request}.sessions.upstream.${receiverId}.${id}`;
}

/** Subject 4: target bytes of one session, to its requester. */
export function downstreamSubject(roots: Roots, requesterId: string, id: string): string {
  return `${roots.response}.sessions.downstream.${requesterId}.${id}`;
}

/** Subject 5: response credit to the receiver that owns the flow. */
export function controlSubject(roots: Roots, receiverId: string, id: string): string {
  return `${roots.request}.control.${receiverId}.${id}`;
}

/** Subject 6: cancel to the receiver that owns the flow, or to all with {@linkcode POOL_TOKEN}. */
export function cancelSubject(roots: Roots, receiverId: string, id: string): string {
  return `${roots.request}.cancel.${receiverId}.${id}`;
}

/** What a process with these roots and this id subscribes to, by plane. */
export function planePatterns(roots: Roots, serviceId: string): {
  responses: string[];
  sessionsDownstream: string[];
  sessionsUpstream: string[];
  control: string[];
  cancel: string[];
  poolCancel: string;
} {
  const responses = `${roots.response}.responses.${serviceId}.>`;
  const downstream = `${roots.response}.sessions.downstream.${serviceId}.>`;
  return {
    // A Ruby receiver strips `from.` before it publishes events, so both forms are heard.
    responses: [...new Set([responses, withoutFrom(responses)])],
    sessionsDownstream: [downstream],
    sessionsUpstream: [`${roots.request}.sessions.upstream.${serviceId}.>`],
    control: [`${roots.request}.control.${serviceId}.>`],
    cancel: [`${roots.request}.cancel.${serviceId}.>`],
    poolCancel: `${roots.request}.cancel.${POOL_TOKEN}.>`,
  };
}

/**
 * Where a receiver may publish the events of a request, or null when the reply subject that came
 * with it is not one (extensions.md section 1): `<root>.responses.<token>.<request id>` below the
 * receiver's own response root, its stripped form or its `from.` form. Unless it starts with the
 * own root, one leading `from.` is removed (wire-protocol.md section 1.1).
 * @param requestId null when the envelope named none: any id token is then accepted
 */
export function resolveReply(
  replyTo: string,
  ownRoot: string,
  requestId: string | null,
): string | null {
  const subject = replyTo.startsWith(replyPrefixes(ownRoot)[0]!) ? replyTo : withoutFrom(replyTo);
  return isReplySubject(subject, ownRoot, requestId) ? subject : null;
}

/** SERVICE_ID of the requester: the last but one token of its reply subject. */
export function requesterOf(replySubject: string): string {
  const end = replySubject.lastIndexOf(".");
  return replySubject.slice(replySubject.lastIndexOf(".", end - 1) + 1, end);
}

/** The check of {@linkcode resolveReply} alone, for a reply that is used as it came. */
export function isReplySubject(
  subject: string,
  ownRoot: string,
  requestId: string | null,
): boolean {
  const dot = subject.lastIndexOf(".");
  const id = subject.slice(dot + 1);
  if (!isIdToken(id) || (requestId !== null && id !== requestId)) return false;
  for (const prefix of replyPrefixes(ownRoot)) {
    if (subject.startsWith(prefix) && REPLY_TOKEN.test(subject.slice(prefix.length, dot))) {
      return true;
    }
  }
  return false;
}

let prefixesOf = "";
let prefixes: readonly string[] = [];

/** What a reply subject may begin with; a process has one root, so the last answer is kept. */
function replyPrefixes(ownRoot: string): readonly string[] {
  if (prefixesOf !== ownRoot) {
    const roots = [ownRoot, withoutFrom(ownRoot), `from.${ownRoot}`];
    prefixes = roots.map((root) => `${root}.responses.`);
    prefixesOf = ownRoot;
  }
  return prefixes;
}
