#!/usr/bin/env bash
#===- demo.sh - Train a small Llama on two unlike devices -----------------===#
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
# default) and replaces what an earlier one left there.
#
# Two ranks of unlike host types (the fastest and the slowest that this CPU has)
# share a job in ZeRO stage 1. First short runs compare the throughput of
# uniform batches, of Whale's and of Poplar's, and of each device by itself
# (bench/heterogeneous.sh). Then the job trains with Poplar's plan. Where the
# machine has no two types, or no two cores, one device trains alone.
#
# Succeeds only if the model's validation loss ends below that of a bigram model
# of the same text.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
export LC_ALL=C
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

steps=400
stage=1
demo=$(realpath -m "${1:-$repo/build/demo}")
run=$demo/run compare=$demo/compare
config=$repo/examples/models/demo-llama.json
data=$repo/examples/data/corpus.txt

"$repo/scripts/setup-debian.sh"
"$repo/scripts/build.sh" release poplar
PATH=$repo/build/release/bin:$PATH

mkdir -p "$demo"
rm -rf "$demo/model.mlir" "$demo/plan.mlir" "$demo/job" "$compare" "$run"

echo "demo: importing examples/models/demo-llama.json"
poplar import "$config" -o "$demo/model.mlir"

echo "demo: comparing policies in short runs"
status=0
DIR=$compare MODEL=$config DATA=$data ROUNDS=3 TURN=2 \
  "$repo/bench/heterogeneous.sh" "$stage" || status=$?
batch=(--global-batch 16)
if ((status == 0)); then
  echo "demo: planning and building the job that both devices train"
  poplar plan --model "$demo/model.mlir" --cluster "$compare/cluster.json" \
    --profiles "$compare/profiles" --global-batch 16 --zero "$stage" \
    --leave-out none \
    -o "$demo/plan.mlir"
  poplar build "$demo/plan.mlir" -o "$demo/job"
  batch=() # the plan has it
elif ((status == 3)); then
  echo "demo: so one device, the machine at hand, trains alone"
  poplar build "$demo/model.mlir" -o "$demo/job"
else
  exit 1
fi

echo "demo: training on examples/data/corpus.txt for $steps steps"
poplar train "$demo/job" --data "$data" "${batch[@]}" --steps "$steps" \
  --lr 2e-3 --eval-every 50 --log-every 25 --seed 1 --bigram-baseline --out "$run"

echo
echo "demo: what it writes after 'KING HENRY:'"
poplar sample "$run" --prompt $'KING HENRY:\n' --tokens 300

model=$(awk -F, 'NR > 1 && $3 != "" { loss = $3 } END { print loss }' \
  "$run/metrics.csv")
bigram=$(<"$run/bigram-val-loss.txt")
echo
((status != 0)) || cat "$compare/table.txt"
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
