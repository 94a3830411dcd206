//===- TokenChunks.cpp - Ops that run for some tokens at a time -----------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TokenChunks.h"
#include "FunctionPlan.h"
#include "KernelRows.h"
#include "Poplar/Conversion/Program/RuntimeCalls.h"
#include "Poplar/Dialect/NN/NN.h"
#include "mlir/IR/Remarks.h"
#include "llvm/Support/MathExtras.h"
#include <numeric>

using namespace mlir;
using namespace poplar;

/// Threads of a GPU read and write vectors of as many bytes.
static constexpr int64_t vectorBytes = 16;
/// Chunks of more tokens have a multiple of these: products like that.
static constexpr int64_t fewTokens = 64;

bool TokenChunks::isInside(Value value) const {
  return ops.contains(value.getDefiningOp()) &&
         exec::getBufferSize(value.getType()).perSample &&
         llvm::all_of(value.getUsers(),
                      [&](Operation *user) { return ops.contains(user); });
}

RankedTensorType TokenChunks::getTypeInside(Value value, int64_t count) {
  auto type = cast<RankedTensorType>(value.getType());
  SmallVector<int64_t> shape(type.getShape());
  shape[1] = count;
  return type.clone(shape);
}

namespace {
class ChunkFinder {
public:
  ChunkFinder(func::FuncOp unit, int64_t chunkBytes, int64_t alignment,
              SymbolTableCollection &symbols)
      : unit(unit), chunkBytes(chunkBytes), alignment(alignment),
        symbols(symbols) {}

  std::vector<TokenChunks> run();

private:
  bool isLarge(Value value) const;
  /// The last op that has to be in chunks if `op` is.
  Operation *findEnd(Operation *op) const;
  bool runsByTokens(Operation *op, int64_t tokens);
  bool isNeededInside(Operation *op, const TokenChunks &chunks) const;
  int64_t getMultiple(const TokenChunks &chunks) const;
  /// From `first` to `last`; nothing, with a remark, if one of the ops in
  /// between needs all tokens at once.
  std::optional<TokenChunks> makeChunks(Operation *first, Operation *last);

  func::FuncOp unit;
  int64_t chunkBytes, alignment;
  SymbolTableCollection &symbols;
};
} // namespace

/// Whether a value is a temporary that must not be whole in memory. What a unit
/// returns is its caller's.
bool ChunkFinder::isLarge(Value value) const {
  auto type = dyn_cast<RankedTensorType>(value.getType());
  exec::BufferSize size = exec::getBufferSize(value.getType());
  return type && type.getRank() > 1 && size.perSample &&
         size.bytes > chunkBytes && isCall(*value.getDefiningOp()) &&
         llvm::none_of(value.getUsers(), llvm::IsaPred<func::ReturnOp>);
}

Operation *ChunkFinder::findEnd(Operation *op) const {
  Operation *end = nullptr;
  for (Value result : op->getResults()) {
    if (!isLarge(result))
      continue;
    end = end ? end : op;
    for (Operation *user : result.getUsers())
      if (end->isBeforeInBlock(user))
        end = user;
  }
  return end;
}

bool ChunkFinder::runsByTokens(Operation *op, int64_t tokens) {
  if (auto dispatch = dyn_cast<exec::DispatchOp>(op)) {
    auto kernel = symbols.lookupNearestSymbolFrom<exec::KernelOp>(
        op, dispatch.getKernelAttr());
    return isTokenByToken(kernel, tokens) || addsTokens(kernel, tokens);
  }
  return isProductOfTokens(op) &&
         cast<RankedTensorType>(op->getOperand(0).getType()).getDimSize(1) ==
             tokens;
}

/// Tokens of a multiple of which all rows of the operands begin aligned.
int64_t ChunkFinder::getMultiple(const TokenChunks &chunks) const {
  int64_t multiple = 1;
  auto add = [&](Value value) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || !exec::getBufferSize(type).perSample)
      return;
    int64_t bytes = exec::getTokenBytes(type);
    // Kernels alone read vectors of tokens' numbers.
    int64_t wanted =
        type.getRank() < 3 ? std::min(alignment, vectorBytes) : alignment;
    multiple = std::lcm(multiple, wanted / std::gcd(wanted, bytes));
  };
  for (Operation *op : chunks.ops) {
    llvm::for_each(op->getOperands(), add);
    llvm::for_each(op->getResults(), add);
  }
  return multiple;
}

/// Whether an op that needs all tokens stands in the way of chunks: it makes or
/// reads what is large, or makes what is read in them.
bool ChunkFinder::isNeededInside(Operation *op,
                                 const TokenChunks &chunks) const {
  auto isLargeHere = [&](Value value) {
    return value.getDefiningOp() && isLarge(value);
  };
  return llvm::any_of(op->getResults(), isLargeHere) ||
         llvm::any_of(op->getOperands(), isLargeHere) ||
         llvm::any_of(op->getUsers(), [&](Operation *user) {
           return chunks.ops.contains(user);
         });
}

std::optional<TokenChunks> ChunkFinder::makeChunks(Operation *first,
                                                   Operation *last) {
  TokenChunks chunks;
  int64_t largest = 0;
  SmallVector<Operation *> others;
  for (Operation *op = first; op != last->getNextNode();
       op = op->getNextNode()) {
    for (Value result : op->getResults())
      if (isLarge(result)) {
        auto type = cast<RankedTensorType>(result.getType());
        chunks.tokens = type.getDimSize(1);
        largest = std::max(largest, exec::getBufferSize(type).bytes);
      }
    if (runsByTokens(op, chunks.tokens))
      chunks.ops.insert(op);
    else if (isCall(*op) || op->getNumResults() == 0)
      others.push_back(op);
  }
  for (Operation *other : others)
    if (isNeededInside(other, chunks)) {
      remark::missed(other->getLoc(), remark::RemarkOpts::name("WholeTokens")
                                          .category("plan-memory")
                                          .function(unit.getName()))
          << remark::metric("Op", other->getName().getStringRef())
          << remark::metric("Bytes", largest)
          << remark::reason("it needs all tokens of a sample");
      return std::nullopt;
    }
  Operation *behind = last;
  for (Operation *other : others) {
    other->moveAfter(behind);
    behind = other;
  }
  int64_t multiple = getMultiple(chunks),
          tokens =
              chunkBytes / int64_t(llvm::divideCeil(largest, chunks.tokens));
  if (tokens > fewTokens)
    multiple = std::max(multiple, fewTokens);
  auto most = std::max<int64_t>(llvm::alignDown(tokens, multiple), multiple);
  int64_t count = llvm::divideCeil(chunks.tokens, most);
  chunks.size = llvm::alignTo(llvm::divideCeil(chunks.tokens, count), multiple);
  if (chunks.size >= chunks.tokens)
    return std::nullopt;
  remark::passed(first->getLoc(), remark::RemarkOpts::name("Chunks")
                                      .category("plan-memory")
                                      .function(unit.getName()))
      << remark::metric("Op", first->getName().getStringRef())
      << remark::metric("Bytes", largest)
      << remark::metric("Tokens", chunks.tokens)
      << remark::metric("ChunkTokens", chunks.size);
  return chunks;
}

std::vector<TokenChunks> ChunkFinder::run() {
  std::vector<std::pair<Operation *, Operation *>> ranges;
  for (Operation &op : unit.front()) {
    Operation *end = findEnd(&op);
    if (!end)
      continue;
    if (ranges.empty() || ranges.back().second->isBeforeInBlock(&op))
      ranges.push_back({&op, end});
    else if (ranges.back().second->isBeforeInBlock(end))
      ranges.back().second = end;
  }
  std::vector<TokenChunks> found;
  for (auto [first, last] : ranges)
    if (std::optional<TokenChunks> chunks = makeChunks(first, last))
      found.push_back(std::move(*chunks));
  return found;
}

std::vector<TokenChunks>
poplar::findTokenChunks(func::FuncOp unit, int64_t alignment,
                        SymbolTableCollection &symbols) {
  std::optional<int64_t> chunkBytes = nn::getChunkBytes(unit);
  if (!chunkBytes)
    return {};
  return ChunkFinder(unit, *chunkBytes, alignment, symbols).run();
}
