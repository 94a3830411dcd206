#!/usr/bin/env python3
# ===- wheel.py - A wheel of an installed directory -------------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""usage: wheel.py INSTALLED VERSION DIRECTORY [--level 0-9]

Makes DIRECTORY/poplar-VERSION-py3-none-manylinux_2_N_x86_64.whl (PEP 427) of
what `cmake --install` has written to INSTALLED, which is changed: shared libraries
are added, but glibc's, and search paths are set. 2.N is the newest glibc that any
of the binaries asks for. --level 1 compresses worse and faster (default: 9).
Prints the path of the wheel, and what asks for that glibc.

Needs patchelf, objdump and ldd."""

import argparse
import base64
import hashlib
import pathlib
import re
import shutil
import subprocess
import sys
import zipfile

# What a machine with glibc has.
C_LIBRARY = re.compile(
    r"(libc\.so\.6|libm\.so\.6|libdl\.so\.2|libpthread\.so\.0|librt\.so\.1|ld-linux-x86-64\.so\.2)$"
)
# Within INSTALLED. Libraries of the runtime and of plug-ins become part of every
# job, where they lie in lib/ beside the plug-ins; those of poplar alone do not.
RUNTIME_LIBRARIES, LIBRARIES = "lib/poplar/libraries", "lib"
SEARCH_PATHS = {
    "bin": "$ORIGIN/../lib:$ORIGIN/../lib/poplar/libraries",
    "lib": "$ORIGIN:$ORIGIN/poplar/libraries",
    "lib/poplar": "$ORIGIN/../lib:$ORIGIN/libraries",
    RUNTIME_LIBRARIES: "$ORIGIN",
}

LAUNCHER = '''"""Starts the programs that this package brings along."""

import os
import sys

ROOT = os.path.dirname(os.path.abspath(__file__))


def name_environment():
    """Libraries of GPUs may be in this environment, whether it is activated or not."""
    if sys.prefix != sys.base_prefix:
        os.environ.setdefault("VIRTUAL_ENV", sys.prefix)


def main():
    name_environment()
    os.execv(os.path.join(ROOT, "bin", "poplar"), ["poplar", *sys.argv[1:]])


def start_ranks():
    name_environment()
    script = os.path.join(ROOT, "share", "poplar", "scripts", "start-ranks.py")
    os.execv(sys.executable, [sys.executable, script, *sys.argv[1:]])
'''

METADATA = """Metadata-Version: 2.4
Name: poplar
Version: {version}
Summary: Compiler that trains transformers on unlike devices
License-Expression: Apache-2.0 WITH LLVM-exception
License-File: LICENSE
{licences}Requires-Python: >=3.8
Classifier: Operating System :: POSIX :: Linux
Description-Content-Type: text/markdown

{readme}"""

WHEEL = """Wheel-Version: 1.0
Generator: poplar ({version})
Root-Is-Purelib: false
Tag: {tag}
"""

ENTRY_POINTS = """[console_scripts]
poplar = poplar:main
poplar-start-ranks = poplar:start_ranks
"""

# Linked statically into poplar or the runtime, by Debian package.
STATIC = ["libllvm22", "libpcre2-dev", "libutf8proc-dev", "libsodium-dev", "libeigen3-dev"]


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"wheel: error: {' '.join(map(str, command))}: {done.stderr.strip()}")
    return done.stdout


def is_elf(path):
    if not path.is_file() or path.is_symlink():
        return False
    with open(path, "rb") as file:
        return file.read(4) == b"\x7fELF"


def find_binaries(root):
    return [path for path in sorted(root.rglob("*")) if is_elf(path)]


def find_libraries(binary):
    """Where the loader finds the libraries of a binary, by name."""
    text = run("ldd", binary)
    missing = re.findall(r"(\S+) => not found", text)
    if missing:
        sys.exit(f"wheel: error: {binary.name} needs {', '.join(missing)}, which is not here")
    found = dict(re.findall(r"(\S+) => (/\S+)", text))
    return {name: place for name, place in found.items() if not C_LIBRARY.match(name)}


def add_libraries(root):
    """Returns the places on this machine of what is added."""
    places = {}
    # The runtime's come first: what poplar shares with it is there once.
    binaries = sorted(find_binaries(root), key=lambda path: path.parent.name == "bin")
    for binary in binaries:
        for name, place in find_libraries(binary).items():
            if name in places:
                continue
            directory = LIBRARIES if binary.parent.name == "bin" else RUNTIME_LIBRARIES
            target = root / directory / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(place, target)
            target.chmod(0o755)
            run("strip", "--strip-unneeded", target)
            places[name] = place
    return places


def set_search_paths(root):
    for binary in find_binaries(root):
        directory = str(binary.parent.relative_to(root))
        if directory not in SEARCH_PATHS:
            sys.exit(f"wheel: error: {binary}: no search path is known for {directory}")
        run("patchelf", "--set-rpath", SEARCH_PATHS[directory], binary)


def check_needs(root):
    """Nothing but glibc may be needed beside what is in the wheel."""
    here = {path.name for path in find_binaries(root)}
    for binary in find_binaries(root):
        needed = re.findall(r"NEEDED\s+(\S+)", run("objdump", "-p", binary))
        other = [name for name in needed if name not in here and not C_LIBRARY.match(name)]
        if other:
            sys.exit(f"wheel: error: {binary.name} needs {', '.join(other)}")


def find_oldest_glibc(root):
    """The minor version of glibc 2 that all binaries run with, and the symbols that
    ask for it."""
    minor, reasons = 17, []
    for binary in find_binaries(root):
        for line in run("objdump", "-T", binary).splitlines():
            found = re.search(r"\*UND\*.*\bGLIBC_2\.(\d+)\S*\s+(\S+)$", line)
            if not found or int(found[1]) < minor:
                continue
            if int(found[1]) > minor:
                minor, reasons = int(found[1]), []
            reasons.append(f"{binary.name} ({found[2]})")
    return minor, reasons


def find_copyrights(places):
    """Debian's copyright files of the packages that are bundled."""
    packages = set(STATIC)
    for name, place in places.items():
        # dpkg knows files by where they were installed, which may be a link to /usr.
        real = pathlib.Path(place).resolve()
        owners = subprocess.run(
            ["dpkg", "-S", f"*/{real.name}"], capture_output=True, text=True, check=False
        ).stdout
        if not owners:
            sys.exit(f"wheel: error: no Debian package holds {place} ({name}), so its licence is not known")
        packages.add(owners.split(":")[0])
    files = {}
    for package in sorted(packages):
        path = pathlib.Path("/usr/share/doc", package, "copyright")
        if not path.exists():
            sys.exit(f"wheel: error: there is no {path}, the licence of what is bundled")
        files[package] = path.read_bytes()
    return files


class Wheel:
    """PEP 427. Times and orders do not depend on when and where it is made."""

    def __init__(self, path, info, level):
        self.file = zipfile.ZipFile(path, "w")
        self.info, self.level, self.record = info, level, []

    def add(self, name, contents, mode=0o644):
        entry = zipfile.ZipInfo(name)
        entry.compress_type = zipfile.ZIP_DEFLATED
        entry.external_attr = (0o100000 | mode) << 16
        self.file.writestr(entry, contents, compresslevel=self.level)
        digest = base64.urlsafe_b64encode(hashlib.sha256(contents).digest()).rstrip(b"=")
        self.record.append(f"{name},sha256={digest.decode()},{len(contents)}")

    def close(self):
        name = f"{self.info}/RECORD"
        self.file.writestr(zipfile.ZipInfo(name), "\n".join([*self.record, f"{name},,", ""]))
        self.file.close()


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("installed", type=pathlib.Path)
    parser.add_argument("version")
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("--level", type=int, default=9)
    arguments = parser.parse_args()
    root, version = arguments.installed, arguments.version
    for tool in ("patchelf", "objdump", "ldd"):
        if not shutil.which(tool):
            sys.exit(f"wheel: error: there is no {tool}; on Debian: apt-get install patchelf binutils")

    places = add_libraries(root)
    copyrights = find_copyrights(places)
    set_search_paths(root)
    check_needs(root)
    minor, reasons = find_oldest_glibc(root)
    tag = f"py3-none-manylinux_2_{minor}_x86_64"
    info = f"poplar-{version}.dist-info"
    documents = root / "share" / "doc" / "poplar"

    arguments.directory.mkdir(parents=True, exist_ok=True)
    path = arguments.directory / f"poplar-{version}-{tag}.whl"
    wheel = Wheel(path, info, arguments.level)
    wheel.add("poplar/__init__.py", LAUNCHER.encode())
    wheel.add("poplar/__main__.py", b"from poplar import main\n\nmain()\n")
    for file in sorted(root.rglob("*")):
        if file.is_file() and documents not in file.parents:
            executable = file.stat().st_mode & 0o100
            wheel.add(
                f"poplar/{file.relative_to(root)}", file.read_bytes(), 0o755 if executable else 0o644
            )
    for package, text in copyrights.items():
        wheel.add(f"{info}/licenses/{package}.txt", text)
    wheel.add(f"{info}/licenses/LICENSE", (documents / "LICENSE").read_bytes())
    wheel.add(f"{info}/METADATA", METADATA.format(
        version=version, readme=(documents / "README.md").read_text(),
        licences="".join(f"License-File: {name}.txt\n" for name in copyrights),
    ).encode())  # fmt: skip
    wheel.add(f"{info}/WHEEL", WHEEL.format(version=version, tag=tag).encode())
    wheel.add(f"{info}/entry_points.txt", ENTRY_POINTS.encode())
    wheel.close()
    print(f"glibc 2.{minor} is asked for by {', '.join(sorted(set(reasons)))}")
    print(f"{path}: {path.stat().st_size / 1e6:.1f} MB")


main()
