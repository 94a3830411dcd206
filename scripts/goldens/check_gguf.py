#!/usr/bin/env python3
# ===- check_gguf.py - poplar export against llama.cpp ---------------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares `poplar export` with llama.cpp.

    pip install torch transformers sentencepiece gguf diskcache
    check_gguf.py --bindings DIR --libraries DIR [FAMILY...]

The bindings are an unpacked source distribution of llama_cpp_python, which has the
sources of llama.cpp in vendor/llama.cpp; the libraries are in bin/ of a build of them. For
each family, transformers makes a small model of random weights, which Poplar imports and
exports in every format. Then

  - every tensor has to be, byte for byte, what llama.cpp's own converter makes of the same
    model, and every key of the metadata has to agree;
  - texts have to be the tokens in llama.cpp that they are in transformers, and logits of
    llama.cpp have to be those of transformers.
"""

import argparse
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import gguf
import numpy as np
import tokenizers
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
FORMATS = ["f32", "f16", "bf16", "q8_0"]
# Texts without a normal form of their own, which llama.cpp leaves out.
TEXTS = [
    "The cards are unlike, and 1234567 of them wait.",
    "  two spaces\n\n\tand a tab; I'll don't WE'VE",
    "naïve façade, Привет мир, 你好，世界 🚀 = 3.14159!",
    "<|im_start|>user\nHello<|im_end|>\n",
]
# llama.cpp looks GELU up in a table of f16.
TOLERANCE = dict.fromkeys(
    ("gpt2", "gpt_neox", "gemma", "gemma2", "gemma3", "phi", "starcoder2"), 2e-2)

# Keys that describe where a file comes from, or that llama.cpp reads from
# another one; the second group only Poplar writes.
OWN_TO_CONVERTER = ("general.", "tokenizer.ggml.normalizer", "tokenizer.ggml.add_sep_token")
OWN_TO_POPLAR = {
    "vocab_size", "rope.dimension_count", "attention.head_count_kv",
    "attention.key_length", "attention.value_length",
    "attention.sliding_window", "rope.freq_base",
    "rope.scaling.yarn_beta_fast", "rope.scaling.yarn_beta_slow",
    "tokenizer.ggml.add_eos_token", "tokenizer.ggml.add_space_prefix",
    "tokenizer.ggml.unknown_token_id", "tokenizer.ggml.eos_token_id",
    # The models here ship none; the tokens tell which one was trained with.
    "tokenizer.chat_template"}

SHAPE = dict(vocab_size=576, hidden_size=64, intermediate_size=96,
             num_hidden_layers=2, num_attention_heads=4, num_key_value_heads=2,
             max_position_embeddings=128, initializer_range=0.3,
             bos_token_id=None, eos_token_id=2, pad_token_id=None)

# Family: the class of its configuration, its tokenizer, and what differs from
# SHAPE. (None leaves a key out.)
FAMILIES = {
    "llama": ("Llama", "bpe", dict(attention_bias=True, mlp_bias=True)),
    "llama3": ("Llama", "bpe", dict(
        tie_word_embeddings=True,
        rope_parameters=dict(rope_type="llama3", rope_theta=500000.0, factor=8.0,
                             low_freq_factor=1.0, high_freq_factor=4.0,
                             original_max_position_embeddings=32))),
    "llama-spm": ("Llama", "spm", {}),
    "yarn": ("Llama", "bpe", dict(
        rope_parameters=dict(rope_type="yarn", rope_theta=10000.0, factor=4.0,
                             original_max_position_embeddings=32))),
    "linear": ("Llama", "bpe", dict(
        rope_parameters=dict(rope_type="linear", rope_theta=10000.0,
                             factor=2.0))),
    "mistral": ("Mistral", "spm", dict(head_dim=24)),
    "mixtral": ("Mixtral", "bpe", dict(num_local_experts=4)),
    "qwen2": ("Qwen2", "bpe", {}),
    "qwen3": ("Qwen3", "bpe", dict(head_dim=24, tie_word_embeddings=True)),
    "qwen2_moe": ("Qwen2Moe", "bpe", dict(
        num_experts=4, num_experts_per_tok=2, moe_intermediate_size=32,
        shared_expert_intermediate_size=64)),
    "qwen3_moe": ("Qwen3Moe", "bpe", dict(
        head_dim=24, num_experts=4, num_experts_per_tok=2, norm_topk_prob=True,
        moe_intermediate_size=32)),
    "gemma": ("Gemma", "spm", dict(head_dim=24)),
    "gemma2": ("Gemma2", "spm", dict(
        head_dim=24, query_pre_attn_scalar=24, sliding_window=16)),
    "gemma3": ("Gemma3Text", "spm", dict(
        head_dim=24, query_pre_attn_scalar=24, sliding_window=16,
        num_hidden_layers=6)),
    "phi3": ("Phi3", "bpe", dict(original_max_position_embeddings=128)),
    "longrope": ("Phi3", "bpe", dict(
        original_max_position_embeddings=512, max_position_embeddings=1024,
        rope_parameters=dict(
            rope_type="longrope", rope_theta=10000.0,
            original_max_position_embeddings=512,
            short_factor=[1.0 + i / 8 for i in range(8)],
            long_factor=[2.0 + i / 2 for i in range(8)]))),
    "gpt2": ("GPT2", "bpe", {}),
    "gpt_neox": ("GPTNeoX", "bpe", dict(hidden_act="gelu_new")),
    "olmo2": ("Olmo2", "bpe", {}),
    "granite": ("Granite", "bpe", dict(
        attention_multiplier=0.2, embedding_multiplier=3.0,
        residual_multiplier=0.5, logits_scaling=2.0)),
    "smollm3": ("SmolLM3", "bpe", dict(num_hidden_layers=4)),
    "stablelm": ("StableLm", "bpe", dict(use_qkv_bias=True)),
    "seed_oss": ("SeedOss", "bpe", dict(head_dim=24)),
    "arcee": ("Arcee", "bpe", {}),
    "glm4": ("Glm4", "bpe", dict(head_dim=24)),
    "phi": ("Phi", "bpe", dict(num_key_value_heads=4, intermediate_size=256)),
    "starcoder2": ("Starcoder2", "bpe", {}),
    "exaone4": ("Exaone4", "bpe", dict(
        sliding_window=None, layer_types=["full_attention"] * 2)),
    "exaone4_windows": ("Exaone4", "bpe", dict(
        num_hidden_layers=64, sliding_window=16)),
    "olmo3": ("Olmo3", "bpe", dict(
        num_hidden_layers=4, sliding_window=16, rope_parameters=dict(
            full_attention=dict(rope_type="yarn", rope_theta=500000.0, factor=4.0,
                                original_max_position_embeddings=32),
            sliding_attention=dict(rope_type="default", rope_theta=500000.0)))),
}

# The converter knows public tokenizers by hashes; it is told what this one is.
CONVERTER = """
import runpy, sys
sys.path.insert(0, sys.argv[1])
import conversion.base
conversion.base.TextModel.get_vocab_base_pre = lambda self, tokenizer: "qwen2"
sys.argv = sys.argv[1:]
sys.argv[0] += "/convert_hf_to_gguf.py"
runpy.run_path(sys.argv[0], run_name="__main__")
"""


def run(*command, **options):
    result = subprocess.run([str(word) for word in command],
                            capture_output=True, text=True, errors="replace",
                            **options)
    if result.returncode:
        sys.exit(f"{' '.join(map(str, command))}\n{result.stdout}"
                 f"{result.stderr}")
    return result.stdout


def train_pieces(directory):
    """A tokenizer.model of SentencePiece, as Llama 2 has one."""
    import sentencepiece
    sentencepiece.SentencePieceTrainer.train(
        input=str(ROOT / "examples/data/corpus.txt"),
        model_prefix=str(directory / "tokenizer"), model_type="bpe",
        vocab_size=512, byte_fallback=True, character_coverage=1.0,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        minloglevel=2)


def write_pieces(family, directory):
    """Writes tokenizer.model and tokenizer.json as the public models have them."""
    train_pieces(directory)
    config = {"bos_token": "<s>", "eos_token": "</s>", "unk_token": "<unk>", "add_bos_token": True}
    settings = directory / "tokenizer_config.json"
    settings.write_text(json.dumps({**config, "legacy": True, "tokenizer_class": "LlamaTokenizer"}))
    made = transformers.LlamaTokenizer.from_pretrained(directory)
    file = json.loads(made.backend_tokenizer.to_str())
    replace = {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}
    file["pre_tokenizer"] = None
    if family.startswith("gemma"):
        file["normalizer"] = replace
    elif family == "mistral":
        file["normalizer"] = None
        file["pre_tokenizer"] = {
            "type": "Metaspace", "replacement": "▁", "prepend_scheme": "first", "split": False}
    else:
        prepend = {"type": "Prepend", "prepend": "▁"}
        file["normalizer"] = {"type": "Sequence", "normalizers": [prepend, replace]}
    (directory / "tokenizer.json").write_text(json.dumps(file))
    settings.write_text(json.dumps({**config, "tokenizer_class": "LlamaTokenizerFast"}))


def make_tokenizer(kind, family, directory):
    if kind == "spm":
        write_pieces(family, directory)
        return
    shutil.copy(ROOT / "examples/chat/tokenizer.json", directory)
    (directory / "tokenizer_config.json").write_text(
        json.dumps({"eos_token": "<|im_end|>", "tokenizer_class": "GPT2Tokenizer"}))


def make_model(family, directory):
    name, tokenizer, changes = FAMILIES[family]
    shape = dict(SHAPE, **changes)
    if name == "GPTNeoX":
        del shape["num_key_value_heads"]
    if tokenizer == "spm":
        shape.update(bos_token_id=1)
    if name == "GPT2":
        shape = dict(vocab_size=576, n_embd=64, n_layer=2, n_head=4,
                     n_positions=128, n_ctx=128, initializer_range=0.3,
                     eos_token_id=2, bos_token_id=None)
    config = getattr(transformers, name + "Config")(
        **{key: value for key, value in shape.items()})
    torch.manual_seed(1)
    model = transformers.AutoModelForCausalLM.from_config(config)
    with torch.no_grad():
        for key, value in model.named_parameters():
            if value.dim() == 1:
                value.add_(0.1 * torch.randn_like(value))
    model.save_pretrained(directory)
    make_tokenizer(tokenizer, family, directory)


def get_value(field):
    value = field.contents()
    return [round(v, 6) if isinstance(v, float) else v for v in value] \
        if isinstance(value, list) else value


def same(left, right):
    if isinstance(left, float) or isinstance(right, float):
        return abs(left - right) <= 1e-6 * max(abs(left), abs(right))
    return left == right


def compare_keys(ours, theirs, arch):
    faults = []
    for key in sorted(set(ours.fields) | set(theirs.fields)):
        if key.startswith(OWN_TO_CONVERTER + ("GGUF.",)):
            continue
        short = key.removeprefix(arch + ".")
        if key not in ours.fields:
            # A number of the vocabulary of CodeGemma.
            if arch == "gemma" and key == "tokenizer.ggml.eot_token_id":
                continue
            faults.append(f"{key}: missing, "
                          f"{str(get_value(theirs.fields[key]))[:80]}")
        elif key not in theirs.fields:
            if short not in OWN_TO_POPLAR:
                faults.append(f"{key}: superfluous, "
                              f"{str(get_value(ours.fields[key]))[:80]}")
        else:
            a, b = get_value(ours.fields[key]), get_value(theirs.fields[key])
            if isinstance(a, list) and isinstance(b, list) and len(a) == len(b):
                wrong = [i for i in range(len(a)) if not same(a[i], b[i])]
                if key == "tokenizer.ggml.scores":
                    # Only those of pieces that merges make decide.
                    types = get_value(ours.fields["tokenizer.ggml.token_type"])
                    wrong = [i for i in wrong if types[i] == 1]
                if wrong:
                    i = wrong[0]
                    faults.append(f"{key}[{i}]: {a[i]!r}, theirs {b[i]!r} "
                                  f"({len(wrong)} differ)")
            elif not same(a, b):
                faults.append(f"{key}: {str(a)[:80]}, theirs {str(b)[:80]}")
    return faults


def compare_tensors(ours, theirs):
    ours = {t.name: t for t in ours.tensors}
    theirs = {t.name: t for t in theirs.tensors}
    faults = [f"{name}: only {'ours' if name in ours else 'theirs'}"
              for name in sorted(set(ours) ^ set(theirs))]
    for name in sorted(set(ours) & set(theirs)):
        a, b = ours[name], theirs[name]
        if list(a.shape) != list(b.shape) or a.tensor_type != b.tensor_type:
            faults.append(f"{name}: {list(a.shape)} {a.tensor_type.name}, "
                          f"theirs {list(b.shape)} {b.tensor_type.name}")
        elif a.tensor_type.name == "F32":
            # Factors of rotations are computed.
            if not np.allclose(a.data, b.data, rtol=1e-6, atol=0):
                faults.append(f"{name}: values differ")
        elif not np.array_equal(a.data, b.data):
            faults.append(f"{name}: values differ")
    return faults


def compare_logits(family, directory, file):
    import llama_cpp

    tokenizer = tokenizers.Tokenizer.from_file(str(directory / "tokenizer.json"))
    model = transformers.AutoModelForCausalLM.from_pretrained(directory)
    theirs = llama_cpp.Llama(
        str(file), logits_all=True, type_k=0, type_v=0, n_ctx=128, n_threads=2, verbose=False
    )
    faults, worst = [], 0
    for text in TEXTS:
        # llama.cpp puts a space before spaces, too.
        if family == "mistral" and text.startswith(" "):
            continue
        ids = tokenizer.encode(text).ids
        got = theirs.tokenize(text.encode(), add_bos=True, special=True)
        if got != ids:
            faults.append(f"tokens of {text!r}: llama.cpp {got}, transformers {ids}")
        ids = ids[:90]
        theirs.reset()
        theirs.eval(ids)
        with torch.no_grad():
            wanted = model(torch.tensor([ids])).logits[0].numpy()
        difference = np.abs(theirs.scores[: len(ids)] - wanted).max() / wanted.std()
        worst = max(worst, float(difference))
    if worst > TOLERANCE.get(family, 1e-3):
        faults.append(f"logits differ by {worst:.2g} standard deviations")
    return faults


def check(family, arguments, work):
    model, out = work / "model", work / "run"
    make_model(family, model)
    run("poplar", "import", model, "--seq-len", 96, "-o", work / "m.mlir")
    run("poplar", "build", work / "m.mlir", "-o", work / "job")
    text = work / "data.txt"
    text.write_text((ROOT / "examples/data/corpus.txt").read_text()[:20000])
    run("poplar", "train", work / "job", "--init", model, "--data", text,
        "--steps", 0, "--out", out)
    faults = []
    for form in FORMATS:
        ours, theirs = work / f"ours-{form}.gguf", work / f"theirs-{form}.gguf"
        run("poplar", "export", out, "-o", ours, "--format", form)
        convert = subprocess.run(
            [sys.executable, "-c", CONVERTER, arguments.bindings / "vendor/llama.cpp", model,
             "--outfile", theirs, "--outtype", form],
            capture_output=True, text=True)
        left = gguf.GGUFReader(ours)
        if convert.returncode:
            if form == FORMATS[0]:
                last = convert.stderr.strip().splitlines()[-1]
                print(f"  {family}: not converted by llama.cpp: {last[:120]}")
            continue
        right = gguf.GGUFReader(theirs)
        arch = get_value(right.fields["general.architecture"])
        found = compare_tensors(left, right)
        if form == FORMATS[0]:
            found += compare_keys(left, right, arch)
        faults += [f"{form}: {fault}" for fault in found]
    return faults + compare_logits(family, model, work / "ours-f32.gguf")


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bindings", type=pathlib.Path, required=True)
    parser.add_argument("--libraries", type=pathlib.Path, required=True)
    parser.add_argument("families", nargs="*")
    arguments = parser.parse_args()
    os.environ["LLAMA_CPP_LIB_PATH"] = str(arguments.libraries)
    sys.path.insert(0, str(arguments.bindings))
    transformers.utils.logging.disable_progress_bar()
    bad = 0
    for family in arguments.families or FAMILIES:
        with tempfile.TemporaryDirectory() as work:
            faults = check(family, arguments, pathlib.Path(work))
        print(f"{family}: {'as llama.cpp' if not faults else 'DIFFERS'}",
              flush=True)
        for fault in faults:
            print("  " + fault)
        bad += bool(faults)
    print(f"{bad} of {len(arguments.families or FAMILIES)} families differ")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
