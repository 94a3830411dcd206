#!/usr/bin/env python3
# ===- make_tokenizers.py - Tokenizers in the shapes of model families -----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
#
# Trains tokenizers with the trainers of PyPI's `tokenizers` and
# `sentencepiece`, with the normalizers, pre-tokenizers, processors and decoders
# that the tokenizer.json of each family has:
#
#   make_tokenizers.py --size 32000 DIRECTORY TEXT...
#
# ===-----------------------------------------------------------------------===#
import argparse
import json
import pathlib

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
    r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
BYTES = pre_tokenizers.ByteLevel.alphabet()
# For tests: a character map of a few rules instead of all of NFKC.
SMALL = False
RULES = {"ﬁ": "fi", "½": "1/2", "Ａ": "A", "e\u0301": "é", "\t": " ", "\r\n": " ", "\u3000": " ", "İ": "i\u0307"}


def train_bytes(tokenizer, texts, size, special):
    trainer = trainers.BpeTrainer(
        vocab_size=size, initial_alphabet=sorted(BYTES), special_tokens=special, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def gpt2(texts, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    return train_bytes(tokenizer, texts, size, ["<|endoftext|>"])


def llama3(texts, size):
    tokenizer = Tokenizer(models.BPE(ignore_merges=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(LLAMA3), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = ["<|begin_of_text|>", "<|end_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>"]
    train_bytes(tokenizer, texts, size, special)
    first = tokenizer.token_to_id(special[0])
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(trim_offsets=False),
            processors.TemplateProcessing(
                single=f"{special[0]} $A",
                pair=f"{special[0]} $A {special[0]}:1 $B:1",
                special_tokens=[(special[0], first)],
            ),
        ]
    )
    return tokenizer


def qwen(texts, size):
    tokenizer = Tokenizer(models.BPE())
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(QWEN), "isolated"),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    train_bytes(tokenizer, texts, size, ["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
    # Qwen's tool and vision tokens are added, and not special.
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("<tool_call>", "</tool_call>")])
    return tokenizer


def train_fallback(texts, size, special):
    """BPE over characters with the 256 bytes, as SentencePiece makes it."""
    tokenizer = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True, byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "▁")
    tokenizer.pre_tokenizer = pre_tokenizers.Split("▁", "merged_with_next")
    fallback = [f"<0x{byte:02X}>" for byte in range(256)]
    trainer = trainers.BpeTrainer(
        vocab_size=size, special_tokens=special + fallback, limit_alphabet=120 if SMALL else 1000, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    # The bytes are ordinary tokens of the vocabulary.
    state = json.loads(tokenizer.to_str())
    state["added_tokens"] = [t for t in state["added_tokens"] if t["content"] in special]
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.pre_tokenizer = None
    return tokenizer


def mistral(texts, size):
    tokenizer = train_fallback(texts, size, ["<unk>", "<s>", "</s>"])
    tokenizer.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    )
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", pair="<s> $A <s>:1 $B:1", special_tokens=[("<s>", tokenizer.token_to_id("<s>"))]
    )
    return tokenizer


def gemma(texts, size):
    tokenizer = train_fallback(texts, size, ["<pad>", "<eos>", "<bos>", "<unk>"])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<bos> $A", pair="<bos> $A <bos>:1 $B:1", special_tokens=[("<bos>", tokenizer.token_to_id("<bos>"))]
    )
    tokenizer.add_special_tokens(["<start_of_turn>", "<end_of_turn>"])
    tokenizer.add_tokens([AddedToken(t, normalized=False) for t in ("\n\n", "\n\n\n", "▁▁", "▁▁▁▁", "<table>")])
    return tokenizer


def bert(texts, size):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(
        vocab_size=size, special_tokens=special, limit_alphabet=120 if SMALL else 1000, show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(t, tokenizer.token_to_id(t)) for t in ("[CLS]", "[SEP]")],
    )
    return tokenizer


def charsmap(texts, directory):
    """The character map of SentencePiece's own normalisation (nmt_nfkc)."""
    import sentencepiece
    from sentencepiece import sentencepiece_model_pb2 as pb

    model = pb.ModelProto()
    model.ParseFromString((directory / "tokenizer.model").read_bytes())
    return model.normalizer_spec.precompiled_charsmap


def t5(texts, size, directory):
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.normalizer = normalizers.Sequence(
        [
            normalizers.Precompiled(charsmap(texts, directory)),
            normalizers.Strip(left=False, right=True),
            normalizers.Replace(Regex(" {2,}"), "▁"),
        ]
    )
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace()
    tokenizer.decoder = decoders.Metaspace()
    special = ["<pad>", "</s>", "<unk>"] + [f"<extra_id_{i}>" for i in range(3)]
    trainer = trainers.UnigramTrainer(
        vocab_size=size, special_tokens=special, unk_token="<unk>", show_progress=False
    )
    tokenizer.train_from_iterator(texts, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="$A </s>", pair="$A </s> $B:1 </s>:1", special_tokens=[("</s>", tokenizer.token_to_id("</s>"))]
    )
    return tokenizer


# Of SentencePiece's trainer, where a family differs from the first one.
MODELS = {
    "tokenizer": {},
    "llama2": {
        "model_type": "bpe", "normalization_rule_name": "identity", "remove_extra_whitespaces": False,
        "split_digits": True, "allow_whitespace_only_pieces": True,
    },
    "albert": {
        "model_type": "unigram", "byte_fallback": False, "control_symbols": ["[CLS]", "<tool_call>"],
        "user_defined_symbols": ["[MASK]", "<table>", "naïve", "'s"],
    },
    "suffix": {
        "model_type": "bpe", "byte_fallback": False, "treat_whitespace_as_suffix": True,
        "split_by_whitespace": False, "add_dummy_prefix": False, "user_defined_symbols": ["<extra_id_1>", "12"],
    },
}  # fmt: skip


def sentencepiece_model(texts, size, directory, name):
    import sentencepiece

    rules = directory / "rules.tsv"
    codes = {a: [" ".join(f"{ord(c):X}" for c in text) for text in (a, b)] for a, b in RULES.items()}
    rules.write_text("".join(f"{a}\t{b}\n" for a, b in codes.values()))
    options = {
        "model_type": "bpe" if size < 10000 else "unigram",
        "byte_fallback": True,
        **MODELS[name],
    }
    if SMALL and "normalization_rule_name" not in options:
        options["normalization_rule_tsv"] = str(rules)
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(line for text in texts for line in text.splitlines() if line),
        model_prefix=str(directory / name),
        vocab_size=size,
        hard_vocab_limit=False,
        max_sentence_length=1 << 20,
        input_sentence_size=20000,
        shuffle_input_sentence=False,
        num_threads=1,
        minloglevel=2,
        character_coverage=0.98 if SMALL else 0.9995,
        **options,
    )
    rules.unlink()
    (directory / f"{name}.vocab").unlink()


FAMILIES = {f.__name__: f for f in (gpt2, llama3, qwen, mistral, gemma, bert)}


def make(directory, texts, size):
    directory.mkdir(parents=True, exist_ok=True)
    for name in MODELS:
        sentencepiece_model(texts, size, directory, name)
    for name, family in FAMILIES.items():
        family(texts, size).save(str(directory / f"{name}.json"))
    t5(texts, size, directory).save(str(directory / "t5.json"))


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--size", type=int, default=32000)
    parser.add_argument("directory", type=pathlib.Path)
    parser.add_argument("text", type=pathlib.Path, nargs="+")
    arguments = parser.parse_args()
    make(
        arguments.directory,
        [path.read_bytes().decode(errors="replace") for path in arguments.text],
        arguments.size,
    )
