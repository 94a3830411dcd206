#!/usr/bin/env python3
# ===- check_export.py - What others open of a trained model ---------------===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Makes tiny models with a tokenizer, a chat template and a generation
configuration, trains them here as a whole and by adapters, and opens RUN/latest
and what poplar merge writes with transformers:

  files      each file of the model's directory but the weights is there, equal
             (config.json may be written in another way)
  tokenizer  AutoTokenizer gives the same ids and renders the same chat
  logits     of AutoModelForCausalLM, max |x - y| <= 1e-4 max |y|
  text       generate() continues greedily as poplar sample does
  bf16       of a model in bf16, what poplar merge writes is one in bf16, in which
             transformers opens it; its weights are those of PEFT's
             merge_and_unload, to a unit in the last place
  llama.cpp  its convert_hf_to_gguf.py makes a file in f32, of which llama.cpp
             gives the same greedy tokens (with --llama-cpp and --llama-python)

The converter knows tokenizers of bytes by a list of their hashes, so that only
models with a tokenizer.model go to llama.cpp. Needs the packages of
requirements.txt and a build; for llama.cpp:

  pip download --no-deps --no-binary llama-cpp-python llama-cpp-python==0.3.36
  tar xzf llama_cpp_python-*.tar.gz
  python3 -m venv llama && llama/bin/pip install xllamacpp
  check_export.py --llama-cpp llama_cpp_python-0.3.36/vendor/llama.cpp \\
    --llama-python llama/bin/python
"""

import filecmp
import json
import os
import pathlib
import shutil
import sys
import tempfile

import peft
import torch
import transformers
from safetensors.torch import load_file

import checks
import make_goldens
from check_peft import largest, run

CORPUS = checks.ROOT / "examples" / "data" / "corpus.txt"
TOLERANCE, SEQ_LEN, NEW_TOKENS = 1e-4, 32, 20
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
CHAT = [{"role": "user", "content": "How large is it?"}, {"role": "assistant", "content": "16 GiB."}]
TEXTS = ["The quick brown fox, 12345 times.", " naïve\n\n  日本語 <|im_end|>", ""]
# Asks llama.cpp for the tokens that follow others.
ASK = """
import json, sys
import xllamacpp
path, prompt, count = sys.argv[1], json.loads(sys.argv[2]), int(sys.argv[3])
params = xllamacpp.CommonParams()
params.model.path = path
params.n_ctx, params.n_parallel, params.warmup = 256, 1, False
answer = xllamacpp.Server(params).handle_completions({
    "prompt": prompt, "n_predict": count, "temperature": 0, "ignore_eos": True,
    "logprobs": 1, "samplers": ["temperature"], "repeat_penalty": 1.0})
chosen = answer["choices"][0]["logprobs"]["content"]
print("tokens", json.dumps([token["id"] for token in chosen]))
"""


def make_sentencepiece(directory):
    """A tokenizer.model, which transformers and llama.cpp read."""
    import sentencepiece

    sentencepiece.SentencePieceTrainer.train(
        input=str(CORPUS), model_prefix=str(directory / "tokenizer"), vocab_size=600,
        model_type="bpe", byte_fallback=True, character_coverage=0.999,
        normalization_rule_name="identity", remove_extra_whitespaces=False,
        user_defined_symbols=["<|im_start|>", "<|im_end|>"], pad_id=3,
        minloglevel=2, num_threads=1,
    )  # fmt: skip
    (directory / "tokenizer.vocab").unlink()
    tokenizer = {
        "tokenizer_class": "LlamaTokenizer", "bos_token": "<s>", "eos_token": "</s>",
        "unk_token": "<unk>", "pad_token": "<pad>", "add_bos_token": True,
        "add_eos_token": False, "chat_template": TEMPLATE,
    }  # fmt: skip
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer))


def make_bytes(directory):
    """A tokenizer.json with several chat templates in files."""
    shutil.copy(checks.ROOT / "examples" / "chat" / "tokenizer.json", directory)
    tokenizer = {"tokenizer_class": "PreTrainedTokenizerFast", "eos_token": "<|im_end|>"}
    (directory / "tokenizer_config.json").write_text(json.dumps(tokenizer))
    (directory / "chat_template.jinja").write_text(TEMPLATE)
    (directory / "additional_chat_templates").mkdir()
    (directory / "additional_chat_templates" / "short.jinja").write_text("{{ messages[0]['content'] }}")


SIZES = {
    "hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2,
    "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64,
}  # fmt: skip
MODELS = {
    "llama": (
        make_sentencepiece,
        transformers.LlamaConfig(**SIZES, vocab_size=600, bos_token_id=1, eos_token_id=2),
    ),
    "gemma": (
        make_sentencepiece,
        transformers.GemmaConfig(**SIZES, head_dim=16, vocab_size=600, bos_token_id=1, eos_token_id=2),
    ),
    "qwen3": (
        make_bytes,
        transformers.Qwen3Config(**SIZES, head_dim=16, vocab_size=576, bos_token_id=0, eos_token_id=2),
    ),
}


def make_model(name, directory):
    make_tokenizer, config = MODELS[name]
    model = transformers.AutoModelForCausalLM.from_config(config)
    make_goldens.randomize(model, 0.08)
    model.generation_config = transformers.GenerationConfig(
        bos_token_id=config.bos_token_id, eos_token_id=[config.eos_token_id], temperature=0.6, top_k=20, do_sample=True
    )
    model.save_pretrained(directory)
    make_tokenizer(directory)


class Table:
    def __init__(self):
        self.failures = 0

    def add(self, name, what, passed, detail=""):
        self.failures += not passed
        print(f"{name:<6} {what:<30} {'ok' if passed else 'FAILED'}  {detail}", flush=True)


def list_files(directory):
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def check_files(name, what, base, exported, table):
    left = []
    for file in sorted(list_files(base)):
        if file.endswith((".safetensors", "config.json")) and "/" not in file and file != "tokenizer_config.json":
            if file != "generation_config.json":
                continue
        if not (exported / file).exists() or not filecmp.cmp(base / file, exported / file, shallow=False):
            left.append(file)
    table.add(name, f"{what}: files", not left, " ".join(left))


def check_tokenizer(name, what, base, exported, table):
    ours, theirs = (transformers.AutoTokenizer.from_pretrained(d) for d in (exported, base))
    same = all(ours(text).input_ids == theirs(text).input_ids for text in TEXTS)
    table.add(name, f"{what}: AutoTokenizer", same and len(ours) == len(theirs))
    same = all(
        getattr(ours, key) == getattr(theirs, key)
        for key in ("chat_template", "eos_token_id", "bos_token_id", "pad_token_id")
    )
    for asks in (False, True):
        chats = [t.apply_chat_template(CHAT, add_generation_prompt=asks)["input_ids"] for t in (ours, theirs)]
        same &= chats[0] == chats[1] and len(chats[0]) > 10
    table.add(name, f"{what}: chat template", same)


def check_model(name, what, logits, tokens, greedy, exported, table):
    model = transformers.AutoModelForCausalLM.from_pretrained(exported, dtype=torch.float32).eval()
    base = MODELS[name][1]
    same = model.generation_config.top_k == 20 and model.generation_config.eos_token_id == [base.eos_token_id]
    table.add(name, f"{what}: generation_config", same)
    with torch.no_grad():
        error = largest(logits, model(input_ids=tokens).logits)
        prompt = tokens[:1, :8]
        text = model.generate(
            prompt, attention_mask=torch.ones_like(prompt), max_new_tokens=NEW_TOKENS,
            min_new_tokens=NEW_TOKENS, do_sample=False, pad_token_id=0, eos_token_id=-1,
        )  # fmt: skip
    table.add(name, f"{what}: logits", error <= TOLERANCE, f"{error:.1e}")
    theirs = text[0, prompt.shape[1] :].tolist()
    table.add(name, f"{what}: greedy tokens", theirs == greedy, "" if theirs == greedy else f"{theirs} {greedy}")


def check_llama_cpp(name, what, prompt, greedy, exported, arguments, table):
    gguf = exported.parent / f"{exported.name}.gguf"
    converter = os.path.join(arguments.llama_cpp, "convert_hf_to_gguf.py")
    run(sys.executable, converter, str(exported), "--outtype", "f32", "--outfile", str(gguf))
    text = run(arguments.llama_python, "-c", ASK, str(gguf), json.dumps(prompt), str(NEW_TOKENS))
    (line,) = [line for line in text.splitlines() if line.startswith("tokens ")]
    theirs = json.loads(line.partition(" ")[2])
    # It does not list bytes that are part of a character.
    pieces = transformers.AutoTokenizer.from_pretrained(exported).convert_ids_to_tokens
    theirs, greedy = ([i for i in ids if not pieces(i).startswith("<0x")] for ids in (theirs, greedy))
    table.add(name, f"{what}: llama.cpp", theirs == greedy, "" if theirs == greedy else f"{theirs} {greedy}")


def check_bf16(name, base, run_directory, directory, poplar, table):
    """Merges the adapters of a run with the model in bf16."""
    half, exported = directory / f"{name}-bf16", directory / f"{name}-bf16-export"
    model = transformers.AutoModelForCausalLM.from_pretrained(base, dtype=torch.bfloat16)
    model.save_pretrained(half)
    run(poplar, "merge", run_directory, "--init", str(half), "-o", str(exported))
    opened = transformers.AutoModelForCausalLM.from_pretrained(exported)
    table.add(name, "merged in bf16: dtype", opened.dtype == torch.bfloat16, str(opened.dtype))
    merged = peft.PeftModel.from_pretrained(model, os.path.join(run_directory, "latest")).merge_and_unload()
    theirs, worst = dict(merged.named_parameters()), 0.0
    for tensor, ours in opened.named_parameters():
        x, y = ours.float(), theirs[tensor].float()
        # PEFT rounds the update before the sum.
        worst = max(worst, ((x - y).abs() / x.abs().clamp(min=y.abs().max() / 256)).max().item())
    table.add(name, "merged in bf16: PEFT's weights", worst <= 2**-7, f"{worst:.1e}")


def check(name, arguments, directory, table):
    poplar, base = arguments.poplar, directory / name
    base.mkdir()
    make_model(name, base)
    torch.manual_seed(3)
    tokens = torch.randint(4, 500, (2, SEQ_LEN))
    make_goldens.write_tokens(directory / f"{name}.tokens", tokens, tokens)
    prompt = tokens[0, :8].tolist()
    for what, options in (("whole", []), ("merged", ["--lora-rank", "4", "--lora-alpha", "8"])):

        def path(end):
            return str(directory / f"{name}-{what}{end}")

        run(poplar, "import", str(base), "--seq-len", str(SEQ_LEN), *options, "-o", path(".mlir"))
        run(poplar, "build", path(".mlir"), "-o", path("-program"))
        run(
            poplar, "train", path("-program"), "--init", str(base), "--data", str(CORPUS), "--steps", "5",
            "--global-batch", "4", "--lr", "1e-3", "--out", path("-run"),
        )  # fmt: skip
        exported = directory / f"{name}-{what}-run" / "latest"
        start = ["--init", str(exported)]
        if what == "merged":
            start = ["--init", str(base), "--init-adapter", path("-run")]
            exported = pathlib.Path(path("-export"))
            run(poplar, "merge", path("-run"), "-o", str(exported))
        run(
            poplar, "train", path("-program"), *start, "--data-ids", str(directory / f"{name}.tokens"),
            "--batch", "2", "--global-batch", "2", "--dump-logits", path(".logits"),
        )  # fmt: skip
        logits = load_file(path(".logits"))["logits"]
        text = run(
            poplar, "sample", path("-run"), "--prompt-ids", ",".join(map(str, prompt)), "--temperature", "0",
            "--tokens", str(NEW_TOKENS),
        )  # fmt: skip
        greedy = [int(word) for word in text.split()][-NEW_TOKENS:]
        check_files(name, what, base, exported, table)
        check_tokenizer(name, what, base, exported, table)
        check_model(name, what, logits, tokens, greedy, exported, table)
        if what == "merged":
            check_bf16(name, base, path("-run"), directory, poplar, table)
        if arguments.llama_cpp and (base / "tokenizer.model").exists():
            check_llama_cpp(name, what, prompt, greedy, exported, arguments, table)


def main():
    parser = checks.make_parser(__doc__)
    parser.add_argument("--models", nargs="+", choices=MODELS, default=list(MODELS))
    parser.add_argument("--llama-cpp", metavar="DIR", help="llama.cpp's sources, with convert_hf_to_gguf.py")
    parser.add_argument("--llama-python", metavar="PYTHON", help="a Python with xllamacpp")
    arguments = parser.parse_args()
    if bool(arguments.llama_cpp) != bool(arguments.llama_python):
        parser.error("--llama-cpp and --llama-python need each other")
    checks.quiet_libraries()
    table = Table()
    with tempfile.TemporaryDirectory() as directory:
        for name in arguments.models:
            check(name, arguments, pathlib.Path(directory), table)
    print(f"{table.failures} rows failed")
    return 1 if table.failures else 0


if __name__ == "__main__":
    sys.exit(main())
