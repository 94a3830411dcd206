//===- GGUFFile.h - The file format of llama.cpp ----------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GGUF, version 3: metadata by key, then tensors, whose data is aligned to 32
// bytes (docs/gguf.md of ggml).
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_GGUFFILE_H
#define POPLAR_RUNTIME_GGUFFILE_H

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace poplar::runtime {

class OutputFile;

/// How the elements of a tensor are stored. Q8_0 is blocks of 32 integers of 8
/// bits with one f16 factor.
enum class GGUFFormat { F32, F16, BF16, Q8_0 };

/// False if there is no format of that name: f32, f16, bf16, q8_0.
bool parseGGUFFormat(std::string_view Name, GGUFFormat &Result);
/// "f32, f16, bf16 or q8_0".
std::string listGGUFFormats();

struct GGUFTensor {
  /// Takes the next values, row-major.
  using Visitor = std::function<void(const float *Values, int64_t Count)>;

  std::string Name;
  /// Row-major, the outermost first. (The file has it the other way round.)
  std::vector<int64_t> Shape;
  /// Calls a visitor with all values, in order, in blocks of a multiple of 32
  /// except for the last one.
  std::function<void(const Visitor &)> Read;
  GGUFFormat Format = GGUFFormat::F32;
};

class GGUFFile {
public:
  void setCount(const std::string &Key, int64_t Value);
  void setNumber(const std::string &Key, double Value);
  void setFlag(const std::string &Key, bool Value);
  void setText(const std::string &Key, std::string_view Value);
  void setIntegers(const std::string &Key, const std::vector<int32_t> &Values);
  void setNumbers(const std::string &Key, const std::vector<float> &Values);
  void setFlags(const std::string &Key, const std::vector<bool> &Values);
  void setTexts(const std::string &Key, const std::vector<std::string> &Values);
  void add(GGUFTensor Tensor) { Tensors.push_back(std::move(Tensor)); }
  const std::vector<GGUFTensor> &tensors() const { return Tensors; }

  /// Writes a file, which must not exist. An Error leaves none behind. A value
  /// that is not finite, or that a format cannot hold, is one.
  void write(const std::string &Path) const;

private:
  void writeHeader(OutputFile &File) const;
  void writeTensor(OutputFile &File, const GGUFTensor &Tensor) const;
  /// Appends a key and the type of its value.
  void begin(const std::string &Key, uint32_t Type);
  void beginArray(const std::string &Key, uint32_t Type, size_t Count);

  /// Keys with their values, as they are in the file.
  std::string Metadata;
  uint64_t NumKeys = 0;
  std::vector<GGUFTensor> Tensors;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_GGUFFILE_H
