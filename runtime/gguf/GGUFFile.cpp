//===- GGUFFile.cpp - The file format of llama.cpp ------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "gguf/GGUFFile.h"
#include "comm/Wire.h"
#include "support/Error.h"
#include "support/Files.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>

using namespace poplar::runtime;
namespace fs = std::filesystem;

static constexpr uint64_t Alignment = 32;
static constexpr int64_t QuantBlock = 32; // of Q8_0

namespace {

/// Types of values, by their numbers in the file.
enum ValueType : uint32_t {
  TypeUInt32 = 4,
  TypeInt32 = 5,
  TypeFloat32 = 6,
  TypeBool = 7,
  TypeString = 8,
  TypeArray = 9
};

struct FormatInfo {
  const char *Name;
  /// ggml_type.
  uint32_t Number;
  /// Bytes of `Elements` elements.
  uint64_t Elements, Bytes;
};

} // namespace

static const FormatInfo &getInfo(GGUFFormat Format) {
  static constexpr FormatInfo Infos[] = {
      {"f32", 0, 1, 4},
      {"f16", 1, 1, 2},
      {"bf16", 30, 1, 2},
      {"q8_0", 8, QuantBlock, QuantBlock + 2}};
  return Infos[static_cast<size_t>(Format)];
}

bool poplar::runtime::parseGGUFFormat(std::string_view Name,
                                      GGUFFormat &Result) {
  for (GGUFFormat Format :
       {GGUFFormat::F32, GGUFFormat::F16, GGUFFormat::BF16, GGUFFormat::Q8_0})
    if (Name == getInfo(Format).Name) {
      Result = Format;
      return true;
    }
  return false;
}

std::string poplar::runtime::listGGUFFormats() {
  return "f32, f16, bf16 or q8_0";
}

//===----------------------------------------------------------------------===//
// Metadata
//===----------------------------------------------------------------------===//

template <typename T> static void append(std::string &To, T Value) {
  char Bytes[sizeof(T)];
  std::memcpy(Bytes, &Value, sizeof(T));
  To.append(Bytes, sizeof(T));
}

static void appendText(std::string &To, std::string_view Text) {
  append<uint64_t>(To, Text.size());
  To.append(Text);
}

void GGUFFile::begin(const std::string &Key, uint32_t Type) {
  appendText(Metadata, Key);
  append<uint32_t>(Metadata, Type);
  ++NumKeys;
}

void GGUFFile::beginArray(const std::string &Key, uint32_t Type, size_t Count) {
  begin(Key, TypeArray);
  append<uint32_t>(Metadata, Type);
  append<uint64_t>(Metadata, Count);
}

void GGUFFile::setCount(const std::string &Key, int64_t Value) {
  begin(Key, TypeUInt32);
  append<uint32_t>(Metadata, static_cast<uint32_t>(Value));
}

void GGUFFile::setNumber(const std::string &Key, double Value) {
  begin(Key, TypeFloat32);
  append<float>(Metadata, static_cast<float>(Value));
}

void GGUFFile::setFlag(const std::string &Key, bool Value) {
  begin(Key, TypeBool);
  append<uint8_t>(Metadata, Value);
}

void GGUFFile::setText(const std::string &Key, std::string_view Value) {
  begin(Key, TypeString);
  appendText(Metadata, Value);
}

void GGUFFile::setIntegers(const std::string &Key,
                           const std::vector<int32_t> &Values) {
  beginArray(Key, TypeInt32, Values.size());
  for (int32_t Value : Values)
    append(Metadata, Value);
}

void GGUFFile::setNumbers(const std::string &Key,
                          const std::vector<float> &Values) {
  beginArray(Key, TypeFloat32, Values.size());
  for (float Value : Values)
    append(Metadata, Value);
}

void GGUFFile::setFlags(const std::string &Key,
                        const std::vector<bool> &Values) {
  beginArray(Key, TypeBool, Values.size());
  for (bool Value : Values)
    append<uint8_t>(Metadata, Value);
}

void GGUFFile::setTexts(const std::string &Key,
                        const std::vector<std::string> &Values) {
  beginArray(Key, TypeString, Values.size());
  for (const std::string &Value : Values)
    appendText(Metadata, Value);
}

//===----------------------------------------------------------------------===//
// Tensors
//===----------------------------------------------------------------------===//

static uint64_t countBytes(const GGUFTensor &Tensor) {
  uint64_t Elements = 1;
  for (int64_t Size : Tensor.Shape)
    Elements *= static_cast<uint64_t>(Size);
  const FormatInfo &Info = getInfo(Tensor.Format);
  return Elements / Info.Elements * Info.Bytes;
}

static uint64_t align(uint64_t Bytes) {
  return (Bytes + Alignment - 1) / Alignment * Alignment;
}

static void pad(OutputFile &File, uint64_t Bytes) {
  File.write(std::string(align(Bytes) - Bytes, '\0'));
}

void GGUFFile::writeHeader(OutputFile &File) const {
  std::string Header = "GGUF";
  append<uint32_t>(Header, 3);
  append<uint64_t>(Header, Tensors.size());
  append<uint64_t>(Header, NumKeys);
  Header += Metadata;
  uint64_t Offset = 0;
  for (const GGUFTensor &T : Tensors) {
    appendText(Header, T.Name);
    append<uint32_t>(Header, static_cast<uint32_t>(T.Shape.size()));
    for (size_t I = T.Shape.size(); I-- > 0;)
      append<uint64_t>(Header, static_cast<uint64_t>(T.Shape[I]));
    append<uint32_t>(Header, getInfo(T.Format).Number);
    append<uint64_t>(Header, Offset);
    Offset += align(countBytes(T));
  }
  File.write(Header);
  pad(File, Header.size());
}

static uint16_t toF16(float Value) {
  uint16_t Bits;
  comm::convert(&Value, comm::Type::F32, reinterpret_cast<char *>(&Bits),
                comm::Type::F16, 1);
  return Bits;
}

/// Appends blocks of Q8_0: the largest magnitude becomes 127.
static void quantizeBlocks(const float *Values, int64_t Count,
                           std::vector<char> &Out) {
  for (int64_t B = 0; B < Count; B += QuantBlock) {
    float Largest = 0;
    for (int64_t I = B; I < B + QuantBlock; ++I)
      Largest = std::max(Largest, std::abs(Values[I]));
    float Factor = Largest / 127;
    float Inverse = Factor != 0 ? 1 / Factor : 0;
    uint16_t Bits = toF16(Factor);
    const char *Bytes = reinterpret_cast<const char *>(&Bits);
    Out.insert(Out.end(), Bytes, Bytes + sizeof(Bits));
    for (int64_t I = B; I < B + QuantBlock; ++I)
      Out.push_back(static_cast<char>(
          static_cast<int8_t>(std::round(Values[I] * Inverse))));
  }
}

/// Half of the last step beyond the largest value of f16, 65504; a factor of
/// Q8_0 is one, too.
static float getLimit(GGUFFormat Format) {
  constexpr float F16Limit = 65520;
  switch (Format) {
  case GGUFFormat::F16:
    return F16Limit;
  case GGUFFormat::Q8_0:
    return F16Limit * 127;
  default:
    return INFINITY;
  }
}

static void checkValues(const GGUFTensor &Tensor, const float *Values,
                        int64_t Count) {
  float Limit = getLimit(Tensor.Format);
  for (int64_t I = 0; I < Count; ++I) {
    if (!std::isfinite(Values[I]))
      fail("tensor '", Tensor.Name, "' has the value ", Values[I],
           ": the model has diverged or is damaged");
    if (std::abs(Values[I]) >= Limit)
      fail("tensor '", Tensor.Name, "' has the value ", Values[I], ", which ",
           getInfo(Tensor.Format).Name,
           " cannot hold; choose --format bf16 or f32");
  }
}

void GGUFFile::writeTensor(OutputFile &File, const GGUFTensor &Tensor) const {
  uint64_t Written = 0;
  std::vector<char> Buffer;
  Tensor.Read([&](const float *Values, int64_t Count) {
    checkValues(Tensor, Values, Count);
    size_t Size = static_cast<size_t>(Count);
    Buffer.clear();
    switch (Tensor.Format) {
    case GGUFFormat::F32:
      Buffer.resize(Size * sizeof(float));
      std::memcpy(Buffer.data(), Values, Buffer.size());
      break;
    case GGUFFormat::F16:
    case GGUFFormat::BF16:
      Buffer.resize(Size * sizeof(uint16_t));
      comm::convert(Values, comm::Type::F32, Buffer.data(),
                    Tensor.Format == GGUFFormat::F16 ? comm::Type::F16
                                                     : comm::Type::BF16,
                    Count);
      break;
    case GGUFFormat::Q8_0:
      quantizeBlocks(Values, Count, Buffer);
      break;
    }
    File.write(Buffer.data(), Buffer.size());
    Written += Buffer.size();
  });
  if (Written != countBytes(Tensor))
    fail("tensor '", Tensor.Name, "' is of another size than its shape says");
  pad(File, Written);
}

void GGUFFile::write(const std::string &Path) const {
  std::error_code Code;
  if (fs::exists(Path, Code))
    fail("'", Path, "' is there already; choose another file");
  std::string Temporary = Path + ".tmp";
  try {
    OutputFile File(Temporary, /*RemovesFirst=*/true);
    writeHeader(File);
    for (const GGUFTensor &T : Tensors)
      writeTensor(File, T);
    File.close();
    renamePath(Temporary, Path);
  } catch (const std::exception &E) {
    fs::remove(Temporary, Code);
    fail("cannot write '", Path, "': ", E.what());
  }
}
