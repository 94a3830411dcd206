//===- Gemm.cpp - Matrix products by cuBLASLt -----------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// cuBLASLt's matrices are column major: what is C = op(A) op(B) by rows is
// C^T = op(B)^T op(A)^T by columns, and the transpose of a matrix by rows is
// the same memory by columns.
//
// Libraries multiply fast if all rows begin, and end, at multiples of 16 bytes
// (cuBLAS, "Tensor Core Usage"). Padded rows begin there. What such rows have
// behind the last multiple is a product of its own, of a few columns.
//
// Libraries multiply in fp8 what lies along the sum: op(A) by rows, op(B) by
// columns. Kernels write both so, with a scale for each; the library multiplies
// codes, and a kernel scales the result, with what an epilogue would do. As
// scales are powers of two, the result in bf16 is rounded once.
//
//===----------------------------------------------------------------------===//

#include "cuda/Gemm.h"
#include "Poplar/Runtime/FP8.h"
#include "Poplar/Runtime/Quantized.h"
#include "cuda/BlasLt.h"
#include "cuda/Library.h"
#include "cuda/Memory.h"
#include "cuda/WireKernels.h"
#include "gemm/GemmKey.h"
#include "support/Error.h"

#include <algorithm>
#include <cstdio>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

using namespace poplar::runtime;
using namespace poplar::runtime::cuda;
using namespace poplar::runtime::cuda::lt;

/// The least alignment of a buffer of the memory plan.
static constexpr uint32_t Alignment = POPLAR_ALIGNMENT;
/// The alignment that cublasLtMatmul asks of its workspace: otherwise an
/// algorithm that needs one fails with CUBLAS_STATUS_INVALID_VALUE.
static constexpr int64_t WorkspaceAlignment = 256;

static Library loadLibrary(int Capability) {
  // CUDA 13 has nothing for chips before sm_75, and needs a driver for it.
  if (Capability < 75 || Driver::get().Version < 13000)
    return Library({"libcublasLt.so.12"},
                   Capability < 75
                       ? "this GPU needs the libraries of CUDA 12: install "
                         "them (Debian: libcublaslt12) and name their "
                         "directory in POPLAR_CUDA_PATH"
                       : "install CUDA 12's libraries, or a driver for CUDA "
                         "13, and name their directory in POPLAR_CUDA_PATH");
  return Library({"libcublasLt.so.13", "libcublasLt.so.12"},
                 "install CUDA's libraries and name their directory in "
                 "POPLAR_CUDA_PATH");
}

BlasLt::BlasLt(int Capability) {
  Library Library = loadLibrary(Capability);
  Name = Library.name();
#define POPLAR_CUBLASLT_LOAD(NAME, ...) Library.get(#NAME, NAME);
  POPLAR_CUBLASLT(POPLAR_CUBLASLT_LOAD)
#undef POPLAR_CUBLASLT_LOAD
  Library.get("cublasLtGetVersion", cublasLtGetVersion);
  Library.get("cublasLtGetStatusName", cublasLtGetStatusName);
}

namespace {

/// Rows of the result, its columns, and products of a sum.
struct Extents {
  int64_t M, N, K;
};

/// A product that the library is asked for.
struct Part {
  Extents Sizes;
  /// Where its operands begin, in elements.
  int64_t AtA = 0, AtB = 0, AtC = 0;
  /// The first of the rows that are rounded to 8 bits at a time.
  int64_t FirstRow = 0;
  bool Accumulates = false;
  Object Left = nullptr, Right = nullptr, Result = nullptr;
  Heuristic Choice = {};
};

struct Prepared {
  Object Description;
  /// One, or two if there are padded rows: the larger is the last.
  std::vector<Part> Parts;
  /// Whether a kernel does what the library's epilogue would.
  bool IsPlain = false;
};

Extents getExtents(const PoplarGemm &Gemm, int64_t Batch) {
  return {Gemm.batched == 1 ? Gemm.m * Batch : Gemm.m, Gemm.n,
          Gemm.batched == 2 ? Gemm.k * Batch : Gemm.k};
}

int64_t getWidth(int32_t Type) { return Type == POPLAR_F32 ? 4 : 2; }

/// Cuts what padded rows have behind the last multiple of POPLAR_ROW_BYTES.
std::vector<Part> cutRows(const PoplarGemm &Gemm, Extents Whole) {
  int64_t Extents::*Along = Gemm.c_row     ? &Extents::N
                            : Gemm.trans_a ? &Extents::M
                                           : &Extents::K;
  Part Large = {Whole};
  Large.Accumulates = Gemm.accumulate;
  int64_t Step = POPLAR_ROW_BYTES /
                 getWidth(Gemm.c_row ? Gemm.c_type : Gemm.a_type),
          First = Whole.*Along / Step * Step;
  if ((!Gemm.a_row && !Gemm.c_row) || First == 0 || First == Whole.*Along)
    return {Large};
  Part Small = Large;
  Large.Sizes.*Along = First;
  Small.Sizes.*Along -= First;
  if (Along == &Extents::N) {
    Small.AtB = Gemm.trans_b ? First * Whole.K : First;
    Small.AtC = First;
  } else if (Along == &Extents::M) {
    Small.AtA = First;
    Small.AtC = First * Whole.N;
  } else {
    Small.AtA = First;
    Small.AtB = Gemm.trans_b ? First : First * Whole.N;
    // To the sum of few products, which rounds least, the others are added.
    Large.Accumulates = true;
  }
  return {Small, Large};
}

/// As many rows at a time as there is scratch for in 8 bits.
std::vector<Part> cutFP8Rows(const PoplarGemm &Gemm, Extents Whole) {
  std::vector<Part> Parts;
  for (int64_t First = 0; First < Whole.M; First += POPLAR_FP8_ROWS) {
    Part Own = {Whole};
    Own.Sizes.M = std::min<int64_t>(POPLAR_FP8_ROWS, Whole.M - First);
    Own.AtC = First * Gemm.n;
    Own.FirstRow = First;
    Parts.push_back(Own);
  }
  return Parts;
}

bool hasAux(const PoplarGemm &Gemm) {
  return Gemm.epilogue == POPLAR_GELU_AUX || Gemm.epilogue == POPLAR_GELU_GRAD;
}

/// 0 for none.
uint32_t getEpilogue(const PoplarGemm &Gemm) {
  switch (Gemm.epilogue) {
  case POPLAR_GELU:
    return EpilogueGeluBias;
  case POPLAR_GELU_AUX:
    return EpilogueGeluAuxBias;
  case POPLAR_GELU_GRAD:
    return EpilogueGeluGrad;
  // Its first operand is our second one.
  case POPLAR_BIAS_GRAD_A:
    return EpilogueBiasGradB;
  case POPLAR_BIAS_GRAD_B:
    return EpilogueBiasGradA;
  default:
    return Gemm.has_bias ? EpilogueBias : 0;
  }
}

/// Elements of a bias whose gradient is a by-product; 0 where there is none.
int64_t countBiasGradients(const PoplarGemm &Gemm) {
  if (Gemm.epilogue == POPLAR_BIAS_GRAD_A)
    return Gemm.m;
  return Gemm.epilogue == POPLAR_BIAS_GRAD_B ? Gemm.n : 0;
}

const char *nameEpilogue(const PoplarGemm &Gemm) {
  static const char *const Names[] = {"a bias",
                                      "GELU",
                                      "GELU that keeps its argument",
                                      "the gradient of GELU",
                                      "the gradient of a bias (by rows)",
                                      "the gradient of a bias (by columns)"};
  return Names[Gemm.epilogue];
}

const char *nameType(const PoplarGemm &Gemm) {
  static const char *const Names[] = {"f32", "bf16", "f16"};
  return Gemm.fp8 ? "fp8" : Gemm.tf32 ? "tf32" : Names[Gemm.a_type];
}

int getType(int32_t Type) {
  constexpr int Types[] = {TypeF32, TypeBF16, TypeF16};
  return Types[Type];
}

} // namespace

struct CublasCache::Impl {
  Impl(int Capability, int64_t Bytes, int64_t InFront)
      : Lt(Capability),
        ScratchBytes(static_cast<size_t>(std::max<int64_t>(
            Bytes - InFront - WorkspaceAlignment + Alignment, 0))),
        InFront(InFront) {
    check(Lt.cublasLtCreate(&Handle), "start");
    check(Lt.cublasLtMatmulPreferenceCreate(&Preference), "start");
    check(Lt.cublasLtMatmulPreferenceSetAttribute(Preference, MaxWorkspaceBytes,
                                                  &this->ScratchBytes,
                                                  sizeof(this->ScratchBytes)),
          "limit its scratch");
  }
  ~Impl() {
    for (auto &[K, P] : Products) {
      Lt.cublasLtMatmulDescDestroy(P.Description);
      for (const Part &Own : P.Parts)
        for (Object Layout : {Own.Left, Own.Right, Own.Result})
          Lt.cublasLtMatrixLayoutDestroy(Layout);
    }
    Lt.cublasLtMatmulPreferenceDestroy(Preference);
    Lt.cublasLtDestroy(Handle);
  }
  int64_t getSumBytes() const { return Sums ? Sums->size() : 0; }
  WireKernels &getKernels() {
    if (!Kernels)
      Kernels = std::make_unique<WireKernels>();
    return *Kernels;
  }
  /// Loads the kernels that a product needs besides, with room for their sums.
  void prepareKernels(const PoplarGemm &Gemm, const Prepared &P,
                      int64_t Batch) {
    int64_t NumSums = countBiasGradients(Gemm);
    if (P.IsPlain || NumSums)
      getKernels();
    // Also for when the library refuses later, and what is queued has
    // addresses.
    if (NumSums)
      reserveSums(
          4 * WireKernels::countPartials(getExtents(Gemm, Batch).K, NumSums));
  }
  /// The library's part of the scratch.
  void *getWorkspace() const {
    auto Address = reinterpret_cast<uintptr_t>(Scratch + InFront);
    return reinterpret_cast<void *>((Address + WorkspaceAlignment - 1) &
                                    ~uintptr_t(WorkspaceAlignment - 1));
  }
  void check(Status S, const char *What) const {
    if (S != 0)
      fail(Lt.Name, " cannot ", What, ": ", Lt.cublasLtGetStatusName(S));
  }
  /// By rows: [Rows, Columns], with `Row` elements from one row to the next.
  Object describe(int Type, int64_t Rows, int64_t Columns, int64_t Row) const {
    Object Layout;
    check(Lt.cublasLtMatrixLayoutCreate(&Layout, Type,
                                        static_cast<uint64_t>(Columns),
                                        static_cast<uint64_t>(Rows), Row),
          "describe a matrix");
    return Layout;
  }
  void describe(const PoplarGemm &Gemm, Extents Whole, Part &P) const {
    auto [M, N, K] = P.Sizes;
    P.Result =
        describe(getType(Gemm.c_type), M, N, Gemm.c_row ? Gemm.c_row : Whole.N);
    if (Gemm.fp8) {
      P.Left = describe(TypeE4M3, N, K, K);
      P.Right = describe(TypeE4M3, M, K, K);
      return;
    }
    int LeftType =
        getType(poplar_is_quantized(Gemm.b_type) ? Gemm.a_type : Gemm.b_type);
    int RightType = getType(Gemm.a_type);
    P.Left = Gemm.trans_b ? describe(LeftType, N, K, Whole.K)
                          : describe(LeftType, K, N, Whole.N);
    int64_t Row = Gemm.trans_a ? Whole.M : Whole.K;
    Row = Gemm.a_row ? Gemm.a_row : Row;
    P.Right = Gemm.trans_a ? describe(RightType, K, M, Row)
                           : describe(RightType, M, K, Row);
  }
  template <typename T>
  void set(Object Description, int Attribute, const T &Value) const {
    check(Lt.cublasLtMatmulDescSetAttribute(Description, Attribute, &Value,
                                            sizeof(Value)),
          "describe a product");
  }

  /// Describes what the library is to do with the product; not 0 if it does not
  /// know how.
  Status setEpilogue(const PoplarGemm &Gemm, const Prepared &P);
  /// Chooses an algorithm for every part; not 0 if the library has none.
  Status choose(const PoplarGemm &Gemm, Prepared &P);
  Status choose(Object Description, Part &P);
  /// Chooses algorithms without the epilogue that the library refuses by `S`: a
  /// kernel does what it would.
  Status chooseWithout(const PoplarGemm &Gemm, Prepared &P, int64_t Batch,
                       Status S);
  /// Starts a part of a product; not 0 if the library does not.
  Status start(const Prepared &P, const Part &Own, const GemmOperands &Operands,
               int32_t OperandType, int32_t ResultType, Stream Queue) const;
  /// The parts of a product in fp8, one after another.
  void runFP8(const PoplarGemm &Gemm, const Prepared &P,
              const GemmOperands &Operands, Stream Queue) const;
  /// Room for sums, or partial sums, of the gradients of a bias.
  void reserveSums(int64_t Bytes) {
    if (Bytes > getSumBytes())
      Sums = std::make_unique<Allocation>(Bytes);
  }
  /// Does what an epilogue would, once there is the product.
  void finish(const PoplarGemm &Gemm, const GemmOperands &Operands,
              int64_t Batch, Stream Queue) const;
  void sayOnce(const PoplarGemm &Gemm, Status S);

  BlasLt Lt;
  /// The library's, behind what is dequantised, wherever it begins.
  size_t ScratchBytes;
  int64_t InFront;
  char *Scratch = nullptr;
  Object Handle = nullptr, Preference = nullptr;
  std::unordered_map<GemmKey, Prepared, GemmKeyHash> Products;
  /// The library stores gradients of biases; here, until they are added. The
  /// kernels have their partial sums here.
  std::unique_ptr<Allocation> Sums;
  std::unique_ptr<WireKernels> Kernels;
  /// Epilogues that the library has refused, by type and name.
  std::set<std::string> Refused;
};

void CublasCache::Impl::sayOnce(const PoplarGemm &Gemm, Status S) {
  std::string Name = std::string(nameEpilogue(Gemm)) + " in " + nameType(Gemm);
  if (Refused.insert(Name).second)
    std::fprintf(stderr,
                 "note: %s refuses products with %s (%s); a kernel of the "
                 "runtime computes that instead\n",
                 Lt.Name.c_str(), Name.c_str(), Lt.cublasLtGetStatusName(S));
}

Status CublasCache::Impl::setEpilogue(const PoplarGemm &Gemm,
                                      const Prepared &P) {
  auto Set = [&](int Attribute, const auto &Value) {
    return Lt.cublasLtMatmulDescSetAttribute(P.Description, Attribute, &Value,
                                             sizeof(Value));
  };
  // Addresses are given when the product runs. Nothing is read here, but
  // algorithms may be chosen by alignment.
  const auto Somewhere = static_cast<uint64_t>(Alignment);
  uint32_t Wanted = getEpilogue(Gemm);
  if (P.IsPlain)
    return Set(Epilogue, EpilogueNone);
  if (!Wanted)
    return 0;
  if (Status S = Set(Epilogue, Wanted))
    return S;
  int64_t SumBytes = 4 * countBiasGradients(Gemm);
  if (Gemm.has_bias || SumBytes)
    if (Status S = Set(BiasPointer, Somewhere))
      return S;
  if (hasAux(Gemm)) {
    if (Status S = Set(AuxPointer, Somewhere))
      return S;
    // By columns, what is N wide here is N high there.
    if (Status S = Set(AuxLeading, Gemm.n))
      return S;
  }
  reserveSums(SumBytes);
  return 0;
}

Status CublasCache::Impl::choose(Object Description, Part &P) {
  // By default, partial sums may be rounded to the result's 16 bits. Sums that
  // are no multiple of a tile's depth are not split: cuBLAS 12.8 to 13.1 is
  // reported to drop what is left of them (facebookexperimental/triton#2767).
  constexpr int64_t TileDepth = 128;
  uint32_t Schemes = P.Sizes.K % TileDepth == 0 ? SplitInComputeType : NotSplit;
  check(Lt.cublasLtMatmulPreferenceSetAttribute(Preference, ReductionSchemes,
                                                &Schemes, sizeof(Schemes)),
        "add partial sums in f32");
  bool IsWhole = P.AtA + P.AtB + P.AtC == 0;
  uint32_t Aligned = IsWhole ? Alignment : POPLAR_ROW_BYTES;
  for (int Operand = 0; Operand < 4; ++Operand)
    check(Lt.cublasLtMatmulPreferenceSetAttribute(
              Preference, MinAlignmentA + Operand, &Aligned, sizeof(Aligned)),
          "take buffers of this alignment");
  int Found = 0;
  Status S = Lt.cublasLtMatmulAlgoGetHeuristic(
      Handle, Description, P.Left, P.Right, P.Result, P.Result, Preference, 1,
      &P.Choice, &Found);
  if (S == 0 && Found == 0)
    return NotSupported;
  return S ? S : P.Choice.State;
}

Status CublasCache::Impl::choose(const PoplarGemm &Gemm, Prepared &P) {
  Status S = setEpilogue(Gemm, P);
  for (Part &Own : P.Parts)
    if (S == 0)
      S = choose(P.Description, Own);
  return S;
}

Status CublasCache::Impl::chooseWithout(const PoplarGemm &Gemm, Prepared &P,
                                        int64_t Batch, Status S) {
  sayOnce(Gemm, S);
  P.IsPlain = true;
  prepareKernels(Gemm, P, Batch);
  return choose(Gemm, P);
}

Status CublasCache::Impl::start(const Prepared &P, const Part &Own,
                                const GemmOperands &Operands,
                                int32_t OperandType, int32_t ResultType,
                                Stream Queue) const {
  const float Alpha = 1, Beta = Own.Accumulates ? 1 : 0;
  auto At = [&](const void *Matrix, int64_t Element) {
    return static_cast<const char *>(Matrix) + Element * getWidth(OperandType);
  };
  char *C = static_cast<char *>(Operands.C) + Own.AtC * getWidth(ResultType);
  return Lt.cublasLtMatmul(
      Handle, P.Description, &Alpha, At(Operands.B, Own.AtB), Own.Left,
      At(Operands.A, Own.AtA), Own.Right, &Beta, C, Own.Result, C, Own.Result,
      &Own.Choice.Choice, getWorkspace(), ScratchBytes, Queue);
}

void CublasCache::Impl::runFP8(const PoplarGemm &Gemm, const Prepared &P,
                               const GemmOperands &Operands,
                               Stream Queue) const {
  PoplarFP8Layout Layout = poplar_fp8_layout(&Gemm);
  auto *ScalesA = reinterpret_cast<float *>(Scratch + Layout.scales_a),
       *ScalesB = reinterpret_cast<float *>(Scratch + Layout.scales_b);
  char *CodesA = Scratch + Layout.codes_a, *CodesB = Scratch;
  if (Gemm.trans_b)
    Kernels->roundRows(Operands.B, CodesB, ScalesB, Gemm.n, Gemm.k, Queue);
  else
    Kernels->roundColumns(Operands.B, CodesB, ScalesB, Gemm.k, Gemm.n, Queue);
  auto At = [&](const void *Matrix, int64_t Element) {
    char *First = static_cast<char *>(const_cast<void *>(Matrix));
    return First ? First + Element * getWidth(Gemm.c_type) : nullptr;
  };
  for (const Part &Own : P.Parts) {
    Kernels->roundRows(At(Operands.A, Own.FirstRow * Gemm.k), CodesA, ScalesA,
                       Own.Sizes.M, Gemm.k, Queue);
    GemmOperands Codes = {CodesA, CodesB, nullptr, nullptr, Operands.C};
    check(start(P, Own, Codes, Gemm.a_type, Gemm.c_type, Queue),
          "run a product");
    Kernels->applyEpilogue({At(Operands.C, Own.AtC), Gemm.c_type, Gemm.n,
                            Own.Sizes.M * Gemm.n, ScalesA, ScalesB},
                           Gemm.has_bias ? Operands.Bias : nullptr,
                           At(Operands.Aux, Own.AtC), Gemm.epilogue, Queue);
  }
}

void CublasCache::Impl::finish(const PoplarGemm &Gemm,
                               const GemmOperands &Operands, int64_t Batch,
                               Stream Queue) const {
  auto [M, N, Depth] = getExtents(Gemm, Batch);
  auto *Gradients = static_cast<float *>(Operands.Aux);
  auto *Partials = Sums ? reinterpret_cast<float *>(Sums->data()) : nullptr;
  // Element [i, j] of op(A), and [j, i] of op(B), j being summed over.
  if (Gemm.epilogue == POPLAR_BIAS_GRAD_A)
    return Kernels->addSums(Gradients, Partials, Operands.A, Gemm.a_type,
                            Gemm.trans_a ? 1 : Depth, Gemm.trans_a ? M : 1,
                            Depth, M, Queue);
  if (Gemm.epilogue == POPLAR_BIAS_GRAD_B)
    return Kernels->addSums(Gradients, Partials, Operands.B, Gemm.b_type,
                            Gemm.trans_b ? Depth : 1, Gemm.trans_b ? 1 : N,
                            Depth, N, Queue);
  Kernels->applyEpilogue({Operands.C, Gemm.c_type, N, M * N},
                         Gemm.has_bias ? Operands.Bias : nullptr, Operands.Aux,
                         Gemm.epilogue, Queue);
}

CublasCache::CublasCache(int Capability, int64_t ScratchBytes, int64_t InFront)
    : Data(std::make_unique<Impl>(Capability, ScratchBytes, InFront)) {}
CublasCache::~CublasCache() = default;

bool CublasCache::isFused(const PoplarGemm &Gemm, int64_t Batch) const {
  return !Data->Products.at(GemmKey{&Gemm, Batch}).IsPlain;
}

std::string CublasCache::describe(const PoplarGemm &Gemm, int64_t Batch) const {
  const Part &Largest = Data->Products.at(GemmKey{&Gemm, Batch}).Parts.back();
  std::string Text;
  struct {
    const char *Name;
    int Attribute;
  } Wanted[] = {
      {"algorithm", AlgorithmId},        {"tile", AlgorithmTile},
      {"stages", AlgorithmStages},       {"split-k", AlgorithmSplitK},
      {"swizzling", AlgorithmSwizzling}, {"cluster", AlgorithmCluster}};
  for (const auto &W : Wanted) {
    // Some are of 16 bits.
    uint32_t Value = 0;
    size_t Written = 0;
    size_t Width = W.Attribute == AlgorithmCluster ? 2 : 4;
    if (Data->Lt.cublasLtMatmulAlgoConfigGetAttribute(
            &Largest.Choice.Choice, W.Attribute, &Value, Width, &Written) == 0)
      Text += std::string(W.Name) + " " + std::to_string(Value) + " ";
  }
  char Rest[64];
  std::snprintf(Rest, sizeof(Rest), "workspace %zu waves %.2f",
                Largest.Choice.WorkspaceBytes,
                static_cast<double>(Largest.Choice.Waves));
  return Text + Rest;
}

void CublasCache::prepare(const PoplarGemm &Gemm, int64_t Batch, bool Fuse) {
  GemmKey K{&Gemm, Batch};
  if (Data->Products.count(K))
    return;
  Extents Whole = getExtents(Gemm, Batch);
  Prepared &P = Data->Products[K];
  int64_t Dequantized = poplar_dequantized_bytes(&Gemm);
  if (std::max(Dequantized, poplar_fp8_layout(&Gemm).bytes) > Data->InFront)
    fail("the plan has no scratch for a ",
         Gemm.fp8 ? "matrix in fp8" : "quantised matrix", " of ", Whole.N,
         " x ", Whole.K, "; build the program again");
  if (Dequantized)
    Data->getKernels().prepareTables();
  P.Parts = Gemm.fp8 ? cutFP8Rows(Gemm, Whole) : cutRows(Gemm, Whole);
  for (Part &Own : P.Parts)
    Data->describe(Gemm, Whole, Own);
  Data->check(
      Data->Lt.cublasLtMatmulDescCreate(
          &P.Description, Gemm.tf32 ? ComputeTF32 : ComputeF32, TypeF32),
      "describe a product");
  Data->set(P.Description, TransA,
            Gemm.trans_b || Gemm.fp8 ? Transposed : Plain);
  Data->set(P.Description, TransB, Gemm.trans_a ? Transposed : Plain);
  P.IsPlain = Gemm.fp8 || (!Fuse && getEpilogue(Gemm));
  Status S = Data->choose(Gemm, P);
  if (S != 0 && getEpilogue(Gemm) && !P.IsPlain)
    S = Data->chooseWithout(Gemm, P, Batch, S);
  Data->prepareKernels(Gemm, P, Batch);
  if (S == 0)
    return;
  fail(Data->Lt.Name, " cannot multiply [", Whole.M, ",", Whole.K, "] by [",
       Whole.K, ",", Whole.N, "] in ", nameType(Gemm), " on this GPU (",
       Data->Lt.cublasLtGetStatusName(S), "); build for another device type");
}

void CublasCache::setScratch(void *Memory) {
  Data->Scratch = static_cast<char *>(Memory);
}

int64_t CublasCache::getOwnBytes() const {
  return Data->getSumBytes() +
         (Data->Kernels ? Data->Kernels->getOwnBytes() : 0);
}

void CublasCache::run(const PoplarGemm &Gemm, const GemmOperands &Operands,
                      int64_t Batch, Stream Queue) {
  if (Gemm.batched && Batch == 0)
    return; // no rows, or nothing to add
  auto It = Data->Products.find(GemmKey{&Gemm, Batch});
  if (It == Data->Products.end())
    fail("a GEMM of ", Batch, " samples was not prepared");
  Prepared &P = It->second;
  if (Gemm.fp8)
    return Data->runFP8(Gemm, P, Operands, Queue);
  if (Gemm.has_bias && !P.IsPlain)
    Data->set(P.Description, BiasPointer, Operands.Bias);
  if (hasAux(Gemm) && !P.IsPlain)
    Data->set(P.Description, AuxPointer, Operands.Aux);
  int64_t NumSums = countBiasGradients(Gemm);
  if (NumSums && !P.IsPlain)
    Data->set(P.Description, BiasPointer, Data->Sums->data());
  GemmOperands Wide = Operands;
  if (poplar_is_quantized(Gemm.b_type)) {
    Data->Kernels->dequantize(
        Operands.B, Gemm.b_type, Gemm.trans_b ? Gemm.n : Gemm.k,
        Gemm.trans_b ? Gemm.k : Gemm.n, Data->Scratch, Gemm.a_type, Queue);
    Wide.B = Data->Scratch;
  }
  // Operands are of one type, once they are dequantised.
  auto Start = [&](const Part &Own) {
    return Data->start(P, Own, Wide, Gemm.a_type, Gemm.c_type, Queue);
  };
  for (const Part &Own : P.Parts) {
    Status S = Start(Own);
    // What was chosen with an epilogue may still be refused when it is to run.
    // Nothing of the product is done then, unless there is an earlier part.
    if (S != 0 && getEpilogue(Gemm) && !P.IsPlain && &Own == &P.Parts.front()) {
      S = Data->chooseWithout(Gemm, P, Batch, S);
      if (S == 0)
        S = Start(Own);
    }
    Data->check(S, "run a product");
  }
  if (P.IsPlain)
    Data->finish(Gemm, Operands, Batch, Queue);
  else if (NumSums)
    Data->Kernels->add(static_cast<float *>(Operands.Aux),
                       reinterpret_cast<const float *>(Data->Sums->data()),
                       NumSums, Queue);
}
