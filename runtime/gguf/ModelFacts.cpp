//===- ModelFacts.cpp - What a program knows of its model's config --------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/ModelFacts.h"
#include "support/Error.h"

using namespace poplar::runtime;

ModelFacts::ModelFacts(const ModelInfo &Model)
    : Facts(json::parse(*Model.config_facts ? Model.config_facts : "{}",
                        "config_facts of the program")),
      Config(json::parse(*Model.config ? Model.config : "{}",
                         "config.json of the model")) {}

const json::Value *ModelFacts::find(std::string_view Key) const {
  const json::Value *List = Facts.find("facts");
  for (size_t I = 0; List && I < List->elements().size(); ++I) {
    const json::Value &Fact = List->elements()[I];
    const json::Value *Keys = Fact.find("keys"), *Values = Fact.find("values");
    if (!Keys || !Values || Values->elements().empty())
      continue;
    for (const json::Value &Name : Keys->elements())
      if (Name.asString() == Key) {
        const json::Value &Value = Values->elements()[0];
        return Value.kind() == json::Value::Null ? nullptr : &Value;
      }
  }
  return nullptr;
}

bool ModelFacts::has(std::string_view Key) const {
  const json::Value *Value = find(Key);
  return Value && (Value->kind() != json::Value::Boolean || Value->asBool());
}

void ModelFacts::fail(std::string_view Key) const {
  runtime::fail("the program does not say what '", Key,
                "' of its model is; build it again");
}

int64_t ModelFacts::getCount(std::string_view Key) const {
  const json::Value *Value = find(Key);
  int64_t Count = 0;
  if (!Value || !Value->asInteger(Count))
    fail(Key);
  return Count;
}

double ModelFacts::getNumber(std::string_view Key) const {
  std::optional<double> Number = findNumber(Key);
  if (!Number)
    fail(Key);
  return *Number;
}

std::string ModelFacts::getText(std::string_view Key) const {
  const json::Value *Value = find(Key);
  if (!Value || Value->kind() != json::Value::String)
    fail(Key);
  return std::string(Value->asString());
}

std::optional<double> ModelFacts::findNumber(std::string_view Key) const {
  const json::Value *Value = find(Key);
  if (!Value || Value->kind() != json::Value::Number)
    return std::nullopt;
  return Value->asDouble();
}
