//===- FuzzTest.cpp - Readers of the runtime survive damage ---------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every damaged input ends in success or in an Error, never in a crash or a
// read outside the file (which the sanitizers' build would report).
//
//===----------------------------------------------------------------------===//

#include "../Support/Mutator.h"
#include "TestSupport.h"
#include "checkpoint/ModelConfig.h"
#include "checkpoint/Safetensors.h"
#include "support/Error.h"
#include "support/JSON.h"

#include <cstring>
#include <filesystem>

using namespace poplar::runtime;

namespace {

/// A file with tensors of several types and ranks.
std::string makeTensors() {
  std::string Header =
      R"({"__metadata__":{"format":"pt"},)"
      R"("model.embed.weight":{"dtype":"F32","shape":[4,2],)"
      R"("data_offsets":[0,32]},)"
      R"("model.norm":{"dtype":"BF16","shape":[6],"data_offsets":[32,44]},)"
      R"("h":{"dtype":"F16","shape":[2,1,2],"data_offsets":[44,52]},)"
      R"("ids":{"dtype":"I64","shape":[1],"data_offsets":[52,60]},)"
      R"("scalar":{"dtype":"F32","shape":[],"data_offsets":[60,64]}})";
  uint64_t Size = Header.size();
  std::string File(8, '\0');
  std::memcpy(File.data(), &Size, 8);
  return File + Header + std::string(64, 'x');
}

/// Puts the size of the header right, so that what follows it is read.
void fixHeaderSize(std::string &File) {
  uint64_t Size = File.rfind('}') + 1 - 8;
  if (File.size() >= 8 && Size <= File.size() - 8)
    std::memcpy(File.data(), &Size, 8);
}

/// Whether the file was read.
bool readTensors(const std::string &Path, size_t Bytes) {
  try {
    TensorFiles Files = TensorFiles::open(Path);
    for (const auto &[Name, View] : Files.tensors()) {
      EXPECT_LE(static_cast<size_t>(View.Bytes), Bytes);
      if (View.ElementType == TensorView::Other)
        continue;
      std::vector<float> Out(static_cast<size_t>(View.Elements));
      View.copyTo(Out.data());
    }
    return true;
  } catch (const Error &E) {
    EXPECT_NE(std::string(E.what()).find(Path), std::string::npos) << E.what();
    return false;
  }
}

TEST(Fuzz, Safetensors) {
  MemoryFile File;
  std::string Good = makeTensors(), Path = File.path();
  File.write(Good);
  ASSERT_TRUE(readTensors(Path, Good.size()));
  Mutator Mutate(1);
  int Read = 0, Refused = 0;
  for (int I = 0; I < 10000; ++I) {
    std::string Bad = Mutate(Good);
    if (I % 4)
      fixHeaderSize(Bad);
    File.write(Bad);
    ++(readTensors(Path, Bad.size()) ? Read : Refused);
  }
  // Both ends are reached, or the damage says nothing.
  EXPECT_GT(Read, 100);
  EXPECT_GT(Refused, 5000);
}

TEST(Fuzz, Index) {
  TempDir Dir;
  float X = 1;
  writeSafetensors(Dir / "1.safetensors", {{"x", {1}, &X}});
  std::string Good = R"({"metadata":{"total_size":4},)"
                     R"("weight_map":{"x":"1.safetensors"}})";
  MemoryFile Index;
  std::filesystem::create_symlink(Index.path(),
                                  Dir / "model.safetensors.index.json");
  Mutator Mutate(2);
  for (int I = 0; I < 2000; ++I) {
    Index.write(Mutate(Good));
    try {
      TensorFiles::open(Dir / "");
    } catch (const Error &) {
    }
  }
}

/// Writes a value back.
std::string print(const json::Value &V) {
  std::string Text, Separator;
  switch (V.kind()) {
  case json::Value::Null:
    return "null";
  case json::Value::Boolean:
    return V.asBool() ? "true" : "false";
  case json::Value::Number: {
    int64_t Integer;
    return V.asInteger(Integer) ? std::to_string(Integer) : "0.5";
  }
  case json::Value::String:
    return json::quote(V.asString());
  case json::Value::Array:
    for (const json::Value &Element : V.elements()) {
      Text += Separator + print(Element);
      Separator = ",";
    }
    return "[" + Text + "]";
  case json::Value::Object:
    for (const auto &[Key, Member] : V.members()) {
      Text += Separator + json::quote(Key) + ":" + print(Member);
      Separator = ",";
    }
    return "{" + Text + "}";
  }
  return "";
}

// A damaged config.json is that of the program, or an error that names the
// file.
TEST(Fuzz, ModelConfig) {
  const std::string Facts =
      R"({"model_type": "llama", "architecture": "LlamaForCausalLM", "facts": [)"
      R"({"keys": ["hidden_size"], "values": [64], "absent": 4096},)"
      R"({"keys": ["rms_norm_eps"], "values": [1e-05], "absent": 1e-06},)"
      R"({"keys": ["rope_parameters.rope_theta", "rope_theta"],)"
      R"( "values": [10000], "absent": 10000},)"
      R"({"keys": ["tie_word_embeddings"], "values": [false], "absent": false},)"
      R"({"keys": ["eos_token_id"], "values": [[2, 3]], "absent": null}],)"
      R"( "known": ["hidden_size", "rms_norm_eps", "rope_parameters",)"
      R"( "rope_theta", "tie_word_embeddings", "eos_token_id", "torch_dtype",)"
      R"( "architectures", "model_type"]})";
  const std::string Good =
      R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama",)"
      R"( "hidden_size": 64, "rms_norm_eps": 1e-05, "tie_word_embeddings": false,)"
      R"( "rope_parameters": {"rope_theta": 10000.0}, "eos_token_id": [2, 3],)"
      R"( "torch_dtype": "float32"})";
  MemoryFile File;
  File.write(Good);
  EXPECT_NO_THROW(checkModelConfig(Facts, File.path()));
  Mutator Mutate(4);
  int Accepted = 0, Refused = 0;
  for (int I = 0; I < 10000; ++I) {
    std::string Bad = Mutate(Good);
    File.write(Bad);
    try {
      checkModelConfig(Facts, File.path());
      ++Accepted;
    } catch (const Error &E) {
      std::string Message = E.what();
      EXPECT_NE(Message.find(File.path()), std::string::npos) << Message;
      EXPECT_EQ(Message.find('\n'), std::string::npos) << Message;
      ++Refused;
    }
  }
  EXPECT_GT(Accepted, 100);
  EXPECT_GT(Refused, 5000);
  // What the program itself holds may be damaged as well.
  File.write(Good);
  for (int I = 0; I < 5000; ++I) {
    try {
      checkModelConfig(Mutate(Facts), File.path());
    } catch (const Error &) {
    }
  }
}

// What is accepted can be printed and parsed again; an error names a byte of
// the text.
TEST(Fuzz, JSON) {
  std::string Good = R"( {"version": 1, "step": 12, "best_val_loss": -1.5e-3,
    "names": ["a\n\u00e9\ud83d\ude00", "", null, true, [[], {}]], "o": {"x": 0}})";
  Mutator Mutate(3);
  int Accepted = 0;
  for (int I = 0; I < 20000; ++I) {
    std::string Bad = Mutate(Good);
    try {
      std::string Printed = print(json::parse(Bad, "text"));
      EXPECT_EQ(print(json::parse(Printed, "text")), Printed) << Bad;
      ++Accepted;
    } catch (const Error &E) {
      std::string Message = E.what();
      ASSERT_EQ(Message.rfind("text: byte ", 0), 0u) << Message;
      EXPECT_LE(std::stoull(Message.substr(11)), Bad.size()) << Message;
    }
  }
  EXPECT_GT(Accepted, 1000);
  EXPECT_LT(Accepted, 15000);
}

} // namespace
