//===- WordOptions.h - Options of passes whose values are words -*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An option of a pass or of a pipeline can have an enum of Words.h as its type:
// LLVM's parser of options parses the words, and passes print them.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_SUPPORT_WORDOPTIONS_H
#define POPLAR_SUPPORT_WORDOPTIONS_H

#include "Poplar/Support/Recomputation.h"
#include "llvm/Support/CommandLine.h"

namespace poplar {

template <typename Word, typename = decltype(Words<Word>::names)>
llvm::raw_ostream &operator<<(llvm::raw_ostream &os, Word word) {
  return os << toString(word);
}

inline llvm::raw_ostream &operator<<(llvm::raw_ostream &os,
                                     const Recomputation &recomputation) {
  return os << toString(recomputation);
}

/// What an option's text means, and what it may be.
template <typename Word> std::optional<Word> parseOption(llvm::StringRef text) {
  return parseWord<Word>(text);
}
template <>
inline std::optional<Recomputation>
parseOption<Recomputation>(llvm::StringRef text) {
  return parseRecomputation(text);
}
template <typename Word> std::string describeOption() {
  return joinWords<Word>();
}
template <> inline std::string describeOption<Recomputation>() {
  return describeRecomputations();
}

template <typename Word>
class WordParser : public llvm::cl::basic_parser<Word> {
public:
  using llvm::cl::basic_parser<Word>::basic_parser;

  /// As LLVM has it: whether it failed.
  bool parse(llvm::cl::Option &option, llvm::StringRef, llvm::StringRef text,
             Word &value) {
    std::optional<Word> word = parseOption<Word>(text);
    if (!word)
      return option.error("unknown '" + text + "', expected " +
                          describeOption<Word>());
    value = *word;
    return false;
  }
  llvm::StringRef getValueName() const override { return "word"; }
  void printOptionDiff(const llvm::cl::Option &option, Word value,
                       const llvm::cl::OptionValue<Word> &,
                       size_t width) const {
    llvm::outs() << "  --" << option.ArgStr;
    llvm::outs().indent(
        width > option.ArgStr.size() + 4 ? width - option.ArgStr.size() - 4 : 1)
        << "= " << toString(value) << "\n";
  }
  void anchor() override {}
};

} // namespace poplar

template <>
class llvm::cl::parser<poplar::NumberFormat>
    : public poplar::WordParser<poplar::NumberFormat> {
public:
  using WordParser::WordParser;
};

template <>
class llvm::cl::parser<poplar::Recomputation>
    : public poplar::WordParser<poplar::Recomputation> {
public:
  using WordParser::WordParser;
};

#endif // POPLAR_SUPPORT_WORDOPTIONS_H
