#!/usr/bin/env bash
#===- package.sh - Make the .tar.gz and .deb packages ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/package.sh
#
# Builds the preset `release` and writes the packages to build/release/packages.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
scripts/setup-debian.sh
scripts/build.sh release
cd build/release
cpack -B packages
ls -l packages/*.deb packages/*.tar.gz
