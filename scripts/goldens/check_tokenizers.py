#!/usr/bin/env python3
# ===- check_tokenizers.py - Compare with PyPI's tokenizers ----------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
#
# Encodes and decodes mixed text, code and broken UTF-8 with eight tokenizers,
# by bench/tokenize and by PyPI's `tokenizers` and `sentencepiece`, and counts
# the differences. Prints both throughputs, each as the time of one thread:
#
#   check_tokenizers.py build/release/bin/tokenize --megabytes 100
#
# Exits with 1 if there is any difference. It needs the packages of
# requirements.txt, and takes texts from /usr/share and this source tree.
#
# ===-----------------------------------------------------------------------===#
import argparse
import os
import pathlib
import random
import struct
import subprocess
import sys
import tempfile
import time
import unicodedata

os.environ["TOKENIZERS_PARALLELISM"] = "false"
sys.path.insert(0, str(pathlib.Path(__file__).parent))
import make_tokenizers  # noqa: E402

ROOT = pathlib.Path(__file__).resolve().parents[2]
PIECE = 1 << 14


def read_tree(roots, suffixes, limit):
    """Files of some kinds, in a fixed order, cut to 64 KiB each."""
    total = 0
    for root in roots:
        for path in sorted(pathlib.Path(root).rglob("*")):
            if total >= limit:
                return
            if path.suffix not in suffixes or not path.is_file() or path.is_symlink():
                continue
            try:
                data = path.read_bytes()[: 1 << 16]
            except OSError:
                continue
            total += len(data)
            yield data


def make_scripts(chance, size):
    """Words of all scripts of the world, in every category."""
    blocks = {}
    for code in range(0x20, 0x110000):
        if unicodedata.category(chr(code)) not in ("Cs", "Co", "Cn"):
            blocks.setdefault(code >> 7, []).append(chr(code))
    names = sorted(blocks)
    out = []
    while size > 0:
        block = blocks[chance.choice(names)]
        words = []
        for _ in range(chance.randrange(5, 40)):
            words.append("".join(chance.choice(block) for _ in range(chance.randrange(1, 9))))
        text = chance.choice([" ", "  ", "\n", " a", ", ", "\t"]).join(words)
        out.append(text.encode())
        size -= len(out[-1])
    return out


def make_characters():
    """Every code point, between letters and behind marks."""
    for begin in range(0, 0x110000, 512):
        codes = [c for c in range(begin, begin + 512) if not 0xD800 <= c < 0xE000]
        if codes:
            yield "".join(f"a{chr(c)}b {chr(c)}{chr(c)}\u0301 " for c in codes).encode()


def make_broken(chance, size):
    """Bytes at random, and valid text with bytes missing, added and changed."""
    sample = "naïve Ελληνικά 日本語 👩‍👩‍👧 e\u0301 한국어 \u202eabc ﬁ ½ İ ß 𝒳".encode()
    out = []
    while size > 0:
        if chance.random() < 0.2:
            data = bytes(chance.randrange(256) for _ in range(chance.randrange(1, 400)))
        else:
            data = bytearray(sample * chance.randrange(1, 20))
            for _ in range(chance.randrange(1, 30)):
                at = chance.randrange(len(data))
                if chance.random() < 0.5:
                    del data[at]
                else:
                    data[at] = chance.randrange(256)
            data = bytes(data)
        out.append(data)
        size -= len(data)
    return out


def make_marks(chance, size):
    """Special tokens, spaces, digits and punctuation in unlikely orders."""
    parts = ["<|endoftext|>", "<|im_start|>", "<s>", "</s>", "[MASK]", "<0x41>", "▁", "▁▁", " ", "  ", "\n", "\r\n"]
    parts += ["\t", "'s", "'LL", "don't", "1", "12345", "½", "a", "Zebra", "naïve", "。", "漢字", "<table>", "\n\n\n"]
    parts += ["<tool_call>", "<extra_id_1>", "<unk>", "e\u0301", "\u00a0", "\u3000", "\u200d", "\ufeff", "!?", "--", "ſ"]
    out = []
    while size > 0:
        out.append("".join(chance.choice(parts) for _ in range(chance.randrange(1, 300))).encode())
        size -= len(out[-1])
    return out


def make_corpus(megabytes, seed):
    chance = random.Random(seed)
    size = megabytes << 20
    texts = list(make_characters())
    texts += make_broken(chance, size // 10)
    texts += make_scripts(chance, size // 10)
    texts += make_marks(chance, size // 20)
    code = {".py", ".h", ".hpp", ".c", ".cpp", ".pl", ".pm", ".js", ".cmake", ".td", ".mlir", ".sh", ".json", ".rs"}
    real = list(read_tree([ROOT / "lib", ROOT / "runtime", ROOT / "test", "/usr/share", "/usr/lib"], code, size * 2 // 5))
    prose = {".txt", ".md", ".rst", ".html", ".xml", ".po", ".tex", ".docbook"}
    real += read_tree([ROOT / "docs", "/usr/share", "/usr/lib"], prose, size // 2)
    chance.shuffle(real)
    texts += real
    # Cut at any byte, so that some texts begin or end inside a character.
    texts = [text[i : i + PIECE] for text in texts for i in range(0, len(text), PIECE)]
    chance.shuffle(texts)
    kept, total = [], 0
    for text in texts:
        kept.append(text)
        total += len(text)
    if total < size:
        print(f"this machine has only {total >> 20} MB of text; repeating some in another order")
    while total < size:
        text = chance.choice(kept)[::-1] if chance.random() < 0.2 else chance.choice(kept)
        kept.append(text[: chance.randrange(1, len(text) + 1)])
        total += len(kept[-1])
    return kept, real


def write(path, items):
    with open(path, "wb") as file:
        for item in items:
            file.write(struct.pack("<Q", len(item)))
            file.write(item)


def read(path):
    data = memoryview(path.read_bytes())
    at, items = 0, []
    while at < len(data):
        (size,) = struct.unpack_from("<Q", data, at)
        items.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return items


def pack(ids):
    return struct.pack(f"<{len(ids)}i", *ids)


class Reference:
    """PyPI's package for one file, with the time that its thread took."""

    def __init__(self, path):
        self.seconds = 0.0
        if path.suffix == ".model":
            import sentencepiece

            model = sentencepiece.SentencePieceProcessor(model_file=str(path))
            # Marks of where a text was broken are the same to both.
            self.encode_one = lambda text: model.encode(text.decode(errors="replace"))
            self.decode_one = lambda ids: model.decode(ids)
            return
        import tokenizers

        model = tokenizers.Tokenizer.from_file(str(path))
        self.encode_one = lambda text: model.encode(text.decode(errors="replace"), add_special_tokens=True).ids
        self.decode_one = lambda ids: model.decode(ids, skip_special_tokens=False)

    def timed(self, function, items):
        # Decoding the bytes is not what is measured, but takes next to nothing.
        start = time.thread_time()
        result = [function(item) for item in items]
        self.seconds = time.thread_time() - start
        return result


def compare(name, what, theirs, ours, texts):
    bad = [i for i, (a, b) in enumerate(zip(theirs, ours)) if a != b]
    if len(theirs) != len(ours) or bad:
        i = bad[0] if bad else 0
        print(f"{name}: {what}: {len(bad)} of {len(theirs)} differ; the first is item {i}: {bytes(texts[i])[:200]!r}")
        print(f"  theirs: {bytes(theirs[i])[:400]!r}\n  ours:   {bytes(ours[i])[:400]!r}")
    return len(bad)


def check(tool, path, corpus, corpus_path, directory):
    reference = Reference(path)
    ids_path, out_path = directory / "ids", directory / "out"
    ids = reference.timed(reference.encode_one, corpus)
    encode_theirs = reference.seconds
    run = [str(tool), str(path), "encode", str(corpus_path), str(out_path), "--special"]
    encode_ours = float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    packed = [pack(each) for each in ids]
    differences = compare(path.name, "encode", packed, read(out_path), corpus)
    write(ids_path, packed)
    texts = reference.timed(reference.decode_one, ids)
    decode_theirs = reference.seconds
    run = [str(tool), str(path), "decode", str(ids_path), str(out_path)]
    decode_ours = float(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
    differences += compare(path.name, "decode", [text.encode() for text in texts], read(out_path), packed)
    size = sum(map(len, corpus)) / 1e6
    print(
        f"{path.name:16} {size:6.0f} MB  {sum(map(len, ids)):10} ids  {differences} differences  "
        f"encode {size / encode_ours:6.1f} MB/s, {encode_theirs / encode_ours:5.2f} of theirs  "
        f"decode {size / decode_ours:6.1f} MB/s, {decode_theirs / decode_ours:5.2f}",
        flush=True,
    )
    return differences


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", type=pathlib.Path, help="bench/tokenize, built")
    parser.add_argument("--megabytes", type=int, default=100, help="size of the corpus (default: 100)")
    parser.add_argument("--size", type=int, default=32000, help="size of the vocabularies (default: 32000)")
    parser.add_argument("--seed", type=int, default=1, help="random seed (default: 1)")
    parser.add_argument("--tokenizers", type=pathlib.Path, help="use or make them in this directory")
    parser.add_argument("--only", default="", help="only files whose names contain this")
    arguments = parser.parse_args()
    corpus, real = make_corpus(arguments.megabytes, arguments.seed)
    with tempfile.TemporaryDirectory() as temporary:
        directory = pathlib.Path(temporary)
        tokenizers = arguments.tokenizers or directory / "tokenizers"
        if not (tokenizers / "t5.json").exists():
            sample = [text.decode(errors="replace") for text in real[:300]]
            make_tokenizers.make(tokenizers, sample, arguments.size)
        write(directory / "corpus", corpus)
        differences = 0
        for path in sorted(tokenizers.glob("*.json")) + sorted(tokenizers.glob("*.model")):
            if arguments.only in path.name:
                differences += check(arguments.tool.resolve(), path, corpus, directory / "corpus", directory)
    print(f"{differences} differences")
    return 1 if differences else 0


if __name__ == "__main__":
    sys.exit(main())
