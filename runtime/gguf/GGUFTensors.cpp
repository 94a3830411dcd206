//===- GGUFTensors.cpp - Tensors in the words of llama.cpp ----------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/GGUFTensors.h"
#include "support/Error.h"

#include <algorithm>
#include <charconv>

using namespace poplar::runtime;

//===----------------------------------------------------------------------===//
// Names
//===----------------------------------------------------------------------===//

static bool consume(std::string_view &Text, std::string_view Prefix) {
  if (Text.substr(0, Prefix.size()) != Prefix)
    return false;
  Text.remove_prefix(Prefix.size());
  return true;
}

static bool consumeNumber(std::string_view &Text, int64_t &Number) {
  auto [End, Code] =
      std::from_chars(Text.data(), Text.data() + Text.size(), Number);
  if (Code != std::errc())
    return false;
  Text.remove_prefix(static_cast<size_t>(End - Text.data()));
  return true;
}

/// What follows the module's name in that of a tensor, "weight" or "bias", with
/// the number of the expert; empty if it is of another one.
static std::string_view match(std::string_view Name, std::string_view Module,
                              int64_t &Expert) {
  size_t Mark = Module.find('#');
  Expert = 0;
  if (!consume(Name, Module.substr(0, Mark)))
    return {};
  if (Mark != Module.npos &&
      (!consumeNumber(Name, Expert) || !consume(Name, Module.substr(Mark + 1))))
    return {};
  return consume(Name, ".") && (Name == "weight" || Name == "bias")
             ? Name
             : std::string_view();
}

/// Buffers of some versions of models, which are no weights.
static bool isBuffer(std::string_view Name) {
  for (std::string_view End :
       {".rotary_emb.inv_freq", ".attn.bias", ".attn.masked_bias",
        ".attention.bias", ".attention.masked_bias"})
    if (Name.size() > End.size() &&
        Name.substr(Name.size() - End.size()) == End)
      return true;
  return false;
}

bool GGUFTensors::place(const std::string &Name,
                        const std::vector<GGUFModule> &Modules, int64_t Layer,
                        const TensorSource &Tensor) {
  for (size_t I = 0; I < Modules.size(); ++I) {
    int64_t Expert;
    std::string_view Rest = match(Name, Modules[I].From, Expert);
    if (Rest.empty())
      continue;
    if (IsTied && Layer < 0 && std::string_view(Modules[I].To) == "output")
      return true;
    bool IsBias = Rest == "bias";
    if (IsBias && !Modules[I].HasBias)
      fail("llama.cpp cannot compute this model: it has no bias '", Tensor.Name,
           "' in models of type ", Family.Type);
    if (!Taken[{Layer, I, IsBias}].emplace(Expert, &Tensor).second)
      fail("the model has two tensors '", Tensor.Name, "'");
    return true;
  }
  return false;
}

void GGUFTensors::take(const TensorSource &Tensor) {
  if (isBuffer(Tensor.Name))
    return;
  // Models without a head for language lack the first component of names.
  std::string First(Family.Layers);
  First.resize(First.find('.') + 1);
  for (const std::string &Name : {Tensor.Name, First + Tensor.Name}) {
    std::string_view Rest = Name;
    int64_t Layer = 0;
    if (place(Name, Family.Whole, -1, Tensor) ||
        (consume(Rest, Family.Layers) && consumeNumber(Rest, Layer) &&
         consume(Rest, ".") &&
         place(std::string(Rest), Family.PerLayer, Layer, Tensor)))
      return;
  }
  fail("llama.cpp cannot compute this model: it has no place for the tensor '",
       Tensor.Name, "' in models of type ", Family.Type);
}

//===----------------------------------------------------------------------===//
// Values
//===----------------------------------------------------------------------===//

namespace {

/// How the values of a tensor become those that llama.cpp wants.
struct Change {
  bool IsTransposed = false;
  float Offset = 0;
  /// Rows change places within groups of heads: row `R` of the result is row
  /// RowOf(R). Null if they stay.
  std::function<int64_t(int64_t)> RowOf;
};

} // namespace

/// Rows of a head are first those that are rotated first, then those that are
/// rotated second; llama.cpp wants them by turns.
static std::function<int64_t(int64_t)> makeNeighbours(int64_t HeadDim) {
  return [HeadDim](int64_t Row) {
    int64_t Head = Row / HeadDim, In = Row % HeadDim;
    return Head * HeadDim + In % 2 * (HeadDim / 2) + In / 2;
  };
}

/// Rows are q, k and v of the first head, then of the next one; llama.cpp wants
/// q of all heads first.
static std::function<int64_t(int64_t)> makeApart(int64_t NumHeads,
                                                 int64_t HeadDim) {
  return [NumHeads, HeadDim](int64_t Row) {
    int64_t Part = Row / (NumHeads * HeadDim),
            Rest = Row % (NumHeads * HeadDim);
    return Rest / HeadDim * 3 * HeadDim + Part * HeadDim + Rest % HeadDim;
  };
}

static void readPlain(const TensorSource &Source,
                      const GGUFTensor::Visitor &Visit) {
  readTensors({Source}, [&](const TensorSource &, const float *Values,
                            int64_t Count) { Visit(Values, Count); });
}

static void readChanged(const TensorSource &Source, const Change &How,
                        const GGUFTensor::Visitor &Visit) {
  std::vector<float> Values;
  readPlain(Source, [&](const float *Block, int64_t Count) {
    Values.insert(Values.end(), Block, Block + Count);
  });
  std::vector<float> Result(Values.size());
  int64_t Rows = Source.Shape[0],
          Columns = static_cast<int64_t>(Values.size()) / Rows;
  if (How.IsTransposed)
    std::swap(Rows, Columns);
  for (int64_t R = 0; R < Rows; ++R)
    for (int64_t C = 0; C < Columns; ++C) {
      int64_t From = How.RowOf ? How.RowOf(R) : R;
      int64_t At = How.IsTransposed ? C * Rows + From : From * Columns + C;
      Result[static_cast<size_t>(R * Columns + C)] =
          Values[static_cast<size_t>(At)] + How.Offset;
    }
  Visit(Result.data(), static_cast<int64_t>(Result.size()));
}

static bool hasEnd(std::string_view Text, std::string_view End) {
  return Text.size() >= End.size() &&
         Text.substr(Text.size() - End.size()) == End;
}

static Change findChange(const GGUFFamily &Family, GGUFHeads Heads,
                         std::string_view Module, bool IsInLayer,
                         const std::vector<int64_t> &Shape) {
  Change How;
  How.IsTransposed = Family.IsInOut && IsInLayer && Shape.size() == 2;
  int64_t Rows = Shape[How.IsTransposed ? 1 : 0];
  if (Family.HasNormOffset && hasEnd(Module, "_norm"))
    How.Offset = 1;
  if (Family.RotatesNeighbours && Module == "attn_q")
    How.RowOf = makeNeighbours(Rows / Heads.Queries);
  if (Family.RotatesNeighbours && Module == "attn_k")
    How.RowOf = makeNeighbours(Rows / Heads.KeysAndValues);
  if (Family.InterleavesHeads && Module == "attn_qkv")
    How.RowOf = makeApart(Heads.Queries, Rows / Heads.Queries / 3);
  return How;
}

GGUFTensor GGUFTensors::make(const Place &Where, const Parts &Which,
                             GGUFFormat Format) const {
  auto [Layer, Index, IsBias] = Where;
  bool IsInLayer = Layer >= 0;
  const GGUFModule &Module =
      (IsInLayer ? Family.PerLayer : Family.Whole)[Index];
  bool HasExperts =
      std::string_view(Module.From).find('#') != std::string::npos;
  const std::vector<int64_t> &Shape = Which.begin()->second->Shape;
  Change How = findChange(Family, Heads, Module.To, IsInLayer, Shape);
  GGUFTensor Tensor;
  Tensor.Name = IsInLayer ? "blk." + std::to_string(Layer) + "." : "";
  Tensor.Name += std::string(Module.To) + (IsBias ? ".bias" : ".weight");
  Tensor.Shape = Shape;
  if (How.IsTransposed)
    std::reverse(Tensor.Shape.begin(), Tensor.Shape.end());
  if (HasExperts)
    Tensor.Shape.insert(Tensor.Shape.begin(),
                        static_cast<int64_t>(Which.size()));
  bool IsChanged = How.IsTransposed || How.Offset != 0 || How.RowOf;
  Tensor.Read = [Which, How, IsChanged](const GGUFTensor::Visitor &Visit) {
    for (const auto &[Number, Source] : Which)
      if (IsChanged)
        readChanged(*Source, How, Visit);
      else
        readPlain(*Source, Visit);
  };
  // llama.cpp computes with vectors, positions and routers in f32.
  bool IsWide = Tensor.Shape.size() < 2 ||
                std::string_view(Module.To) == "position_embd" ||
                std::string_view(Module.To) == "ffn_gate_inp" ||
                std::string_view(Module.To) == "ffn_gate_inp_shexp";
  Tensor.Format = IsWide ? GGUFFormat::F32 : Format;
  return Tensor;
}

int64_t GGUFTensors::addTo(GGUFFile &File, GGUFFormat Format) const {
  int64_t NumWider = 0;
  auto Add = [&](GGUFTensor Tensor) {
    if (Tensor.Format == GGUFFormat::Q8_0 && Tensor.Shape.back() % 32 != 0) {
      Tensor.Format = GGUFFormat::F16;
      ++NumWider;
    }
    File.add(std::move(Tensor));
  };
  bool HasOutput = false;
  for (const auto &[Where, Which] : Taken) {
    auto [Layer, Index, IsBias] = Where;
    HasOutput |=
        Layer < 0 && std::string_view(Family.Whole[Index].To) == "output";
    Add(make(Where, Which, Format));
  }
  // The embedding is the first of the table.
  auto Embedding = Taken.find({-1, 0, false});
  if (Embedding == Taken.end())
    fail("the model has no tensor '", Family.Whole[0].From, ".weight'");
  if (Family.NeedsOutput && !HasOutput) {
    GGUFTensor Output = make(Embedding->first, Embedding->second, Format);
    Output.Name = "output.weight";
    Add(std::move(Output));
  }
  for (int64_t Layer = 0; Layer < NumLayers; ++Layer)
    if (Taken.lower_bound({Layer, 0, false}) ==
        Taken.lower_bound({Layer + 1, 0, false}))
      fail("the model has no tensors of layer ", Layer);
  return NumWider;
}
