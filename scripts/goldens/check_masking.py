#!/usr/bin/env python3
# ===- check_masking.py - How transformers masks tokens ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Counts what DataCollatorForLanguageModeling of transformers does to BERT's tokens,
and writes the counts as C++, which a unit test compares with Poplar's masking:

  venv/bin/python scripts/goldens/check_masking.py > unittests/Runtime/MaskingCounts.inc

Every sample is [CLS], tokens of words, a [MASK] that is in the text, [SEP], and
padding. Needs the packages of requirements.txt."""

import collections
import os
import sys
import tempfile

import torch
import transformers

# Of BERT's vocabulary: padding, unknown, class, separator, mask.
SPECIAL = {"[PAD]": 0, "[UNK]": 100, "[CLS]": 101, "[SEP]": 102, "[MASK]": 103}
VOCABULARY, LENGTH, SAMPLES, WORDS = 1000, 128, 20000, 100


def make_tokenizer(directory):
    names = {index: name for name, index in SPECIAL.items()}
    path = os.path.join(directory, "vocab.txt")
    with open(path, "w") as file:
        for index in range(VOCABULARY):
            file.write(names.get(index, f"w{index}") + "\n")
    tokenizer = transformers.BertTokenizer(path)
    assert len(tokenizer) == VOCABULARY and tokenizer.mask_token_id == SPECIAL["[MASK]"]
    return tokenizer


def make_sample(generator):
    words = torch.randint(104, VOCABULARY, (WORDS,), generator=generator)
    # The text may hold special tokens.
    words[3], words[7] = SPECIAL["[MASK]"], SPECIAL["[UNK]"]
    sample = [SPECIAL["[CLS]"], *words.tolist(), SPECIAL["[SEP]"]]
    return sample + [SPECIAL["[PAD]"]] * (LENGTH - len(sample))


def count(tokenizer):
    collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm_probability=0.15)
    generator = torch.Generator().manual_seed(1)
    torch.manual_seed(2)
    counts, drawn = collections.Counter(), set()
    for _ in range(SAMPLES // 100):
        before = torch.tensor([make_sample(generator) for _ in range(100)])
        batch = collator([{"input_ids": row.tolist()} for row in before])
        after, labels = batch["input_ids"], batch["labels"]
        special = torch.isin(before, torch.tensor(sorted(SPECIAL.values())))
        chosen = labels != -100
        assert torch.equal(labels[chosen], before[chosen])
        assert torch.equal(after[~chosen], before[~chosen])
        masked = chosen & (after == tokenizer.mask_token_id)
        kept = chosen & (after == before)
        counts["Ordinary"] += int((~special).sum())
        counts["Chosen"] += int(chosen.sum())
        counts["ChosenSpecial"] += int((chosen & special).sum())
        counts["Masked"] += int(masked.sum())
        counts["Kept"] += int(kept.sum())
        drawn.update(after[chosen & ~masked & ~kept].tolist())
    counts["DrawnSpecial"] = len(drawn & set(SPECIAL.values()))
    return counts


def main():
    with tempfile.TemporaryDirectory() as directory:
        counts = count(make_tokenizer(directory))
    print("// Written by scripts/goldens/check_masking.py with transformers "
          f"{transformers.__version__}.")  # fmt: skip
    print(f"constexpr int64_t Vocabulary = {VOCABULARY}, Length = {LENGTH}, "
          f"Words = {WORDS};")  # fmt: skip
    for name in ("Ordinary", "Chosen", "ChosenSpecial", "Masked", "Kept", "DrawnSpecial"):
        print(f"constexpr int64_t {name} = {counts[name]};")
    print(f"{counts}", file=sys.stderr)


if __name__ == "__main__":
    main()
