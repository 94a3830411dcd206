#!/usr/bin/env python3
# ===- make_tokenizer_goldens.py - Small tokenizers and what they say ------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
#
# Writes the inputs of unittests/Runtime/TokenizerTest.cpp: tokenizers of a few
# hundred tokens, and the ids and texts that PyPI's packages make. Models that are
# there already stay as they are with --keep:
#
#   make_tokenizer_goldens.py unittests/Runtime/Inputs/Tokenizers [--keep]
#
# ===-----------------------------------------------------------------------===#
import json
import os
import pathlib
import random
import sys

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import check_tokenizers  # noqa: E402
import make_tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
TEXTS = [
    "",
    " ",
    "Hello, world!",
    "  two  spaces, and a tab\t.\r\n\n\nThree lines.   ",
    "It's the model's tokenizer; they'LL say I'd've don't can't.",
    "1 22 333 4444 55555 1,234.5 ½ Ⅷ ٣٤",
    "naïve café e\u0301 A\u030a \u1100\u1161\u11a8 Å ﬁ ſ İ ß",
    "日本語のテキスト。漢字、한국어 тест Ελληνικά עברית العربية हिन्दी ไทย",
    "👩‍👩‍👧 🇩🇪 🏽 a\u200db \ufeff\u00a0\u3000x",
    "<s>a</s> <|endoftext|>x<|im_start|>user\n[MASK] [CLS] <0x41> <unk> <table> <tool_call>\n\n",
    "▁▁ ▁a ▁▁▁▁b _c",
    "int main() {\n  return std::vector<int>{1, 2}.size(); // \\n\n}\n",
    "\u0378\U000e0001\U0010ffff\u0897\u1c89 \U0001e5d0",
    "x" * 300 + " " + "ab" * 200,
    "the model and the tokens of the model " * 12,
]


def make_texts():
    chance = random.Random(5)
    texts = [text.encode() for text in TEXTS]
    texts += check_tokenizers.make_broken(chance, 1200)
    texts += check_tokenizers.make_scripts(chance, 1500)
    texts += check_tokenizers.make_marks(chance, 1500)
    return texts


def main():
    directory = pathlib.Path(sys.argv[1])
    prose = [ROOT / "docs" / name for name in ("data.md", "architecture.md")] + [ROOT / "README.md"]
    sample = [path.read_text() for path in prose] + TEXTS
    make_tokenizers.SMALL = True
    if "--keep" not in sys.argv:
        make_tokenizers.make(directory, sample, 560)
    for name in make_tokenizers.MODELS:
        if not (directory / f"{name}.model").exists():
            make_tokenizers.sentencepiece_model(sample, 560, directory, name)
    texts = make_texts()
    result = {"texts": [text.hex() for text in texts], "tokenizers": {}}
    for path in sorted(directory.glob("*.json")) + sorted(directory.glob("*.model")):
        if path.name in ("goldens.json", "added.json"):
            continue
        if path.suffix == ".json":
            path.write_text(json.dumps(json.loads(path.read_text()), ensure_ascii=False, separators=(",", ":")) + "\n")
        reference = check_tokenizers.Reference(path)
        ids = [reference.encode_one(text) for text in texts]
        result["tokenizers"][path.name] = {"ids": ids, "decoded": [reference.decode_one(each) for each in ids]}
    text = json.dumps(result, ensure_ascii=False, separators=(",", ":"))
    (directory / "goldens.json").write_text(text.replace("],[", "],\n[") + "\n")


if __name__ == "__main__":
    main()
