#!/usr/bin/env bash
#===- build.sh - Configure and build --------------------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/build.sh [PRESET [TARGET...]]
#
# Presets are those of CMakePresets.json (release by default); the build tree
# is build/PRESET. Targets are those of CMake: everything by default; `poplar` is
# the command with all that it needs to build and run jobs.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
log=build/$preset.configure.log
mkdir -p build
echo "build: configuring preset '$preset'"
cmake --preset "$preset" >"$log" 2>&1 || {
  cat "$log" >&2
  exit 1
}
shift $(($# > 0))
echo "build: compiling ${*:-everything} into build/$preset"
cmake --build --preset "$preset" ${1:+--target "$@"}
