#!/usr/bin/env bash
#===- check-install.sh - Poplar without its checkout ----------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/check-install.sh BUILD
#
# Installs to a temporary prefix, moves that, hides the source and the build
# tree in a mount namespace, and there builds and trains a model and, by
# find_package(Poplar), a tool of another project. Ends with status 77 where
# mount namespaces are not allowed.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail

if [[ ${1:-} == --hidden ]]; then
  work=$2 source=$3 build=$4
  mount -t tmpfs none "$build"
  mount -t tmpfs none "$source"
  cd "$work"
  export PATH=$work/moved/bin:$PATH
  share=$work/moved/share/poplar/examples
  poplar --version
  poplar import "$share/models/tiny-llama.json" -o model.mlir
  poplar build model.mlir -o program
  poplar train program --data "$share/data/corpus.txt" --steps 3 \
    --global-batch 2 --out run
  cp -r "$work/use-poplar" tool
  cmake -S tool -B tool/build -G Ninja -DCMAKE_PREFIX_PATH="$work/moved" >cmake.log ||
    { cat cmake.log; exit 1; }
  cmake --build tool/build
  tool/build/nn-opt --count-nn model.mlir -o /dev/null
  exit
fi

build=$(realpath "$1")
source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
unshare -rm true 2>/dev/null || { echo "skipped: no mount namespaces"; exit 77; }
work=$(mktemp -d /tmp/poplar-install.XXXXXX)
trap 'rm -rf "$work"' EXIT
cmake --install "$build" --prefix "$work/prefix" --strip >"$work/install.log"
mv "$work/prefix" "$work/moved"
cp -r "$source/examples/use-poplar" "$work/use-poplar"
cp "${BASH_SOURCE[0]}" "$work/check.sh"
du -sh "$work/moved"
unshare -rm bash "$work/check.sh" --hidden "$work" "$source" "$build"
echo "check-install: passed"
