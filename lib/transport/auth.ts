/**
 * Credentials for the NATS server.
 * @module
 */

import {
  type Authenticator,
  credsAuthenticator,
  nkeyAuthenticator,
  tokenAuthenticator,
  usernamePasswordAuthenticator,
} from "@nats-io/nats-core/internal";
import type { NatsAddress } from "../config/addresses.ts";
import { errorText, StartError } from "../errors.ts";

/** One kind of credentials, with the secret itself, not a path. */
export type NatsAuth =
  | { readonly kind: "user"; readonly user: string; readonly password: string }
  | { readonly kind: "token"; readonly token: string }
  /** An NKey seed (`SU...`). */
  | { readonly kind: "nkey"; readonly seed: string }
  /** Content of a `.creds` file: a JWT and its seed. */
  | { readonly kind: "creds"; readonly creds: string };

const encoder = new TextEncoder();

/**
 * What answers the server's nonce. `auth` wins over credentials in a URL; those are used for their
 * own server, and for servers that a cluster made known those of the first one that has any.
 * @param currentServer `host:port` of the server that is being dialled
 * @throws {StartError} the seed or the credentials file cannot be used; the message holds no secret.
 */
export function natsAuthenticator(
  auth: NatsAuth | undefined,
  servers: readonly NatsAddress[],
  currentServer: () => string,
): Authenticator {
  if (auth !== undefined) {
    const authenticator = explicitAuthenticator(auth);
    try {
      // Signs a nonce once now: a seed that is none is found here and not at each connect.
      authenticator("natsway");
    } catch (cause) {
      throw new StartError(`cannot use the NATS ${kindName(auth)}: ${errorText(cause)}`);
    }
    return authenticator;
  }
  const byServer = new Map(servers.map((one) => [one.authority, ownAuthenticator(one)]));
  const fallback = servers.map(ownAuthenticator).find((one) => one !== null) ?? null;
  return (nonce) => {
    const own = byServer.get(currentServer());
    const authenticator = own === undefined ? fallback : own;
    return authenticator === null ? undefined : authenticator(nonce);
  };
}

function explicitAuthenticator(auth: NatsAuth): Authenticator {
  switch (auth.kind) {
    case "user":
      return usernamePasswordAuthenticator(auth.user, auth.password);
    case "token":
      return tokenAuthenticator(auth.token);
    case "nkey":
      return nkeyAuthenticator(encoder.encode(auth.seed.trim()));
    case "creds":
      return credsAuthenticator(encoder.encode(auth.creds));
  }
}

function kindName(auth: NatsAuth): string {
  return { user: "user", token: "token", nkey: "NKey seed", creds: "credentials" }[auth.kind];
}

function ownAuthenticator({ user, password, token }: NatsAddress): Authenticator | null {
  if (token !== undefined) return tokenAuthenticator(token);
  return user === undefined ? null : usernamePasswordAuthenticator(user, password ?? "");
}
