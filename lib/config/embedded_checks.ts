/**
 * What the settings of the embedded nats-server must hold together (configuration.md section 5).
 * @module
 */
import type { Draft, IsGiven } from "./draft.ts";

/**
 * The mistakes in the order of the contract. Only what is generated has to be complete: a ready
 * configuration is nats-server's to judge.
 */
export function embeddedMistakes(draft: Draft, isGiven: IsGiven): string[] {
  if (draft.embeddedNatsEnabled !== true || isGiven("embeddedNatsConfig")) return [];
  if (draft.embeddedNatsGenerateConfig !== true) {
    return [
      "EMBEDDED_NATS_ENABLED is on, but neither EMBEDDED_NATS_CONFIG nor " +
      "EMBEDDED_NATS_GENERATE_CONFIG is set: accepted: EMBEDDED_NATS_GENERATE_CONFIG=true, or a " +
      "configuration file in EMBEDDED_NATS_CONFIG",
    ];
  }
  return [
    ...roleMistakes(isGiven),
    ...pairMistakes("EMBEDDED_NATS_LEAF_USER", isGiven("embeddedNatsLeafUser"), {
      password: "EMBEDDED_NATS_LEAF_PASSWORD",
      hasPassword: isGiven("embeddedNatsLeafPassword"),
    }),
    ...remoteMistakes(draft, isGiven),
  ];
}

/** What a swap of images must not guess: without the role nobody knows which side this server is. */
function roleMistakes(isGiven: IsGiven): string[] {
  if (isGiven("serviceRole")) return [];
  return [
    "SERVICE_ROLE is not set, but EMBEDDED_NATS_GENERATE_CONFIG is on: accepted: requester, " +
    "receiver, or the command of that name",
  ];
}

function pairMistakes(
  user: string,
  hasUser: boolean,
  { password, hasPassword }: { password: string; hasPassword: boolean },
): string[] {
  if (hasUser === hasPassword) return [];
  const [set, other] = hasUser ? [user, password] : [password, user];
  return [`${other} is not set, but ${set} is: accepted: both or neither`];
}

/** A requester's server is a leaf of the receiver's: where that is, and one kind of credentials. */
function remoteMistakes({ serviceRole }: Draft, isGiven: IsGiven): string[] {
  if (serviceRole !== "requester" || !isGiven("serviceRole")) return [];
  const mistakes: string[] = [];
  if (!isGiven("leafRemoteHost")) {
    mistakes.push(
      "LEAF_REMOTE_HOST is not set, but a requester with EMBEDDED_NATS_GENERATE_CONFIG needs it: " +
        "accepted: the host of the receiver's leafnode listener",
    );
  }
  const hasUser = isGiven("leafRemoteUser");
  const hasPassword = isGiven("leafRemotePassword");
  if (isGiven("leafRemoteNkey")) {
    const others = [
      ...(hasUser ? ["LEAF_REMOTE_USER"] : []),
      ...(hasPassword ? ["LEAF_REMOTE_PASSWORD"] : []),
    ];
    if (others.length > 0) {
      mistakes.push(
        `LEAF_REMOTE_NKEY and ${
          others.join(", ")
        } are set: accepted: the NKey, or user and password`,
      );
    }
    return mistakes;
  }
  if (!hasUser && !hasPassword) {
    mistakes.push(
      "LEAF_REMOTE_USER, LEAF_REMOTE_PASSWORD are not set: accepted: both of them, or LEAF_REMOTE_NKEY",
    );
  }
  return [
    ...mistakes,
    ...pairMistakes("LEAF_REMOTE_USER", hasUser, {
      password: "LEAF_REMOTE_PASSWORD",
      hasPassword,
    }),
  ];
}
