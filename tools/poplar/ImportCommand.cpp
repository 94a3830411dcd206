//===- ImportCommand.cpp - poplar import ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChooseParameters.h"
#include "Commands.h"
#include "ImportTokenizer.h"
#include "Output.h"
#include "Poplar/Dialect/NN/NNGroupOps.h"
#include "Poplar/Dialect/Zero/OptimizerStates.h"
#include "Poplar/Driver/Files.h"
#include "Poplar/Import/Import.h"
#include "Poplar/Runtime/Quantized.h"
#include "Poplar/Support/Names.h"
#include "Poplar/Transforms/Model/Passes.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/MLIRContext.h"
#include "mlir/Pass/PassManager.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/Format.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"
#include "llvm/Support/xxhash.h"
#include <memory>

/// The value of --frozen-format that changes nothing.
static constexpr const char *kUnchanged = "same";
/// And of --optimizer-states.
static constexpr const char *kWideStates = "f32";

namespace {
struct Arguments {
  std::string config, output;
  std::vector<std::string> ignoredKeys;
  int64_t maskTokenId = 0;
  std::vector<int64_t> specialTokenIds;
  int64_t seqLen = 0;
  double dropout = 0;
  double noiseAlpha = 0;
  double balance = 0;
  bool packing = false;
  bool withoutTokenizer = false;
  poplar::NNAddAdaptersOptions adapters;
  std::string targetPattern;
  std::vector<std::string> trained;
  std::string frozenFormat = kUnchanged;
  bool quantizesExperts = false;
  std::string optimizerStates = kWideStates;
  bool fp8Products = false;
};
} // namespace

static bool hasExperts(mlir::ModuleOp module) {
  return module
      ->walk([](poplar::nn::ExpertLinearOp) {
        return mlir::WalkResult::interrupt();
      })
      .wasInterrupted();
}

/// The directory of the configuration, as it was given.
static llvm::SmallString<128> getDirectory(llvm::StringRef config) {
  llvm::SmallString<128> directory(config);
  if (!llvm::sys::fs::is_directory(directory))
    llvm::sys::path::remove_filename(directory);
  return directory;
}

/// Whether a directory holds a file, or the index of its parts.
static bool holdsFile(llvm::StringRef directory, llvm::StringRef name) {
  llvm::SmallString<128> path(directory);
  llvm::sys::path::append(path, name);
  return llvm::sys::fs::exists(path) ||
         llvm::sys::fs::exists(path + ".index.json");
}

/// Whether Git LFS has the file and this is what stands for it.
static bool isLfsPointer(llvm::StringRef path) {
  auto file = llvm::MemoryBuffer::getFile(path, /*IsText=*/false,
                                          /*RequiresNullTerminator=*/false);
  return file && (*file)->getBufferSize() < 1024 &&
         (*file)->getBuffer().starts_with("version https://git-lfs.");
}

static constexpr const char *kLfsPointer =
    "is a pointer of Git LFS and not the file itself; run 'git lfs pull' in "
    "its repository";

/// What was understood, and what the reader may have expected instead.
static std::string describe(mlir::ModuleOp module, const Arguments &arguments,
                            bool seqLenGiven,
                            const poplar::ImportSummary &summary) {
  const poplar::nn::Model model = poplar::nn::Model::of(module);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << llvm::formatv(
      "model     {0}, {1:N} parameters, {2} layers, hidden size {3}, "
      "vocabulary {4}\n",
      *model.getArchitecture(), *model.getNumParameters(),
      *model.getNumLayers(), *model.getHiddenSize(), *model.getVocabSize());
  if (!summary.multimodal.empty())
    stream << "part      the model of text of a " << summary.multimodal
           << "; it takes no pictures, and checkpoints hold it alone\n";
  int64_t seqLen = *model.getSeqLen();
  int64_t trained = 0;
  for (auto parameter : module.getOps<poplar::nn::ParameterOp>())
    if (!parameter.getFrozen())
      trained += llvm::cast<mlir::RankedTensorType>(parameter.getType())
                     .getNumElements();
  if (auto rank = model.getLoraRank())
    stream << llvm::formatv("adapters  LoRA of rank {0} on {1}{2}{3}: {4:N} "
                            "parameters are trained, "
                            "the others are frozen\n",
                            *rank, *model.getLoraTargets(),
                            hasExperts(module) ? ", and on no experts" : "",
                            arguments.adapters.saved.empty()
                                ? ""
                                : ", and all of " +
                                      llvm::join(arguments.adapters.saved, ","),
                            trained);
  if (!arguments.trained.empty())
    stream << llvm::formatv("trained   {0:N} of {1:N} parameters, the others "
                            "are frozen\n",
                            trained, *model.getNumParameters());
  int64_t quantized = 0, bytes = 0;
  for (auto parameter : module.getOps<poplar::nn::ParameterOp>()) {
    auto type = llvm::cast<mlir::RankedTensorType>(parameter.getType());
    if (!poplar::nn::isQuantized(type))
      continue;
    quantized += type.getNumElements();
    bytes += poplar::nn::getStoredElements(type);
  }
  if (quantized)
    stream << llvm::formatv("frozen    {0:N} parameters of linear layers{4} in "
                            "{1}: {2:N} bytes, {3:f2} "
                            "bits each\n",
                            quantized, arguments.frozenFormat, bytes,
                            8.0 * double(bytes) / double(quantized),
                            arguments.quantizesExperts ? " and experts" : "");
  int64_t blockStates = 0;
  for (auto parameter : module.getOps<poplar::nn::ParameterOp>())
    if (poplar::zero::hasBlockStates(parameter))
      blockStates += llvm::cast<mlir::RankedTensorType>(parameter.getType())
                         .getNumElements();
  if (blockStates)
    stream << llvm::formatv("optimizer moments of {0:N} of {1:N} trained "
                            "parameters in blocks of {2} bits\n",
                            blockStates, trained,
                            poplar::zero::getStateBits(module));
  int64_t rounded = 0, linears = 0;
  module.walk([&](poplar::nn::LinearOp linear) {
    ++linears;
    rounded += linear.getFp8();
  });
  if (rounded)
    stream << llvm::formatv("products  of {0} of {1} linear layers of the "
                            "units in fp8 (e4m3, a scale for each row)\n",
                            rounded, linears);
  stream << "sequence  " << seqLen << " tokens per sample (";
  if (seqLenGiven)
    stream << "as asked for; the model has " << summary.positions
           << " positions)\n";
  else if (seqLen == summary.positions)
    stream << "all positions of the model)\n";
  else
    stream << "the default; the model has " << summary.positions
           << " positions: --seq-len N)\n";
  if (auto alpha = model.getNoiseAlpha())
    stream << llvm::formatv("noise     of NEFTune with alpha {0} is added to "
                            "embeddings in training\n",
                            *alpha);
  if (summary.balance > 0)
    stream << "balance   of experts is part of the loss, with the coefficient "
           << llvm::format("%g\n", summary.balance);
  if (arguments.packing)
    stream << "packing   examples share samples: attention does not look "
              "across their borders\n";
  if (auto mask = model.getMaskToken()) {
    stream << "objective masked tokens become " << *mask << " ("
           << summary.maskSource << "); never masked: ";
    llvm::interleaveComma(*model.getSpecialTokens(), stream);
    stream << "\n";
  } else {
    stream << "objective the next token\n";
  }
  llvm::SmallString<128> directory = getDirectory(arguments.config);
  std::string shown =
      poplar::formatWord(directory.empty() ? "." : directory.str());
  llvm::SmallString<128> weights(directory);
  llvm::sys::path::append(weights, "model.safetensors");
  if (isLfsPointer(weights))
    stream << "weights   model.safetensors " << kLfsPointer << "\n";
  else if (model.getWeightsPath())
    stream << "weights   found, and not part of the model: `poplar train "
              "PROGRAM --init "
           << shown << "` starts from them\n";
  else if (holdsFile(directory, "pytorch_model.bin"))
    stream << "weights   in pytorch_model.bin, which cannot be read; "
              "save_pretrained of transformers 4.35 or later writes "
              "model.safetensors\n";
  else
    stream << "weights   none beside the configuration: training starts from "
              "random ones, or from a checkpoint with --init\n";
  for (const std::string &key : arguments.ignoredKeys)
    stream << "ignored   " << key << ", which may change what the model "
           << "computes\n";
  return text;
}

/// Records where weights lie beside the configuration, if they do.
static void addWeights(mlir::ModuleOp module, llvm::StringRef config) {
  llvm::SmallString<128> directory(config);
  llvm::sys::fs::make_absolute(directory);
  directory = getDirectory(directory);
  while (directory.size() > 1 && directory.back() == '/')
    directory.pop_back();
  if (!holdsFile(directory, "model.safetensors"))
    return;
  poplar::nn::Model model = poplar::nn::Model::of(module);
  model.setWeightsPath(directory);
  model.attachTo(module);
}

/// What a directory without a tokenizer that Poplar reads has instead.
static std::string describeNoTokenizer(llvm::StringRef directory) {
  auto has = [&](llvm::StringRef name) {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    return llvm::sys::fs::exists(path);
  };
  std::string text = "tokenizer none beside the configuration: data are token "
                     "ids, or text with --tokenizer FILE\n";
  for (llvm::StringRef name : {"vocab.json", "vocab.txt", "spiece.model",
                               "sentencepiece.bpe.model", "tekken.json"})
    if (has(name))
      return text + "note      " + name.str() +
             " is not read: AutoTokenizer.from_pretrained(DIR)"
             ".save_pretrained(DIR) of transformers writes a tokenizer.json, "
             "which is\n";
  return text;
}

/// Records the tokenizer beside the configuration in the model. `text` says
/// what was found. False if it cannot be read.
static bool addTokenizer(mlir::ModuleOp module, llvm::StringRef config,
                         std::string &text, std::string &error) {
  llvm::SmallString<128> directory(config);
  llvm::sys::fs::make_absolute(directory);
  directory = getDirectory(directory);
  for (llvm::StringRef name : {"tokenizer.json", "tokenizer.model"}) {
    llvm::SmallString<128> path(directory);
    llvm::sys::path::append(path, name);
    auto file = llvm::MemoryBuffer::getFile(path);
    if (!file)
      continue;
    TokenizerFacts facts = readTokenizerFacts(path.str().str());
    if (!facts.error.empty()) {
      error = facts.error + "; --no-tokenizer imports the model without it";
      return false;
    }
    poplar::nn::Model model = poplar::nn::Model::of(module);
    int64_t vocabulary = *model.getVocabSize();
    uint64_t hash = llvm::xxh3_64bits((*file)->getBuffer());
    model.setTokenizer(name);
    model.setTokenizerHash(llvm::formatv("{0:x-16}", hash).str());
    model.setTokenizerPath(path);
    model.attachTo(module);
    text = "tokenizer " + facts.description + " (" + name.str() +
           "), which encodes text\n";
    if (facts.size > vocabulary)
      text +=
          llvm::formatv("note      the tokenizer has ids up to {0}, and the "
                        "model a vocabulary of {1}: data with an id from "
                        "{1} on are refused\n",
                        facts.size - 1, vocabulary);
    return true;
  }
  if (poplar::nn::Model::of(module).getVocabSize() != 256)
    text = describeNoTokenizer(directory);
  return true;
}

/// Rounds products to fp8, adds adapters, whose products are not, or freezes
/// parameters, as the arguments say. Fails with `error` set.
static bool changeLayers(mlir::ModuleOp module, Arguments &arguments,
                         bool hasAdapters, bool isMultimodal,
                         std::string &error) {
  mlir::ScopedDiagnosticHandler handler(module.getContext(),
                                        [&](mlir::Diagnostic &diagnostic) {
                                          if (error.empty())
                                            error = diagnostic.str();
                                          return mlir::success();
                                        });
  mlir::PassManager passes(module.getContext());
  if (arguments.fp8Products)
    passes.addPass(poplar::createNNRoundProducts());
  std::vector<std::string> names;
  if (!arguments.targetPattern.empty())
    names = findTargets(module, arguments.targetPattern, isMultimodal, error);
  else if (!arguments.trained.empty())
    names = findTrained(module, arguments.trained, isMultimodal, error);
  if (!error.empty())
    return false;
  if (hasAdapters) {
    auto &targets = arguments.adapters.targets;
    llvm::append_range(targets, names);
    if (targets.empty())
      targets = {"all-linear"};
    passes.addPass(poplar::createNNAddAdapters(arguments.adapters));
  } else if (!names.empty()) {
    poplar::NNFreezeParametersOptions options;
    llvm::append_range(options.trained, names);
    passes.addPass(poplar::createNNFreezeParameters(options));
  }
  if (arguments.quantizesExperts && arguments.frozenFormat == kUnchanged) {
    error = "--quantize-experts needs --frozen-format nf4, nf4_double or int8";
    return false;
  }
  if (arguments.frozenFormat != kUnchanged)
    passes.addPass(poplar::createNNQuantizeFrozen(
        {arguments.frozenFormat, arguments.quantizesExperts}));
  return mlir::succeeded(passes.run(module));
}

/// Has the optimizer keep moments in so many bits. Fails with `error` set.
static bool narrowStates(mlir::ModuleOp module, int64_t bits,
                         std::string &error) {
  poplar::nn::Model model = poplar::nn::Model::of(module);
  model.setStateBits(bits);
  model.attachTo(module);
  auto parameters = module.getOps<poplar::nn::ParameterOp>();
  if (llvm::any_of(parameters, [](poplar::nn::ParameterOp parameter) {
        return poplar::zero::hasBlockStates(parameter);
      }))
    return true;
  error =
      llvm::formatv("the model trains no parameter of {0} elements{1}, and the "
                    "optimizer states of {2} stay f32: leave out "
                    "--optimizer-states",
                    POPLAR_SMALLEST_BLOCK_STATES,
                    bits == 4 ? " or more, in whole blocks of 256" : "",
                    bits == 4 ? "others" : "smaller ones")
          .str();
  return false;
}

/// --lora-rank and what goes with it; returns the option that asks for
/// adapters.
static CLI::Option *addAdapterOptions(CLI::App *command, Arguments &arguments) {
  poplar::NNAddAdaptersOptions &options = arguments.adapters;
  std::string &frozenFormat = arguments.frozenFormat;
  const char *group = "Adapters (LoRA)";
  CLI::Option *rank =
      command
          ->add_option("--lora-rank", options.rank,
                       "Freeze the model and train adapters of this rank on "
                       "its linear layers (default: no adapters)")
          ->type_name("N")
          ->group(group);
  command
      ->add_option("--lora-alpha", options.alpha,
                   "Scale of the adapters, which is divided by the rank "
                   "(default: 16)")
      ->type_name("X")
      ->needs(rank)
      ->group(group);
  command
      ->add_option("--lora-dropout", options.dropout,
                   "Dropout probability in front of the adapters (default: 0)")
      ->type_name("P")
      ->needs(rank)
      ->group(group);
  CLI::Option *targets =
      command
          ->add_option(
              "--lora-targets", options.targets,
              "Modules to adapt, named as in PEFT's target_modules, such "
              "as q_proj,v_proj (default: all-linear)")
          ->type_name("MODULE,...")
          ->delimiter(',')
          ->needs(rank)
          ->group(group);
  command
      ->add_option("--lora-target-pattern", arguments.targetPattern,
                   "Modules to adapt, by a regular expression for their whole "
                   "names, as PEFT's target_modules that is a text (default: "
                   "--lora-targets)")
      ->type_name("REGEX")
      ->needs(rank)
      ->excludes(targets)
      ->group(group);
  command
      ->add_option("--lora-modules-to-save", options.saved,
                   "Modules to train as a whole beside the adapters, as PEFT's "
                   "modules_to_save, such as embed_tokens,lm_head (default: "
                   "none)")
      ->type_name("MODULE,...")
      ->delimiter(',')
      ->needs(rank)
      ->group(group);
  CLI::Option *format =
      command
          ->add_option(
              "--frozen-format", frozenFormat,
              "Hold the frozen weights of linear layers quantised (QLoRA): "
              "nf4, nf4_double (its scales are quantised, too) or int8 "
              "(default: same, the format in which the device computes)")
          ->type_name("FORMAT")
          ->check(CLI::IsMember({kUnchanged, "nf4", "nf4_double", "int8"}))
          ->needs(rank)
          ->group(group);
  command
      ->add_flag("--quantize-experts", arguments.quantizesExperts,
                 "Hold the frozen weights of experts in --frozen-format, too "
                 "(default: those of linear layers alone)")
      ->needs(format)
      ->group(group);
  return rank;
}

/// What to give instead of the name of a model on the Hub, or of a file of
/// weights; empty if the path is neither.
static std::string explainWrongPath(llvm::StringRef path) {
  if (!llvm::sys::fs::exists(path))
    return (path +
            ": No such file or directory; expected a config.json or a "
            "directory that holds one (of the Hugging Face Hub, `hf download "
            "NAME --local-dir DIR` gets it)")
        .str();
  llvm::SmallString<128> config(path);
  if (llvm::sys::fs::is_directory(path))
    llvm::sys::path::append(config, "config.json");
  if (isLfsPointer(config))
    return (config + ": " + kLfsPointer).str();
  llvm::StringRef extension = llvm::sys::path::extension(path);
  if (!llvm::sys::fs::is_directory(path) &&
      llvm::is_contained({".safetensors", ".bin", ".gguf"}, extension))
    return (path + ": is a file of weights; give the config.json beside it, or "
                   "the directory of both")
        .str();
  return "";
}

void addImportCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "import", "Turn a Hugging Face config.json into a model");
  command->footer(
      "docs/families.md lists the architectures; another one is an error that "
      "lists them, too.\n\nExamples:\n  poplar import "
      "examples/models/demo-llama.json -o model.mlir\n  poplar import "
      "examples/chat --seq-len 64 --packing -o packed.mlir\n  poplar import "
      "examples/chat --seq-len 64 --lora-rank 8 --lora-alpha 16 --lora-targets "
      "q_proj,v_proj -o lora.mlir\n  poplar import examples/chat --seq-len 64 "
      "--lora-rank 8 --frozen-format nf4 -o qlora.mlir");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("config", arguments->config,
                   "A config.json, or a directory that holds one")
      ->type_name("CONFIG_JSON|HF_DIR")
      ->required();
  CLI::Option *seqLen =
      command
          ->add_option("--seq-len", arguments->seqLen,
                       "Tokens per sample (default: the positions of the "
                       "model, at most 1024)")
          ->type_name("N");
  CLI::Option *dropout =
      command
          ->add_option(
              "--dropout", arguments->dropout,
              "Dropout probability, in place of every one in the configuration "
              "(default: those)")
          ->type_name("P");
  command
      ->add_option("--neftune-alpha", arguments->noiseAlpha,
                   "Add uniform noise of at most A / sqrt(tokens per sample * "
                   "hidden size) to embeddings in training, as NEFTune does "
                   "(default: 0, none)")
      ->type_name("A");
  CLI::Option *balance =
      command
          ->add_option("--router-aux-loss-coef", arguments->balance,
                       "Coefficient of the loss that balances experts, 0 for "
                       "none, in place of what the configuration says by "
                       "output_router_logits and router_aux_loss_coef "
                       "(default: that)")
          ->type_name("C");
  command
      ->add_option("--ignore-key", arguments->ignoredKeys,
                   "Key of the configuration to ignore, although it may change "
                   "what the model computes; repeatable")
      ->type_name("KEY")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
  command->add_flag("--packing", arguments->packing,
                    "Let several examples share a sample: attention does not "
                    "look across their borders, and positions begin anew at "
                    "each (default: one document per sample)");
  command->add_flag("--no-tokenizer", arguments->withoutTokenizer,
                    "Leave the tokenizer beside the configuration out: data "
                    "are token ids, or text with --tokenizer FILE (default: "
                    "one that cannot be read is an error)");
  CLI::Option *mask =
      command
          ->add_option("--mask-token-id", arguments->maskTokenId,
                       "For masked models: id that replaces masked tokens "
                       "(default: that of the tokenizer beside the "
                       "configuration, else mask_token_id)")
          ->type_name("N");
  command
      ->add_option(
          "--special-token-ids", arguments->specialTokenIds,
          "For masked models: ids of tokens that are never masked (default: "
          "those of the tokenizer, else those in the configuration)")
      ->type_name("N,...")
      ->delimiter(',');
  command
      ->add_option("-o,--output", arguments->output,
                   "File for the model, as MLIR; - for standard output")
      ->type_name("MODEL")
      ->required();
  command
      ->add_option("--optimizer-states", arguments->optimizerStates,
                   "Format of AdamW's moments: f32, or int8 or int4, which are "
                   "8 or 4 bits a value in blocks of 256 with a scale each; "
                   "parameters of fewer than 4096 elements keep f32 (default: "
                   "f32)")
      ->type_name("FORMAT")
      ->check(CLI::IsMember({kWideStates, "int8", "int4"}));
  command->add_flag("--fp8-products", arguments->fp8Products,
                    "Round the operands of products of linear layers to 8 bits "
                    "(e4m3, a scale for each row), forward and for gradients "
                    "of inputs; not those of the head, of routers, experts and "
                    "adapters. NVIDIA GPUs have such products from sm_89 on "
                    "(default: the format in which the device computes)");
  CLI::Option *lora = addAdapterOptions(command, *arguments);
  command
      ->add_option("--train-parameters", arguments->trained,
                   "Train the weights whose whole names a regular expression "
                   "matches, such as 'lm_head.*', and freeze all others; "
                   "repeatable (default: none is chosen)")
      ->type_name("REGEX")
      ->expected(1)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)
      ->excludes(lora);
  command->callback([=, &status] {
    poplar::ImportOptions options;
    if (seqLen->count())
      options.seqLen = arguments->seqLen;
    if (dropout->count())
      options.dropout = arguments->dropout;
    options.noiseAlpha = arguments->noiseAlpha;
    if (balance->count())
      options.balance = arguments->balance;
    options.packing = arguments->packing;
    options.ignoredKeys = arguments->ignoredKeys;
    options.specialTokenIds = arguments->specialTokenIds;
    if (mask->count())
      options.maskTokenId = arguments->maskTokenId;
    if (std::string wrong = explainWrongPath(arguments->config);
        !wrong.empty()) {
      status = reportError(wrong);
      return;
    }
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::string error;
    poplar::ImportSummary summary;
    mlir::OwningOpRef<mlir::ModuleOp> module = poplar::importModel(
        arguments->config, options, context, error, &summary);
    if (!module) {
      status = reportError(error);
      return;
    }
    addWeights(*module, arguments->config);
    std::string tokenizer;
    if (!arguments->withoutTokenizer &&
        !addTokenizer(*module, arguments->config, tokenizer, error)) {
      status = reportError(error);
      return;
    }
    if (!changeLayers(*module, *arguments, lora->count() > 0,
                      !summary.multimodal.empty(), error)) {
      status = reportError(arguments->config + ": " + error);
      return;
    }
    if (arguments->optimizerStates != kWideStates &&
        !narrowStates(*module, arguments->optimizerStates == "int8" ? 8 : 4,
                      error)) {
      status = reportError(arguments->config + ": " + error);
      return;
    }
    status =
        writeFile(arguments->output, poplar::formatModule(*module)) ? 0 : 1;
    // The model itself may go to standard output.
    bool isFile = arguments->output != "-";
    if (!status)
      (isFile ? llvm::outs() : llvm::errs())
          << describe(*module, *arguments, seqLen->count() > 0, summary)
          << tokenizer;
    if (status || !isFile)
      return;
    printNext({"poplar", "build", arguments->output, "-o", "program"});
    printNext({"poplar", "plan", "--model", arguments->output, "--cluster",
               "CLUSTER", "--global-batch", "SAMPLES", "-o", "plan.mlir"},
              "or, for several devices:");
  });
}
