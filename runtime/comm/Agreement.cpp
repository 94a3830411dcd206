//===- Agreement.cpp - What ranks must have alike -------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "comm/Agreement.h"
#include "support/Error.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <map>

using namespace poplar::runtime;
using namespace poplar::runtime::comm;

/// Values that are longer are cut, and their hash is compared.
static constexpr size_t LongestValue = 200;
/// What one rank may send.
static constexpr size_t LongestList = 1 << 20;
/// Claims and ranks that a message names; of more, it gives the number.
static constexpr size_t MostClaims = 8, MostRanks = 8;

std::string comm::toHex(uint64_t Hash) {
  char Text[17];
  std::snprintf(Text, sizeof Text, "%016llx",
                static_cast<unsigned long long>(Hash));
  return Text;
}

static std::string shorten(const std::string &Value) {
  if (Value.size() <= LongestValue)
    return Value;
  return Value.substr(0, LongestValue) + "... (hash " +
         toHex(XXH3_64bits(Value.data(), Value.size())) + ")";
}

static void appendField(std::string &Text, const std::string &Field) {
  Text += std::to_string(Field.size()) + ":" + Field;
}

/// Takes the next field off the front of `Text`.
static std::string takeField(std::string_view &Text) {
  size_t Size = 0, Colon = Text.find(':');
  for (size_t I = 0; I < Colon && I < Text.size() && Size <= LongestList; ++I)
    Size = 10 * Size + static_cast<size_t>(Text[I] - '0');
  if (Colon == std::string_view::npos || Size > Text.size() - Colon - 1)
    fail("a rank has sent a list of options that is damaged");
  std::string Field(Text.substr(Colon + 1, Size));
  Text.remove_prefix(Colon + 1 + Size);
  return Field;
}

static std::string encode(const std::vector<Claim> &Claims) {
  std::string Text;
  for (const Claim &C : Claims) {
    appendField(Text, C.Name);
    appendField(Text, shorten(C.Value));
    appendField(Text, C.IsFatal ? "1" : "0");
  }
  if (Text.size() > LongestList)
    fail("this rank has ", Text.size(), " bytes of options; there is room for ",
         LongestList);
  return Text;
}

static std::vector<Claim> decode(std::string_view Text) {
  std::vector<Claim> Claims;
  while (!Text.empty()) {
    std::string Name = takeField(Text), Value = takeField(Text);
    Claims.push_back({Name, Value, takeField(Text) == "1"});
  }
  return Claims;
}

/// "rank 1 (host, type)", or "ranks 1, 2 and 5 more".
static std::string listRanks(const std::vector<size_t> &Ranks,
                             const std::vector<std::string> &Names) {
  if (Ranks.size() == 1)
    return "rank " + std::to_string(Ranks[0]) + " (" + Names[Ranks[0]] + ")";
  std::string Text = "ranks ";
  for (size_t I = 0; I < std::min(Ranks.size(), MostRanks); ++I)
    Text += (I ? ", " : "") + std::to_string(Ranks[I]);
  if (Ranks.size() > MostRanks)
    Text += " and " + std::to_string(Ranks.size() - MostRanks) + " more";
  return Text;
}

/// Who has which of at least two values.
static std::string
describe(const std::map<std::string, std::vector<size_t>> &Groups,
         const std::vector<std::string> &Names) {
  // The most frequent value first; of equally frequent ones, the lowest rank's.
  std::vector<std::pair<std::string, std::vector<size_t>>> Order(Groups.begin(),
                                                                 Groups.end());
  std::sort(Order.begin(), Order.end(), [](const auto &A, const auto &B) {
    return A.second.size() != B.second.size()
               ? A.second.size() > B.second.size()
               : A.second[0] < B.second[0];
  });
  bool HasMost = Order[0].second.size() > Order[1].second.size();
  std::string Text;
  for (size_t I = 0; I < std::min(Order.size(), MostRanks); ++I) {
    const auto &[Value, Ranks] = Order[I];
    Text += I ? ", " : "";
    if (I == 0 && HasMost)
      Text += "most have ";
    else
      Text +=
          listRanks(Ranks, Names) + (Ranks.size() == 1 ? " has " : " have ");
    Text += Value;
  }
  if (Order.size() > MostRanks)
    Text += ", and there are " + std::to_string(Order.size() - MostRanks) +
            " more values";
  return Text;
}

Comparison comm::compareClaims(const std::vector<std::vector<Claim>> &All,
                               const std::vector<std::string> &Names) {
  std::vector<std::string> Order;
  std::map<std::string, std::map<std::string, std::vector<size_t>>> Values;
  std::map<std::string, bool> IsFatal;
  for (size_t R = 0; R < All.size(); ++R)
    for (const Claim &C : All[R]) {
      auto [It, IsNew] = IsFatal.insert({C.Name, C.IsFatal});
      It->second |= C.IsFatal;
      if (IsNew)
        Order.push_back(C.Name);
      std::vector<size_t> &Ranks = Values[C.Name][C.Value];
      if (Ranks.empty() || Ranks.back() != R)
        Ranks.push_back(R);
    }
  std::string Errors, Notes;
  size_t NumErrors = 0;
  for (const std::string &Name : Order) {
    auto &Groups = Values[Name];
    // A program of another version may have no such option. Of what is only
    // told, ranks on unlike devices have unlike lists.
    for (size_t R = 0; IsFatal[Name] && R < All.size(); ++R)
      if (std::none_of(All[R].begin(), All[R].end(),
                       [&](const Claim &C) { return C.Name == Name; }))
        Groups["none"].push_back(R);
    if (Groups.size() < 2)
      continue;
    std::string Text = Name + ": " + describe(Groups, Names);
    if (!IsFatal[Name])
      Notes += (Notes.empty() ? "" : "; ") + Text;
    else if (++NumErrors <= MostClaims)
      Errors += (Errors.empty() ? "" : "; ") + Text;
  }
  if (NumErrors > MostClaims)
    Errors += "; and " + std::to_string(NumErrors - MostClaims) +
              " more are not the same";
  if (!Errors.empty())
    Errors = "the ranks do not have the same " + Errors;
  return {Errors, Notes};
}

Comparison comm::compareClaims(Communicator &C, const std::vector<Claim> &Mine,
                               const std::string &Name) {
  std::string Text = encode(Mine);
  // One word of each rank, whatever its options are: nothing that the ranks may
  // disagree about decides how long a message is.
  std::vector<int64_t> Hashes(static_cast<size_t>(C.size()));
  Hashes[static_cast<size_t>(C.rank())] =
      static_cast<int64_t>(XXH3_64bits(Text.data(), Text.size()));
  C.allReduceSum(Hashes.data(), C.size());
  if (std::equal(Hashes.begin() + 1, Hashes.end(), Hashes.begin()))
    return {};
  std::string Message;
  appendField(Message, Name);
  std::vector<std::string> Texts = C.gatherStrings(Message + Text, 0);
  std::string Found;
  if (C.rank() == 0) {
    std::vector<std::vector<Claim>> All;
    std::vector<std::string> Names;
    for (std::string_view One : Texts) {
      Names.push_back(takeField(One));
      All.push_back(decode(One));
    }
    Comparison Result = compareClaims(All, Names);
    appendField(Found, Result.Error);
    appendField(Found, Result.Note);
  }
  int64_t Length = static_cast<int64_t>(Found.size());
  C.broadcast(&Length, sizeof Length, 0);
  Found.resize(static_cast<size_t>(Length));
  C.broadcast(Found.data(), Length, 0);
  std::string_view Rest = Found;
  std::string Error = takeField(Rest);
  return {Error, takeField(Rest)};
}
