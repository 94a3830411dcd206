//===- ExampleFile.h - Encoded examples, kept in a file ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_RUNTIME_EXAMPLEFILE_H
#define POPLAR_RUNTIME_EXAMPLEFILE_H

#include "data/Text.h"
#include "job/Fingerprint.h"

#include <set>
#include <string>
#include <utility>

namespace poplar::runtime {

struct ModelInfo;
struct ExampleRules;

/// Whether a file is to be read as examples: JSON, of a model with a tokenizer.
bool isExamples(const std::string &Path, const std::string &Format,
                const TextEncoding &Encoding);

/// Tells examples apart.
using ExampleHash = std::pair<uint64_t, uint64_t>;

/// The encoded examples of a file.
class ExampleFile {
public:
  /// Encodes the examples of the file `Path`, or finds what has been kept, as
  /// encoded text is. With `Reports`, says how far that has come.
  ExampleFile(const std::string &Path, const TextEncoding &Encoding,
              const ModelInfo &Model, const ExampleRules &Rules, bool Reports);

  /// Leaves out examples whose tokens and targets equal those of an earlier
  /// one, and adds the others to `Seen`. Examples come in groups of `Group`: a
  /// pair is left out as a whole.
  void leaveOutEqual(std::set<ExampleHash> &Seen, int64_t Group);

  int64_t size() const { return Count; }
  /// Tokens of all examples, and those that count.
  int64_t tokens() const { return Tokens; }
  int64_t counted() const { return Counted; }
  const std::string &name() const { return Name; }
  /// A note on the file, see describeInvalid.
  const std::string &note() const { return Note; }
  /// Tokens of an example.
  int64_t length(int64_t Example) const {
    int64_t Row = getRow(Example);
    return getEnd(Row) - getEnd(Row - 1);
  }
  /// `Places` tokens of an example from the token `First` on, or fewer if it is
  /// shorter, and after each the next one, or -1 where that does not count.
  /// Returns how many.
  int64_t read(int64_t Example, int64_t First, int64_t Places, int32_t *Ids,
               int32_t *Targets) const;
  /// Whether read() would give a target that counts.
  bool hasTargets(int64_t Example, int64_t First, int64_t Places) const;
  void addTo(Fingerprint &Print) const { Print.add(File); }

private:
  /// Where an example lies among those that are encoded.
  int64_t getRow(int64_t Example) const {
    return Rows.empty() ? Example : Rows[static_cast<size_t>(Example)];
  }
  int64_t getEnd(int64_t Row) const;
  uint32_t getToken(int64_t Place) const;

  std::string Name, Note;
  MappedFile File;
  int64_t Count = 0, Counted = 0, Tokens = 0, Encoded = 0;
  /// The examples that are left, if some are left out.
  std::vector<int64_t> Rows;
  /// The end of the table of ends of examples, in bytes.
  size_t EndOfEnds = 0;
};

} // namespace poplar::runtime

#endif // POPLAR_RUNTIME_EXAMPLEFILE_H
