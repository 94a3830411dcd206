//===- ModelInfo.cpp - The model that a program is of ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/ModelInfo.h"
#include "support/Error.h"
#include "support/JSON.h"
#include "support/Text.h"

#include <algorithm>

using namespace poplar::runtime;

AdapterInfo::AdapterInfo(const PoplarModel &Model)
    : Rank(Model.lora_rank), Alpha(Model.lora_alpha),
      Dropout(Model.lora_dropout), Masked(Model.masked),
      InOut(Model.lora_in_out) {
  std::string List = Model.lora_targets;
  for (size_t Begin = 0; Begin < List.size();) {
    size_t End = std::min(List.find(',', Begin), List.size());
    Targets.push_back(List.substr(Begin, End - Begin));
    Begin = End + 1;
  }
}

/// Modules of trained parameters that are not those of adapters.
static std::vector<std::string> listSaved(const PoplarProgram &Program) {
  std::vector<std::string> Names;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    std::string_view Name = P.slice ? P.slice->tensor : P.name;
    if (Program.buckets[P.bucket].frozen || endsWith(Name, ".lora_A.weight") ||
        endsWith(Name, ".lora_B.weight"))
      continue;
    Name = Name.substr(0, std::min(Name.rfind('.'), Name.size()));
    size_t Dot = Name.rfind('.');
    Names.emplace_back(Dot == Name.npos ? Name : Name.substr(Dot + 1));
  }
  std::sort(Names.begin(), Names.end());
  Names.erase(std::unique(Names.begin(), Names.end()), Names.end());
  return Names;
}

/// The model of a program. The tables of a program of another version lie
/// elsewhere.
static const PoplarModel &getModel(const PoplarProgram &Program) {
  if (Program.magic != POPLAR_ABI_MAGIC ||
      Program.version != POPLAR_ABI_VERSION)
    fail("the program was compiled for another runtime (ABI version ",
         Program.version, ", this runtime's is ", POPLAR_ABI_VERSION,
         "); build it again");
  return *Program.model;
}

ModelInfo::ModelInfo(const PoplarProgram &Program)
    : PoplarModel(getModel(Program)), Precision(Program.precision),
      DeviceType(Program.device_type), Adapter(*this) {
  if (vocab_size < 1 || seq_len < 1)
    fail("the program is damaged: it has no vocabulary or no tokens in a "
         "sample; build it again");
  if (*config_facts) {
    json::Value Facts =
        json::parse(config_facts, "the program's description of its model");
    ModelType = Facts.string("model_type", "");
    Multimodal = Facts.string("multimodal", "");
  }
  Adapter.IsMultimodal = !Multimodal.empty();
  if (Adapter.Rank)
    Adapter.Saved = listSaved(Program);
  if (!masked)
    return;
  SpecialTokens = {mask_token};
  SpecialTokens.insert(SpecialTokens.end(), special_tokens,
                       special_tokens + num_special_tokens);
  for (int64_t Id : SpecialTokens)
    if (Id < 0 || Id >= vocab_size)
      fail("the program is damaged: special token ", Id,
           " is outside the vocabulary of ", vocab_size, "; build it again");
  std::sort(SpecialTokens.begin(), SpecialTokens.end());
}
