//===- ProductTrace.cpp - Norms of the products of a micro-step -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "program/ProductTrace.h"
#include "comm/Wire.h"
#include "support/Error.h"

#include <cmath>
#include <cstdio>
#include <fstream>

using namespace poplar::runtime;

static comm::Type toWire(int32_t Type) {
  return Type == POPLAR_BF16  ? comm::Type::BF16
         : Type == POPLAR_F16 ? comm::Type::F16
                              : comm::Type::F32;
}

ProductTrace::ProductTrace(const Executor &Exec) : Exec(Exec) {
  const PoplarProgram &Program = Exec.program();
  for (int64_t P = 0; P < Program.num_parameters; ++P) {
    const PoplarParameter &Parameter = Program.parameters[P];
    const PoplarBucket &Bucket = Program.buckets[Parameter.bucket];
    int64_t Width = getTypeBytes(getWorkingType(Program, Parameter.bucket));
    // Sharded ones have no place of their own.
    if (Bucket.working >= 0)
      Values[Exec.fixed<char>(Bucket.working + Parameter.offset * Width)] =
          Parameter.name;
    if (Bucket.gradient >= 0)
      Gradients[Exec.fixed<char>(Bucket.gradient + Parameter.offset * 4)] =
          Parameter.name;
  }
}

std::string ProductTrace::name(const void *A, const void *B, const void *C) {
  if (auto Found = Gradients.find(C); Found != Gradients.end())
    return "gradient of " + Found->second;
  for (const void *Operand : {B, A})
    if (auto Found = Values.find(Operand); Found != Values.end())
      return Found->second + " #" + std::to_string(++Uses[Found->second]);
  return "product #" + std::to_string(++Uses[""]);
}

double ProductTrace::measure(const void *From, int32_t Type, int64_t Rows,
                             int64_t Columns, int64_t Row) const {
  comm::Type Wire = toWire(Type);
  int64_t Count = Row ? Rows * Row : Rows * Columns;
  std::vector<char> Bytes(static_cast<size_t>(Count * comm::getBytes(Wire)));
  Exec.device().copyOut(Bytes.data(), From, static_cast<int64_t>(Bytes.size()));
  std::vector<float> Numbers(static_cast<size_t>(Count));
  comm::convert(Bytes.data(), Wire, Numbers.data(), comm::Type::F32, Count);
  double Sum = 0;
  for (int64_t I = 0; I < Count; ++I)
    if (auto Number = static_cast<double>(Numbers[static_cast<size_t>(I)]);
        !Row || I % Row < Columns)
      Sum += Number * Number;
  return std::sqrt(Sum);
}

void ProductTrace::add(const PoplarGemm &Gemm, const void *A, const void *B,
                       const void *Aux, const void *C, int64_t Batch) {
  int64_t M = Gemm.batched == 1 ? Gemm.m * Batch : Gemm.m,
          K = Gemm.batched == 2 ? Gemm.k * Batch : Gemm.k;
  Row Added = {name(A, B, C), 0, 0};
  // The activations, or their gradient, whichever side they are on.
  bool WeightIsLeft = Values.count(A) && !Values.count(B);
  Added.Operand = WeightIsLeft   ? measure(B, Gemm.b_type, K, Gemm.n, /*Row=*/0)
                  : Gemm.trans_a ? measure(A, Gemm.a_type, K, M, Gemm.a_row)
                                 : measure(A, Gemm.a_type, M, K, Gemm.a_row);
  // Only results without an epilogue: devices use different epilogues.
  if (Gemm.epilogue == POPLAR_GELU_GRAD || Gemm.epilogue == POPLAR_GELU)
    Added.Result = NAN;
  else
    Added.Result = measure(Gemm.epilogue == POPLAR_GELU_AUX ? Aux : C,
                           Gemm.c_type, M, Gemm.n, Gemm.c_row);
  Rows.push_back(std::move(Added));
}

void ProductTrace::write(const std::string &Path) const {
  std::ofstream Out(Path);
  Out << "product,operand,result\n";
  for (const Row &R : Rows) {
    char Numbers[64];
    if (std::isnan(R.Result))
      std::snprintf(Numbers, sizeof(Numbers), "%.9g,", R.Operand);
    else
      std::snprintf(Numbers, sizeof(Numbers), "%.9g,%.9g", R.Operand, R.Result);
    Out << R.Name << ',' << Numbers << '\n';
  }
  Out.flush();
  if (!Out)
    fail("cannot write '", Path, "'");
}
