//===- TrainingCommands.cpp - poplar finetune and poplar pretrain ---------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Both run other commands, whose options they have. What is wrong with an
// option is said before the first command runs, by the parser of the command
// that it is for.
//
//===----------------------------------------------------------------------===//

#include "BorrowedOptions.h"
#include "ChooseParameters.h"
#include "Commands.h"
#include "Commit.h"
#include "Installation.h"
#include "Poplar/Import/TokenParameters.h"
#include "Poplar/Recipe/ModelTokens.h"
#include "Poplar/Workflow/TrainingWorkflow.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Regex.h"
#include <glob.h>
#include <memory>

using namespace poplar;

namespace {

/// The options of a command, and the request they make.
class TrainingArguments {
public:
  TrainingArguments(CLI::App *command, bool isFineTuning);
  /// Completes the request; what is wrong, or empty.
  std::string complete();
  /// Makes the model with the tokens that are asked for, or with a head of its
  /// own if that is to be saved beside adapters, in the run's setup; what is
  /// wrong, or empty.
  std::string changeModel();

  TrainingRequest request;

private:
  void addImportOptions(CLI::App *command);
  std::string completeImport();
  void completePairs(std::vector<std::string> &words) const;
  std::string completeTraining();
  std::vector<std::string> listSaved() const;
  std::string checkRows(const WeightChanges &weights, int64_t rows) const;

  const bool isFineTuning;
  bool trainsAll = false, isRandom = false, packs = true, checks = false;
  std::vector<std::string> data;
  std::string deviceBatch, newRows = "mean";
  TokenChanges tokens;
  BorrowedOptions import, plan, recompute, training;
  /// Commands whose options these are. They never run.
  CLI::App lenders;
  int unused = 0;
};

} // namespace

/// What of the words the command of `lenders` refuses; empty if nothing.
static std::string check(CLI::App &lenders, const std::string &name,
                         std::vector<std::string> words) {
  words.insert(words.begin(), {"poplar", name});
  std::vector<const char *> argv;
  for (const std::string &word : words)
    argv.push_back(word.c_str());
  try {
    lenders.parse(static_cast<int>(argv.size()), argv.data());
  } catch (const CLI::Success &) {
    return "";
  } catch (const CLI::ParseError &error) {
    return error.what();
  }
  llvm_unreachable("lenders end where their commands would run");
}

TrainingArguments::TrainingArguments(CLI::App *command, bool isFineTuning)
    : isFineTuning(isFineTuning) {
  lenders.option_defaults()->always_capture_default();
  lenders.parse_complete_callback([] { throw CLI::Success(); });
  addImportCommand(lenders, unused);
  addPlanCommand(lenders, unused);
  command
      ->add_option("model", request.model,
                   isFineTuning
                       ? "Directory of a Hugging Face model, with its weights; "
                         "or a recipe in YAML, with the keys of axolotl, which "
                         "other options replace (docs/recipes.md)"
                       : "A config.json, or a directory that holds one")
      ->type_name(isFineTuning ? "HF_DIR|RECIPE" : "CONFIG_JSON|HF_DIR")
      ->required();
  command
      ->add_option("--data", data,
                   isFineTuning ? "Conversations or other examples in JSON, or "
                                  "text; repeatable"
                                : "Text or tokens to train on; repeatable")
      ->type_name("FILE|GLOB[=WEIGHT]")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->required();
  command
      ->add_option("--out", request.output,
                   "Directory of the run; what prepares it lies in RUN/setup")
      ->type_name("RUN")
      ->required();
  const char *devices = "Devices";
  CLI::Option *cluster =
      command
          ->add_option("--cluster", request.cluster,
                       "Cluster file (docs/cluster-file.md; default: the GPUs "
                       "of this machine, or its CPU)")
          ->type_name("CLUSTER")
          ->group(devices);
  command
      ->add_option("--devices", request.devices,
                   "Ranks of each type on the CPU of this machine")
      ->type_name("TYPE=N,...")
      ->excludes(cluster)
      ->group(devices);
  command
      ->add_option("--hosts", request.hosts,
                   "Hosts that train together, which have this directory and "
                   "poplar at the same place (docs/launching.md; default: this "
                   "machine alone)")
      ->type_name("HOST,...")
      ->delimiter(',')
      ->excludes(cluster)
      ->group(devices);
  command
      ->add_option("--network", request.network,
                   "Speed of the network between the hosts (default: 1 Gbit/s)")
      ->type_name("LATENCY_US,BANDWIDTH_GBPS")
      ->needs("--hosts")
      ->group(devices);
  command
      ->add_flag("--estimate", request.estimates,
                 "Plan with the published figures of GPUs instead of measuring "
                 "them")
      ->group(devices);
  request.profileSeconds = 60;
  command
      ->add_option("--profile-seconds", request.profileSeconds,
                   "Seconds to measure a device type that was not measured "
                   "with this model before")
      ->type_name("N")
      ->check(CLI::Range(1, 1000000))
      ->group(devices);
  addImportOptions(command);
  const char *planning = "Plan";
  CLI::Option *batch =
      command
          ->add_option("--global-batch", request.globalBatch,
                       "Samples per optimizer step, or tokens such as 64ktok "
                       "(default: 16)")
          ->type_name("N|TOKENS")
          ->group(planning);
  command
      ->add_option("--device-batch", deviceBatch,
                   "Samples per optimizer step for each device, or N/M for N "
                   "samples for M devices, as a rule; the plan shares their "
                   "sum out")
      ->type_name("N[/M]")
      ->excludes(batch)
      ->group(planning);
  command
      ->add_option("--precision", request.precision,
                   "Format that all devices are to compute in (default: what "
                   "the cluster file says; f32 on a CPU alone)")
      ->check(CLI::IsMember({"f32", "bf16", "f16", "tf32"}))
      ->group(planning);
  plan.addOf(command, *lenders.get_subcommand("plan"),
             {"zero", "policy", "leave-out", "allow-lossy"}, planning);
  recompute.addOf(command, *lenders.get_subcommand("plan"), {"recompute"},
                  planning);
  training.addOfTraining(command,
                         {"data", "out", "init", "resume", "config", "batch",
                          "global-batch", "threads", "peak-gflops"});
  if (isFineTuning)
    for (auto [name, text] :
         {std::pair("--epochs",
                    "Passes over the data, in place of --steps (default: 3)"),
          std::pair("--val-fraction", "Part of --data that is held out for "
                                      "validation (default: 0.05)")})
      command->get_option(name)->description(text);
}

void TrainingArguments::addImportOptions(CLI::App *command) {
  const CLI::App &lender = *lenders.get_subcommand("import");
  import.addOf(command, lender,
               {"seq-len", "dropout", "neftune-alpha", "router-aux-loss-coef",
                "ignore-key", "no-tokenizer", "mask-token-id",
                "special-token-ids", "optimizer-states", "fp8-products"},
               "Model");
  if (!isFineTuning)
    return;
  command
      ->add_flag("--packing,!--no-packing", packs,
                 "Let examples share samples without seeing each other "
                 "(default), or give each sample one example")
      ->group("Model");
  command
      ->add_option("--eos-token", tokens.endToken,
                   "Token that ends texts, which is added to the tokenizer if "
                   "it lacks it (default: the model's)")
      ->type_name("TOKEN")
      ->group("Model");
  command
      ->add_option("--add-token", tokens.added,
                   "Token to add to the tokenizer; the embedding gets a row "
                   "for it if it has none; repeatable")
      ->type_name("TOKEN")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->group("Model");
  command
      ->add_option("--embedding-multiple", tokens.rowMultiple,
                   "If the embedding has fewer rows than there are tokens, add "
                   "rows up to a multiple of N (default: 1)")
      ->type_name("N")
      ->check(CLI::Range(1, 1 << 20))
      ->group("Model");
  command
      ->add_option("--new-rows", newRows,
                   "Rows added to the embedding and the head: near the mean "
                   "of the others, or random as in a new model (default: mean)")
      ->check(CLI::IsMember({"mean", "random"}))
      ->group("Model");
  command->add_flag("--check", checks,
                    "Only list what becomes of each key of the recipe; the "
                    "status is 0 if none is refused");
  command
      ->add_flag("--random-weights", isRandom,
                 "Start from random weights, as in a new model (default: from "
                 "those of the model)")
      ->group("Model");
  const char *group = "Adapters (LoRA)";
  command
      ->add_flag("--full", trainsAll,
                 "Train all weights (default: adapters of rank 16)")
      ->group(group);
  import.addOf(command, lender,
               {"lora-rank", "lora-alpha", "lora-dropout", "lora-targets",
                "lora-target-pattern", "lora-modules-to-save", "frozen-format",
                "quantize-experts"},
               group);
  command->get_option("--lora-rank")
      ->description("Rank of the adapters (default: 16)");
  import.addOf(command, lender, {"train-parameters"}, group);
}

/// A sample has two sequences of --seq-len, and trl trains on pairs without
/// dropout.
void TrainingArguments::completePairs(std::vector<std::string> &words) const {
  for (size_t i = 0; i + 1 < words.size(); ++i)
    if (int64_t length; words[i] == "--seq-len" &&
                        !llvm::StringRef(words[i + 1]).getAsInteger(10, length))
      words[i + 1] = std::to_string(2 * length);
  if (!import.isGiven("dropout"))
    words.insert(words.end(), {"--dropout", "0"});
}

std::string TrainingArguments::completeImport() {
  std::vector<std::string> words = import.getWords();
  if (trainsAll) {
    for (const char *name :
         {"lora-rank", "lora-alpha", "lora-dropout", "lora-targets",
          "lora-target-pattern", "lora-modules-to-save", "frozen-format",
          "quantize-experts", "train-parameters"})
      if (import.isGiven(name))
        return std::string("--full trains all weights: leave out --") + name;
  } else if (isFineTuning && !import.isGiven("lora-rank") &&
             !import.isGiven("train-parameters")) {
    words.insert(words.end(), {"--lora-rank", "16"});
  }
  if (isRandom && !trainsAll)
    return "--random-weights trains all of them: add --full";
  bool hasPairs = training.isGiven("preference");
  if (hasPairs && !packs)
    return "--preference puts both answers of a pair into one sample: leave "
           "out --no-packing";
  for (const char *name : {"dropout", "lora-dropout"})
    if (std::vector<std::string> rate = import.getValues(name);
        hasPairs && !rate.empty() && std::atof(rate.back().c_str()) != 0)
      return "--preference trains without dropout, as trl does: leave out --" +
             std::string(name);
  if (hasPairs && import.isGiven("neftune-alpha"))
    return "--preference trains without noise, as axolotl does: leave out "
           "--neftune-alpha";
  if (std::vector<std::string> given = import.getValues("router-aux-loss-coef");
      hasPairs && !given.empty() && std::atof(given.back().c_str()) != 0)
    return "--preference trains without the loss that balances experts: leave "
           "out --router-aux-loss-coef";
  if (hasPairs)
    completePairs(words);
  if (isFineTuning && packs)
    words.push_back("--packing");
  request.importWords = words;
  words.insert(words.end(), {request.model, "-o", "-"});
  return check(lenders, "import", words);
}

/// The files that a value of --data names: one, which may have a weight, or
/// those that a pattern names now. Empty if there is none.
static std::vector<std::string> listFiles(const std::string &text) {
  if (llvm::sys::fs::exists(text))
    return {text};
  std::string name = text.substr(0, text.rfind('='));
  if (llvm::sys::fs::exists(name))
    return {name};
  std::vector<std::string> files;
  for (const std::string &pattern : {text, name}) {
    glob_t found = {};
    if (glob(pattern.c_str(), 0, nullptr, &found) == 0)
      files.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    globfree(&found);
    if (!files.empty())
      return files;
  }
  return {};
}

std::string TrainingArguments::completeTraining() {
  std::vector<std::string> words;
  for (const std::string &file : data) {
    std::vector<std::string> files = listFiles(file);
    if (files.empty())
      return file + ": No such file or directory; expected data of your own "
                    "(of the Hugging Face Hub, `hf download NAME --repo-type "
                    "dataset --local-dir DIR` gets files)";
    words.insert(words.end(), {"--data", file});
    request.data.insert(request.data.end(), files.begin(), files.end());
  }
  for (const char *option :
       {"val-data", "data-ids", "tokenizer", "chat-template", "init-adapter"})
    for (const std::string &value : training.getValues(option)) {
      std::vector<std::string> files = listFiles(value);
      request.data.insert(request.data.end(), files.begin(), files.end());
    }
  for (std::string &word : training.getWords())
    words.push_back(std::move(word));
  if (isFineTuning && !training.isGiven("steps") && !training.isGiven("epochs"))
    words.insert(words.end(), {"--epochs", "3"});
  // A run that nobody watches has to say whether it learns or memorizes.
  if (isFineTuning && !training.isGiven("val-data") &&
      !training.isGiven("val-fraction") && !training.isGiven("data-ids"))
    words.insert(words.end(), {"--val-fraction", "0.05"});
  if (isFineTuning && !training.isGiven("keep-best") &&
      (training.getValues("val-fraction") != std::vector<std::string>{"0"} ||
       training.isGiven("val-data")))
    words.push_back("--keep-best");
  request.mayEndEarly =
      training.isGiven("patience") || training.isGiven("stop-above");
  request.trainWords = words;
  words.insert(words.end(), {"--out", request.output});
  return checkTrainingWords(words);
}

/// A number from 1 to 2^20.
static bool readCount(llvm::StringRef text, int64_t &count) {
  return !text.getAsInteger(10, count) && count >= 1 && count <= 1 << 20;
}

std::string TrainingArguments::complete() {
  if (checks)
    return "--check explains a recipe, which comes right behind finetune; '" +
           request.model + "' is none";
  request.startsFromWeights = isFineTuning && !isRandom;
  if (auto [samples, devices] = llvm::StringRef(deviceBatch).split('/');
      !deviceBatch.empty() && (!readCount(samples, request.deviceBatch) ||
                               (deviceBatch.find('/') != std::string::npos &&
                                !readCount(devices, request.batchDevices))))
    return "--device-batch expects a number of samples, or N/M for N samples "
           "for M devices, not '" +
           deviceBatch + "'";
  if (request.globalBatch.empty() && request.deviceBatch == 0)
    request.globalBatch = "16";
  if (!request.globalBatch.empty() &&
      !llvm::Regex("^([1-9][0-9]*|[0-9.]+[kM]?tok)$")
           .match(request.globalBatch))
    return "--global-batch expects a number of samples, or of tokens as in "
           "64ktok, not '" +
           request.globalBatch + "'";
  if (std::string error = completeImport(); !error.empty())
    return error;
  if (std::string error = completeTraining(); !error.empty())
    return error;
  std::vector<std::string> words = plan.getWords();
  for (std::string &word : recompute.getWords())
    words.push_back(std::move(word));
  words.insert(words.end(), {"model.mlir", "--cluster", "cluster.json",
                             "--global-batch", "1"});
  if (std::string error = check(lenders, "plan", words); !error.empty())
    return error;
  request.planWords = plan.getWords();
  if (recompute.isGiven("recompute"))
    request.recompute = recompute.getValues("recompute").back();
  return "";
}

/// The modules that a list of PEFT names, as endings of their names.
static bool namesModule(const std::vector<std::string> &list,
                        llvm::StringRef parameter) {
  llvm::StringRef module = parameter.rsplit('.').first;
  return llvm::any_of(list, [&](llvm::StringRef name) {
    llvm::StringRef rest = module;
    return rest.consume_back(name) && (rest.empty() || rest.back() == '.');
  });
}

std::vector<std::string> TrainingArguments::listSaved() const {
  std::vector<std::string> names;
  for (const std::string &list : import.getValues("lora-modules-to-save"))
    for (llvm::StringRef name : llvm::split(list, ','))
      names.push_back(name.str());
  return names;
}

/// What of the new rows would not be trained; empty if nothing.
std::string TrainingArguments::checkRows(const WeightChanges &weights,
                                         int64_t rows) const {
  std::vector<std::string> saved = listSaved();
  if (trainsAll || rows == 0)
    return "";
  std::vector<TokenTensor> tensors = weights.tensors;
  if (!weights.tiedHead.name.empty())
    tensors.push_back(weights.tiedHead);
  llvm::SetVector<llvm::StringRef> missing;
  std::vector<std::string> patterns = import.getValues("train-parameters");
  if (!patterns.empty()) {
    for (const TokenTensor &tensor : weights.tensors)
      if (!isTrained(patterns, tensor.name))
        return "the embedding gets rows for new tokens, and " + tensor.name +
               " is frozen: add --train-parameters " + tensor.name;
    return "";
  }
  for (const TokenTensor &tensor : tensors)
    if (!namesModule(saved, tensor.name)) {
      llvm::StringRef module = llvm::StringRef(tensor.name).rsplit('.').first;
      missing.insert(module.substr(module.rfind('.') + 1));
    }
  return missing.empty()
             ? ""
             : "the embedding gets rows for new tokens, which adapters do not "
               "train: add --lora-modules-to-save " +
                   llvm::join(missing, ",") + ", or --full";
}

std::string TrainingArguments::changeModel() {
  bool changesTokens = !tokens.isEmpty();
  std::vector<std::string> saved = listSaved();
  if (!changesTokens && saved.empty())
    return "";
  std::string error;
  mlir::MLIRContext context;
  std::optional<TokenParameters> found =
      findTokenParameters(request.model, context, error);
  if (!found)
    return error;
  if (changesTokens)
    if (error = checkTokens(request.model, tokens); !error.empty())
      return error;
  WeightChanges weights;
  weights.tensors = std::move(found->own);
  weights.tiedHead = std::move(found->untiedHead);
  weights.unties = !weights.tiedHead.name.empty() &&
                   (namesModule(saved, weights.tiedHead.name) ||
                    namesModule(saved, weights.tensors.front().name));
  int64_t rows = changesTokens ? countNewRows(request.model, tokens) : 0;
  if (error = checkRows(weights, rows); !error.empty())
    return error;
  if (!changesTokens && !weights.unties)
    return "";
  tokens.rows =
      newRows == "mean" ? TokenChanges::NearMean : TokenChanges::Random;
  if (std::vector<std::string> seed = training.getValues("seed"); !seed.empty())
    tokens.seed = std::strtoull(seed.back().c_str(), nullptr, 10);
  std::string model = request.output + "/setup/model";
  if (!writeWithTokens(request.model, tokens, weights, model, error))
    return error;
  llvm::outs() << "tokens    done: " << model;
  if (rows > 0)
    llvm::outs() << ", whose embedding has " << rows << " rows";
  if (weights.unties)
    llvm::outs() << (rows > 0 ? " and" : ",")
                 << " whose head is a copy of the embedding";
  llvm::outs() << "\n";
  request.model = model;
  return "";
}

static void addTrainingCommand(CLI::App &app, int &status,
                               const std::string &name, const std::string &what,
                               const std::string &example, bool isFineTuning) {
  CLI::App *command = app.add_subcommand(name, what);
  command->footer(
      "Detects the devices, measures those that are not known, plans, builds "
      "and trains; each\nstep prints the plain command that it runs, and runs "
      "once. After Ctrl-C, the same command\ncontinues.\n\nExamples:\n  "
      "poplar " +
      example);
  auto arguments = std::make_shared<TrainingArguments>(command, isFineTuning);
  command->callback([=, &status] {
    std::string error = arguments->complete();
    if (error.empty())
      error = arguments->changeModel();
    TrainingRequest &request = arguments->request;
    request.command = name;
    request.version = POPLAR_VERSION " " POPLAR_COMMIT;
    request.program = getOwnProgram();
    status = error.empty() ? runTraining(request, error) : 1;
    if (!error.empty())
      reportError(error);
  });
}

void addFinetuneCommand(CLI::App &app, int &status) {
  addTrainingCommand(
      app, status, "finetune",
      "Fine-tune a Hugging Face model on the devices at hand",
      "finetune Qwen3-0.6B --data chat.jsonl --out run\n  poplar finetune "
      "examples/chat/recipe.yaml --check\n  poplar "
      "finetune "
      "Qwen3-0.6B --data chat.jsonl --out run --epochs 1 --lora-rank 32 "
      "--frozen-format nf4\n  poplar finetune Qwen3-0.6B --data chat.jsonl "
      "--out run --devices avx2-f32=1,sse41-f32=1",
      /*isFineTuning=*/true);
}

void addPretrainCommand(CLI::App &app, int &status) {
  addTrainingCommand(app, status, "pretrain",
                     "Train a model from random weights on the devices at hand",
                     "pretrain examples/models/demo-llama.json --data "
                     "examples/data/corpus.txt --steps 300 --out run",
                     /*isFineTuning=*/false);
}
