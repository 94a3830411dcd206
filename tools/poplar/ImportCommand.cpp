//===- ImportCommand.cpp - poplar import ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Commands.h"
#include "Poplar/Import/Import.h"
#include "mlir/IR/MLIRContext.h"
#include "llvm/Support/raw_ostream.h"
#include <memory>

namespace {
struct Arguments {
  std::string config, output;
  int64_t seqLen = 0;
  double dropout = 0;
};
} // namespace

void addImportCommand(CLI::App &app, int &status) {
  CLI::App *command = app.add_subcommand(
      "import", "Turn a Hugging Face config.json into a model");
  command->footer("Knows the architectures BertForMaskedLM, GPT2LMHeadModel,\n"
                  "LlamaForCausalLM, MistralForCausalLM and Qwen2ForCausalLM.\n"
                  "\nExample:\n"
                  "  poplar import examples/models/gpt2-124m.json "
                  "--seq-len 256 -o model.mlir");
  auto arguments = std::make_shared<Arguments>();
  command
      ->add_option("config", arguments->config,
                   "A config.json, or a directory that holds one")
      ->type_name("CONFIG_JSON|HF_DIR")
      ->required();
  CLI::Option *seqLen =
      command
          ->add_option("--seq-len", arguments->seqLen,
                       "Tokens per sample (default: the model's "
                       "positions, at most 1024)")
          ->type_name("N");
  CLI::Option *dropout = command
                             ->add_option("--dropout", arguments->dropout,
                                          "Replaces every dropout probability")
                             ->type_name("P");
  command
      ->add_option("-o,--output", arguments->output,
                   "The model, as MLIR; - for standard output")
      ->type_name("MODEL")
      ->required();
  command->callback([=, &status] {
    poplar::ImportOptions options;
    if (seqLen->count())
      options.seqLen = arguments->seqLen;
    if (dropout->count())
      options.dropout = arguments->dropout;
    mlir::MLIRContext context(mlir::MLIRContext::Threading::DISABLED);
    std::string error;
    mlir::OwningOpRef<mlir::ModuleOp> module =
        poplar::importModel(arguments->config, options, context, error);
    if (!module) {
      status = reportError(error);
      return;
    }
    status = writeFile(arguments->output, formatModule(*module)) ? 0 : 1;
  });
}
