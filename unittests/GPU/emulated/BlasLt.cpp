//===- BlasLt.cpp - An emulated cuBLASLt ----------------------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What runtime/cuda/ calls of libcublasLt, for tests: products of matrices by
// their definition, in column-major order, with sums in f64.
//
//===----------------------------------------------------------------------===//

#include "cuda/BlasLt.h"
#include "Memory.h"
#include "Prelude.h"

#include <array>
#include <cmath>
#include <cstdlib>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace poplar::emulated;
using namespace poplar::runtime::cuda::lt;
using poplar::runtime::cuda::Stream;
namespace cuda = poplar::runtime::cuda;

namespace {

constexpr Status notSupported = 15, invalidValue = 7;

struct Layout {
  int type;
  int64_t rows, columns, leading;

  int64_t width() const {
    return type == TypeF32 ? 4 : type == TypeE4M3 ? 1 : 2;
  }
  int64_t bytes() const { return leading * columns * width(); }
};

struct Description {
  int compute, scale;
  int32_t transposeA = Plain, transposeB = Plain;
  uint32_t epilogue = 1;
  uint64_t bias = 0, aux = 0;
  int64_t auxLeading = 0;

  uint32_t has(uint32_t part) const { return epilogue & part; }
};

/// Bits that the values of cublasLtEpilogue_t are made of.
constexpr uint32_t partBias = 4, partGelu = 32, partGeluGrad = 64,
                   partAux = 128,
                   partSums = EpilogueBiasGradA | EpilogueBiasGradB;

/// What the library multiplies with sums in f32 (cuBLAS 13.0,
/// "cublasLtMatmul()"): both operands are of one type, and the result is of
/// that or of f32; of e4m3, of bf16 or f32.
bool isSupported(int operand, int result) {
  return result == (operand == TypeE4M3 ? TypeBF16 : operand) ||
         result == TypeF32;
}

/// GELU by tanh, and its derivative.
double geluTanh(double x) {
  return std::tanh(0.7978845608028654 * (x + 0.044715 * x * x * x));
}
double gelu(double x) { return x / 2 * (1 + geluTanh(x)); }
double geluGrad(double x) {
  double t = geluTanh(x);
  return (1 + t) / 2 +
         x / 2 * (1 - t * t) * 0.7978845608028654 * (1 + 3 * 0.044715 * x * x);
}

struct Preference {
  uint64_t workspace = 0;
  /// All schemes.
  uint32_t reductions = 7;
  /// Alignments of A, B, C and D.
  std::array<uint32_t, 4> alignment = {256, 256, 256, 256};
};

/// A sign, four bits of exponent and three of fraction, without infinities.
float fromE4M3(uint8_t code) {
  int exponent = code >> 3 & 15, fraction = code & 7;
  if (exponent == 15 && fraction == 7)
    return NAN;
  float value = exponent ? std::ldexp(float(8 + fraction), exponent - 10)
                         : std::ldexp(float(fraction), -9);
  return code & 0x80 ? -value : value;
}

float element(const char *at, int type) {
  if (type == TypeE4M3)
    return fromE4M3(read<uint8_t>(at));
  if (type == TypeF32)
    return read<float>(at);
  if (type == TypeF16)
    return toFloat(read<f16>(at));
  return toFloat(read<bf16>(at));
}
void setElement(char *at, int type, float value) {
  if (type == TypeF32)
    write(at, value);
  else if (type == TypeF16)
    write(at, fromFloat<f16>(value));
  else
    write(at, fromFloat<bf16>(value));
}

/// With 10 bits of fraction: to nearest, ties away from zero (cvt.rna.tf32).
float roundToTF32(float x) {
  return x - x != 0 ? x : bits<float>((bits<uint32_t>(x) + 0x1000) & ~0x1FFFu);
}

/// op(M) as [rows, columns], by rows.
std::vector<double> unpack(uint64_t address, const Layout &layout,
                           bool transposed, bool rounds) {
  int64_t rows = transposed ? layout.columns : layout.rows,
          columns = transposed ? layout.rows : layout.columns;
  const char *data = Memory::get().at(address, layout.bytes());
  std::vector<double> values(size_t(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c) {
      int64_t place =
          transposed ? r * layout.leading + c : c * layout.leading + r;
      float value = element(data + place * layout.width(), layout.type);
      values[size_t(r * columns + c)] =
          double(rounds ? roundToTF32(value) : value);
    }
  return values;
}

struct Product {
  Description description;
  Layout a, b, d;
  uint64_t aAt, bAt, cAt, dAt;
  float alpha, beta;
  /// How partial sums may be added, if the sum may be split.
  uint32_t reductions;

  /// The sum of products. Where it may be split, it is: into two halves, and
  /// without what is left of it behind a tile's depth; partial sums are rounded
  /// to the result's type, if they may be.
  float multiply(const double *x, const double *y, int64_t depth) const {
    constexpr int64_t tileDepth = 128;
    constexpr uint32_t inResultType = 4;
    auto addUp = [&](int64_t first, int64_t last) {
      double sum = 0;
      for (int64_t k = first; k < last; ++k)
        sum += x[k] * y[k];
      return float(sum);
    };
    if (reductions == NotSplit)
      return addUp(0, depth);
    int64_t whole = depth / tileDepth * tileDepth;
    float first = addUp(0, whole / 2), second = addUp(whole / 2, whole);
    if (reductions & inResultType) {
      first = round(first);
      second = round(second);
    }
    return first + second;
  }
  float round(float value) const {
    char memory[4];
    setElement(memory, d.type, value);
    return element(memory, d.type);
  }

  /// Stores the sum of each row of an operand as a gradient of a bias.
  void sumRows(const std::vector<double> &operand, int64_t rows,
               int64_t depth) const {
    char *sums = Memory::get().at(description.bias, rows * d.width());
    for (int64_t r = 0; r < rows; ++r) {
      double sum = 0;
      for (int64_t k = 0; k < depth; ++k)
        sum += operand[size_t(r * depth + k)];
      setElement(sums + r * d.width(), d.type, float(sum));
    }
  }

  void run() const {
    int64_t depth = description.transposeA ? a.rows : a.columns;
    bool rounds = description.compute == ComputeTF32;
    std::vector<double> left = unpack(aAt, a, description.transposeA, rounds),
                        right = unpack(bAt, b, !description.transposeB, rounds);
    const char *before = Memory::get().at(cAt, d.bytes());
    char *result = Memory::get().at(dAt, d.bytes());
    const char *bias = nullptr;
    if (description.has(partBias))
      bias = Memory::get().at(description.bias, d.rows * d.width());
    char *aux = nullptr;
    if (description.has(partAux))
      aux = Memory::get().at(description.aux,
                             description.auxLeading * d.columns * d.width());
    if (description.has(EpilogueBiasGradA))
      sumRows(left, d.rows, depth);
    if (description.has(EpilogueBiasGradB))
      sumRows(right, d.columns, depth);
    for (int64_t c = 0; c < d.columns; ++c)
      for (int64_t r = 0; r < d.rows; ++r) {
        int64_t at = (c * d.leading + r) * d.width();
        float value = alpha * multiply(&left[size_t(r * depth)],
                                       &right[size_t(c * depth)], depth);
        if (beta != 0)
          value += beta * element(before + at, d.type);
        if (bias)
          value += element(bias + r * d.width(), d.type);
        char *argument =
            aux ? aux + (c * description.auxLeading + r) * d.width() : nullptr;
        if (description.has(partGelu)) {
          if (argument)
            setElement(argument, d.type, value);
          value = float(gelu(value));
        } else if (description.has(partGeluGrad)) {
          value *= float(geluGrad(element(argument, d.type)));
        }
        setElement(result + at, d.type, value);
      }
  }
};

} // namespace

extern "C" {

// Driver.cpp has these.
cuda::Result cuCtxGetDevice(int *device);
cuda::Result cuDeviceGetAttribute(int *value, int attribute, int device);

size_t cublasLtGetVersion() { return 130000; }
const char *cublasLtGetStatusName(Status) { return "EMULATED"; }
Status cublasLtCreate(Object *handle) {
  *handle = new char;
  return 0;
}
Status cublasLtDestroy(Object handle) {
  delete static_cast<char *>(handle);
  return 0;
}
Status cublasLtMatrixLayoutCreate(Object *layout, int type, uint64_t rows,
                                  uint64_t columns, int64_t leading) {
  if (leading < int64_t(rows))
    return invalidValue;
  *layout = new Layout{type, int64_t(rows), int64_t(columns), leading};
  return 0;
}
Status cublasLtMatrixLayoutDestroy(Object layout) {
  delete static_cast<Layout *>(layout);
  return 0;
}
Status cublasLtMatmulDescCreate(Object *description, int compute, int scale) {
  *description = new Description{compute, scale};
  return 0;
}
Status cublasLtMatmulDescDestroy(Object description) {
  delete static_cast<Description *>(description);
  return 0;
}
Status cublasLtMatmulDescSetAttribute(Object object, int attribute,
                                      const void *value, size_t bytes) {
  auto &description = *static_cast<Description *>(object);
  auto take = [&](auto &field) {
    if (bytes != sizeof(field))
      return invalidValue;
    std::memcpy(&field, value, bytes);
    return Status(0);
  };
  switch (attribute) {
  case TransA:
    return take(description.transposeA);
  case TransB:
    return take(description.transposeB);
  case Epilogue:
    return take(description.epilogue);
  case BiasPointer:
    return take(description.bias);
  case AuxPointer:
    return take(description.aux);
  case AuxLeading:
    return take(description.auxLeading);
  default:
    return notSupported;
  }
}
Status cublasLtMatmulPreferenceCreate(Object *preference) {
  *preference = new Preference;
  return 0;
}
Status cublasLtMatmulPreferenceDestroy(Object preference) {
  delete static_cast<Preference *>(preference);
  return 0;
}
Status cublasLtMatmulPreferenceSetAttribute(Object object, int attribute,
                                            const void *value, size_t bytes) {
  auto &preference = *static_cast<Preference *>(object);
  if (attribute == MaxWorkspaceBytes && bytes == sizeof(uint64_t))
    std::memcpy(&preference.workspace, value, bytes);
  else if (attribute == ReductionSchemes && bytes == sizeof(uint32_t))
    std::memcpy(&preference.reductions, value, bytes);
  else if (attribute >= MinAlignmentA && attribute <= MinAlignmentA + 3 &&
           bytes == sizeof(uint32_t))
    std::memcpy(&preference.alignment[size_t(attribute - MinAlignmentA)], value,
                bytes);
  else
    return notSupported;
  return 0;
}
/// Whether a variable's list, such as "gelu,bias_grad", names what a product is
/// to do besides: bias, gelu, gelu_grad, bias_grad.
/// POPLAR_EMULATED_REFUSE_EPILOGUES has those for which there is no algorithm,
/// POPLAR_EMULATED_FAIL_EPILOGUES those that fail when they are to run.
static bool isNamed(const char *variable, const Description &description) {
  const char *given = std::getenv(variable);
  std::istringstream list(given ? given : "");
  uint32_t refused = 0;
  for (std::string name; std::getline(list, name, ',');)
    refused |= name == "bias"        ? partBias
               : name == "gelu"      ? partGelu
               : name == "gelu_grad" ? partGeluGrad
               : name == "bias_grad" ? partSums
                                     : 0;
  return description.has(refused);
}

/// "Using FP8 kernels" (cuBLAS, "cublasLtMatmul()"): what is summed over lies
/// together in both operands, and the rows of all matrices are multiples of 16
/// bytes. Which epilogues there are besides is not asked.
static bool isSupportedE4M3(const Description &description, const Layout &left,
                            const Layout &right, const Layout &out) {
  int device = 0, major = 0, minor = 0;
  cuCtxGetDevice(&device);
  cuDeviceGetAttribute(&major, cuda::CapabilityMajor, device);
  cuDeviceGetAttribute(&minor, cuda::CapabilityMinor, device);
  return 10 * major + minor >= 89 && description.transposeA &&
         !description.transposeB && description.epilogue == EpilogueNone &&
         description.compute == ComputeF32 && left.leading % 16 == 0 &&
         right.leading % 16 == 0 && left.rows % 16 == 0 && out.rows % 16 == 0 &&
         out.leading % 8 == 0;
}

/// Always the same, which wants all the scratch there is.
Status cublasLtMatmulAlgoGetHeuristic(Object, Object object, Object a, Object b,
                                      Object c, Object d, Object preference,
                                      int wanted, Heuristic *result,
                                      int *found) {
  auto &description = *static_cast<Description *>(object);
  auto &left = *static_cast<Layout *>(a), &right = *static_cast<Layout *>(b),
       &out = *static_cast<Layout *>(d);
  int64_t m = description.transposeA ? left.columns : left.rows,
          k = description.transposeA ? left.rows : left.columns,
          depth = description.transposeB ? right.columns : right.rows,
          n = description.transposeB ? right.rows : right.columns;
  if (wanted < 1 || c != d || m != out.rows || n != out.columns || k != depth ||
      left.type != right.type ||
      (description.compute != ComputeF32 &&
       (description.compute != ComputeTF32 || left.type != TypeF32)))
    return invalidValue;
  if (isNamed("POPLAR_EMULATED_REFUSE_EPILOGUES", description) ||
      !isSupported(left.type, out.type) ||
      (left.type == TypeE4M3 &&
       !isSupportedE4M3(description, left, right, out)))
    return notSupported;
  // The rows of aux start at multiples of 16 bytes.
  if (description.has(partAux) &&
      (description.auxLeading < out.rows || description.auxLeading % 8 != 0))
    return notSupported;
  // Sums are of one operand, and of an address that is aligned.
  if (description.has(partSums) &&
      (description.has(partSums) == partSums || description.bias == 0 ||
       description.bias % 16 != 0))
    return notSupported;
  *result = {};
  const auto &wishes = *static_cast<Preference *>(preference);
  result->WorkspaceBytes = wishes.workspace;
  // What is chosen for an alignment needs it.
  result->Choice.Data[0] = wishes.workspace;
  std::memcpy(&result->Choice.Data[1], wishes.alignment.data(),
              sizeof(wishes.alignment));
  result->Choice.Data[3] = wishes.reductions;
  *found = 1;
  return 0;
}
/// There is one algorithm, without parts.
Status cublasLtMatmulAlgoConfigGetAttribute(const Algorithm *, int attribute,
                                            void *value, size_t bytes,
                                            size_t *written) {
  const size_t width = attribute == AlgorithmCluster ? 2 : 4;
  if (bytes != width)
    return invalidValue;
  std::memset(value, 0, bytes);
  *written = bytes;
  return 0;
}
/// Nobody else may have something in the scratch of a product: the first one
/// that writes to `out` overwrites all of it. Later ones, of which a run has
/// thousands, overwrite a line of each page, another one each time.
static void overwriteScratch(uint64_t address, size_t bytes, uint64_t out) {
  constexpr size_t page = 4096, line = 64;
  static std::set<std::array<uint64_t, 3>> known;
  static size_t count = 0;
  char *scratch = Memory::get().at(address, int64_t(bytes));
  if (known.insert({address, bytes, out}).second) {
    std::memset(scratch, 0xFF, bytes);
    return;
  }
  for (size_t at = ++count * line % page; at + line <= bytes; at += page)
    std::memset(scratch + at, 0xFF, line);
}

Status cublasLtMatmul(Object, Object object, const void *alpha, const void *a,
                      Object aLayout, const void *b, Object bLayout,
                      const void *beta, const void *c, Object, void *d,
                      Object dLayout, const Algorithm *algorithm,
                      void *workspace, size_t workspaceBytes, Stream stream) {
  if (!algorithm)
    return invalidValue;
  auto address = [](const void *pointer) {
    return reinterpret_cast<uint64_t>(pointer);
  };
  // "Must be 256B aligned" (cuBLAS, "cublasLtMatmul()").
  if (workspaceBytes && address(workspace) % 256 != 0)
    return invalidValue;
  Product product = {*static_cast<Description *>(object),
                     *static_cast<Layout *>(aLayout),
                     *static_cast<Layout *>(bLayout),
                     *static_cast<Layout *>(dLayout),
                     address(a),
                     address(b),
                     address(c),
                     address(d),
                     *static_cast<const float *>(alpha),
                     *static_cast<const float *>(beta),
                     static_cast<uint32_t>(algorithm->Data[3])};
  const uint64_t operands[] = {product.aAt, product.bAt, product.cAt,
                               product.dAt};
  std::array<uint32_t, 4> alignment;
  std::memcpy(alignment.data(), &algorithm->Data[1], sizeof(alignment));
  for (size_t i = 0; i < 4; ++i)
    if (operands[i] % alignment[i])
      return notSupported;
  // Scratch of the size that the algorithm was chosen for.
  const Description &what = product.description;
  if (workspaceBytes < algorithm->Data[0] ||
      (workspaceBytes && (!workspace || address(workspace) % 16)) ||
      (what.has(partBias | partSums) && (!what.bias || what.bias % 16)) ||
      (what.has(partAux) && (!what.aux || what.aux % 16)))
    return invalidValue;
  if (isNamed("POPLAR_EMULATED_FAIL_EPILOGUES", what))
    return notSupported;
  getQueue(stream).add([=] {
    if (workspaceBytes)
      overwriteScratch(address(workspace), workspaceBytes, product.dAt);
    product.run();
  });
  return 0;
}

} // extern "C"
