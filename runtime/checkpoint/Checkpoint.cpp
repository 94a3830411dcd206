//===- Checkpoint.cpp - Loading the state of a run ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Checkpoint.h"
#include "checkpoint/Adapter.h"
#include "checkpoint/ChoiceBiases.h"
#include "checkpoint/ModelConfig.h"
#include "checkpoint/PackedExperts.h"
#include "checkpoint/Safetensors.h"
#include "checkpoint/StackedExperts.h"
#include "checkpoint/StateReader.h"
#include "checkpoint/TextNames.h"
#include "comm/Wire.h"
#include "program/Initialization.h"
#include "program/Tensors.h"
#include "support/CommandName.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/RunDirectory.h"
#include "support/Text.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

/// Checks that `View` is there and of the shape of tensor `T`.
static void checkShape(const Tensor &T, const std::string &Name,
                       const TensorView *View, const std::string &Path) {
  std::string Wanted = formatShape(T.Shape, static_cast<size_t>(T.Rank));
  if (!View)
    fail("'", Path, "' is of another model: it has no tensor '", Name, "' (",
         Wanted, ")");
  if (!std::equal(View->Shape.begin(), View->Shape.end(), T.Shape,
                  T.Shape + T.Rank))
    fail("'", *View->File, "' is of another model: tensor '", Name, "' is ",
         formatShape(View->Shape.data(), View->Shape.size()),
         " and this model's is ", Wanted);
}

/// Checks that `View` is what tensor `T` needs.
static void checkTensor(const Tensor &T, const std::string &Name,
                        const TensorView *View, const std::string &Path) {
  checkShape(T, Name, View, Path);
  if (View->ElementType == TensorView::Other)
    fail("'", *View->File, "': tensor '", Name, "' is of type ", View->TypeName,
         "; F32, BF16 and F16 can be read");
}

/// Checkpoints of Hugging Face hold buffers, heads and layers that predict
/// several tokens, which are not trained here.
static bool isIgnored(std::string_view Name) {
  for (std::string_view Beginning : {"mtp.", "model.mtp_layers."})
    if (Name.substr(0, Beginning.size()) == Beginning)
      return true;
  for (std::string_view Ending :
       {".attn.bias", ".attn.masked_bias", ".attention.bias",
        ".attention.masked_bias", "position_ids", "token_type_ids", ".inv_freq",
        "pooler.dense.weight", "pooler.dense.bias",
        "cls.seq_relationship.weight", "cls.seq_relationship.bias"})
    if (endsWith(Name, Ending))
      return true;
  return false;
}

/// Whether it is of a layer behind the model's, which predicts a further token
/// (DeepSeek-V3, GLM-4.5).
static bool isOfPredictor(const TensorFiles &Files, const std::string &Name) {
  constexpr std::string_view Layers = "model.layers.";
  size_t End = Name.find('.', Layers.size());
  return Name.compare(0, Layers.size(), Layers) == 0 &&
         End != std::string::npos &&
         Files.find(Name.substr(0, End) + ".eh_proj.weight");
}

/// Whether the program itself has the experts of a layer in one tensor.
static bool isStackOfExperts(const Tensor &T) {
  return T.Rank == 3 && endsWith(T.Name, ".experts.down_proj");
}

/// Whether two tensors have the same values, once those of the wider format are
/// rounded to the narrower one: then transformers, which loads both in one
/// format, ties them.
static bool haveEqualValues(const TensorView &A, const TensorView &B) {
  if (A.Shape != B.Shape || A.ElementType == TensorView::Other ||
      B.ElementType == TensorView::Other)
    return false;
  const TensorView &Narrow = A.Bytes < B.Bytes ? A : B;
  comm::Type Type = Narrow.ElementType == TensorView::F32    ? comm::Type::F32
                    : Narrow.ElementType == TensorView::BF16 ? comm::Type::BF16
                                                             : comm::Type::F16;
  constexpr int64_t Block = 1 << 16;
  std::vector<float> Values(Block);
  std::vector<char> Rounded[2];
  for (int64_t Begin = 0; Begin < A.Elements; Begin += Block) {
    int64_t Count = std::min(Block, A.Elements - Begin), Side = 0;
    for (const TensorView *View : {&A, &B}) {
      View->copyTo(Values.data(), Begin, Begin + Count);
      std::vector<char> &Bytes = Rounded[Side++];
      Bytes.resize(static_cast<size_t>(Count * comm::getBytes(Type)));
      comm::convert(Values.data(), comm::Type::F32, Bytes.data(), Type, Count);
    }
    if (Rounded[0] != Rounded[1])
      return false;
  }
  return true;
}

/// Fails for a tensor that the program has no place for, unless it repeats one
/// of `Used` as the head of a model with tied embeddings.
static void checkUnused(const std::string &Name, const TensorView &View,
                        const TensorFiles &Files,
                        const std::vector<std::string> &Used) {
  for (const std::string &Other : Used) {
    const TensorView &Candidate = *Files.find(Other);
    if (isHead(Name) && haveEqualValues(Candidate, View))
      return;
  }
  if (isHead(Name) && View.Shape.size() == 2)
    fail("'", *View.File, "' has a head of its own, '", Name,
         "', but the program was built with tie_word_embeddings true, and its "
         "values are not those of the embeddings; set tie_word_embeddings to "
         "false in config.json and import it again, or remove the tensor if "
         "the head is not meant to differ");
  fail("'", *View.File, "' is of another model: this one has no tensor '", Name,
       "'");
}

/// The first checkpoints of BERT call the parameters of a norm as its paper
/// does. Empty for other names.
static std::string getFirstName(const std::string &Name) {
  for (auto [Now, First] : {std::pair("LayerNorm.weight", "LayerNorm.gamma"),
                            std::pair("LayerNorm.bias", "LayerNorm.beta")})
    if (endsWith(Name, Now))
      return Name.substr(0, Name.size() - std::string_view(Now).size()) + First;
  return "";
}

/// The names of the files' tensors by those that the model of text has for
/// them.
static std::map<std::string, std::string>
listTextNames(const TensorFiles &Files) {
  std::map<std::string, std::string> Names;
  for (const auto &Entry : Files.tensors())
    if (isOfText(Entry.first))
      Names.emplace(getTextName(Entry.first), Entry.first);
  return Names;
}

/// The name of tensor `T` in the files: as it is, or without its first
/// component, or of a norm as it was once called.
static std::string findName(const TensorFiles &Files, const Tensor &T) {
  std::string Name = T.Name;
  for (const std::string &Candidate : {Name, getFirstName(Name)}) {
    if (Files.find(Candidate))
      return Candidate;
    size_t Dot = Candidate.find('.');
    if (Dot != std::string::npos && Files.find(Candidate.substr(Dot + 1)))
      return Candidate.substr(Dot + 1);
  }
  return Name;
}

/// Tensors that fit do not make the same model: their config.json must tell of
/// the same function. Returns whether theirs is a larger model.
static bool checkConfig(const Executor &Exec, const std::string &Weights) {
  fs::path Directory(Weights);
  std::error_code Code;
  if (!fs::is_directory(Directory, Code))
    Directory = Directory.parent_path();
  std::string Path = (Directory / "config.json").string();
  if (!*Exec.model().config_facts)
    return false;
  if (fs::exists(Path, Code))
    return checkModelConfig(Exec.model().config_facts, Path);
  if (Exec.state().rank() == 0)
    std::fprintf(Notes,
                 "note: '%s' has no config.json beside it; only names and "
                 "shapes of its tensors are compared with the program\n",
                 Weights.c_str());
  return false;
}

static bool isFrozen(const PoplarProgram &Program, const Tensor &T) {
  return Program.buckets[Program.parameters[T.Parts.front()].bucket].frozen;
}

bool poplar::runtime::hasFrozen(const PoplarProgram &Program) {
  return std::any_of(Program.buckets, Program.buckets + Program.num_buckets,
                     [](const PoplarBucket &B) { return B.frozen != 0; });
}

/// The frozen tensors, or the trained ones.
static std::vector<Tensor> listTensors(const PoplarProgram &Program,
                                       bool AreFrozen) {
  std::vector<Tensor> Tensors = listTensors(Program);
  Tensors.erase(std::remove_if(Tensors.begin(), Tensors.end(),
                               [&](const Tensor &T) {
                                 return isFrozen(Program, T) != AreFrozen;
                               }),
                Tensors.end());
  return Tensors;
}

/// The tensors that are no adapters: frozen, or trained as a whole.
static std::vector<Tensor> listTensorsOfBase(const PoplarProgram &Program) {
  std::vector<Tensor> Tensors = listTensors(Program);
  Tensors.erase(std::remove_if(Tensors.begin(), Tensors.end(),
                               [](const Tensor &T) {
                                 return !getAdaptedModule(T.Name).empty();
                               }),
                Tensors.end());
  return Tensors;
}

static bool holdsAdapter(const std::string &Directory) {
  std::error_code Code;
  return fs::exists(Directory + "/" + AdapterConfigName, Code);
}

static bool holdsTrainedWeights(const std::string &Directory) {
  std::error_code Code;
  return fs::exists(Directory + "/" + TrainedWeightsName, Code);
}

static void fillTensors(Executor &Exec, const std::vector<Tensor> &Tensors,
                        const TensorFiles &Files,
                        const std::vector<std::string> &Names) {
  for (size_t T = 0; T < Tensors.size(); ++T)
    for (int64_t I : Tensors[T].Parts)
      fillParameter(Exec, I, [&](float *Out, int64_t Begin, int64_t End) {
        Files.find(Names[T])->copyTo(Out, Begin, End);
      });
}

/// Fills tensors that the files hold under `Names`, and nothing else.
static void loadExactly(Executor &Exec, const std::vector<Tensor> &Tensors,
                        TensorFiles &Files,
                        const std::vector<std::string> &Names,
                        const std::string &Path) {
  for (size_t T = 0; T < Tensors.size(); ++T) {
    divideBias(Files, Names[T], Tensors[T]);
    checkTensor(Tensors[T], Names[T], Files.find(Names[T]), Path);
  }
  std::vector<std::string> Sorted = Names;
  std::sort(Sorted.begin(), Sorted.end());
  for (const auto &[Name, View] : Files.tensors())
    if (!std::binary_search(Sorted.begin(), Sorted.end(), Name))
      fail("'", *View.File,
           "' is of another model: this one trains no tensor '", Name, "'");
  fillTensors(Exec, Tensors, Files, Names);
}

int64_t poplar::runtime::loadAdapter(Executor &Exec,
                                     const std::string &RunOrDirectory) {
  if (!Exec.model().Adapter.Rank)
    fail("the program has no adapters to load; import its model with "
         "--lora-rank");
  std::string Directory = resolveCheckpoint(RunOrDirectory);
  AdapterInfo Given = readAdapterConfig(Directory);
  TensorFiles Files = openAdapter(Given, Directory);
  std::vector<Tensor> Tensors =
      listTensors(Exec.program(), /*AreFrozen=*/false);
  bool IsMultimodal = Exec.model().Adapter.IsMultimodal;
  std::map<std::string, std::string> Found;
  for (const auto &Entry : Files.tensors())
    Found.emplace(getAdapterName(getAdaptedTensor(Entry.first), IsMultimodal),
                  Entry.first);
  std::vector<std::string> Names;
  for (const Tensor &T : Tensors) {
    std::string Name = getAdapterName(T.Name, IsMultimodal);
    auto At = Found.find(Name);
    Names.push_back(At == Found.end() ? Name : At->second);
  }
  checkAdapterConfig(Exec.model().Adapter, Given, Files, Names, Directory);
  loadExactly(Exec, Tensors, Files, Names,
              Directory + "/" + AdapterWeightsName);
  return static_cast<int64_t>(Tensors.size());
}

int64_t poplar::runtime::initializeModel(Executor &Exec,
                                         const std::string &Base,
                                         int64_t Seed) {
  bool HasAdapters = Exec.model().Adapter.Rank > 0;
  if (Base.empty() || HasAdapters)
    initializeParameters(Exec, static_cast<uint64_t>(Seed),
                         /*OnlyTrained=*/!Base.empty());
  return Base.empty() ? 0 : loadWeights(Exec, Base);
}

std::string poplar::runtime::findBase(const std::string &Directory,
                                      const std::string &Base) {
  if (!Base.empty())
    return Base;
  std::error_code Code;
  std::string Found = fs::exists(Directory + "/state.json", Code)
                          ? readState(Directory).Base
                          : readAdapterBase(Directory);
  if (!Found.empty() && !fs::exists(Found, Code))
    fail("the frozen parameters of '", Directory, "' are those of '", Found,
         "', which is not there; name the model with --init");
  return Found;
}

void poplar::runtime::loadTrained(Executor &Exec,
                                  const std::string &RunOrCheckpoint,
                                  const std::string &Base) {
  if (!hasFrozen(Exec.program())) {
    loadWeights(Exec, RunOrCheckpoint);
    return;
  }
  std::string Directory = resolveCheckpoint(RunOrCheckpoint),
              From = findBase(Directory, Base);
  std::error_code Code;
  bool HasState = fs::exists(Directory + "/state.json", Code);
  if (From.empty() && !HasState)
    fail("'", Directory,
         "' does not say which model it is an adapter of; name it with --init");
  initializeModel(Exec, From, HasState ? readState(Directory).Seed : 0);
  if (Exec.model().Adapter.Rank) {
    loadAdapter(Exec, Directory);
    return;
  }
  std::vector<Tensor> Tensors =
      listTensors(Exec.program(), /*AreFrozen=*/false);
  std::vector<std::string> Names;
  for (const Tensor &T : Tensors)
    Names.push_back(T.Name);
  std::string Path = Directory + "/" + TrainedWeightsName;
  TensorFiles Files = TensorFiles::open(Path);
  loadExactly(Exec, Tensors, Files, Names, Path);
}

int64_t poplar::runtime::loadWeights(Executor &Exec,
                                     const std::string &RunOrCheckpoint) {
  std::string Path = resolveCheckpoint(RunOrCheckpoint);
  if (holdsAdapter(Path))
    fail("'", Path,
         "' holds an adapter and no model: give its model with "
         "--init, and it with --init-adapter");
  if (holdsTrainedWeights(Path))
    fail("'", Path,
         "' holds the trained weights of a model and not the frozen ones; "
         "`poplar merge` writes all of them");
  TensorFiles Files = TensorFiles::open(Path);
  std::vector<Tensor> Tensors = Exec.model().Adapter.Rank
                                    ? listTensorsOfBase(Exec.program())
                                    : listTensors(Exec.program());
  joinPackedExperts(Files);
  if (std::none_of(Tensors.begin(), Tensors.end(), isStackOfExperts))
    splitStackedExperts(Files);
  bool IsMultimodal = checkConfig(Exec, Path);
  std::map<std::string, std::string> TextNames;
  if (IsMultimodal)
    TextNames = listTextNames(Files);
  std::vector<std::string> Used;
  for (const Tensor &T : Tensors) {
    auto Found = TextNames.find(T.Name);
    Used.push_back(Found == TextNames.end() ? findName(Files, T)
                                            : Found->second);
    divideBias(Files, Used.back(), T);
    checkTensor(T, Used.back(), Files.find(Used.back()), Path);
  }
  std::vector<std::string> Sorted = Used;
  std::sort(Sorted.begin(), Sorted.end());
  int64_t NumOthers = 0;
  for (const auto &[Name, View] : Files.tensors()) {
    if (std::binary_search(Sorted.begin(), Sorted.end(), Name) ||
        isIgnored(Name) || isOfPredictor(Files, Name))
      continue;
    if (IsMultimodal && !isOfText(Name))
      ++NumOthers;
    else
      checkUnused(Name, View, Files, Used);
  }
  if (NumOthers && Exec.state().rank() == 0)
    std::fprintf(Notes,
                 "note: '%s' is a %s: %lld of its tensors are not of the model "
                 "of text, and are not read\n",
                 Path.c_str(), Exec.model().Multimodal.c_str(),
                 static_cast<long long>(NumOthers));
  fillTensors(Exec, Tensors, Files, Used);
  return static_cast<int64_t>(Tensors.size());
}

namespace {
/// A moment as a checkpoint has it: in f32, or with `Scales` in blocks.
struct SavedMoment {
  const TensorView *Values = nullptr, *Scales = nullptr;
  MomentFormat Format = {};

  float getScale(int64_t Element) const {
    float Scale;
    std::memcpy(&Scale, Scales->Data + Element / POPLAR_STATE_BLOCK * 4, 4);
    return Scale;
  }

  /// Elements [Begin, End) in f32.
  void copyTo(float *Out, int64_t Begin, int64_t End) const {
    if (!Scales)
      return Values->copyTo(Out, Begin, End);
    const auto *Codes = reinterpret_cast<const uint8_t *>(Values->Data);
    for (int64_t Last; Begin < End; Out += Last - Begin, Begin = Last) {
      Last = std::min(End, (Begin / POPLAR_STATE_BLOCK + 1) *
                               int64_t(POPLAR_STATE_BLOCK));
      Format.dequantize(Codes + Begin, getScale(Begin), Last - Begin, Out);
    }
  }

  /// Codes of a block, of elements from `Begin` on; returns its scale.
  float copyBlock(uint8_t *Out, int64_t Begin, int64_t Count) const {
    if (Scales) {
      std::memcpy(Out, Values->Data + Begin, static_cast<size_t>(Count));
      return getScale(Begin);
    }
    float Wide[POPLAR_STATE_BLOCK];
    Values->copyTo(Wide, Begin, Begin + Count);
    return Format.quantize(Wide, Count, Out);
  }
};
} // namespace

/// Fills a moment in blocks where the rank has parts of it.
static void loadBlocks(Executor &Exec, int64_t Parameter,
                       MomentBlocks Shard::*Blocks, const SavedMoment &Saved) {
  const PoplarParameter &P = Exec.program().parameters[Parameter];
  const Shard &Own = Exec.state().shard(P.bucket);
  std::vector<uint8_t> Codes;
  std::vector<float> Scales;
  for (const Piece &Part : Exec.state().pieces(P.bucket)) {
    if (Part.Parameter != Parameter)
      continue;
    Codes.resize(static_cast<size_t>(Part.End - Part.Begin));
    Scales.clear();
    // Runs are of whole blocks.
    forEachRun(P, Part.Begin, Part.End,
               [&](int64_t At, int64_t Offset, int64_t Count) {
                 for (int64_t B = 0; B < Count; B += POPLAR_STATE_BLOCK)
                   Scales.push_back(Saved.copyBlock(
                       Codes.data() + Offset + B, At + B,
                       std::min<int64_t>(POPLAR_STATE_BLOCK, Count - B)));
               });
    MomentBlocks To = (Own.*Blocks).from(Part.Offset);
    auto Count = static_cast<int64_t>(Codes.size());
    packCodes(To.Bits, Codes.data(), Count, Codes.data());
    Exec.device().copyIn(To.Codes, Codes.data(), (Count * To.Bits + 7) / 8);
    Exec.device().copyIn(To.Scales, Scales.data(),
                         static_cast<int64_t>(Scales.size() * 4));
  }
}

static void loadWideMoment(Executor &Exec, int64_t Parameter,
                           float *Shard::*Array, const SavedMoment &Saved) {
  const PoplarParameter &P = Exec.program().parameters[Parameter];
  const Shard &Own = Exec.state().shard(P.bucket);
  for (const Piece &Part : Exec.state().pieces(P.bucket))
    if (Part.Parameter == Parameter)
      fillArray(Exec, Own.find(Array, Part.Offset), Part.Begin, Part.End,
                [&](float *Out, int64_t Begin, int64_t End) {
                  forEachRun(P, Begin, End,
                             [&](int64_t At, int64_t Offset, int64_t Count) {
                               Saved.copyTo(Out + Offset, At, At + Count);
                             });
                });
}

/// A moment of a tensor, whose format fits the program: that of the program, or
/// another where ranks that share units cut blocks, before or now.
static SavedMoment findMoment(const Executor &Exec, const TensorFiles &Files,
                              const std::string &Path, const Tensor &T,
                              std::string Name, int64_t SavedBits) {
  SavedMoment Saved;
  Saved.Values = Files.find(Name);
  checkShape(T, Name, Saved.Values, Path);
  bool IsInBlocks = Saved.Values->TypeName == "U8",
       Expected = hasBlockStates(Exec, T);
  int64_t Own = Exec.state().getStateBits(), Bits = !IsInBlocks ? 0
                                                    : SavedBits ? SavedBits
                                                                : 8;
  bool MayDiffer = Own && SavedBits == Own;
  if (Bits != (Expected ? Own : 0) && !MayDiffer) {
    auto describe = [](int64_t Bits) {
      return Bits ? std::to_string(Bits) + " bits" : std::string("f32");
    };
    fail("'", Path, "' has '", Name, "' in ", describe(Bits),
         ", and this program keeps it in ", describe(Expected ? Own : 0),
         "; resume with a program of the model as imported with "
         "--optimizer-states ",
         Bits ? "int" + std::to_string(Bits) : "f32");
  }
  if (!IsInBlocks) {
    checkTensor(T, Name, Saved.Values, Path);
    return Saved;
  }
  if (Bits == 4 &&
      std::any_of(Saved.Values->Data, Saved.Values->Data + T.countElements(),
                  [](char Code) { return Code & ~15; }))
    fail("'", Path, "': tensor '", Name, "' has a code above 15");
  int64_t NumBlocks = countStateBlocks(T.countElements());
  Name += StateReader::ScalesSuffix;
  Saved.Scales = Files.find(Name);
  checkTensor({T.Name, 1, &NumBlocks, {}}, Name, Saved.Scales, Path);
  if (Saved.Scales->ElementType != TensorView::F32)
    fail("'", Path, "': tensor '", Name, "' is of type ",
         Saved.Scales->TypeName, ", expected F32");
  return Saved;
}

static void loadMoment(Executor &Exec, const TensorFiles &Files,
                       const std::string &Path, const std::string &Suffix,
                       float *Shard::*Array, MomentBlocks Shard::*Blocks,
                       int64_t SavedBits) {
  for (const Tensor &T : listTensors(Exec.program(), /*AreFrozen=*/false)) {
    SavedMoment Saved =
        findMoment(Exec, Files, Path, T, T.Name + Suffix, SavedBits);
    Saved.Format = {Exec.state().getStateBits(), Blocks == &Shard::Blocks1};
    for (int64_t I : T.Parts)
      if (Exec.state().hasBlockStates(Exec.program().parameters[I]))
        loadBlocks(Exec, I, Blocks, Saved);
      else
        loadWideMoment(Exec, I, Array, Saved);
  }
}

void poplar::runtime::loadTensors(Executor &Exec, const std::string &Directory,
                                  const std::string &Base) {
  if (hasFrozen(Exec.program()))
    loadTrained(Exec, Directory, Base);
  else
    loadWeights(Exec, Directory + "/model.safetensors");
  std::string Path = Directory + "/optimizer.safetensors";
  TensorFiles Moments = TensorFiles::open(Path);
  int64_t SavedBits = readState(Directory).StateBits;
  loadMoment(Exec, Moments, Path, ".m", &Shard::Moment1, &Shard::Blocks1,
             SavedBits);
  loadMoment(Exec, Moments, Path, ".v", &Shard::Moment2, &Shard::Blocks2,
             SavedBits);
}
