#!/usr/bin/env bash
# Makes one executable of natsway, with a nats-server inside.
set -euo pipefail

usage() {
  cat <<'TEXT'
Usage: ./compile.sh [options]

  --target TRIPLE      platform to build for (default: this one); as deno compile knows it, such as
                       x86_64-unknown-linux-gnu, aarch64-apple-darwin, x86_64-pc-windows-msvc
  --output FILE        default: dist/natsway (with .exe for Windows)
  --nats-server FILE   the nats-server to put inside; default: the one on the PATH, else the cached
                       one, else a download of the pinned release, else a build with go install.
                       For another platform: this option, or the download
  --no-check           skip the type check, where it has run before
  --help

Environment: DENO (the deno to compile with, default: deno), DENORT_BIN (runtime of exactly the same
Deno version; default: deno downloads it), EMBEDDED_NATS_DOWNLOAD_URL (mirror of the nats-server
release files).
TEXT
}

fail() {
  echo "compile.sh: $1" >&2
  exit "${2:-1}"
}

target="" output="" nats_server="" check=()
while [ $# -gt 0 ]; do
  case "$1" in
    --target | --output | --nats-server)
      if [ $# -lt 2 ] || [ -z "$2" ]; then fail "$1 needs a value" 2; fi
      case "$1" in
        --target) target=$2 ;;
        --output) output=$2 ;;
        --nats-server) nats_server=$2 ;;
      esac
      shift 2
      ;;
    --no-check)
      check=(--no-check)
      shift
      ;;
    --help | -h)
      usage
      exit 0
      ;;
    *) fail "unknown option $1 (see --help)" 2 ;;
  esac
done

root=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
deno=${DENO:-deno}
command -v "$deno" >/dev/null || fail "no deno at hand: put it on the PATH or set DENO"
if [ -n "${DENORT_BIN:-}" ] && [ ! -f "$DENORT_BIN" ]; then
  fail "DENORT_BIN $DENORT_BIN: no such file"
fi
host=$("$deno" eval 'console.log(Deno.build.target)')
target=${target:-$host}
if [ "$target" != "$host" ] && [ -n "${DENORT_BIN:-}" ]; then
  echo "compile.sh: DENORT_BIN must be a runtime for $target" >&2
fi
if [ -n "$nats_server" ]; then
  [ -f "$nats_server" ] || fail "--nats-server $nats_server: no such file"
  nats_server=$(cd "$(dirname "$nats_server")" && pwd)/$(basename "$nats_server")
fi

suffix=""
case "$target" in *windows*) suffix=.exe ;; esac
output=${output:-$root/dist/natsway$suffix}
mkdir -p "$(dirname "$output")"
[ ! -d "$output" ] || fail "--output $output: it is a folder"
output=$(cd "$(dirname "$output")" && pwd)/$(basename "$output")

# A copy: builds at the same time do not meet, and the source tree stays as it is.
build=$(mktemp -d)
trap 'rm -rf -- "$build"' EXIT
trap 'exit 130' INT TERM
mkdir "$build/natsway"
cp "$root/main.ts" "$root/deno.json" "$build/natsway/"
[ ! -f "$root/deno.lock" ] || cp "$root/deno.lock" "$build/natsway/"
cp -R "$root/lib" "$build/natsway/lib"
cd "$build/natsway"

inside=$("$deno" eval '
  import { putInside } from "./lib/embedded/build.ts";
  const [target, binary] = Deno.args;
  const say = (text, fields) => console.error(`compile.sh: ${text}`, JSON.stringify(fields ?? {}));
  const logger = { debug() {}, info: say, warn: say, error: say, enabled: () => true };
  try {
    const note = await putInside({
      folder: "lib/embedded/bin",
      target,
      binary: binary || null,
      downloadUrl: Deno.env.get("EMBEDDED_NATS_DOWNLOAD_URL") || null,
      logger,
    });
    console.log(note.version);
  } catch (error) {
    console.error(`compile.sh: ${error.message}`);
    Deno.exit(1);
  }
' "$target" "$nats_server") || fail "no nats-server to put inside"

runtime=()
[ "$target" = "$host" ] || runtime=(--target "$target")
"$deno" compile --quiet --allow-all ${check[@]+"${check[@]}"} ${runtime[@]+"${runtime[@]}"} \
  --include deno.json --include lib/embedded/bin \
  --output "$build/result$suffix" main.ts || fail "deno compile failed for $target"
mv -f -- "$build/result$suffix" "$output"

version=$("$deno" eval 'console.log(JSON.parse(Deno.readTextFileSync("deno.json")).version)')
bytes=$(wc -c <"$output" | tr -d ' ')
echo "$output: natsway $version with nats-server $inside for $target, $((bytes / 1000000)) MB"
