"""Runs the commands of a page and compares what they print:

  run_page.py PAGE DIRECTORY

In a block of the language `console`, a line that begins with `$ ` is a command,
up to the end of the line or, after a backslash, of the next one; what follows is
its output. `...` stands for any text. A line of output that is not there is an
error, other lines of output than those named are not. A block that follows a
comment <!-- file: NAME --> is written to NAME. All of it happens in DIRECTORY,
where the repository's directories can be read, and the build as build/release."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
BLOCK = re.compile(
    r"(?:<!-- file: (\S+) -->\n+)?^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL
)


def read_commands(block):
    """Commands with the lines of output that they must print."""
    commands, continued = [], False
    for line in block.splitlines():
        if continued:
            commands[-1][0] += "\n" + line
        elif line.startswith("$ "):
            commands.append([line[2:], []])
        elif line and commands:
            commands[-1][1].append(line)
        continued = line.endswith("\\") and (continued or line.startswith("$ "))
    return commands


def run(command, expected, directory):
    result = subprocess.run(
        ["bash", "-c", "set -o pipefail\n" + command],
        cwd=directory,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        check=False,
    )
    print(f"$ {command}\n{result.stdout}", end="")
    at = 0
    lines = result.stdout.splitlines()
    for line in expected:
        pattern = re.compile(".*".join(map(re.escape, line.split("..."))) + r"\s*$")
        while at < len(lines) and not pattern.match(lines[at]):
            at += 1
        if at == len(lines):
            sys.exit(f"error: the page has this line, the output has not:\n{line}")
        at += 1
    # A command whose last line of output is an error is shown because it fails.
    fails = any("error:" in line for line in expected)
    if (result.returncode != 0) != fails:
        sys.exit(f"error: exit status {result.returncode}")


def main():
    page, directory = sys.argv[1:]
    os.makedirs(directory)
    for path in ROOT.iterdir():
        if path.is_dir() and path.name not in (".git", "build"):
            os.symlink(path, os.path.join(directory, path.name))
    os.makedirs(os.path.join(directory, "build"))
    build = pathlib.Path(shutil.which("poplar")).resolve().parent.parent
    os.symlink(build, os.path.join(directory, "build", "release"))
    count = 0
    for name, language, body in BLOCK.findall(pathlib.Path(page).read_text()):
        if name:
            path = pathlib.Path(directory) / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(body)
        elif language == "console":
            for command, expected in read_commands(body):
                run(command, expected, directory)
                count += 1
    if count == 0:
        sys.exit(f"error: {page} has no commands")


main()
