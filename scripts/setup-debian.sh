#!/usr/bin/env bash
#===- setup-debian.sh - Install what Poplar is built with -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# Installs the missing ones of the packages below; where none is missing, apt
# is not called at all. apt's own output goes to a log file.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail

packages=(
  cmake g++ ninja-build ccache git python3 python3-markdown
  llvm-22-dev libmlir-22-dev mlir-22-tools llvm-22-tools clang-22 lld-22 liblld-22-dev libpolly-22-dev
  libdnnl-dev nlohmann-json3-dev libyaml-cpp-dev libcli11-dev libgtest-dev libboost1.81-dev libeigen3-dev
  libopenmpi-dev openmpi-bin libucx-dev libsodium-dev libxxhash-dev
  libpcre2-dev libutf8proc-dev libcpp-httplib-dev pkg-config mmdebstrap patchelf python3-venv
)

die() {
  printf 'setup: error: %s\n' "$*" >&2
  exit 1
}

command -v dpkg-query >/dev/null ||
  die "this is not a Debian system; install by hand: ${packages[*]}"

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)
  [[ $status == installed ]] || missing+=("$package")
done
if ((${#missing[@]} == 0)); then
  echo "setup: everything is installed"
  exit 0
fi
echo "setup: missing: ${missing[*]}"

as_root=()
if ((EUID != 0)); then
  command -v sudo >/dev/null ||
    die "not root and there is no sudo; as root, run: apt-get install ${missing[*]}"
  as_root=(sudo)
fi

log=$(mktemp "${TMPDIR:-/tmp}/poplar-setup.XXXXXX.log")
apt() {
  "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -q -y "$@" \
    </dev/null >>"$log" 2>&1
}

# One broken third-party source must not stop an installation that does not
# need it: what counts is whether the packages can be found afterwards.
echo "setup: updating the package lists (log: $log)"
apt update || echo "setup: warning: apt-get update reported errors, see $log"

unavailable=()
for package in "${missing[@]}"; do
  candidate=$(apt-cache policy "$package" 2>/dev/null |
    sed -n 's/^ *Candidate: *//p')
  [[ -n $candidate && $candidate != "(none)" ]] || unavailable+=("$package")
done
if ((${#unavailable[@]} != 0)); then
  for package in "${unavailable[@]}"; do
    [[ $package != *-22* ]] ||
      die "the package archive has no LLVM 22 (no $package). Poplar is built" \
        "with LLVM 22 and no other version. On Debian 12 it is in" \
        "bookworm-security: enable that suite, then run this again."
  done
  die "the package archive has no ${unavailable[*]}"
fi

echo "setup: installing ${#missing[@]} packages and what they need"
apt install --no-install-recommends "${missing[@]}" || {
  tail -n 20 "$log" >&2
  die "apt-get install failed, see $log"
}
echo "setup: done"
