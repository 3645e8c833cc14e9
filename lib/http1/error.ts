/**
 * What the octets of a peer are refused with.
 * @module
 */

/** Statuses that a malformed message is answered with. */
export type SyntaxStatus = 400 | 414 | 431 | 501 | 505;

/**
 * The octets are not the HTTP/1.1 message that they claim to be, or are over a limit. Nothing behind
 * the fault may be read as a message: the connection has to be closed after the answer.
 */
export class HttpSyntaxError extends Error {
  override readonly name = "HttpSyntaxError";
  /**
   * @param status what a server answers with; a client maps every status to 502
   * @param reason for people; holds no octet of the message
   */
  constructor(readonly status: SyntaxStatus, readonly reason: string) {
    super(reason);
  }
}
