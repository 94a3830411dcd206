"""Fails if two classes of a namespace scope have the same name, one of them in a
header: who reads one must not take it for the other.

  check_class_names.py [ROOT]

The compiler, the runtime and the kernels of GPUs are programs of their own, so each
is searched on its own.
Helpers of a source file count where a header of their side has the name."""

import pathlib
import re
import sys

ROOT = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else pathlib.Path(__file__).parents[3])
DEVICE = "runtime/kernels/gpu"
SIDES = {
    "the compiler": ["include", "lib", "tools"],
    "the runtime": ["runtime"],
    "kernels of GPUs": [DEVICE],
}
# What opens a scope, and what is no code: comments, strings, characters.
NOISE = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(\w*)\(.*?\)\1"|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', re.DOTALL
)
HEAD = re.compile(r"\b(namespace|class|struct|union|enum(?:\s+class)?)\b([^;{}()=]*)$")


def list_classes(text):
    """Names and lines of the classes that are in no class and no function."""
    text = NOISE.sub(lambda match: re.sub(r"[^\n]", " ", match.group()), text)
    scopes = []
    for match in re.finditer(r"[{}]", text):
        if match.group() == "}":
            if scopes:
                scopes.pop()
            continue
        before = text[: match.start()]
        statement = before[max(before.rfind(c) for c in ";{}") + 1 :]
        head = HEAD.search(statement)
        if not head:
            scopes.append("code")
            continue
        kind = head.group(1)
        if kind == "namespace":
            scopes.append("namespace")
            continue
        if all(scope == "namespace" for scope in scopes):
            name = re.match(r"\s*(?:\[\[\w+\]\]\s*|LLVM_\w+\s*|alignas\b\s*)*([\w:]+)", head.group(2))
            # `template <> struct llvm::Traits<T>` is the class of another.
            if name and "::" not in name.group(1) and "<" not in head.group(2).split(":")[0]:
                line = text.count("\n", 0, match.start()) + 1
                yield name.group(1), line
        scopes.append("class")


def main():
    found = 0
    for side, folders in SIDES.items():
        places = {}
        paths = [path for folder in folders for path in (ROOT / folder).rglob("*")]
        for path in sorted(path for path in paths if path.suffix in (".h", ".cpp")):
            if path.is_relative_to(ROOT / DEVICE) != (folders == [DEVICE]):
                continue
            for name, line in list_classes(path.read_text()):
                places.setdefault(name, []).append((path, line))
        for name, ones in sorted(places.items()):
            headers = [path for path, _ in ones if path.suffix == ".h"]
            if len(ones) < 2 or not headers:
                continue
            found += 1
            where = ", ".join(f"{path.relative_to(ROOT)}:{line}" for path, line in ones)
            print(f"error: {len(ones)} classes {name} in {side}: {where}")
    sys.exit(1 if found else 0)


main()
