//===- Adapter.cpp - Directories of PEFT ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Adapter.h"
#include "checkpoint/Checkpoint.h"
#include "checkpoint/PackedExperts.h"
#include "checkpoint/Safetensors.h"
#include "checkpoint/StackedExperts.h"
#include "checkpoint/TextNames.h"
#include "program/Executor.h"
#include "program/Quantized.h"
#include "program/QuantizedParts.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/MappedFile.h"
#include "support/Text.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <map>
#include <set>

using namespace poplar::runtime;
namespace fs = std::filesystem;

static const std::string NamePrefix = "base_model.model.";

std::string poplar::runtime::getAdapterName(const std::string &Tensor,
                                            bool IsMultimodal) {
  return NamePrefix + (IsMultimodal ? getMultimodalName(Tensor) : Tensor);
}

std::string poplar::runtime::getAdaptedTensor(const std::string &Name) {
  if (Name.compare(0, NamePrefix.size(), NamePrefix) != 0)
    return "";
  return getTextName(Name.substr(NamePrefix.size()));
}

//===----------------------------------------------------------------------===//
// Merging
//===----------------------------------------------------------------------===//

namespace poplar::runtime {
/// B A of a linear layer, scaled.
struct AdapterUpdate {
  std::vector<float> Down, Up; // [rank, in], [out, rank]
  int64_t Rank = 0, In = 0, Out = 0;
  float Scale = 0;
  bool InOut = false;

  /// Adds elements [Begin, End) of it to those of the weight.
  void addTo(float *Values, int64_t Begin, int64_t End) const {
    int64_t Columns = InOut ? Out : In;
    for (int64_t E = Begin; E < End; ++E) {
      int64_t Row = E / Columns, Column = E % Columns;
      int64_t To = InOut ? Column : Row, From = InOut ? Row : Column;
      float Sum = 0;
      for (int64_t R = 0; R < Rank; ++R)
        Sum += Up[static_cast<size_t>(To * Rank + R)] *
               Down[static_cast<size_t>(R * In + From)];
      Values[E - Begin] += Scale * Sum;
    }
  }
};
} // namespace poplar::runtime

static std::vector<float> readTensor(const TensorView &View,
                                     const std::string &Name) {
  if (View.ElementType == TensorView::Other || View.Shape.size() != 2)
    fail("'", *View.File, "': tensor '", Name,
         "' is no matrix of type F32, BF16 or F16");
  std::vector<float> Values(static_cast<size_t>(View.Elements));
  View.copyTo(Values.data());
  return Values;
}

/// Whether a tensor is of a module that is trained as a whole.
static bool isOfSaved(const AdapterInfo &Info, const std::string &Name) {
  std::string Module = Name.substr(0, Name.rfind('.'));
  return std::any_of(
      Info.Saved.begin(), Info.Saved.end(), [&](const std::string &Saved) {
        return Module.size() > Saved.size() &&
               Module.compare(Module.size() - Saved.size() - 1,
                              std::string::npos, "." + Saved) == 0;
      });
}

/// By the name of the module.
static std::map<std::string, AdapterUpdate>
readUpdates(const AdapterInfo &Info, const TensorFiles &Files,
            const std::string &Directory) {
  const std::string Down = ".lora_A.weight", Up = ".lora_B.weight";
  std::map<std::string, AdapterUpdate> Updates;
  for (const auto &[Name, View] : Files.tensors()) {
    if (isOfSaved(Info, Name))
      continue;
    bool IsDown =
        Name.size() > Down.size() &&
        Name.compare(Name.size() - Down.size(), Down.size(), Down) == 0;
    std::string Module = Name.substr(0, Name.size() - Down.size());
    const TensorView *Other = IsDown ? Files.find(Module + Up) : nullptr;
    if (!IsDown && Name.size() > Up.size() && Files.find(Module + Down))
      continue; // its other half
    if (!Other || Name.compare(0, NamePrefix.size(), NamePrefix) != 0)
      fail("'", *View.File, "': tensor '", Name,
           "' is not one of a pair lora_A and lora_B of ", NamePrefix, "...");
    AdapterUpdate U;
    U.Down = readTensor(View, Name);
    U.Up = readTensor(*Other, Module + Up);
    U.Rank = View.Shape[0];
    U.In = View.Shape[1];
    U.Out = Other->Shape[0];
    if (Other->Shape[1] != U.Rank || U.Rank != Info.Rank)
      fail("'", *View.File, "': tensors of '", Module, "' are not of rank ",
           Info.Rank);
    U.Scale = static_cast<float>(Info.Alpha / static_cast<double>(Info.Rank));
    Updates.emplace(getAdaptedTensor(Module), std::move(U));
  }
  if (Updates.empty())
    fail("'", Directory, "/", AdapterWeightsName, "' holds no adapters");
  return Updates;
}

/// The update of a tensor of the base, which may lack the first component of
/// its name.
static AdapterUpdate *findUpdate(std::map<std::string, AdapterUpdate> &Updates,
                                 const std::string &Name) {
  for (auto &[Module, U] : Updates) {
    std::string Weight = Module + ".weight";
    size_t Dot = Weight.find('.');
    if (Name == Weight || Name == Weight.substr(Dot + 1))
      return &U;
  }
  return nullptr;
}

/// The format that a program rounds a tensor of the base to; 0 if it is not
/// quantised.
static int32_t findFormat(const PoplarProgram &Program, int32_t OfModel,
                          const std::string &Name) {
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    std::string_view Own = P.slice ? P.slice->tensor : P.name;
    if (P.quantized && (Own == Name || Own.substr(Own.find('.') + 1) == Name))
      return getRoundedFormat(P, OfModel);
  }
  return 0;
}

/// Fails if a value of a merged tensor is not finite, or will not be when it is
/// rounded.
static void checkFinite(const std::vector<float> &Values,
                        TensorSource::Format Format, const TensorView &View,
                        const std::string &Name) {
  // Half of the last step beyond the largest value, 65504.
  constexpr float F16Limit = 65520;
  for (float Value : Values) {
    if (!std::isfinite(Value))
      fail("'", *View.File, "': tensor '", Name, "' and its adapter add up to ",
           Value, ": one of them is damaged or has diverged");
    if (Format == TensorSource::F16 && std::abs(Value) >= F16Limit)
      fail("'", *View.File, "': tensor '", Name, "' and its adapter add up to ",
           Value,
           ", which F16 cannot hold; save the model in BF16 or F32 "
           "(save_pretrained of transformers), and name it with --init");
  }
}

/// The matrix of `View`, or all of a stack, rounded to a format and back.
static std::vector<float> roundMatrices(const TensorView &View, int32_t Format,
                                        const std::string &Name) {
  auto Leaves = static_cast<int64_t>(getStackedLeaves(Name, View).size());
  int64_t Count = Leaves ? View.Shape[0] * Leaves : 1,
          Columns = View.Shape.back(), Rows = View.Elements / Columns / Count;
  std::vector<float> Values(static_cast<size_t>(View.Elements));
  View.copyTo(Values.data(), 0, View.Elements);
  std::vector<char> Bytes(static_cast<size_t>(
      poplar_quantized_layout(Format, Rows, Columns).bytes));
  for (int64_t I = 0; I < Count; ++I) {
    float *Matrix = Values.data() + I * Rows * Columns;
    if (!quantize(Format, Rows, Columns, Matrix, Bytes.data()))
      fail("'", *View.File, "': tensor '", Name,
           "' has values that are not finite, which cannot be quantised");
    dequantize(Format, Rows, Columns, Bytes.data(), 0, Rows * Columns,
               POPLAR_F32, Matrix);
  }
  return Values;
}

/// Copies what lies beside the weights of a model and belongs to it: the
/// configurations, and all of the tokenizer and its chat templates.
static void copyCompanions(const std::string &From, const std::string &To) {
  const std::string Templates = "additional_chat_templates";
  for (const fs::directory_entry &Entry : fs::directory_iterator(From)) {
    std::string Extension = Entry.path().extension().string(),
                Name = Entry.path().filename().string();
    if (Entry.is_directory() && Name == Templates)
      fs::copy(Entry.path(), To + "/" + Templates);
    bool IsCompanion = Extension == ".json" || Extension == ".txt" ||
                       Extension == ".jinja" || Extension == ".model";
    // What belongs to a checkpoint or an adapter, and files that are not
    // copied.
    bool IsLeftOut = Name == "state.json" || Name == AdapterConfigName ||
                     Name.find(".index.json") != std::string::npos;
    if (Entry.is_regular_file() && IsCompanion && !IsLeftOut)
      fs::copy_file(Entry.path(), To + "/" + Name);
  }
}

/// Notes which way round the tensor of an update is stored, by its shape or,
/// where that is square, by the model. An Error if it fits neither.
static void orient(AdapterUpdate &U, const TensorView &View,
                   const std::string &Name, bool IsInOut) {
  std::vector<int64_t> Stored = {U.Out, U.In}, Turned = {U.In, U.Out};
  if (View.Shape != Stored && View.Shape != Turned)
    fail("'", *View.File, "': tensor '", Name, "' is ",
         formatShape(View.Shape.data(), View.Shape.size()),
         ", but its adapter is of ", formatShape(Stored.data(), 2));
  U.InOut = Stored == Turned ? IsInOut : View.Shape == Turned;
}

/// Writes a model to the new directory `Out`, with what lies beside the weights
/// in `Base`, or another configuration if there is one. A failure leaves
/// nothing behind.
static void writeModel(const std::string &Out, const std::string &Base,
                       const std::string &Config,
                       const std::vector<TensorSource> &Tensors) {
  std::error_code Code;
  std::string Temporary = Out + ".tmp";
  fs::remove_all(Temporary, Code);
  createDirectories(Temporary);
  try {
    writeSafetensors(Temporary + "/model.safetensors", Tensors);
    copyCompanions(Base, Temporary);
    if (!Config.empty())
      writeFileAtomically(Temporary + "/config.json", Config);
    renamePath(Temporary, Out);
  } catch (const std::exception &E) {
    fs::remove_all(Temporary, Code);
    fail("cannot write '", Out, "': ", E.what());
  }
}

struct MergedModel::Parts {
  std::map<std::string, AdapterUpdate> Updates;
  /// The files of the model, and of the adapter.
  TensorFiles Files, Trained;
  std::vector<TensorSource> Tensors;
  std::set<std::string> Formats;
  /// The last block that was read, and all of its tensor if that is rounded.
  std::vector<float> Buffer, Matrix;
  size_t NumUpdated = 0, NumReplaced = 0;
  std::string Config;

  /// Reads what was trained.
  void readTrained(const AdapterInfo &Info, const std::string &Directory);

  /// Adds a tensor of the model; `Format` is what the program rounds it to.
  void add(const std::string &Name, const TensorView &View, AdapterUpdate *U,
           int32_t Format);
  /// Adds a tensor that was trained as a whole.
  void replace(const std::string &Name, const TensorView &View,
               const TensorView &New);
};

/// Tensors that are trained as a whole, of a run with adapters those of modules
/// to save: by what they are in the model, and by that without the first
/// component, which the base may lack.
static std::map<std::string, const TensorView *>
listReplacements(const AdapterInfo &Info, const TensorFiles &Trained) {
  std::map<std::string, const TensorView *> Replacements;
  for (const auto &[Own, View] : Trained.tensors()) {
    if (Info.Rank && !isOfSaved(Info, Own))
      continue;
    std::string Tensor = getAdaptedTensor(Own);
    if (Tensor.empty())
      Tensor = Own;
    Replacements[Tensor] = &View;
    Replacements.emplace(Tensor.substr(Tensor.find('.') + 1), &View);
  }
  return Replacements;
}

void MergedModel::Parts::replace(const std::string &Name,
                                 const TensorView &View,
                                 const TensorView &New) {
  if (New.Shape != View.Shape)
    fail("'", *View.File, "': tensor '", Name, "' is ",
         formatShape(View.Shape.data(), View.Shape.size()),
         ", but what was trained is ",
         formatShape(New.Shape.data(), New.Shape.size()));
  ++NumReplaced;
  TensorSource::Format StoredAs = getFormat(View, Name);
  Formats.insert(View.TypeName);
  Tensors.push_back({Name, View.Shape, [this, &New](int64_t B, int64_t E) {
                       Buffer.resize(static_cast<size_t>(E - B));
                       New.copyTo(Buffer.data(), B, E);
                       return static_cast<const float *>(Buffer.data());
                     }});
  Tensors.back().StoredAs = StoredAs;
}

void MergedModel::Parts::add(const std::string &Name, const TensorView &View,
                             AdapterUpdate *U, int32_t Format) {
  // As the model's config.json names it.
  TensorSource::Format StoredAs = getFormat(View, Name);
  Formats.insert(View.TypeName);
  if (Format && View.Shape.size() != 2 && getStackedLeaves(Name, View).empty())
    fail("'", *View.File, "': tensor '", Name, "' is no matrix");
  Tensors.push_back(
      {Name, View.Shape,
       [this, &View, &Name, Format, StoredAs, U](int64_t B, int64_t E) {
         Buffer.resize(static_cast<size_t>(E - B));
         if (Format && B == 0)
           Matrix = roundMatrices(View, Format, Name);
         if (Format)
           std::copy(Matrix.begin() + B, Matrix.begin() + E, Buffer.begin());
         else
           View.copyTo(Buffer.data(), B, E);
         if (U) {
           U->addTo(Buffer.data(), B, E);
           checkFinite(Buffer, StoredAs, View, Name);
         }
         return static_cast<const float *>(Buffer.data());
       }});
  Tensors.back().StoredAs = StoredAs;
}

void MergedModel::Parts::readTrained(const AdapterInfo &Info,
                                     const std::string &Directory) {
  if (!Info.Rank) {
    Trained = TensorFiles::open(Directory + "/" + TrainedWeightsName);
    return;
  }
  Trained = openAdapter(Info, Directory);
  Updates = readUpdates(Info, Trained, Directory);
}

/// Whether the base has the head of a program with tied embeddings, which
/// transformers makes of the embedding.
static bool isTiedHead(const PoplarProgram &Program, const std::string &Name) {
  bool IsThere = false;
  for (int64_t I = 0; I < Program.num_parameters; ++I) {
    const PoplarParameter &P = Program.parameters[I];
    IsThere |= isHead(P.slice ? P.slice->tensor : P.name);
  }
  return isHead(Name) && !IsThere;
}

/// Whether the program has the experts of a layer in one tensor.
static bool hasStacks(const PoplarProgram &Program) {
  return std::any_of(
      Program.parameters, Program.parameters + Program.num_parameters,
      [](const PoplarParameter &P) {
        return P.rank == 3 && endsWith(P.slice ? P.slice->tensor : P.name,
                                       ".experts.down_proj");
      });
}

MergedModel::MergedModel(const PoplarProgram &Program, const std::string &Base,
                         const std::string &Directory)
    : The(std::make_unique<Parts>()) {
  ModelInfo Model(Program);
  // PEFT, too, asks the model and not fan_in_fan_out.
  bool IsInOut = Model.Adapter.InOut;
  AdapterInfo Info =
      Model.Adapter.Rank ? readAdapterConfig(Directory) : AdapterInfo();
  The->readTrained(Info, Directory);
  The->Files = TensorFiles::open(Base);
  if (joinPackedExperts(The->Files))
    The->Config = Model.config;
  auto Replacements = listReplacements(Info, The->Trained);
  std::set<const TensorView *> Expected;
  for (const auto &[Name, View] : Replacements)
    Expected.insert(View);
  // Experts that were trained one by one.
  if (!Info.Rank && !hasStacks(Program))
    splitStackedExperts(The->Files);
  for (const auto &[Name, View] : The->Files.tensors()) {
    std::string TextName = getTextName(Name);
    auto New = Replacements.find(TextName);
    if (New != Replacements.end()) {
      The->replace(Name, View, *New->second);
      continue;
    }
    if (!Info.Rank && isTiedHead(Program, TextName))
      continue;
    AdapterUpdate *U = findUpdate(The->Updates, TextName);
    if (!View.isWeight() && !U)
      continue;
    if (U) {
      orient(*U, View, Name, IsInOut);
      ++The->NumUpdated;
    }
    // Experts of a stack are alike.
    std::vector<std::string> Leaves = getStackedLeaves(TextName, View);
    std::string Rounded = TextName;
    if (!Leaves.empty())
      Rounded = TextName.substr(0, TextName.rfind('.') + 1) + "0." + Leaves[0] +
                ".weight";
    The->add(Name, View, U, findFormat(Program, Model.frozen_type, Rounded));
  }
  if (The->NumUpdated != The->Updates.size())
    fail("'", Base, "' is not the model of the adapter: it has ",
         The->NumUpdated, " of the ", The->Updates.size(),
         " layers with adapters");
  if (The->NumReplaced != Expected.size())
    fail("'", Base, "' is not the model of the run: it has ", The->NumReplaced,
         " of the ", Expected.size(), " tensors that were trained as a whole");
}

MergedModel::~MergedModel() = default;

const std::vector<TensorSource> &MergedModel::tensors() const {
  return The->Tensors;
}

size_t MergedModel::getNumUpdated() const { return The->NumUpdated; }

size_t MergedModel::getNumReplaced() const { return The->NumReplaced; }

const std::string &MergedModel::getConfig() const { return The->Config; }

std::string MergedModel::listFormats() const {
  std::string List;
  for (const std::string &Format : The->Formats)
    List += (List.empty() ? "" : ", ") + Format;
  return List;
}

void poplar::runtime::mergeRun(const PoplarProgram &Program,
                               const std::string &Base,
                               const std::string &Directory,
                               const std::string &Given) {
  std::error_code Code;
  // What is written first lies beside it.
  std::string Out = Given;
  while (Out.size() > 1 && Out.back() == '/')
    Out.pop_back();
  if (fs::exists(Out, Code))
    fail("'", Out, "' is there already; choose another directory");
  MergedModel Merged(Program, Base, Directory);
  std::vector<TensorSource> Tensors = Merged.tensors();
  putAlignedFirst(Tensors);
  writeModel(Out, Base, Merged.getConfig(), Tensors);
  std::string What =
      std::to_string(Merged.getNumReplaced()) + " tensors that were trained";
  if (ModelInfo(Program).Adapter.Rank)
    What =
        "the adapters of " + std::to_string(Merged.getNumUpdated()) + " layers";
  std::printf(
      "merged %s into '%s', in the format of the model's weights (%s)\n",
      What.c_str(), Out.c_str(), Merged.listFormats().c_str());
}
