#!/usr/bin/env bash
#===- demo.sh - Train a small Llama on the bundled text -------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/demo.sh [DIR]
#
# Works on a bare Debian 12. What the demo makes goes to DIR (build/demo by
# default) and replaces what an earlier one left there. Succeeds only if the
# model's validation loss ends below that of a bigram model of the same text.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
export LC_ALL=C
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

steps=400
demo=$(realpath -m "${1:-$repo/build/demo}")
run=$demo/run

"$repo/scripts/setup-debian.sh"
"$repo/scripts/build.sh" release
PATH=$repo/build/release/bin:$PATH

mkdir -p "$demo"
rm -rf "$demo/model.mlir" "$demo/program" "$run"

echo "demo: importing examples/models/demo-llama.json"
poplar import "$repo/examples/models/demo-llama.json" -o "$demo/model.mlir"
echo "demo: compiling it"
poplar build "$demo/model.mlir" -o "$demo/program"
echo "demo: training it on examples/data/corpus.txt for $steps steps"
poplar train "$demo/program" --data "$repo/examples/data/corpus.txt" \
  --steps "$steps" --global-batch 16 --lr 2e-3 --eval-every 50 --seed 1 \
  --bigram-baseline --out "$run"

echo
echo "demo: what it writes after 'KING HENRY:'"
poplar sample "$run" --prompt $'KING HENRY:\n' --tokens 300

model=$(awk -F, 'NR > 1 && $3 != "" { loss = $3 } END { print loss }' \
  "$run/metrics.csv")
bigram=$(<"$run/bigram-val-loss.txt")
echo
printf 'demo: validation loss, nats per byte: model %.4f, bigram model %.4f\n' \
  "$model" "$bigram"
echo "demo: loss curve     $run/loss.svg"
echo "demo: metrics        $run/metrics.csv"
echo "demo: checkpoint     $run/latest"
awk -v model="$model" -v bigram="$bigram" \
  'BEGIN { exit !(model != "" && model + 0 < bigram + 0) }' || {
  echo "demo: error: the model is not below the bigram model" >&2
  exit 1
}
