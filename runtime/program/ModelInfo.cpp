//===- ModelInfo.cpp - The model that a program is of ---------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/ModelInfo.h"
#include "support/Error.h"

#include <algorithm>

using namespace poplar::runtime;

AdapterInfo::AdapterInfo(const json::Value &Description)
    : Rank(Description.integer("lora_rank", 0)),
      Alpha(Description.number("lora_alpha", 0)),
      Dropout(Description.number("lora_dropout", 0)),
      Masked(Description.string("objective", "") == "masked") {
  if (const json::Value *Flag = Description.find("lora_in_out"))
    InOut = Flag->asBool();
  std::string List = Description.string("lora_targets", "");
  for (size_t Begin = 0; Begin < List.size();) {
    size_t End = std::min(List.find(',', Begin), List.size());
    Targets.push_back(List.substr(Begin, End - Begin));
    Begin = End + 1;
  }
}

ModelInfo::ModelInfo(const PoplarProgram &Program) {
  if (Program.magic != POPLAR_ABI_MAGIC ||
      Program.version != POPLAR_ABI_VERSION)
    fail("the program was compiled for another runtime (ABI version ",
         Program.version, ", this runtime's is ", POPLAR_ABI_VERSION,
         "); build it again");
  json::Value Description =
      json::parse(Program.description, "description of the program");
  Architecture = Description.string("architecture", "unknown");
  Config = Description.string("config", "{}");
  ConfigFacts = Description.string("config_facts", "");
  Precision = Description.string("precision", "f32");
  DeviceType = Description.string("device_type", "host");
  Scaled = Precision == "f16" || Description.find("scaled");
  Tokenizer = Description.string("tokenizer", "");
  TokenizerHash = Description.string("tokenizer_hash", "");
  WeightsPath = Description.string("weights_path", "");
  Masked = Description.string("objective", "causal") == "masked";
  if (const json::Value *Packing = Description.find("packing"))
    Packed = Packing->asBool();
  VocabSize = Description.integer("vocab_size", 0);
  SeqLen = Description.integer("seq_len", 0);
  LogitsColumns = Description.integer("logits_columns", VocabSize);
  Adapter = AdapterInfo(Description);
  std::string Format = Description.string("frozen_format", "");
  FrozenFormat = Format == "nf4"          ? POPLAR_NF4
                 : Format == "nf4_double" ? POPLAR_NF4_DOUBLE
                 : Format == "int8"       ? POPLAR_INT8
                                          : 0;
  if (VocabSize < 1 || SeqLen < 1)
    fail("the program's description lacks vocab_size or seq_len");
  if (!Masked)
    return;
  MaskToken = Description.integer("mask_token_id", -1);
  SpecialTokens = {MaskToken};
  if (const json::Value *Ids = Description.find("special_token_ids"))
    for (const json::Value &Element : Ids->elements()) {
      int64_t Id = -1;
      if (!Element.asInteger(Id) || Id < 0 || Id >= VocabSize)
        fail("special_token_ids is not a list of tokens of the vocabulary");
      SpecialTokens.push_back(Id);
    }
  std::sort(SpecialTokens.begin(), SpecialTokens.end());
  if (MaskToken < 0 || MaskToken >= VocabSize)
    fail("mask_token_id ", MaskToken, " is outside the vocabulary of ",
         VocabSize);
}
