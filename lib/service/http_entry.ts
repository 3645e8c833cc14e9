/**
 * What becomes of a request on the HTTP port (http-surface.md section 1).
 * @module
 */
import { answerError, answerFailure } from "../ingress/answers.ts";
import type { IngressRequest } from "../ingress/connection.ts";
import { isLocalTarget, type LocalApp, serveLocal } from "../ingress/local.ts";
import type { Logger } from "../logger.ts";
import { serveConnect } from "../requester/connect.ts";
import type { Requester } from "../requester/requester.ts";

export interface HttpEntryOptions {
  readonly app: LocalApp;
  /** False when ADMIN_LISTEN has the local routes. */
  readonly localRoutes: boolean;
  /** PROXY_AUTH_ENABLED: proxy traffic is refused as long as there are no users. */
  readonly proxyLocked: boolean;
  /** Null at a receiver. */
  readonly requester: () => Requester | null;
  readonly stopping: () => boolean;
  readonly logger: Logger;
}

/** Why proxy traffic is refused while there are no users. */
export const PROXY_LOCKED =
  "Proxy auth safety lock: there are no proxy users; PROXY_AUTH_ENABLED=false opens the proxy to all";

/** Sorts requests: local routes, proxy traffic, and those to carry. */
export class HttpEntry {
  readonly #options: HttpEntryOptions;

  constructor(options: HttpEntryOptions) {
    this.#options = options;
  }

  /** Serves one request. */
  handle(request: IngressRequest): void {
    const { head: { target, method }, response } = request;
    const { app, requester: find, stopping } = this.#options;
    const requester = find();
    const proxied = method === "CONNECT" || /^[A-Za-z][A-Za-z0-9+.-]*:\/\//.test(target);
    if (requester === null && (proxied || !this.#isLocal(target))) {
      if (method === "CONNECT") response.closeAfter();
      answerFailure(response, "no_receiver", "A receiver's port serves local routes only");
      return;
    }
    if (proxied) {
      this.#proxy(request, requester!);
      return;
    }
    if (!target.startsWith("/") && !(target === "*" && method === "OPTIONS")) {
      answerError(response, 400, "The request target is neither a path nor a URL", "bad_request");
      return;
    }
    if (this.#isLocal(target) || requester === null) {
      void serveLocal(app, request);
      return;
    }
    if (stopping()) {
      response.closeAfter();
      answerFailure(response, "stopping", "natsway is stopping");
      return;
    }
    requester.handle(request);
  }

  #isLocal(target: string): boolean {
    return this.#options.localRoutes && isLocalTarget(target);
  }

  #proxy(request: IngressRequest, requester: Requester): void {
    const { response, head } = request;
    const connect = head.method === "CONNECT";
    if (connect || head.framing.kind !== "none") response.closeAfter();
    if (this.#options.proxyLocked) {
      this.#options.logger.info("request refused", { status: 404, detail: PROXY_LOCKED });
      response.answer(404, "text/plain", "Not Found");
    } else if (!connect) {
      const message = "This version does not serve proxy requests in absolute form";
      answerError(response, 501, message, "not_implemented");
    } else if (this.#options.stopping()) {
      answerFailure(response, "stopping", "natsway is stopping");
    } else serveConnect(request, requester.openSession);
  }
}
