#!/usr/bin/env bash
#===- lint.sh - clang-format and clang-tidy -------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/lint.sh [FILE...]
#
# Checks C++ files, by default all that git knows outside unittests/, as
# .clang-format and .clang-tidy say. Changes nothing; ends with status 1 if
# there are findings. Takes the compile commands, and the headers that TableGen
# writes, from BUILD (build/release), which has to be built.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

die() {
  printf 'lint: error: %s\n' "$*" >&2
  exit 1
}

build=${BUILD:-build/release}
for tool in clang-format-22 clang-tidy-22; do
  command -v "$tool" >/dev/null || die "no $tool; on Debian: apt-get install $tool"
done
[[ -e $build/sources/compile_commands.json ]] ||
  die "no $build/sources/compile_commands.json: run scripts/build.sh first"

sources=("$@")
if (($# == 0)); then
  mapfile -t sources < <(git ls-files '*.cpp' '*.h')
fi

status=0
clang-format-22 --dry-run --Werror "${sources[@]}" || status=1

# Headers are checked where they are included. Unit tests are GoogleTest's
# macros, mostly.
mapfile -t units < <(printf '%s\n' "${sources[@]}" |
  grep '\.cpp$' | grep -v '^unittests/' || true)
if ((${#units[@]} != 0)); then
  printf '%s\0' "${units[@]}" |
    xargs -0 -n 1 -P "$(nproc)" clang-tidy-22 -p "$build/sources" --quiet \
      --warnings-as-errors='*' 2>/dev/null || status=1
fi
((status != 0)) || echo "lint: ${#sources[@]} files are clean"
exit "$status"
