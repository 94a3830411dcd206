//===- OptionNames.cpp - Options by the names others give them ------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/OptionNames.h"

#include <algorithm>
#include <cctype>
#include <numeric>

using namespace poplar::runtime;

// The names are those of transformers' TrainingArguments, TRL, PEFT, axolotl,
// LLaMA-Factory, torchtune, Megatron-LM, DeepSpeed, nanoGPT and llama.cpp, and
// what one types without looking. A row without other names says which command
// an option belongs to.
const std::vector<OtherNames> &poplar::runtime::getOtherNames() {
  static const std::vector<OtherNames> Table = {
      // The course of training.
      {"epoch num-epochs num-epoch num-train-epochs n-epochs nb-epochs "
       "max-epochs train-epochs total-epochs",
       "epochs", "train", ""},
      {"max-steps num-steps n-steps train-steps max-train-steps total-steps "
       "num-train-steps num-training-steps train-iters max-iters num-iters "
       "iters iterations num-iterations",
       "steps", "train", ""},
      {"warmup-steps num-warmup-steps warm-up warm-up-steps lr-warmup-steps "
       "lr-warmup-iters warmup-iters warmup-iterations",
       "warmup", "train", ""},
      {"warm-up-ratio warmup-fraction lr-warmup-fraction warmup-proportion "
       "lr-warmup-ratio",
       "warmup-ratio", "train", ""},
      {"learning-rate max-lr peak-lr lr-max lr-rate max-learning-rate", "lr",
       "train", ""},
      {"min-learning-rate lr-min final-lr lr-end min-lr-rate "
       "cosine-min-lr-ratio",
       "min-lr", "train", "a learning rate, not a ratio"},
      {"num-cycles lr-cycles", "cycles", "train", ""},
      {"lr-power", "power", "train", ""},
      {"excess-length-strategy truncation", "long-examples", "train", ""},
      {"lr-scheduler lr-scheduler-type lr-schedule lr-decay-style scheduler "
       "scheduler-type",
       "schedule", "train", ""},
      {"lr-decay-iters lr-decay-steps decay-iters", "decay-steps", "train", ""},
      {"wd adam-weight-decay l2", "weight-decay", "train", ""},
      {"adam-beta1", "beta1", "train", ""},
      {"adam-beta2", "beta2", "train", ""},
      {"adam-epsilon adam-eps epsilon", "eps", "train", ""},
      {"max-grad-norm clip-grad clip-grad-norm grad-clip gradient-clip "
       "gradient-clipping gradient-clip-val max-norm grad-norm-clip",
       "clip", "train", ""},
      {"initial-loss-scale init-loss-scale loss-scaling", "loss-scale", "train",
       ""},
      {"random-seed data-seed rng-seed manual-seed", "seed", "train", ""},
      // Batches.
      {"per-device-train-batch-size per-gpu-train-batch-size "
       "train-micro-batch-size-per-gpu micro-batch-size micro-batch "
       "device-batch-size per-device-batch-size",
       "batch", "train", "samples of a micro-batch"},
      {"gradient-accumulation-steps grad-accum grad-accum-steps "
       "grad-accumulation gradient-accumulation accumulation-steps "
       "accumulate-grad-batches",
       "global-batch", "train",
       "samples of an optimizer step, over all devices and micro-batches"},
      {"global-batch-size total-batch-size train-batch-size batch-size bs "
       "mini-batch-size",
       "global-batch", "train", "samples of an optimizer step"},
      {"gradient-accumulation-steps global-batch-size total-batch-size "
       "train-batch-size batch-size bs",
       "global-batch", "plan", "samples of an optimizer step"},
      {"batch-size bs micro-batch-size per-device-train-batch-size",
       "max-batch", "build", "the largest micro-batch"},
      // Files.
      {"output output-dir output-path out-dir save save-dir run-dir o", "out",
       "train", ""},
      {"out out-dir output-dir output-path output-file out-file", "output",
       "build", ""},
      {"dataset dataset-name dataset-path data-path data-dir train-data "
       "train-file train-files training-file train-dataset corpus input "
       "input-file",
       "data", "train", "a file"},
      {"validation-file validation-data valid-data eval-data eval-file "
       "eval-dataset val-file val-path test-file valid-data-path",
       "val-data", "train", ""},
      {"val-set-size val-size val-ratio test-size eval-fraction "
       "valid-fraction validation-split validation-fraction",
       "val-fraction", "train", ""},
      {"dataset-format dataset-type data-type", "data-format", "train", ""},
      {"tokenizer-path tokenizer-name tokenizer-file tokenizer-model "
       "tokenizer-name-or-path",
       "tokenizer", "train", ""},
      {"model model-path model-name model-name-or-path model-id model-dir "
       "base-model pretrained pretrained-model-name-or-path "
       "pretrained-checkpoint init-from load weights",
       "checkpoint", "sample", ""},
      {"model model-path model-name model-name-or-path model-id model-dir "
       "base-model pretrained pretrained-model-name-or-path "
       "pretrained-checkpoint init-from load weights",
       "init", "train", "a directory with the weights"},
      {"adapter adapter-path adapter-dir adapter-name-or-path lora-model-dir "
       "lora-path peft-model-path",
       "init-adapter", "train", ""},
      {"resume-from-checkpoint auto-resume-from-checkpoints resume-from "
       "resume-checkpoint load-checkpoint continue",
       "resume", "train", "a flag: it continues the run in --out"},
      {"config-file options-file args-file", "config", "train", ""},
      // How often.
      {"save-steps save-interval save-freq save-strategy checkpoint-interval "
       "checkpoint-every saves-per-epoch ckpt-interval",
       "save-every", "train", "steps"},
      {"save-total-limit max-checkpoints keep-last keep-checkpoints "
       "keep-last-n-checkpoints",
       "keep", "train", ""},
      {"load-best-model-at-end save-best", "keep-best", "train", ""},
      {"early-stopping early-stopping-patience", "patience", "train",
       "validations"},
      {"loss-watchdog-threshold", "stop-above", "train", ""},
      {"loss-watchdog-patience", "stop-after", "train", "steps"},
      {"eval-steps eval-interval eval-freq eval-strategy evaluation-strategy "
       "evals-per-epoch val-every val-interval validation-steps "
       "val-check-interval",
       "eval-every", "train", "steps"},
      {"eval-iters max-eval-batches limit-val-batches", "eval-batches", "train",
       ""},
      {"logging-steps logging-strategy log-interval log-freq logging-interval "
       "log-steps print-every "
       "disp-interval",
       "log-every", "train", "steps"},
      {"per-device-eval-batch-size eval-batch-size val-batch-size",
       "eval-batches", "train",
       "validations take the micro-batches of training"},
      {"profiler", "trace", "train", ""},
      {"backend ddp-backend distributed-backend", "comm", "train", ""},
      {"num-threads n-threads omp-num-threads cpu-threads", "threads", "train",
       ""},
      // Options that a program is compiled for.
      {"seq-length seq sequence-len sequence-length max-seq-len "
       "max-seq-length max-length cutoff-len block-size context-length "
       "context-size ctx-len ctx n-ctx model-max-length "
       "max-position-embeddings",
       "seq-len", "import", ""},
      {"lora-r lora-dim r peft use-peft use-lora lora finetuning-type "
       "adapter-rank",
       "lora-rank", "import", ""},
      {"alpha", "lora-alpha", "import", ""},
      {"lora-drop", "lora-dropout", "import", ""},
      {"lora-target lora-target-modules target-modules lora-modules "
       "lora-target-linear",
       "lora-targets", "import", ""},
      {"", "lora-target-pattern", "import", ""},
      {"modules-to-save", "lora-modules-to-save", "import", ""},
      {"unfrozen-parameters trainable-parameters freeze-trainable-modules",
       "train-parameters", "import", ""},
      {"load-in-4bit", "frozen-format nf4", "import", "with --lora-rank"},
      {"load-in-8bit", "frozen-format int8", "import", "with --lora-rank"},
      {"quantization quantization-bit quantize qlora bnb-4bit-quant-type",
       "frozen-format", "import", "with --lora-rank"},
      {"sample-packing pack packed multipack group-by-length", "packing",
       "import", ""},
      {"optim optimizer optimizer-type", "optimizer-states", "import",
       "the optimizer is AdamW, whose moments may have 8 bits"},
      {"fp8 float8 fp8-format fp8-recipe enable-fp8 fp8-hybrid", "fp8-products",
       "import", ""},
      {"hidden-dropout attention-dropout resid-pdrop", "dropout", "import", ""},
      {"neftune-noise-alpha noisy-embedding-alpha neftune", "neftune-alpha",
       "import", ""},
      {"router-aux-loss-coefficient aux-loss-coef moe-aux-loss-coeff "
       "output-router-logits",
       "router-aux-loss-coef", "import", ""},
      {"", "mask-token-id", "import", ""},
      {"", "special-token-ids", "import", ""},
      {"", "ignore-key", "import", ""},
      {"bf16 bfloat16", "precision bf16", "build",
       "for a plan, the cluster file has the precision of each device type"},
      {"fp16 f16 float16 half", "precision", "build",
       "f32 or bf16; a cluster file may say f16 of a device type"},
      {"fp32 f32 float32", "precision f32", "build", ""},
      {"dtype torch-dtype mixed-precision amp tf32", "precision", "build",
       "for a plan, the cluster file has the precision of each device type"},
      {"gradient-checkpointing activation-checkpointing "
       "use-gradient-checkpointing recompute-activations "
       "recompute-granularity",
       "recompute recompute-unit", "build",
       "for a plan, the cluster file says what each device type recomputes"},
      {"", "cpu", "build", ""},
      {"", "slurm", "build", ""},
      // The plan.
      {"zero-stage sharding-strategy use-distributed-optimizer deepspeed fsdp",
       "zero", "plan", ""},
      {"tensor-parallel-size tensor-model-parallel-size tensor-parallel tp "
       "tp-size",
       "tensor-degree", "plan", ""},
      {"pipeline-parallel-size pipeline-model-parallel-size "
       "pipeline-parallel pp pp-size",
       "pipeline", "plan", ""},
      {"num-gpus n-gpus gpus num-devices devices num-processes nproc "
       "nproc-per-node nnodes num-nodes num-machines hostfile "
       "world-size",
       "cluster", "plan", "a file, which poplar cluster detect writes"},
      {"", "profiles", "plan", ""},
      {"", "policy", "plan", ""},
      {"", "explain", "plan", ""},
      // Sampling.
      {"max-new-tokens max-tokens num-tokens n-tokens n-predict max-gen-len "
       "max-length max-output-tokens",
       "tokens", "sample", ""},
      {"temp", "temperature", "sample", ""},
      {"topk", "top-k", "sample", ""},
      {"topp nucleus", "top-p", "sample", ""},
      {"minp", "min-p", "sample", ""},
      {"message conversation user ask", "chat", "sample", ""},
      {"text input-text query start", "prompt", "sample", ""},
      {"ckpt ckpt-path run run-dir", "checkpoint", "sample", ""},
      // Names that are no options.
      {"report-to wandb-project wandb-run-name logging-dir tensorboard-dir "
       "use-wandb use-tensorboard",
       "", "train",
       "metrics.csv and events for TensorBoard are written to --out"},
      {"do-train do-eval do-predict", "", "train",
       "poplar train trains, and poplar evaluate evaluates"},
      {"overwrite-output-dir overwrite", "", "train",
       "give --out a new directory, or continue with --resume"},
      {"push-to-hub hub-model-id", "", "train",
       "a checkpoint in --out is a directory that hf upload takes"},
      {"torch-compile compile use-torch-compile", "", "train",
       "every program is compiled"},
      {"flash-attn flash-attention use-flash-attn attn-implementation "
       "sdp-attention xformers-attention",
       "", "train", "the compiler chooses how attention is computed"},
      {"train-on-inputs train-on-input completion-only-loss "
       "assistant-only-loss mask-prompt",
       "", "train",
       "of messages the answers count, of a prompt the completion, of a text "
       "all"},
      {"metric-for-best-model", "", "train",
       "validations have the loss alone; --keep-best keeps the checkpoint with "
       "the lowest"},
      {"num-workers dataloader-num-workers dataset-num-proc "
       "preprocessing-num-workers dataset-processes streaming",
       "", "train", "files of data are mapped, and need no workers"},
      {"use-dora use-rslora lora-bias loraplus-lr-ratio", "", "import",
       "adapters are plain LoRA on linear layers"},
      {"label-smoothing label-smoothing-factor", "", "train",
       "the loss is the cross-entropy of the tokens"},
      {"trust-remote-code use-fast-tokenizer hf-token cache-dir", "", "train",
       "no code of a model is run, and nothing is downloaded"},
      {"local-rank node-rank machine-rank master-addr master-port", "", "train",
       "launch.sh, mpirun, srun or torchrun tell each process its rank"},
      {"do-sample num-beams", "", "sample",
       "--temperature 0 takes the likeliest token, above 0 it is sampled"},
  };
  return Table;
}

/// Letters to add, take away or exchange to make one word of the other.
static size_t countEdits(std::string_view A, std::string_view B) {
  std::vector<size_t> Row(B.size() + 1);
  std::iota(Row.begin(), Row.end(), size_t(0));
  for (size_t I = 0; I < A.size(); ++I) {
    size_t Diagonal = Row[0];
    Row[0] = I + 1;
    for (size_t J = 0; J < B.size(); ++J) {
      size_t Exchange = Diagonal + (A[I] != B[J]);
      Diagonal = Row[J + 1];
      Row[J + 1] = std::min({Exchange, Row[J] + 1, Diagonal + 1});
    }
  }
  return Row.back();
}

/// In small letters, with hyphens between words and none in front.
static std::string normalize(std::string_view Word) {
  Word.remove_prefix(std::min(Word.find_first_not_of('-'), Word.size()));
  std::string Text(Word);
  for (char &C : Text)
    C = C == '_' || C == '.' || C == ' '
            ? '-'
            : static_cast<char>(std::tolower(static_cast<unsigned char>(C)));
  return Text;
}

static std::vector<std::string> split(const std::string &Text) {
  std::vector<std::string> Words;
  for (size_t Begin = 0, End; Begin < Text.size(); Begin = End + 1) {
    End = std::min(Text.find(' ', Begin), Text.size());
    Words.push_back(Text.substr(Begin, End - Begin));
  }
  return Words;
}

/// Its name, without the value to give.
static std::string getName(const OtherNames &Row) {
  std::string Option = Row.Option;
  return Option.substr(0, Option.find(' '));
}

static bool contains(const std::vector<std::string> &List,
                     const std::string &Word) {
  return std::find(List.begin(), List.end(), Word) != List.end();
}

/// The row of a name, or null; see getOtherNames.
static const OtherNames *findRow(const std::string &Name,
                                 const std::vector<std::string> &Known) {
  const OtherNames *First = nullptr;
  for (const OtherNames &Row : getOtherNames()) {
    if (Name != getName(Row) && !contains(split(Row.Names), Name))
      continue;
    if (contains(Known, getName(Row)))
      return &Row;
    // The option itself comes before others of its name.
    if (!First || (Name == getName(Row) && Name != getName(*First)))
      First = &Row;
  }
  return First;
}

/// The one word that begins so or is a slip away, or "".
static std::string findNear(const std::string &Name,
                            const std::vector<std::string> &Words) {
  if (Name.size() < 4)
    return "";
  std::string Nearest;
  size_t Least = 3; // more edits make another word
  for (const std::string &Word : Words)
    if (size_t Edits = countEdits(Name, Word);
        Edits < Least && 2 * Edits < Name.size()) {
      Least = Edits;
      Nearest = Word;
    }
  if (!Nearest.empty())
    return Nearest;
  for (const std::string &Word : Words)
    if (Word.compare(0, Name.size(), Name) == 0) {
      if (!Nearest.empty())
        return ""; // of several
      Nearest = Word;
    }
  return Nearest;
}

static std::vector<std::string> listOtherNames() {
  std::vector<std::string> All;
  for (const OtherNames &Row : getOtherNames())
    for (std::string &Name : split(Row.Names))
      All.push_back(std::move(Name));
  return All;
}

std::string poplar::runtime::explainUnknownOption(
    std::string_view Given, const std::vector<std::string> &Known,
    std::string_view Help, const OptionPlaces &Elsewhere) {
  std::string Text = "unknown option " + std::string(Given);
  std::string Name = normalize(Given);
  auto Suggest = [&](const std::string &Option, const std::string &Note) {
    return Text + "; did you mean --" + Option +
           (Note.empty() ? "" : " (" + Note + ")") + "?";
  };
  if (contains(Known, Name))
    return Suggest(Name, "");
  const OtherNames *Row = findRow(Name, Known);
  auto Place = Elsewhere.find(Name);
  if (!Row && Place != Elsewhere.end())
    return Text + "; it is one of poplar " + Place->second;
  if (!Row) {
    if (std::string Near = findNear(Name, Known); !Near.empty())
      return Suggest(Near, "");
    if (std::string Near = findNear(Name, listOtherNames()); !Near.empty())
      Row = findRow(Near, Known);
  }
  if (!Row)
    return Text + "; " + std::string(Help) + " lists the options";
  if (!*Row->Option)
    return Text + ": " + Row->Note;
  if (contains(Known, getName(*Row)))
    return Suggest(Row->Option, Row->Note);
  return Text + "; it is --" + Row->Option + " of poplar " + Row->Command +
         (*Row->Note ? std::string(" (") + Row->Note + ")" : "");
}
