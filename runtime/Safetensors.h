//===- Safetensors.h - Hugging Face's tensor files --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SAFETENSORS_H
#define POPLAR_RUNTIME_SAFETENSORS_H

#include "MappedFile.h"

#include <cstdint>
#include <deque>
#include <map>
#include <vector>

namespace poplar::runtime {

/// A tensor of a mapped file.
struct TensorView {
  enum Type { F32, BF16, F16, Other };
  Type ElementType = Other;
  std::string TypeName;
  std::vector<int64_t> Shape;
  int64_t Elements = 0, Bytes = 0;
  const char *Data = nullptr;
  const std::string *File = nullptr;

  /// Writes the elements as f32; the type must not be Other.
  void copyTo(float *Out) const;
};

/// "[2,3]".
std::string formatShape(const int64_t *Shape, size_t Rank);

/// The tensors of one or more safetensors files, whose headers have been
/// checked completely: every TensorView lies inside its file.
class TensorFiles {
public:
  void add(const std::string &Path);
  const std::map<std::string, TensorView> &tensors() const { return Tensors; }
  const TensorView *find(const std::string &Name) const;
  /// Opens a file; or a directory's model.safetensors, or the shards that its
  /// model.safetensors.index.json lists.
  static TensorFiles open(const std::string &FileOrDirectory);

private:
  std::deque<MappedFile> Files; // stable addresses
  std::map<std::string, TensorView> Tensors;
};

/// A tensor to be written, as f32.
struct TensorSource {
  std::string Name;
  std::vector<int64_t> Shape;
  const float *Data;
};

void writeSafetensors(const std::string &Path,
                      const std::vector<TensorSource> &Tensors);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SAFETENSORS_H
