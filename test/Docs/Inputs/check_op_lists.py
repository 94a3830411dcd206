"""Fails if a pass asks whether an op is a certain one of the nn dialect, where it
should ask an interface:

  check_op_lists.py [DIRECTORY]

Searched are the passes and what they use, in DIRECTORY (default: the repository's
lib). Files that are about certain ops alone may name them."""

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[3]
ROOMS = ["Conversion", "Dialect/Exec", "Dialect/Zero", "Planner", "Report", "Simulation", "Target", "Transforms"]
# A rewrite of certain ops, and what is attached to them.
OWN = re.compile(
    r"(FindHead|FuseGemmEpilogues|NNAddAdapters|NNQuantizeFrozen|NNRoundProducts|PadLogits|ZeroOverlapExchanges"
    r"|RuntimeCalls|\w+ToLinalg)\.(cpp|h)$"
)
DEFINITION = re.compile(
    r"^def NN_(\w+Op) : NN_(?:ForwardOp|GradientOp|UnaryOp|UnaryGradOp|BinaryOp)<", re.MULTILINE
)


def main():
    lib = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "lib"
    files = sorted((ROOT / "include/Poplar/Dialect/NN").glob("NN*Ops.td"))
    definitions = "".join(file.read_text() for file in files)
    ops = DEFINITION.findall(definitions)
    if len(ops) < 20:
        sys.exit("error: NN*Ops.td are read wrongly")
    # CastOp changes the format only; passes make it and look through it.
    names = "|".join(op for op in ops if op != "CastOp")
    question = re.compile(
        r"\b(?:isa|dyn_cast|cast|isa_and_\w+|getDefiningOp|getOps|Case|IsaPred)"
        rf"<[^;{{}}()]*\b(?:nn::)?(?:{names})\b|\[[^]]*\]\((?:nn::)?(?:{names})\b"
    )
    found = 0
    for path in sorted(path for room in ROOMS for path in (lib / room).rglob("*")):
        if path.suffix not in (".cpp", ".h") or OWN.search(path.name):
            continue
        text = path.read_text()
        for match in question.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            print(f"{path}:{line}: error: asks for a certain op: {match.group().split()[-1]}")
            found += 1
    if found:
        sys.exit("error: use an interface of Dialect/NN/NNInterfaces.td")
    print(f"no pass asks for any of {len(ops)} ops")


main()
