//===- FunctionLowering.h - An exec.function in LLVM ------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For implementations of ProgramCallOpInterface: addresses of buffers, and
// calls of the runtime (Runtime/ABI.h) and of kernels.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_FUNCTIONLOWERING_H
#define POPLAR_CONVERSION_PROGRAM_FUNCTIONLOWERING_H

#include "Poplar/Conversion/Program/LoweringContext.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "llvm/ADT/SmallVectorExtras.h"

namespace poplar {

class FunctionLowering {
public:
  using Value = mlir::Value;

  FunctionLowering(exec::FunctionOp function, ModuleContext &shared,
                   bool trapDeadRanges)
      : shared(shared), trapDeadRanges(trapDeadRanges),
        builder(function.getContext()), loc(function.getLoc()),
        source(function) {}

  /// Builds the function. Fails, with a diagnostic at the op, where an op has
  /// no lowering.
  mlir::LogicalResult run();

  Value constant(int64_t value);
  Value null();
  Value addressOf(llvm::StringRef symbol);
  /// base + batch * offset, or base + offset.
  Value advance(Value base, int64_t offset, bool perSample);
  /// The start of a region.
  Value getBase(exec::Region region);
  Value loadPort(PoplarPort port);
  /// Whether the function is run by sampling alone.
  bool isDecoding() { return source.getDecoding().has_value(); }
  /// Samples of the micro-batch.
  Value getBatch() const { return batch; }
  /// Bytes of a buffer.
  Value getBytes(exec::BufferOp buffer);

  /// The pointer to a buffer, null for one that is missing; the descriptor of a
  /// collective under way for its token.
  Value pointerOf(Value buffer) {
    return buffer ? pointers.lookup(buffer) : null();
  }
  llvm::SmallVector<Value> pointersOf(llvm::ArrayRef<Value> buffers) {
    return llvm::map_to_vector(buffers,
                               [&](Value buffer) { return pointerOf(buffer); });
  }
  void setPointer(Value buffer, Value pointer) { pointers[buffer] = pointer; }

  /// Calls a function of the runtime, which takes the context first.
  void callRuntime(llvm::StringRef name, mlir::ValueRange arguments);
  /// Calls a unit.
  void callUnit(llvm::StringRef unit, Value scratch,
                llvm::ArrayRef<Value> arguments);
  /// Runs a PoplarKernel on `parts` parts (of each sample if `batched`), which
  /// are split at multiples of `grain`.
  void dispatch(Value kernel, llvm::ArrayRef<Value> arguments, int64_t parts,
                bool batched, int64_t grain);
  /// Runs a kernel of the GPU's table in the same way.
  void launch(int64_t kernel, llvm::ArrayRef<Value> arguments, int64_t parts,
              bool batched);
  /// An array of pointers, on the stack.
  Value pack(llvm::ArrayRef<Value> arguments);
  /// A PoplarKernel that passes `desc` to a function of the kernel library.
  llvm::StringRef wrap(llvm::StringRef function, llvm::StringRef desc);

  ModuleContext &shared;
  const bool trapDeadRanges;
  mlir::OpBuilder builder;
  /// The location of the op that is lowered.
  mlir::Location loc;

private:
  Value getExtent(int64_t parts, bool batched);

  exec::FunctionOp source;
  /// `base` is the arena, of a unit its scratch.
  Value context, base, ports, batch;
  llvm::DenseMap<Value, Value> pointers;
  mlir::Block *entry = nullptr;
};

} // namespace poplar

#endif // POPLAR_CONVERSION_PROGRAM_FUNCTIONLOWERING_H
