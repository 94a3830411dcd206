//===- Safetensors.h - Hugging Face's tensor files --------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_SAFETENSORS_H
#define POPLAR_RUNTIME_SAFETENSORS_H

#include "support/MappedFile.h"

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <vector>

namespace poplar::runtime {

/// A tensor of a mapped file.
struct TensorView {
  /// MXFP4 is that of joinPackedExperts, and of no file.
  enum Type { F32, BF16, F16, MXFP4, Other };
  Type ElementType = Other;
  std::string TypeName;
  std::vector<int64_t> Shape;
  int64_t Elements = 0, Bytes = 0;
  const char *Data = nullptr;
  /// The exponents of blocks, where the format is MXFP4.
  const char *Scales = nullptr;
  const std::string *File = nullptr;
  /// Where it is above 0, the view is of this many elements of the file, and
  /// has rows of them whose sum they are: each row fits in bf16.
  int64_t Divided = 0;

  /// False for masks and the like, which are no numbers.
  bool isWeight() const { return ElementType != Other || TypeName[0] == 'F'; }
  /// Writes elements [Begin, End) as f32; the type must not be Other.
  void copyTo(float *Out, int64_t Begin, int64_t End) const;
  void copyTo(float *Out) const { copyTo(Out, 0, Elements); }
  /// Elements from `Begin` on, as a tensor of another shape.
  TensorView getPart(int64_t Begin, std::vector<int64_t> PartShape) const;
};

/// "[2,3]".
std::string formatShape(const int64_t *Shape, size_t Rank);

/// The tensors of one or more safetensors files, whose headers have been
/// checked as the format asks: the tensors of a file cover its data, without a
/// hole, an overlap or a rest.
class TensorFiles {
public:
  void add(const std::string &Path);
  const std::map<std::string, TensorView> &tensors() const { return Tensors; }
  const TensorView *find(const std::string &Name) const;
  /// Puts parts of the tensor at `Name` in its place.
  void replace(const std::string &Name,
               std::map<std::string, TensorView> Parts);
  /// Opens a file; or a directory's model.safetensors, or the shards that its
  /// model.safetensors.index.json lists.
  static TensorFiles open(const std::string &FileOrDirectory);

private:
  std::deque<MappedFile> Files; // stable addresses
  std::map<std::string, TensorView> Tensors;
};

/// A tensor to be written. Its values are read as f32, and rounded to what the
/// file holds.
struct TensorSource {
  enum Format { F32, BF16, F16, U8 };
  /// Gives elements [Begin, End), valid until the next call.
  using Reader = std::function<const float *(int64_t Begin, int64_t End)>;

  TensorSource(std::string Name, std::vector<int64_t> Shape, Reader Read)
      : Name(std::move(Name)), Shape(std::move(Shape)), Read(std::move(Read)) {}
  TensorSource(std::string Name, std::vector<int64_t> Shape, const float *Data)
      : TensorSource(std::move(Name), std::move(Shape),
                     [Data](int64_t Begin, int64_t) { return Data + Begin; }) {}

  std::string Name;
  std::vector<int64_t> Shape;
  Reader Read;
  Format StoredAs = F32;
};

/// The format of a tensor called `Name`. An Error if it cannot be read.
TensorSource::Format getFormat(const TensorView &View, const std::string &Name);

/// Puts what is f32 before what is narrower, so that all of it is aligned in a
/// file.
void putAlignedFirst(std::vector<TensorSource> &Tensors);

/// Calls `Visit(Tensor, Data, Count)` for all elements of all tensors, in order
/// and in blocks that depend on the shapes alone and are, but for the last one
/// of a tensor, a multiple of 32.
void readTensors(const std::vector<TensorSource> &Tensors,
                 const std::function<void(const TensorSource &, const float *,
                                          int64_t)> &Visit);

void writeSafetensors(const std::string &Path,
                      const std::vector<TensorSource> &Tensors);

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_SAFETENSORS_H
