//===- Safetensors.cpp - Hugging Face's tensor files ----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/Safetensors.h"
#include "comm/Wire.h"
#include "support/Error.h"
#include "support/Files.h"
#include "support/JSON.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <set>
#include <tuple>
#include <utility>

using namespace poplar::runtime;

static float convertBF16(uint16_t Bits) {
  uint32_t Wide = static_cast<uint32_t>(Bits) << 16;
  float Result;
  std::memcpy(&Result, &Wide, sizeof(Result));
  return Result;
}

static float convertF16(uint16_t Bits) {
  uint32_t Sign = (Bits & 0x8000u) << 16, Exponent = Bits >> 10 & 31,
           Mantissa = Bits & 0x3FFu;
  uint32_t Wide;
  if (Exponent == 0) {
    float Value = static_cast<float>(Mantissa) * 0x1p-24f;
    return Sign ? -Value : Value;
  }
  if (Exponent == 31)
    Wide = Sign | 0x7F800000u | Mantissa << 13;
  else
    Wide = Sign | (Exponent + 112) << 23 | Mantissa << 13;
  float Result;
  std::memcpy(&Result, &Wide, sizeof(Result));
  return Result;
}

static int64_t countElements(const std::vector<int64_t> &Shape) {
  int64_t Count = 1;
  for (int64_t Dimension : Shape)
    Count *= Dimension;
  return Count;
}

TensorView TensorView::getPart(int64_t Begin,
                               std::vector<int64_t> PartShape) const {
  TensorView Part = *this;
  int64_t ElementBytes = Bytes / Elements;
  Part.Elements = countElements(PartShape);
  Part.Bytes = Part.Elements * ElementBytes;
  Part.Data += Begin * ElementBytes;
  Part.Shape = std::move(PartShape);
  return Part;
}

/// The value of a 4-bit float with two bits of exponent and one of mantissa,
/// times a power of two.
static float convertFP4(unsigned Bits, uint8_t Scale) {
  static constexpr float Values[] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6};
  float Value = std::ldexp(Values[Bits & 7], int(Scale) - 127);
  return Bits & 8 ? -Value : Value;
}

/// Element [e, k, n] of a view [E,K,N] is in row n of the blocks of expert e.
static void copyFP4(const TensorView &View, float *Out, int64_t Begin,
                    int64_t End) {
  int64_t Inputs = View.Shape[1], Outputs = View.Shape[2];
  for (int64_t I = Begin; I < End; ++I) {
    int64_t K = I / Outputs % Inputs,
            Row = I / Outputs / Inputs * Outputs + I % Outputs;
    auto Pair = static_cast<uint8_t>(View.Data[(Row * Inputs + K) / 2]);
    Out[I - Begin] =
        convertFP4(K % 2 ? Pair >> 4 : Pair & 15,
                   static_cast<uint8_t>(View.Scales[(Row * Inputs + K) / 32]));
  }
}

/// Rows whose sum the elements are: the leading bits of each number, those that
/// follow, and the rest, none of which are more than bf16 has.
static void copyDivided(TensorView View, float *Out, int64_t Begin,
                        int64_t End) {
  int64_t Count = std::exchange(View.Divided, 0);
  for (int64_t I = Begin; I < End; ++I) {
    float Rest, Part = 0;
    View.copyTo(&Rest, I % Count, I % Count + 1);
    for (int64_t Row = 0; Row <= I / Count; ++Row) {
      Rest -= Part;
      uint32_t Bits;
      std::memcpy(&Bits, &Rest, sizeof(Bits));
      Bits &= 0xFFFF0000u;
      std::memcpy(&Part, &Bits, sizeof(Bits));
    }
    Out[I - Begin] = Part;
  }
}

void TensorView::copyTo(float *Out, int64_t Begin, int64_t End) const {
  if (Divided) {
    copyDivided(*this, Out, Begin, End);
    return;
  }
  if (ElementType == MXFP4) {
    copyFP4(*this, Out, Begin, End);
    return;
  }
  // Tensors of a file need not be aligned.
  if (ElementType == F32) {
    std::memcpy(Out, Data + Begin * static_cast<int64_t>(sizeof(float)),
                static_cast<size_t>(End - Begin) * sizeof(float));
    return;
  }
  for (int64_t I = Begin; I < End; ++I) {
    uint16_t Bits;
    std::memcpy(&Bits, Data + 2 * I, sizeof(Bits));
    Out[I - Begin] = ElementType == BF16 ? convertBF16(Bits) : convertF16(Bits);
  }
}

std::string poplar::runtime::formatShape(const int64_t *Shape, size_t Rank) {
  std::string Result = "[";
  for (size_t I = 0; I < Rank; ++I)
    Result += (I ? "," : "") + std::to_string(Shape[I]);
  return Result + "]";
}

/// Bits of an element, or 0 for a type that safetensors does not have.
static int64_t getElementBits(std::string_view Type) {
  static constexpr std::pair<std::string_view, int64_t> Types[] = {
      {"F32", 32},        {"BF16", 16},       {"F16", 16},    {"F64", 64},
      {"I64", 64},        {"I32", 32},        {"I16", 16},    {"I8", 8},
      {"U8", 8},          {"BOOL", 8},        {"U16", 16},    {"U32", 32},
      {"U64", 64},        {"F8_E4M3", 8},     {"F8_E5M2", 8}, {"F8_E8M0", 8},
      {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"F6_E2M3", 6}, {"F6_E3M2", 6},
      {"F4", 4},          {"C64", 64}};
  for (auto [Name, Bits] : Types)
    if (Name == Type)
      return Bits;
  return 0;
}

/// Reads one entry of the header; `Available` bytes of data follow it.
static TensorView parseEntry(const MappedFile &File, const std::string &Name,
                             const json::Value &Entry, const char *Data,
                             int64_t Available) {
  auto Bad = [&](const char *What) {
    fail("'", File.path(), "': tensor '", Name, "': ", What);
  };
  TensorView View;
  View.File = &File.path();
  View.TypeName = Entry.string("dtype", "");
  int64_t Bits = getElementBits(View.TypeName);
  if (!Bits)
    Bad("unknown dtype");
  View.ElementType = View.TypeName == "F32"    ? TensorView::F32
                     : View.TypeName == "BF16" ? TensorView::BF16
                     : View.TypeName == "F16"  ? TensorView::F16
                                               : TensorView::Other;
  const json::Value *Shape = Entry.find("shape");
  const json::Value *Offsets = Entry.find("data_offsets");
  if (!Shape || Shape->kind() != json::Value::Array)
    Bad("expected an array as its shape");
  View.Elements = 1;
  for (const json::Value &Dimension : Shape->elements()) {
    int64_t Size = 0;
    if (!Dimension.asInteger(Size) || Size < 0)
      Bad("a dimension is not a natural number");
    if (__builtin_mul_overflow(Bits, Size, &Bits))
      Bad("its size overflows");
    View.Elements *= Size;
    View.Shape.push_back(Size);
  }
  int64_t Begin = 0, End = 0;
  if (!Offsets || Offsets->elements().size() != 2 ||
      !Offsets->elements()[0].asInteger(Begin) ||
      !Offsets->elements()[1].asInteger(End))
    Bad("expected two integers as its data_offsets");
  int64_t Bytes = Bits / 8;
  if (Begin < 0 || End < Begin || End - Begin != Bytes || Bits % 8)
    Bad("its data_offsets do not fit its shape and dtype");
  if (End > Available)
    fail("'", File.path(), "' is truncated: tensor '", Name, "' ends at byte ",
         File.size() - static_cast<size_t>(Available) +
             static_cast<size_t>(End),
         " and the file has ", File.size(), " bytes");
  View.Data = Data + Begin;
  View.Bytes = Bytes;
  return View;
}

/// The kind of a file by its first bytes, and what to do with it; empty for
/// unknown kinds.
static std::string recognizeOther(std::string_view Content) {
  static constexpr std::tuple<std::string_view, const char *, const char *>
      Kinds[] = {
          {"PK\3\4", "a file of torch.save",
           "; save_pretrained of transformers or PEFT writes safetensors"},
          {"GGUF", "a GGUF file",
           "; give the model that it was converted from"},
          {"<!DOCTYPE", "a page of HTML", "; download the file again"},
          {"<html", "a page of HTML", "; download the file again"}};
  for (auto [Begin, What, Remedy] : Kinds)
    if (Content.substr(0, Begin.size()) == Begin)
      return std::string(What) + Remedy;
  return "";
}

/// Reads the header; returns the offset of the data.
static size_t readHeader(const MappedFile &File, json::Value &Header) {
  const std::string &Path = File.path();
  // The limit of the format.
  constexpr uint64_t MaxHeaderBytes = 100'000'000;
  if (std::string Other = recognizeOther(File.text()); !Other.empty())
    fail("'", Path, "' is not a safetensors file: it is ", Other);
  uint64_t HeaderBytes = 0;
  if (File.size() < sizeof(HeaderBytes))
    fail("'", Path, "' is truncated: it has ", File.size(),
         " bytes and a safetensors file at least 8");
  std::memcpy(&HeaderBytes, File.data(), sizeof(HeaderBytes));
  if (HeaderBytes > MaxHeaderBytes)
    fail("'", Path, "' is not a safetensors file: its header would have ",
         HeaderBytes, " bytes");
  if (HeaderBytes > File.size() - 8)
    fail("'", Path, "' is truncated: its header ends at byte ", HeaderBytes + 8,
         " and the file has ", File.size(), " bytes");
  Header =
      json::parse(File.text().substr(8, HeaderBytes), "'" + Path + "': header");
  if (Header.kind() != json::Value::Object)
    fail("'", Path, "' is not a safetensors file: its header is not an object");
  if (const json::Value *Metadata = Header.find("__metadata__")) {
    bool IsSound = Metadata->kind() == json::Value::Object;
    for (const auto &Entry : Metadata->members())
      IsSound &= Entry.second.kind() == json::Value::String;
    if (!IsSound)
      fail("'", Path, "': its __metadata__ is not an object of strings");
  }
  return 8 + static_cast<size_t>(HeaderBytes);
}

/// Checks that the tensors of a file cover its data: each begins where the one
/// before it ends, and the last ends with the file.
static void
checkCoverage(const MappedFile &File, size_t DataBegin,
              std::vector<std::pair<const std::string *, TensorView>> Tensors) {
  std::sort(Tensors.begin(), Tensors.end(), [](const auto &A, const auto &B) {
    return std::pair(A.second.Data, A.second.Bytes) <
           std::pair(B.second.Data, B.second.Bytes);
  });
  const char *Covered = File.data() + DataBegin;
  const std::string *Last = nullptr;
  auto GetOffset = [&](const char *At) { return At - File.data(); };
  for (const auto &[Name, View] : Tensors) {
    if (View.Data < Covered)
      fail("'", File.path(), "' is damaged: tensors '", *Last, "' and '", *Name,
           "' overlap");
    if (View.Data > Covered)
      fail("'", File.path(), "' is damaged: its bytes ", GetOffset(Covered),
           " to ", GetOffset(View.Data), " belong to no tensor (before '",
           *Name, "')");
    Covered += View.Bytes;
    Last = Name;
  }
  size_t End = static_cast<size_t>(GetOffset(Covered));
  if (End != File.size())
    fail("'", File.path(), "' is damaged: its last ", File.size() - End,
         " bytes belong to no tensor");
}

void TensorFiles::add(const std::string &Path) {
  Files.emplace_back(Path);
  const MappedFile &File = Files.back();
  json::Value Header;
  size_t DataBegin = readHeader(File, Header);
  std::vector<std::pair<const std::string *, TensorView>> Own;
  for (const auto &[Name, Entry] : Header.members())
    if (Name != "__metadata__")
      Own.push_back(
          {&Name, parseEntry(File, Name, Entry, File.data() + DataBegin,
                             static_cast<int64_t>(File.size() - DataBegin))});
  checkCoverage(File, DataBegin, Own);
  for (auto &[Name, View] : Own)
    if (!Tensors.emplace(*Name, std::move(View)).second)
      fail("'", Path, "': tensor '", *Name, "' is in another shard as well");
}

const TensorView *TensorFiles::find(const std::string &Name) const {
  auto It = Tensors.find(Name);
  return It == Tensors.end() ? nullptr : &It->second;
}

void TensorFiles::replace(const std::string &Name,
                          std::map<std::string, TensorView> Parts) {
  const std::string &Path = *Tensors.at(Name).File;
  Tensors.erase(Name);
  for (auto &[PartName, Part] : Parts)
    if (!Tensors.emplace(PartName, std::move(Part)).second)
      fail("'", Path, "' has '", Name, "', and '", PartName,
           "' as well, which is a part of it");
}

TensorFiles TensorFiles::open(const std::string &FileOrDirectory) {
  namespace fs = std::filesystem;
  TensorFiles Result;
  std::error_code Code;
  if (!fs::is_directory(FileOrDirectory, Code)) {
    Result.add(FileOrDirectory);
    return Result;
  }
  std::string Single = FileOrDirectory + "/model.safetensors";
  std::string Index = Single + ".index.json";
  for (const char *Name : {"pytorch_model.bin", "pytorch_model.bin.index.json"})
    if (!fs::exists(Single, Code) && !fs::exists(Index, Code) &&
        fs::exists(FileOrDirectory + "/" + Name, Code))
      fail("'", FileOrDirectory, "' has its weights in ", Name,
           " and no model.safetensors, the only file that can be read; "
           "from_pretrained followed by save_pretrained of transformers 4.35 "
           "or later writes it");
  if (fs::exists(Single, Code) || !fs::exists(Index, Code)) {
    Result.add(Single);
    return Result;
  }
  MappedFile IndexFile(Index);
  json::Value Root = json::parse(IndexFile.text(), "'" + Index + "'");
  const json::Value *Map = Root.find("weight_map");
  if (!Map || Map->kind() != json::Value::Object)
    fail("'", Index,
         "' has no weight_map, an object with the file of every tensor");
  std::set<std::string> Names;
  for (const auto &[Tensor, File] : Map->members()) {
    std::string Name(File.asString());
    // A shard is a file beside its index, nowhere else.
    if (Name.empty() || Name.find('/') != std::string::npos)
      fail("'", Index, "': the file of '", Tensor, "' is not a plain name");
    Names.insert(Name);
  }
  for (const std::string &Name : Names)
    Result.add(FileOrDirectory + "/" + Name);
  return Result;
}

void poplar::runtime::readTensors(
    const std::vector<TensorSource> &Tensors,
    const std::function<void(const TensorSource &, const float *, int64_t)>
        &Visit) {
  constexpr int64_t Block = 1 << 20;
  for (const TensorSource &T : Tensors)
    for (int64_t Begin = 0, Count = countElements(T.Shape); Begin < Count;
         Begin += Block) {
      int64_t End = std::min(Begin + Block, Count);
      Visit(T, T.Read(Begin, End), End - Begin);
    }
}

TensorSource::Format poplar::runtime::getFormat(const TensorView &View,
                                                const std::string &Name) {
  switch (View.ElementType) {
  case TensorView::F32:
    return TensorSource::F32;
  case TensorView::BF16:
  case TensorView::MXFP4: // which it holds exactly
    return TensorSource::BF16;
  case TensorView::F16:
    return TensorSource::F16;
  case TensorView::Other:
    break;
  }
  fail("'", *View.File, "': tensor '", Name, "' is of type ", View.TypeName,
       "; F32, BF16 and F16 can be read");
}

void poplar::runtime::putAlignedFirst(std::vector<TensorSource> &Tensors) {
  std::stable_partition(
      Tensors.begin(), Tensors.end(),
      [](const TensorSource &T) { return T.StoredAs == TensorSource::F32; });
}

static const char *getName(TensorSource::Format F) {
  static constexpr const char *Names[] = {"F32", "BF16", "F16", "U8"};
  return Names[F];
}

/// Writes values in the format `F`; `Buffer` is for those that are not f32.
static void writeValues(OutputFile &File, TensorSource::Format F,
                        const float *Values, size_t Count,
                        std::vector<char> &Buffer) {
  if (F == TensorSource::F32)
    return File.write(Values, Count * sizeof(float));
  Buffer.resize(Count * static_cast<size_t>(getElementBits(getName(F)) / 8));
  if (F == TensorSource::U8)
    std::transform(Values, Values + Count, Buffer.begin(), [](float Value) {
      return static_cast<char>(static_cast<uint8_t>(Value));
    });
  else
    comm::convert(Values, comm::Type::F32, Buffer.data(),
                  F == TensorSource::BF16 ? comm::Type::BF16 : comm::Type::F16,
                  static_cast<int64_t>(Count));
  File.write(Buffer.data(), Buffer.size());
}

void poplar::runtime::writeSafetensors(
    const std::string &Path, const std::vector<TensorSource> &Tensors) {
  std::string Header = "{\"__metadata__\":{\"format\":\"pt\"}";
  int64_t Offset = 0;
  for (const TensorSource &T : Tensors) {
    const char *Type = getName(T.StoredAs);
    int64_t Size = countElements(T.Shape) * getElementBits(Type) / 8;
    Header += "," + json::quote(T.Name) + ":{\"dtype\":\"" + Type +
              "\",\"shape\":" + formatShape(T.Shape.data(), T.Shape.size()) +
              ",\"data_offsets\":[" + std::to_string(Offset) + "," +
              std::to_string(Offset + Size) + "]}";
    Offset += Size;
  }
  Header += "}";
  // Data aligned to 8 bytes, as the format asks.
  Header.append((8 - Header.size() % 8) % 8, ' ');
  uint64_t HeaderBytes = Header.size();
  OutputFile File(Path);
  File.write(&HeaderBytes, sizeof(HeaderBytes));
  File.write(Header);
  std::vector<char> Buffer;
  readTensors(
      Tensors, [&](const TensorSource &T, const float *Data, int64_t Count) {
        writeValues(File, T.StoredAs, Data, static_cast<size_t>(Count), Buffer);
      });
  File.close();
}
