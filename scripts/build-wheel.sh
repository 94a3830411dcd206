#!/usr/bin/env bash
#===- build-wheel.sh - Make the wheel for pip -----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/build-wheel.sh [BUILD [DIRECTORY [OPTIONS]]]
#
# Writes poplar-VERSION-py3-none-manylinux_2_N_x86_64.whl to DIRECTORY (default:
# BUILD/packages). BUILD is a configured build tree; without one, the preset
# `release` is built first. OPTIONS are those of scripts/wheel.py.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail

source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
if (($# == 0)); then
  "$source/scripts/setup-debian.sh"
  "$source/scripts/build.sh" release
fi
build=$(realpath "${1:-$source/build/release}")
directory=${2:-$build/packages}
version=$(sed -n 's/^CMAKE_PROJECT_VERSION:STATIC=//p' "$build/CMakeCache.txt")
work=$(mktemp -d "${TMPDIR:-/tmp}/poplar-wheel.XXXXXX")
trap 'rm -rf "$work"' EXIT

cmake --build "$build" --target poplar poplar_static >"$work/build.log" || {
  tail -n 20 "$work/build.log" >&2
  echo "build-wheel: error: poplar_static was not built; on Debian: apt-get install libpolly-22-dev" >&2
  exit 1
}
cmake --install "$build" --component runtime --strip --prefix "$work/installed" >/dev/null
# LLVM is inside this one.
strip -o "$work/installed/bin/poplar" "$build/bin/poplar_static"
# MPI is the machine's, which has another one: ranks meet without it.
rm -f "$work/installed/lib/libpoplar_mpi.so" "$work/installed/lib/libpoplar_guard.so"
python3 "$source/scripts/wheel.py" "$work/installed" "$version" "$directory" "${@:3}"
