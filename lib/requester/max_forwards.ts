/**
 * TRACE and OPTIONS that end here because their Max-Forwards is used up (RFC 9110 sections 7.6.2,
 * 9.3.7, 9.3.8).
 * @module
 */
import { latin1 } from "../http1/encode.ts";
import { FieldId } from "../http1/field.ts";
import type { RequestHead } from "../http1/head.ts";
import type { ResponseWriter } from "../ingress/response_writer.ts";

/** Fields with credentials, which a TRACE answer must not repeat (RFC 9110 section 9.3.8). */
const SECRET = new Set(["authorization", "proxy-authorization", "cookie"]);

/** Answers as the final recipient: TRACE with the request as it came, OPTIONS with no body. */
export function answerTrace(head: RequestHead, response: ResponseWriter): void {
  if (head.framing.kind !== "none") response.closeAfter();
  if (head.method !== "TRACE") {
    response.start({ status: 200, fields: null, declaredLength: 0 });
    response.end();
    return;
  }
  let text = `TRACE ${head.target} HTTP/1.${head.minor}\r\n`;
  for (let i = 0; i < head.count; i++) {
    if (SECRET.has(head.lowerName(i)) || head.id(i) === FieldId.ProxyAuthorization) continue;
    text += `${head.name(i)}: ${head.value(i)}\r\n`;
  }
  const body = latin1(`${text}\r\n`);
  const lines = "Content-Type: message/http\r\n";
  response.start({ status: 200, fields: null, lines, declaredLength: body.length });
  response.body(body);
  response.end();
}
