//===- SentencePieceFile.cpp - Reading a tokenizer.model ------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "tokenizer/SentencePieceFile.h"
#include "support/Error.h"
#include "tokenizer/Unicode.h"

#include <cstring>

using namespace poplar::runtime;

namespace {

/// A message in the wire format of Protocol Buffers, field by field.
class Message {
public:
  struct Field {
    uint64_t Number = 0;
    /// An integer, or the bits of a float.
    uint64_t Value = 0;
    /// A string, bytes or a message.
    std::string_view Text;
  };

  Message(std::string_view Data, const std::string &Path)
      : Rest(Data), Path(Path) {}

  /// False at the end.
  bool next(Field &F) {
    if (Rest.empty())
      return false;
    uint64_t Key = readInteger();
    F.Number = Key >> 3;
    F.Value = 0;
    F.Text = {};
    switch (Key & 7) {
    case 0:
      F.Value = readInteger();
      return true;
    case 1:
      std::memcpy(&F.Value, take(8).data(), 8);
      return true;
    case 2:
      F.Text = take(readInteger());
      return true;
    case 5:
      std::memcpy(&F.Value, take(4).data(), 4);
      return true;
    default:
      refuse();
    }
  }

private:
  [[noreturn]] void refuse() const {
    fail("'", Path,
         "' is neither a tokenizer.json of Hugging Face nor a model of "
         "SentencePiece, or is damaged");
  }
  std::string_view take(uint64_t Count) {
    if (Count > Rest.size())
      refuse();
    std::string_view Taken = Rest.substr(0, Count);
    Rest.remove_prefix(Count);
    return Taken;
  }
  uint64_t readInteger() {
    uint64_t Value = 0;
    for (unsigned Shift = 0; Shift < 64; Shift += 7) {
      auto Byte = static_cast<unsigned char>(take(1)[0]);
      Value |= static_cast<uint64_t>(Byte & 0x7F) << Shift;
      if (!(Byte & 0x80))
        return Value;
    }
    refuse();
  }

  std::string_view Rest;
  const std::string &Path;
};

/// Calls `Take` with each field of a message.
template <typename Callback>
void forEachField(std::string_view Data, const std::string &Path,
                  const Callback &Take) {
  Message M(Data, Path);
  for (Message::Field F; M.next(F);)
    Take(F);
}

} // namespace

static SentencePieceFile::Piece readPiece(std::string_view Data,
                                          const std::string &Path) {
  SentencePieceFile::Piece P;
  forEachField(Data, Path, [&](const Message::Field &F) {
    if (F.Number == 1)
      P.Text = F.Text;
    else if (F.Number == 2)
      std::memcpy(&P.Score, &F.Value, sizeof P.Score);
    else if (F.Number == 3)
      P.Type = static_cast<SentencePieceFile::PieceType>(F.Value);
  });
  return P;
}

static void readTraining(SentencePieceFile &File, std::string_view Data) {
  forEachField(Data, File.Path, [&](const Message::Field &F) {
    if (F.Number == 3) {
      static constexpr const char *Names[] = {"UNIGRAM", "BPE", "WORD", "CHAR"};
      if (F.Value != 1 && F.Value != 2)
        fail("'", File.Path, "': models of type ",
             F.Value >= 1 && F.Value <= 4 ? Names[F.Value - 1]
                                          : std::to_string(F.Value).c_str(),
             " are not supported; there are UNIGRAM and BPE");
      File.IsBPE = F.Value == 2;
    } else if (F.Number == 24) {
      File.MarksEnds = F.Value;
    } else if (F.Number == 35) {
      File.FallsBack = F.Value;
    } else if (F.Number == 44) {
      File.UnknownText = F.Text;
    }
  });
}

static void readNormalization(SentencePieceFile &File, std::string_view Data) {
  forEachField(Data, File.Path, [&](const Message::Field &F) {
    if (F.Number == 2)
      File.CharsMap = F.Text;
    else if (F.Number == 3)
      File.AddsMark = F.Value;
    else if (F.Number == 4)
      File.RemovesSpaces = F.Value;
    else if (F.Number == 5)
      File.EscapesSpaces = F.Value;
  });
}

SentencePieceFile::SentencePieceFile(std::string_view Data,
                                     const std::string &Path)
    : Path(Path) {
  forEachField(Data, Path, [&](const Message::Field &F) {
    if (F.Number == 1)
      Pieces.push_back(readPiece(F.Text, Path));
    else if (F.Number == 2)
      readTraining(*this, F.Text);
    else if (F.Number == 3)
      readNormalization(*this, F.Text);
    else if (F.Number == 5)
      forEachField(F.Text, Path, [&](const Message::Field &Inner) {
        if (Inner.Number == 2 && !Inner.Text.empty())
          fail("'", Path,
               "': a character map for decoding (denormalizer_spec) is not "
               "supported");
      });
  });
  size_t Unknowns = 0;
  for (size_t Id = 0; Id < Pieces.size(); ++Id) {
    const Piece &P = Pieces[Id];
    if (P.Text.empty() || unicode::findInvalid(P.Text) != P.Text.size() ||
        P.Type < Normal || P.Type > Byte)
      fail("'", Path, "': piece ", Id, " is damaged");
    if (P.Type == Unused)
      fail("'", Path, "': pieces of type UNUSED, as piece ", Id,
           ", are not supported");
    Unknowns += P.Type == Unknown;
  }
  if (Unknowns != 1)
    fail("'", Path, "' has ", Unknowns, " unknown pieces; expected one");
}
