/**
 * What is refused before it is a request.
 * @module
 */

/** Why something is refused before it is a request. */
export interface Fault {
  readonly status: number;
  readonly reason: string;
}

/** The code of such a refusal, for the body and the log. */
export function codeOf(status: number): string {
  switch (status) {
    case 408:
      return "request_timeout";
    case 414:
      return "target_too_long";
    case 431:
      return "head_too_large";
    default:
      return "bad_request";
  }
}
