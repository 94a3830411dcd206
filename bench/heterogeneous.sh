#!/usr/bin/env bash
#===- heterogeneous.sh - Two unlike host types in one job -----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: bench/heterogeneous.sh [STAGE...]        (default: 0 1 2 3)
#
# Trains one job on two ranks, a core each, of the fastest and the slowest host
# type that this CPU has, with the batches of DeepSpeed (uniform), of Whale and
# of Poplar, and each type by itself. Prints tokens/s as medians over turns, in
# which all take part one after the other, since machines are noisy.
#
# A type's own throughput is that of a one-rank job on its core: "loaded" while
# the other type's job runs on the other core, and "alone". Whale is told the
# rates of matrix products that were measured on the types.
#
# Environment:
#   DIR     where everything goes (build/heterogeneous); DIR/table.txt and
#           DIR/results.txt (KEY VALUE) are the results
#   MODEL   a config.json (examples/models/demo-llama.json)
#   DATA    a text (examples/data/corpus.txt)
#   BATCH   samples of an iteration (128)
#   ROUNDS  turns (3)
#   TURN    seconds of a turn, about (4)
#   TYPES   "FAST SLOW", instead of measuring which they are
#
# Exits with 3, saying why, where there are no two types or no two cores.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
export LC_ALL=C
repo=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
command -v poplar >/dev/null || PATH=$repo/build/release/bin:$PATH
dir=${DIR:-$repo/build/heterogeneous}
model=${MODEL:-$repo/examples/models/demo-llama.json}
data=${DATA:-$repo/examples/data/corpus.txt}
batch=${BATCH:-128} rounds=${ROUNDS:-3} turn=${TURN:-4}
stages=("${@:-0 1 2 3}")
read -ra stages <<<"${stages[*]}"

say() { echo "$(basename "$0" .sh): $*"; }
cannot() {
  say "$*"
  exit 3
}

# Cores that this process may use: "0-1,4" as 0 1 4.
cores=()
while read -r first last; do
  for ((core = first; core <= ${last:-first}; ++core)); do cores+=("$core"); done
done < <(sed -n 's/^Cpus_allowed_list:\s*//p' /proc/self/status |
  tr ',' '\n' | tr '-' ' ')
((${#cores[@]} >= 2)) || cannot "two ranks need two cores, and there is one"

rm -rf "$dir"
mkdir -p "$dir/profiles"
results=$dir/results.txt table=$dir/table.txt
: >"$results" >"$table"
log=$dir/log.txt
quietly() { "$@" >>"$log" 2>&1 || {
  tail -n 3 "$log" >&2
  exit 1
}; }
quietly poplar import "$model" -o "$dir/model.mlir"

# Host types, the fastest first, with their seconds for a micro-batch of 2.
read -ra types <<<"${TYPES:-}"
if ((${#types[@]} == 0)); then
  quietly poplar cluster detect -o "$dir/all.json"
  mapfile -t known < <(sed -n 's/.*"target": "host:\([^"]*\)".*/\1/p' "$dir/all.json")
  for type in "${known[@]}"; do
    [[ $type != f16-storage ]] || continue # computes as avx2-f32
    quietly poplar cluster detect --devices "$type=1,host=1" -o "$dir/one.json"
    quietly poplar profile --model "$dir/model.mlir" --cluster "$dir/one.json" \
      --device-type "$type" --zero 0 --max-batch 2 --loaded -o "$dir/one-profile.json"
    seconds=$(tr -d ' \n' <"$dir/one-profile.json" |
      sed 's/.*"seconds":\[[^],]*,\([^],]*\)\].*/\1/')
    say "$type: $seconds s for a micro-batch of 2"
    echo "$seconds $type" >>"$dir/speeds.txt"
  done
  mapfile -t types < <(sort -g "$dir/speeds.txt" | cut -d' ' -f2)
fi
((${#types[@]} >= 2)) || cannot "this CPU has one usable host type: ${types[*]}"
fast=${types[0]} slow=${types[-1]}
say "two ranks: $fast on core ${cores[0]}, $slow on core ${cores[1]}"
quietly poplar cluster detect --devices "$fast=1,$slow=1" -o "$dir/cluster.json"

# median FILE: of numbers, one a line.
median() {
  sort -g "$1" | awk '{ x[NR] = $1 }
    END { if (NR) print (x[int((NR + 1) / 2)] + x[int(NR / 2) + 1]) / 2 }'
}
# measure NAME JOB SECONDS [PREFIX...]: trains JOB for about $turn seconds and
# appends the median of its steps, the first one left out, to NAME.
measure() {
  local name=$1 job=$2 seconds=$3 run=$dir/run-$1
  shift 3
  local steps
  steps=$(awk "BEGIN { n = int($turn / $seconds) + 2; print n < 4 ? 4 : n }")
  rm -rf "$run"
  quietly "$@" poplar train "$job" --data "$data" --steps "$steps" \
    --eval-every 0 --out "$run" --log-every 1000000
  awk -F, 'NR == 1 { for (i = 1; i <= NF; ++i) if ($i == "tokens_per_s") c = i }
    NR > 2 { print $c }' "$run/metrics.csv" >"$dir/steps-$name.txt"
  median "$dir/steps-$name.txt" >>"$dir/tokens-$name.txt"
}
result() {
  median "$dir/tokens-$1.txt"
}
# plan NAME STAGE POLICY: sets seconds_NAME to what is predicted.
declare -A seconds
plan() {
  poplar plan --model "$dir/model.mlir" --cluster "$dir/cluster.json" \
    --profiles "$dir/profiles" --global-batch "$batch" --zero "$2" --leave-out none \
    --policy "$3" -o "$dir/$1.mlir" >"$dir/$1.txt"
  seconds[$1]=$(sed -n 's/.*, \([0-9.e-]*\) s predicted.*/\1/p' "$dir/$1.txt")
  quietly poplar build "$dir/$1.mlir" -o "$dir/$1"
}
# samples NAME: of each rank in an iteration, "102 + 26".
samples() {
  awk '!/^#/ { printf "%s%d", s, ($6 - 1) * $5 + $7; s = " + " }' "$dir/$1/ranks.txt"
}

for stage in "${stages[@]}"; do
  say "stage $stage: profiling $fast and $slow, the other core busy"
  for type in "$fast" "$slow"; do
    quietly poplar profile --model "$dir/model.mlir" --cluster "$dir/cluster.json" \
      --device-type "$type" --zero "$stage" --max-batch 16 --loaded \
      -o "$dir/profiles/$type.json"
  done
  plan fast "$stage" "homogeneous:$fast"
  plan slow "$stage" "homogeneous:$slow"
  rm -f "$dir"/tokens-*.txt
  for type in fast slow; do # Whale's FLOP/s, once
    grep -q "\"flops\".*# $type" "$dir/flops.txt" 2>/dev/null && continue
    quietly poplar train "$dir/$type" --data "$data" --steps 1 --eval-every 0 \
      --out "$dir/run-rate-$type"
    rate=$(sed -n 's/^[^,]*, \([^,]*\), .* threads, \([0-9.]*\) GFLOP.s measured peak.*/"\1": \2e9/p' \
      "$log" | tail -n 1)
    echo "\"flops\": {$rate}, # $type" >>"$dir/flops.txt"
    sed -i "/\"target\": \"host:${!type}\"/a \      \"flops\": {$rate}," "$dir/cluster.json"
  done
  for policy in uniform whale exact; do
    plan "$policy" "$stage" "$policy"
  done
  for ((round = 1; round <= rounds; ++round)); do
    say "stage $stage: turn $round of $rounds"
    for policy in uniform whale exact; do
      measure "$policy" "$dir/$policy" "${seconds[$policy]}"
    done
    # Each is the other's load: as long as one runs, so does the other.
    measure fast-loaded "$dir/fast" "${seconds[fast]}" taskset -c "${cores[0]}" &
    measure slow-loaded "$dir/slow" "${seconds[slow]}" taskset -c "${cores[1]}"
    wait $!
    measure fast-alone "$dir/fast" "${seconds[fast]}" taskset -c "${cores[0]}"
    measure slow-alone "$dir/slow" "${seconds[slow]}" taskset -c "${cores[1]}"
  done
  for name in uniform whale exact {fast,slow}-{loaded,alone}; do
    echo "$name-$stage $(result "$name")" >>"$results"
  done
  awk -v stage="$stage" -v uniform="$(samples uniform)" -v whale="$(samples whale)" \
    -v exact="$(samples exact)" -v fast="$fast" -v slow="$slow" '
    { v[$1] = $2 }
    function get(name) { return v[name "-" stage] }
    END {
      sum = get("fast-loaded") + get("slow-loaded")
      alone = get("fast-alone") + get("slow-alone")
      r = get("fast-loaded") / get("slow-loaded")
      printf "stage %d                 samples      tokens/s  of the sum\n", stage
      row = "  %-20s %9s  %10.0f  %8.1f %%\n"
      printf row, "uniform (DeepSpeed)", uniform, get("uniform"), 100 * get("uniform") / sum
      printf row, "whale", whale, get("whale"), 100 * get("whale") / sum
      printf row, "poplar", exact, get("exact"), 100 * get("exact") / sum
      row = "  %-30s  %10.0f   (alone %.0f)\n"
      printf row, fast " by itself, loaded", get("fast-loaded"), get("fast-alone")
      printf row, slow " by itself, loaded", get("slow-loaded"), get("slow-alone")
      printf row, "sum of the two", sum, alone
      gain = get("exact") / get("uniform")
      printf "  poplar / uniform               %10.2fx, ideal %.2fx for %.2f : 1 (%.1f %% of it)\n",
        gain, (r + 1) / 2, r, 100 * gain / ((r + 1) / 2)
      printf "  poplar / sum of the two        %10.1f %%\n", 100 * get("exact") / sum
    }' "$results" | tee -a "$table"
done
