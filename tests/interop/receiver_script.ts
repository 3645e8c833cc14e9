/**
 * Receivers with faults and with unusual ways, for the tests of natsway's requester.
 * @module
 */
import assert from "node:assert/strict";
import type { RubyRequest } from "./ruby_receiver.ts";
import type { JsonRecord } from "./ruby_wire.ts";

const START = {
  type: "response_start",
  status: 200,
  headers: { "content-type": "text/plain" },
  content_type: "text/plain",
  streaming: false,
  receiver_service_id: "ruby-worker",
};

/** Answers requests for `/script/<role>` in that role; false for all others. For `intercept`. */
export function script(request: RubyRequest): boolean {
  const path = String(request.payload["path"]);
  if (!path.startsWith("/script/")) return false;
  const { publish } = request;
  const start = (more: JsonRecord = {}) => publish({ ...START, request_id: request.id, ...more });
  const chunk = (body: string) => publish({ type: "response_chunk", body });
  const end = () => publish({ type: "response_end" });
  const stream = () => {
    start({ streaming: true, flow_kind: "http_stream", headers: { "content-length": "9" } });
    chunk("first");
  };
  const lines = { "set-cookie": ["a=1", "b=2"], "x-evil": "1\r\nX-Evil: 2" };
  const roles: Record<string, () => void> = {
    arrays: () => (start({ headers: lines }), chunk("ok"), end()),
    pieces: () => {
      start();
      for (const piece of ["one ", "", "two "]) chunk(piece);
      publish({ type: "response_chunk", body_encoding: "base64", body_base64: "4oKs" });
      end();
    },
    streamed: () => {
      start({ streaming: "yes", headers: { "content-length": "3" } });
      chunk("abc");
      end();
    },
    "late-error": () => (stream(), publish({ type: "response_error", error: "broken" }), end()),
    "unknown-late": () => (stream(), publish({ type: "response_trailer" }), end()),
    twice: () => (stream(), start(), chunk("x"), end()),
    "bad-base64": () => {
      stream();
      publish({ type: "response_chunk", body_encoding: "base64", body_base64: "AA A=" });
      end();
    },
    kept: () => {
      stream();
      let left = 5;
      const timer = setInterval(() => {
        if (left-- > 0) return chunk("");
        clearInterval(timer);
        chunk(" last");
        end();
      }, 500);
    },
    "silent-late": stream,
    unknown: () => publish({ type: "session_established", session_id: request.id }),
    error: () => (publish({ type: "response_error", error: "x" }), end()),
    "error-buffered": () => (start(), publish({ type: "response_error", error: "x" }), end()),
    silent: () => {},
    "silent-buffered": () => start(),
    refused: () => {
      start({
        status: 503,
        headers: { "content-type": "application/json" },
        flow_kind: "http_request",
      });
      chunk('{"error":"Upstream unavailable: refused"}');
      end();
    },
  };
  const play = roles[path.slice("/script/".length)];
  assert.ok(play, path);
  play();
  return true;
}
