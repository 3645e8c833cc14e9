/**
 * The answers that natsway makes itself (http-surface.md section 3).
 * @module
 */
import { type FailureAnswer, type FailureCode, FAILURES } from "../errors.ts";
import type { ResponseWriter } from "./response_writer.ts";

const ERROR_NAMES: Readonly<Record<number, string>> = {
  400: "Bad Request",
  403: "Forbidden",
  404: "Not Found",
  405: "Method Not Allowed",
  408: "Request Timeout",
  413: "Content Too Large",
  414: "URI Too Long",
  431: "Request Header Fields Too Large",
  500: "Internal Server Error",
  501: "Not Implemented",
  502: "Bad Gateway",
  503: "Service Unavailable",
  504: "Gateway Timeout",
  505: "HTTP Version Not Supported",
  508: "Loop Detected",
};

/** The JSON body of an answer. */
export function errorBody(
  status: number,
  message: string,
  code: string,
  details?: Readonly<Record<string, unknown>>,
): string {
  return JSON.stringify({
    error: ERROR_NAMES[status] ?? "Error",
    message,
    code,
    ...(details === undefined ? {} : { details }),
  });
}

/** Answers with JSON `{error, message, code}` and ends the response. */
export function answerError(
  response: ResponseWriter,
  status: number,
  message: string,
  code: string,
  details?: Readonly<Record<string, unknown>>,
): void {
  const retry = Object.hasOwn(FAILURES, code) ? retryAfter(code as FailureCode) : "";
  response.answer(status, "application/json", errorBody(status, message, code, details), retry);
}

/** Answers with the status that belongs to a failure code. */
export function answerFailure(
  response: ResponseWriter,
  code: FailureCode,
  message: string,
  details?: Readonly<Record<string, unknown>>,
): void {
  answerError(response, FAILURES[code].http, message, code, details);
}

function retryAfter(code: FailureCode): string {
  const answer: FailureAnswer = FAILURES[code];
  return answer.retryAfterS === undefined ? "" : `Retry-After: ${answer.retryAfterS}\r\n`;
}
