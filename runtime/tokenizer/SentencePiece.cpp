//===- SentencePiece.cpp - Tokenizers of SentencePiece --------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "support/Error.h"
#include "support/MappedFile.h"
#include "support/Text.h"
#include "tokenizer/CharsMap.h"
#include "tokenizer/LlamaTokenizer.h"
#include "tokenizer/PieceMerges.h"
#include "tokenizer/SentencePieceFile.h"
#include "tokenizer/Tables.h"
#include "tokenizer/Tokenizer.h"
#include "tokenizer/Unicode.h"

#include <algorithm>
#include <cfloat>
#include <cstdio>
#include <limits>
#include <optional>

using namespace poplar::runtime;

/// "▁", which stands for a space.
static constexpr std::string_view SpaceMark = "\xE2\x96\x81";
/// The score of a symbol of the user in Unigram, for each byte but the first.
/// So it is in sentencepiece 0.2.3, whatever the score of the piece is; the
/// highest score of pieces had a part in it in versions before.
static constexpr float SymbolScore = 0.1f;
/// Words of more bytes are not remembered.
static constexpr size_t LongWord = 256;

static bool startsWith(std::string_view Text, std::string_view Start) {
  return Text.substr(0, Start.size()) == Start;
}

namespace {

/// Buffers of one thread for encoding.
struct Scratch {
  /// The best path of Unigram to a position.
  struct Node {
    int32_t Id = -1, Begin = -1;
    float Score = 0;
  };
  std::string Repaired, Normalized;
  PieceMerges::Scratch Merges;
  std::vector<Node> Nodes;
  std::vector<std::pair<std::string_view, int32_t>> Path;
  std::vector<int32_t> WordIds;
  PieceCache Cache;
};

class SentencePiece : public Tokenizer {
public:
  explicit SentencePiece(SentencePieceFile TheFile);

  std::unique_ptr<Encoder> makeEncoder() const override;
  void encode(std::string_view Text, Scratch &S,
              std::vector<int32_t> &Ids) const;
  std::string decode(const int32_t *Ids, size_t Count,
                     bool SkipSpecial) const override;
  int64_t size() const override {
    return static_cast<int64_t>(File.Pieces.size());
  }
  int32_t find(std::string_view Token) const override {
    int32_t Id = Reserved.find(Token);
    return Id >= 0 ? Id : Pieces.find(Token);
  }
  int32_t findAdded(std::string_view Token) const override {
    int32_t Id = Pieces.find(Token);
    return Id >= 0 && get(Id).Type == SentencePieceFile::UserDefined ? Id : -1;
  }
  std::string describe() const override {
    return "SentencePiece, " + std::to_string(size()) + " tokens";
  }

private:
  const SentencePieceFile::Piece &get(int32_t Id) const {
    return File.Pieces[static_cast<size_t>(Id)];
  }
  /// Length of the user's symbol that `Text` begins with; 0 without one.
  size_t findSymbol(std::string_view Text) const {
    int32_t Ignored = 0;
    return BeginsSymbol[static_cast<unsigned char>(Text[0])]
               ? UserSymbols.findLongest(Text, Ignored)
               : 0;
  }
  std::string_view normalizePrefix(std::string_view &Text) const;
  void normalize(std::string_view Text, std::string &Out) const;
  void encodeUnigram(std::string_view Text, Scratch &S,
                     std::vector<int32_t> &Ids) const;
  void encodeBPE(std::string_view Text, Scratch &S,
                 std::vector<int32_t> &Ids) const;
  void encodeWord(std::string_view Text, Scratch &S,
                  std::vector<int32_t> &Ids) const;
  void put(std::string_view Text, int32_t Id, bool &AfterUnknown,
           std::vector<int32_t> &Ids) const;
  void decodeBytes(std::string_view Bytes, std::string &Out) const;

  SentencePieceFile File;
  std::optional<CharsMap> Characters;
  /// Pieces that text is made of, and those that no text becomes.
  StringMap Pieces, Reserved;
  ByteTrie Trie, UserSymbols;
  PieceMerges Merges;
  /// By the number of a piece, the piece that is found for its text.
  std::vector<int32_t> Found;
  bool BeginsSymbol[256] = {};
  int32_t Unknown = -1;
  int32_t ByteIds[256];
  /// The byte that a piece stands for, or -1.
  std::vector<int> Bytes;
  float UnknownScore = 0;
  /// Whether no piece spans the beginning of a word: BPE then encodes words one
  /// by one.
  bool CanCut = false;
};

class SentencePieceEncoder : public Tokenizer::Encoder {
public:
  explicit SentencePieceEncoder(const SentencePiece &T) : T(T) {}
  void encode(std::string_view Text, bool, std::vector<int32_t> &Ids) override {
    T.encode(Text, S, Ids);
  }

private:
  const SentencePiece &T;
  Scratch S;
};

} // namespace

SentencePiece::SentencePiece(SentencePieceFile TheFile)
    : File(std::move(TheFile)), Bytes(File.Pieces.size(), -1) {
  using Type = SentencePieceFile::PieceType;
  std::vector<ByteTrie::Item> Items, Symbols;
  float Least = FLT_MAX;
  CanCut = true;
  for (int32_t Id = 0; Id < size(); ++Id) {
    const SentencePieceFile::Piece &P = get(Id);
    bool IsText = P.Type == Type::Normal || P.Type == Type::UserDefined;
    StringMap &Map = IsText ? Pieces : Reserved;
    if (Map.find(P.Text) >= 0)
      fail("'", File.Path, "': piece ", Id, " is there twice");
    Map.insert(P.Text, Id);
    if (P.Type == Type::Unknown)
      Unknown = Id;
    if (P.Type == Type::Normal)
      Least = std::min(Least, P.Score);
    if (!IsText)
      continue;
    Items.push_back({P.Text, Id});
    if (P.Type == Type::UserDefined) {
      Symbols.push_back({P.Text, Id});
      BeginsSymbol[static_cast<unsigned char>(P.Text[0])] = true;
    }
    for (size_t At = P.Text.find(SpaceMark, 1); At != P.Text.npos;
         At = P.Text.find(SpaceMark, At + 1))
      CanCut &= endsWith(std::string_view(P.Text).substr(0, At), SpaceMark);
  }
  CanCut &= Pieces.find(SpaceMark) >= 0;
  UnknownScore = Least - 10;
  if (File.IsBPE) {
    std::vector<PieceMerges::Piece> List;
    for (const ByteTrie::Item &Each : Items)
      List.push_back({Each.Text, get(Each.Value).Score, Each.Value});
    Merges = PieceMerges(List, static_cast<int32_t>(size()));
    for (const SentencePieceFile::Piece &Each : File.Pieces)
      Found.push_back(find(Each.Text));
  } else {
    Trie = ByteTrie(std::move(Items));
  }
  UserSymbols = ByteTrie(std::move(Symbols));
  for (unsigned Byte = 0; Byte < 256; ++Byte) {
    char Name[8];
    std::snprintf(Name, sizeof Name, "<0x%02X>", Byte);
    ByteIds[Byte] = find(Name);
    if (ByteIds[Byte] >= 0 && get(ByteIds[Byte]).Type == Type::Byte)
      Bytes[static_cast<size_t>(ByteIds[Byte])] = static_cast<int>(Byte);
    else if (File.FallsBack)
      fail("'", File.Path, "' has byte fallback, but no piece ", Name);
  }
  if (!File.CharsMap.empty())
    Characters.emplace(File.CharsMap, "'" + File.Path + "'");
}

/// The normalized form of the beginning of `Text`, which is removed from it.
std::string_view SentencePiece::normalizePrefix(std::string_view &Text) const {
  std::string_view Result;
  size_t Length = findSymbol(Text);
  if (Length == 0 && Characters)
    Length = Characters->findLongest(Text, Result);
  else
    Result = Text.substr(0, Length);
  if (Length == 0) {
    Length = std::min(unicode::getLength(Text[0]), Text.size());
    Result = Text.substr(0, Length);
  }
  Text.remove_prefix(Length);
  return Result;
}

void SentencePiece::normalize(std::string_view Text, std::string &Out) const {
  Out.clear();
  if (File.RemovesSpaces)
    while (!Text.empty()) {
      std::string_view Rest = Text;
      if (normalizePrefix(Rest) != " ")
        break;
      Text = Rest;
    }
  if (Text.empty())
    return;
  std::string_view Space = File.EscapesSpaces ? SpaceMark : " ";
  if (!File.MarksEnds && File.AddsMark)
    Out += Space;
  bool IsAfterSpace = File.RemovesSpaces;
  while (!Text.empty()) {
    std::string_view Part = normalizePrefix(Text);
    while (IsAfterSpace && startsWith(Part, " "))
      Part.remove_prefix(1);
    if (!Part.empty()) {
      for (char C : Part)
        if (C == ' ')
          Out += Space;
        else
          Out += C;
      IsAfterSpace = File.RemovesSpaces && Part.back() == ' ';
    }
  }
  if (File.RemovesSpaces)
    while (endsWith(Out, Space))
      Out.resize(Out.size() - Space.size());
  if (File.MarksEnds && File.AddsMark)
    Out += Space;
}

/// Appends the ids of a part of a text that the model has found to be `Id`.
void SentencePiece::put(std::string_view Text, int32_t Id, bool &AfterUnknown,
                        std::vector<int32_t> &Ids) const {
  bool IsUnknown = Id == Unknown;
  if (IsUnknown && File.FallsBack)
    for (char C : Text)
      Ids.push_back(ByteIds[static_cast<unsigned char>(C)]);
  else if (!IsUnknown || !AfterUnknown) // a run of unknown characters is one
    Ids.push_back(Id);
  AfterUnknown = IsUnknown;
}

/// Scores are added and rounded as SentencePiece does it, from the beginning of
/// the text on: of nearly equal paths the last bit decides.
void SentencePiece::encodeUnigram(std::string_view Text, Scratch &S,
                                  std::vector<int32_t> &Ids) const {
  S.Nodes.assign(Text.size() + 1, Scratch::Node());
  for (size_t Begin = 0; Begin < Text.size();) {
    float Before = S.Nodes[Begin].Score;
    size_t CharLength =
        std::min(unicode::getLength(Text[Begin]), Text.size() - Begin);
    bool HasChar = false;
    auto Propose = [&](size_t Length, int32_t Id, float Candidate) {
      Scratch::Node &End = S.Nodes[Begin + Length];
      if (End.Begin < 0 || Candidate > End.Score)
        End = {Id, static_cast<int32_t>(Begin), Candidate};
    };
    Trie.visitPrefixes(Text.substr(Begin), [&](size_t Length, int32_t Id) {
      const SentencePieceFile::Piece &P = get(Id);
      if (P.Type == SentencePieceFile::UserDefined)
        Propose(Length, Id,
                SymbolScore * static_cast<float>(Length - 1) + Before);
      else
        Propose(Length, Id, P.Score + Before);
      HasChar |= Length == CharLength;
    });
    if (!HasChar)
      Propose(CharLength, Unknown, UnknownScore + Before);
    Begin += CharLength;
  }
  S.Path.clear();
  for (size_t End = Text.size(); End > 0;) {
    const Scratch::Node &N = S.Nodes[End];
    auto Begin = static_cast<size_t>(N.Begin);
    S.Path.emplace_back(Text.substr(Begin, End - Begin), N.Id);
    End = Begin;
  }
  bool AfterUnknown = false;
  for (size_t I = S.Path.size(); I-- > 0;)
    put(S.Path[I].first, S.Path[I].second, AfterUnknown, Ids);
}

void SentencePiece::encodeWord(std::string_view Text, Scratch &S,
                               std::vector<int32_t> &Ids) const {
  bool AfterUnknown = false;
  Merges.run(
      Text, S.Merges,
      [&](size_t Begin, int32_t &Number) {
        std::string_view Rest = Text.substr(Begin);
        if (size_t Length = findSymbol(Rest))
          return Length;
        size_t Length = std::min(unicode::getLength(Rest[0]), Rest.size());
        Number = Merges.getNumber(Rest.substr(0, Length));
        return Length;
      },
      [&](uint32_t Begin, uint32_t Size, int32_t Number) {
        std::string_view Part = Text.substr(Begin, Size);
        bool IsPiece = Number >= 0 && Number < size();
        int32_t Id = IsPiece ? Found[static_cast<size_t>(Number)] : find(Part);
        put(Part, Id < 0 ? Unknown : Id, AfterUnknown, Ids);
      });
}

void SentencePiece::encodeBPE(std::string_view Text, Scratch &S,
                              std::vector<int32_t> &Ids) const {
  for (size_t Begin = 0; Begin < Text.size();) {
    size_t End = CanCut ? Begin : Text.npos;
    // A word ends before a mark that does not follow another one.
    while (End != Text.npos &&
           (End == Begin || endsWith(Text.substr(0, End), SpaceMark)))
      End = Text.find(SpaceMark, End + 1);
    std::string_view Word = Text.substr(Begin, End - Begin);
    Begin += Word.size();
    if (Word.size() >= LongWord) {
      encodeWord(Word, S, Ids);
      continue;
    }
    uint64_t Hash = hashBytes(Word);
    if (S.Cache.find(Word, Hash, Ids))
      continue;
    S.WordIds.clear();
    encodeWord(Word, S, S.WordIds);
    S.Cache.insert(Word, Hash, S.WordIds.data(), S.WordIds.size());
    Ids.insert(Ids.end(), S.WordIds.begin(), S.WordIds.end());
  }
}

void SentencePiece::encode(std::string_view Text, Scratch &S,
                           std::vector<int32_t> &Ids) const {
  normalize(unicode::repair(Text, S.Repaired), S.Normalized);
  if (S.Normalized.size() > std::numeric_limits<int32_t>::max())
    fail("a text of more than 2 GiB cannot be encoded at once");
  if (File.IsBPE)
    encodeBPE(S.Normalized, S, Ids);
  else
    encodeUnigram(S.Normalized, S, Ids);
}

/// A run of bytes; each that is part of no character is U+FFFD.
void SentencePiece::decodeBytes(std::string_view Run, std::string &Out) const {
  while (!Run.empty()) {
    size_t Valid = unicode::findInvalid(Run);
    Out += Run.substr(0, Valid);
    Run.remove_prefix(Valid);
    if (!Run.empty()) {
      unicode::append(Out, 0xFFFD);
      Run.remove_prefix(1);
    }
  }
}

std::string SentencePiece::decode(const int32_t *Ids, size_t Count,
                                  bool SkipSpecial) const {
  std::string Text, Run;
  bool IsAtStart = true, HasTakenMark = false;
  for (size_t I = 0; I < Count; ++I) {
    int32_t Id = Ids[I];
    if (Id < 0 || Id >= size())
      continue;
    const SentencePieceFile::Piece &P = get(Id);
    bool IsControl = P.Type == SentencePieceFile::Control;
    if (IsControl && SkipSpecial)
      continue;
    if (int Byte = Bytes[static_cast<size_t>(Id)]; Byte >= 0) {
      Run += static_cast<char>(Byte);
      continue;
    }
    decodeBytes(Run, Text);
    Run.clear();
    IsAtStart &= !HasTakenMark && Text.empty();
    HasTakenMark = false;
    if (IsControl)
      continue;
    if (Id == Unknown) {
      Text += File.UnknownText;
      continue;
    }
    std::string_view Part = P.Text;
    if (IsAtStart && (File.AddsMark || File.RemovesSpaces) &&
        startsWith(Part, SpaceMark)) {
      Part.remove_prefix(SpaceMark.size());
      // A model that removes spaces removes all at the beginning.
      HasTakenMark = !File.RemovesSpaces;
    }
    for (size_t At; (At = Part.find(SpaceMark)) != Part.npos;) {
      Text.append(Part, 0, At).append(1, ' ');
      Part.remove_prefix(At + SpaceMark.size());
    }
    Text += Part;
  }
  decodeBytes(Run, Text);
  return Text;
}

std::unique_ptr<Tokenizer::Encoder> SentencePiece::makeEncoder() const {
  return std::make_unique<SentencePieceEncoder>(*this);
}

std::unique_ptr<Tokenizer>
poplar::runtime::readSentencePiece(const std::string &Path) {
  MappedFile Mapped(Path);
  SentencePieceFile File(Mapped.text(), Path);
  if (std::string Text = writeLlamaTokenizer(File); !Text.empty())
    return readTokenizerJSON(Text, Path);
  return std::make_unique<SentencePiece>(std::move(File));
}
