#!/usr/bin/env bash
#===- check-package.sh - The .deb on a bare Debian ------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
#===-----------------------------------------------------------------------===#
#
# usage: scripts/check-package.sh BUILD
#
# Makes poplar_*.deb from a build tree and installs it by apt into a root
# directory that has Debian 12's essential packages and nothing else. There it
# imports, builds, trains and samples a model. Ends with status 77 where no such
# root can be made: that takes root's rights, mmdebstrap and Debian's archive.
#
#===-----------------------------------------------------------------------===#
set -euo pipefail

skip() {
  echo "skipped: $1"
  exit 77
}

build=$(realpath "$1")
((EUID == 0)) || skip "needs root's rights"
command -v mmdebstrap >/dev/null || skip "needs mmdebstrap"
work=$(mktemp -d /tmp/poplar-package.XXXXXX)
trap 'rm -rf "$work"' EXIT

(cd "$build" && cpack -G DEB -B "$work" -D CPACK_COMPONENTS_ALL=runtime) \
  >"$work/cpack.log" || { cat "$work/cpack.log" >&2; exit 1; }
deb=$(ls "$work"/poplar_*.deb)
dpkg-deb --info "$deb" | grep -E '^ (Package|Version|Depends|Installed-Size)'

cat >"$work/check.sh" <<'END'
set -eux
export PATH=/usr/bin:/bin LC_ALL=C
cd /tmp
poplar --version
poplar import /usr/share/poplar/examples/models/tiny-llama.json -o model.mlir
poplar build model.mlir -o program
poplar train program --data /usr/share/poplar/examples/data/corpus.txt \
  --steps 3 --global-batch 2 --out run
poplar sample run --prompt abc --tokens 4
END

# Runs a command inside the root.
inside() {
  unshare -m bash -eu -c '
    root=$1
    shift
    mount -t proc proc "$root/proc"
    mount --rbind /dev "$root/dev"
    exec chroot "$root" env DEBIAN_FRONTEND=noninteractive "$@"
  ' bash "$work/root" "$@"
}

# Whether the archive can be reached is not what is tested.
mmdebstrap --variant=apt bookworm "$work/root" >"$work/root.log" 2>&1 || {
  tail -n 3 "$work/root.log"
  skip "mmdebstrap cannot make a root"
}
cp "$deb" "$work/root/tmp/poplar.deb"
cp "$work/check.sh" "$work/root/tmp/"
{
  inside apt-get -q update &&
    inside apt-get -q -s --no-install-recommends install /tmp/poplar.deb
} >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log" >&2
  echo "check-package: apt cannot satisfy what the package depends on" >&2
  exit 1
}
install=(apt-get -q -y --no-install-recommends install /tmp/poplar.deb)
inside "${install[@]}" --download-only >"$work/install.log" 2>&1 ||
  skip "apt cannot download what the package depends on"
inside "${install[@]}" >"$work/install.log" 2>&1 || {
  tail -n 20 "$work/install.log" >&2
  echo "check-package: apt cannot install the package" >&2
  exit 1
}
inside sh /tmp/check.sh
echo "check-package: passed"
