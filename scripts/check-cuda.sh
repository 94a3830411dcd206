#!/usr/bin/env bash
#===- check-cuda.sh - Check and measure everything on a GPU ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: check-cuda.sh [BUNDLE] [--emulated DIR] [--only ROW,...] [--keep DIR]
#
# BUNDLE is what scripts/bundle-cuda.py has made, packed or unpacked; where this
# script lies in one, it is that. Needs NVIDIA's driver, cuBLASLt and python3, no
# compiler and no LLVM. Prints one table; the exit status is not 0 if anything
# failed, or if there is no GPU.
#
# --emulated takes a directory with an emulated driver (a build's
# lib/emulated-cuda), and runs what can be checked with it.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
here=$(cd "$(dirname "$(readlink -f "${BASH_SOURCE[0]}")")" && pwd)
bundle=$here
if [ $# -gt 0 ] && [ "${1#-}" = "$1" ]; then
  bundle=$1
  shift
fi
command -v python3 >/dev/null || {
  echo "check-cuda: error: there is no python3" >&2
  exit 1
}
if [ -f "$bundle" ]; then
  unpacked=$(mktemp -d)
  trap 'rm -rf "$unpacked"' EXIT
  # No tar and no xz are needed for a .tar.gz.
  python3 -m tarfile -e "$bundle" "$unpacked"
  bundle=$unpacked/poplar-cuda
fi
if [ ! -f "$bundle/bundle.json" ]; then
  echo "check-cuda: error: '$bundle' is no bundle; make one where the compiler" \
    "is, with scripts/bundle-cuda.py" >&2
  exit 1
fi
python3 "$bundle/check_cuda.py" "$bundle" "$@"
