//===- PackedExperts.cpp - Experts in MXFP4 -------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "checkpoint/PackedExperts.h"
#include "support/Error.h"
#include "support/Text.h"

using namespace poplar::runtime;

static constexpr char Blocks[] = "_blocks", Scales[] = "_scales";

/// The values of blocks and their scales.
static TensorView join(const TensorFiles &Files, const std::string &Name) {
  const TensorView &Values = *Files.find(Name + Blocks),
                   *Exponents = Files.find(Name + Scales);
  if (!Exponents)
    fail("'", *Values.File, "': tensor '", Name, Blocks,
         "' has no scales: there is no '", Name, Scales, "'");
  std::vector<int64_t> Expected(Values.Shape.begin(), Values.Shape.end() - 1);
  if (Values.TypeName != "U8" || Exponents->TypeName != "U8" ||
      Values.Shape.back() != 16 || Exponents->Shape != Expected)
    fail("'", *Values.File, "': tensors '", Name, Blocks, "' (",
         Values.TypeName, " ",
         formatShape(Values.Shape.data(), Values.Shape.size()), ") and '", Name,
         Scales, "' (", Exponents->TypeName, " ",
         formatShape(Exponents->Shape.data(), Exponents->Shape.size()),
         ") are not what MXFP4 of experts is: U8 [E,N,K/32,16] and U8 "
         "[E,N,K/32]");
  TensorView Joined = Values;
  Joined.ElementType = TensorView::MXFP4;
  Joined.TypeName = "MXFP4";
  Joined.Shape = {Expected[0], 32 * Expected[2], Expected[1]};
  Joined.Elements = 2 * Values.Elements;
  Joined.Scales = Exponents->Data;
  return Joined;
}

bool poplar::runtime::joinPackedExperts(TensorFiles &Files) {
  std::vector<std::string> Packed;
  for (const auto &[Name, View] : Files.tensors())
    if (endsWith(Name, Blocks) && View.Shape.size() == 4)
      Packed.push_back(Name.substr(0, Name.size() - sizeof(Blocks) + 1));
  for (const std::string &Name : Packed) {
    TensorView Joined = join(Files, Name);
    Files.replace(Name + Scales, {});
    Files.replace(Name + Blocks, {{Name, std::move(Joined)}});
  }
  return !Packed.empty();
}
