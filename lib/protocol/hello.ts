/**
 * The question of a requester to every natsway receiver of its pool: who is there, and how large a
 * message can reach you? It travels on the pool's cancel plane, which Ruby receivers do not hear; the
 * answer is the info that a HEAD frame carries (`response_info.ts`).
 * @module
 */
import { isObject, isText, jsonBytes, parseJson } from "./json.ts";
import { isIdToken } from "./subjects.ts";

/** One question. */
export interface Hello {
  /** Last token of the subject that it is published on, and of `replyTo`. */
  readonly requestId: string;
  /** A response subject of the requester, for the answers. */
  readonly replyTo: string;
}

/** Encodes the question. */
export function encodeHello(hello: Hello): Uint8Array {
  return jsonBytes({ type: "hello", request_id: hello.requestId, reply_to: hello.replyTo });
}

/** Reads a question; null when it is none. */
export function decodeHello(data: Uint8Array): Hello | null {
  const value = parseJson(data);
  if (!isObject(value) || value.type !== "hello") return null;
  if (!isIdToken(value.request_id) || !isText(value.reply_to)) return null;
  return { requestId: value.request_id, replyTo: value.reply_to };
}
