#!/usr/bin/env bash
#===- test.sh - Install, build, run every test ----------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/test.sh [PRESET]
#
# `scripts/test.sh asan` runs them under AddressSanitizer and UBSan.
#
# Works on a bare Debian 12. Runs lit, lit again with every module printed and
# parsed back, the integration tests and the unit tests, and once more, as if on
# a processor with AVX2 only, those that depend on it; ends with CTest's summary
# and its exit status.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

preset=${1:-release}
scripts/setup-debian.sh
scripts/build.sh "$preset"
echo "test: running all tests of build/$preset"
# Tests of faults, which measure times, run by themselves.
ctest --test-dir "build/$preset" --output-on-failure --no-tests=error \
  --parallel "$(nproc)"
