#!/usr/bin/env bash
#===- check-wheel.sh - The wheel in an empty virtual environment ----------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/check-wheel.sh BUILD                 makes the wheel, and checks it
#        scripts/check-wheel.sh --wheel FILE          checks this one
#        scripts/check-wheel.sh --wheel FILE --debian SUITE
#
# Installs the wheel by pip, which may not ask an index, into an empty virtual
# environment. With nothing else in PATH, there is no compiler and no MPI, it trains
# a model, fine-tunes that alone and on two devices, and samples. Prints what each
# part takes. --debian does so in a root directory that has Debian's essential
# packages, python3 and nothing else. Ends with status 77 where no such root can be
# made: that takes root's rights, mmdebstrap and Debian's archive.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail

source=$(realpath "$(dirname "${BASH_SOURCE[0]}")/..")
work=$(mktemp -d /tmp/poplar-check-wheel.XXXXXX)
trap 'rm -rf "$work"' EXIT

if [[ $1 == --wheel ]]; then
  wheel=$(realpath "$2")
  shift 2
else
  # It is not sent to anybody.
  "$source/scripts/build-wheel.sh" "$1" "$work/wheel" --level 1
  wheel=$(ls "$work"/wheel/*.whl)
  shift
  python3 "$source/scripts/check_wheel.py" "$wheel"
fi

cat >"$work/check.sh" <<'END'
set -eu
cd "$1"
wheel=$2
first=$(date +%s%N)
begin=$first
measure() {
  end=$(date +%s%N)
  echo "check-wheel: $1: $(((end - begin) / 1000000)) ms"
  begin=$(date +%s%N)
}
python3 -m venv venv
measure "an empty virtual environment"
venv/bin/pip install -q --no-index --disable-pip-version-check "$wheel"
measure "pip install"
root=$(venv/bin/python -c "import poplar; print(poplar.ROOT)")
chat=$root/share/poplar/examples/chat
# Runs a command with nothing but the environment's programs, and what a POSIX
# shell script needs of an essential system.
mkdir tools
for tool in sh env readlink dirname; do
  ln -s "$(command -v $tool)" "tools/$tool"
done
alone() {
  env -i HOME="$PWD" TMPDIR="$PWD" PATH="$PWD/venv/bin:$PWD/tools" "$@"
}
for tool in cc c++ gcc g++ clang ld ld.lld as mpirun; do
  if alone sh -c "command -v $tool"; then
    echo "check-wheel: error: there is a $tool" >&2
    exit 1
  fi
done
begin=$(date +%s%N)
alone poplar --version
measure "poplar --version"
alone poplar pretrain "$chat" --seq-len 64 --data "$root/share/poplar/examples/data/corpus.txt" \
  --steps 1 --eval-every 0 --out base >pretrain.log
measure "poplar pretrain, which imports, builds and does one step"
cp -rL base/latest model
begin=$(date +%s%N)
tune="alone poplar finetune model --data $chat/chat.jsonl --seq-len 64 --lora-rank 4 --steps 1"
$tune --out run >tune.log
measure "poplar finetune, which imports, profiles, plans, builds and does one step"
grep '^step 1/1' tune.log
echo "check-wheel: from nothing to the first step of fine-tuning: $(((end - first) / 1000000)) ms"
begin=$(date +%s%N)
alone poplar sample run --prompt "Hello" --tokens 4 >sample.log
measure "poplar sample"
$tune --devices avx2-f32=1,sse41-f32=1 --global-batch 4 --profile-seconds 1 --out pair >pair.log
grep '^step 1/1' pair.log
measure "poplar finetune on two devices, without MPI"
END

if [[ ${1:-} != --debian ]]; then
  mkdir "$work/place"
  sh "$work/check.sh" "$work/place" "$wheel"
  echo "check-wheel: passed"
  exit
fi

skip() {
  echo "skipped: $1"
  exit 77
}
((EUID == 0)) || skip "needs root's rights"
command -v mmdebstrap >/dev/null || skip "needs mmdebstrap"
mmdebstrap --variant=apt --include=python3,python3-venv "$2" "$work/root" >"$work/root.log" 2>&1 || {
  tail -n 3 "$work/root.log"
  skip "mmdebstrap cannot make a root"
}
cp "$wheel" "$work/check.sh" "$work/root/tmp/"
unshare -m bash -eu -c '
  root=$1
  shift
  mount -t proc proc "$root/proc"
  mount --rbind /dev "$root/dev"
  exec chroot "$root" env -i PATH=/usr/bin:/bin LC_ALL=C.UTF-8 "$@"
' bash "$work/root" sh /tmp/check.sh /tmp "/tmp/$(basename "$wheel")"
echo "check-wheel: passed"
