/**
 * The info of a HEAD frame: who answers, and the failure's code where natsway answers by itself.
 * @module
 */
import { sameBytes } from "./frames.ts";
import { isObject, isText, jsonBytes, parseJson } from "./json.ts";
import { type PeerInfo, peerInfoJson, readPeerInfo } from "./peer.ts";

export interface ResponseInfo {
  readonly receiverServiceId: string;
  readonly peer: PeerInfo;
  /** Code of a failure of natsway's own, else null. */
  readonly code: string | null;
}

/** Encodes the info; without a code it is the same for all flows of a process. */
export function encodeResponseInfo(info: ResponseInfo): Uint8Array {
  return jsonBytes({
    receiver_service_id: info.receiverServiceId,
    natsway: peerInfoJson(info.peer),
    ...(info.code === null ? {} : { code: info.code }),
  });
}

/** Reads an info; null when it is none. */
export function decodeResponseInfo(bytes: Uint8Array): ResponseInfo | null {
  const value = parseJson(bytes);
  if (!isObject(value) || !isText(value.receiver_service_id)) return null;
  const peer = readPeerInfo(value.natsway);
  if (peer === null) return null;
  const code = isText(value.code) ? value.code : null;
  return { receiverServiceId: value.receiver_service_id, peer, code };
}

/** Remembers the infos of the last few peers by their octets, so that most are parsed once. */
export class ResponseInfoCache {
  readonly #entries: { bytes: Uint8Array; info: ResponseInfo }[] = [];
  #next = 0;

  constructor(readonly capacity = 16) {}

  /** As {@linkcode decodeResponseInfo}. */
  read(bytes: Uint8Array): ResponseInfo | null {
    for (const entry of this.#entries) if (sameBytes(entry.bytes, bytes)) return entry.info;
    const info = decodeResponseInfo(bytes);
    if (info !== null && info.code === null) {
      this.#entries[this.#next] = { bytes: bytes.slice(), info };
      this.#next = (this.#next + 1) % this.capacity;
    }
    return info;
  }
}
