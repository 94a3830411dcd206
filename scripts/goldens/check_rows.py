#!/usr/bin/env python3
# ===- check_rows.py - Rows for new tokens against transformers and PEFT ----===#
#
# Part of the Poplar project, under the Apache License v2.0 with LLVM
# Exceptions. See LICENSE for license information.
# SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
#
# ===-----------------------------------------------------------------------===#
"""Compares models whose embedding got rows with what transformers and PEFT make of them.

  scripts/goldens/check_rows.py [--poplar build/release/bin/poplar]

The model of examples/chat, whose embedding is its head, gets 20 tokens and rows for
them: transformers loads it, its old logits are those of the model, and its loss is that
of `poplar train`. Then embed_tokens and lm_head are trained beside adapters, for 30
steps: PEFT's losses on the model that was not untied, and its logits of the adapter and
of the merged model. Needs the packages of requirements.txt."""

import argparse
import csv
import os
import pathlib
import subprocess
import sys
import tempfile

import peft
import torch
import transformers

ROOT = pathlib.Path(__file__).resolve().parents[2]
EXAMPLES = ROOT / "examples"
LENGTH, BATCH, STEPS, RATE = 24, 3, 30, 5e-3
SAVED = ["embed_tokens", "lm_head"]


def run(*command):
    result = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"error: {' '.join(map(str, command))}\n{result.stdout}{result.stderr}")


def load(path):
    return transformers.AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32)


def compute_loss(model, batch):
    logits = model(input_ids=batch[:, :-1]).logits
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())


def train(model, batch):
    parameters = [each for each in model.parameters() if each.requires_grad]
    optimizer = torch.optim.AdamW(parameters, lr=RATE, betas=(0.9, 0.95), weight_decay=0)
    losses = []
    for _ in range(STEPS):
        optimizer.zero_grad()
        loss = compute_loss(model, batch)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(parameters, 1)
        optimizer.step()
        losses.append(loss.item())
    return losses


def read_losses(out):
    with open(out / "metrics.csv") as file:
        return [float(row["loss"]) for row in csv.DictReader(file)]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--poplar", default=str(ROOT / "build" / "release" / "bin" / "poplar"))
    poplar = parser.parse_args().poplar
    failures = []

    def report(what, value, bound):
        print(f"{what:<60} {value:.1e}, at most {bound:.0e}")
        if not value <= bound:
            failures.append(what)

    with tempfile.TemporaryDirectory() as work:
        work = pathlib.Path(work)
        os.environ["POPLAR_CACHE"] = str(work / "cache")
        run(poplar, "pretrain", EXAMPLES / "chat", "--seq-len", 64, "--data", EXAMPLES / "data" / "corpus.txt",
            "--steps", 20, "--lr", 1e-2, "--devices", "host=1", "--global-batch", 4, "--out", work / "base")
        model = work / "base" / "latest"
        tune = [poplar, "finetune", model, "--data", EXAMPLES / "chat" / "chat.jsonl", "--seq-len", 64, "--devices",
                "host=1", "--global-batch", 4, "--steps", 1, "--lora-rank", 4, "--lora-modules-to-save", ",".join(SAVED)]
        tokens = [word for i in range(20) for word in ("--add-token", f"<new-{i}>")]
        torch.manual_seed(1)
        for title, options, rows in (("more rows", tokens, 582), ("untied", [], 576)):
            out = work / title.replace(" ", "-")
            run(*tune, *options, "--out", out)
            changed = out / "setup" / "model"
            ours, theirs = load(changed), load(model)
            assert ours.config.vocab_size == rows and not ours.config.tie_word_embeddings
            batch = torch.randint(0, rows, (BATCH, LENGTH + 1))
            pairs = torch.stack([batch[:, :-1], batch[:, 1:]], 1).to(torch.int32)
            (out / "ids").write_bytes(pairs.numpy().astype("<i4").tobytes())
            with torch.no_grad():
                ids = batch.clamp(max=575)
                gap = ours(ids).logits[..., :576] - theirs(ids).logits
            report(f"{title}: logits of old tokens", gap.abs().max().item(), 1e-5)
            # An adapter that has not been trained, with the copies of both matrices.
            run(poplar, "import", changed, "--seq-len", LENGTH, "--lora-rank", 4, "--lora-alpha", 8,
                "--lora-modules-to-save", ",".join(SAVED), "-o", out / "model.mlir")
            run(poplar, "build", out / "model.mlir", "-o", out / "job")
            begin = ours if options else theirs
            config = peft.LoraConfig(r=4, lora_alpha=8, target_modules="all-linear", modules_to_save=SAVED,
                                     task_type="CAUSAL_LM")
            adapted = peft.get_peft_model(begin, config)
            adapted.save_pretrained(out / "adapter")
            expected = train(adapted, batch)
            run(poplar, "train", out / "job", "--init", changed, "--init-adapter", out / "adapter", "--data-ids",
                out / "ids", "--batch", BATCH, "--global-batch", BATCH, "--steps", STEPS, "--lr", RATE, "--schedule",
                "constant", "--warmup", 0, "--clip", 1, "--beta2", 0.95, "--out", out / "trained")
            losses = read_losses(out / "trained")
            assert len(losses) == STEPS
            report(f"{title}: losses of PEFT over {STEPS} steps",
                   max(abs(x - y) / y for x, y in zip(losses, expected)), 1e-4)
            run(poplar, "merge", out / "trained", "-o", out / "merged")
            latest = peft.PeftModel.from_pretrained(load(changed if options else model), out / "trained" / "latest")
            with torch.no_grad():
                here = adapted.eval()(batch).logits
                report(f"{title}: adapter opened by PEFT", (latest(batch).logits - here).abs().max().item(), 1e-2)
                gap = load(out / "merged")(batch).logits - latest.eval()(batch).logits
                report(f"{title}: merged model in transformers", gap.abs().max().item(), 1e-4)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
