//===- LoweringContext.h - What lowered functions share ---------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_CONVERSION_PROGRAM_LOWERINGCONTEXT_H
#define POPLAR_CONVERSION_PROGRAM_LOWERINGCONTEXT_H

#include "Poplar/Conversion/GPU/GPUKernels.h"
#include "Poplar/Conversion/Kernels/Kernels.h"
#include "Poplar/Conversion/Program/Program.h"
#include "Poplar/Dialect/Exec/Exec.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"
#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/StringMap.h"
#include <array>
#include <cstring>
#include <type_traits>

namespace poplar {

/// What the functions of a module share.
struct ModuleContext {
  ModuleContext(mlir::ModuleOp module, int capability)
      : module(module), symbols(module), arena(getArena(module)),
        gpuKernels(module), capability(capability),
        builder(module.getContext()),
        pointer(mlir::LLVM::LLVMPointerType::get(module.getContext())),
        i64(builder.getI64Type()) {
    for (auto bucket : module.getOps<zero::BucketOp>())
      buckets.insert({bucket.getSymName(), int64_t(buckets.size())});
  }

  /// The number of a bucket.
  int64_t getBucket(llvm::StringRef name) const {
    return buckets.find(name)->second;
  }

  /// A descriptor that a kernel of a GPU is specialised for.
  template <typename T> exec::RecordAttr getDescriptor(const T &value) {
    return exec::makeRecord(module.getContext(), value);
  }

  /// A constant with the words of an ABI struct, so that LLVM folds loads from
  /// it. Equal constants are one.
  template <typename T>
  llvm::StringRef getStruct(llvm::StringRef name, const T &value) {
    static_assert(sizeof(T) % 8 == 0, "ABI structs are made of whole words");
    std::array<int64_t, sizeof(T) / 8> words;
    std::memcpy(words.data(), &value, sizeof(T));
    auto type = mlir::RankedTensorType::get({int64_t(words.size())}, i64);
    auto data =
        mlir::DenseElementsAttr::get(type, llvm::ArrayRef<int64_t>(words));
    llvm::StringRef &known = structs[data];
    if (known.empty()) {
      builder.setInsertionPointToStart(module.getBody());
      auto global = mlir::LLVM::GlobalOp::create(
          builder, module.getLoc(),
          mlir::LLVM::LLVMArrayType::get(i64, words.size()),
          /*isConstant=*/true, mlir::LLVM::Linkage::Internal, name, data,
          /*alignment=*/8);
      symbols.insert(global); // makes the name unique
      known = global.getSymName();
    }
    return known;
  }

  /// The descriptor of a product; all of them are listed for the runtime, those
  /// of sampling apart.
  llvm::StringRef getProduct(const PoplarGemm &gemm, bool isDecoding) {
    llvm::StringRef name = getStruct("gemm", gemm);
    (isDecoding ? decodingProducts : products).insert(name);
    return name;
  }

  /// Makes the lists (see kProductsSymbol).
  void listProducts() {
    listProducts(products, kProductsSymbol);
    listProducts(decodingProducts, kDecodingProductsSymbol);
  }
  void listProducts(const llvm::SetVector<llvm::StringRef> &products,
                    llvm::StringRef symbol) {
    if (products.empty())
      return;
    builder.setInsertionPointToEnd(module.getBody());
    auto type = mlir::LLVM::LLVMArrayType::get(pointer, products.size());
    mlir::Location loc = module.getLoc();
    auto list = mlir::LLVM::GlobalOp::create(
        builder, loc, type, /*isConstant=*/true, mlir::LLVM::Linkage::Internal,
        symbol, mlir::Attribute(), /*alignment=*/8);
    builder.createBlock(&list.getInitializerRegion());
    mlir::Value value = mlir::LLVM::UndefOp::create(builder, loc, type);
    for (auto [index, name] : llvm::enumerate(products))
      value = mlir::LLVM::InsertValueOp::create(
          builder, loc, value,
          mlir::LLVM::AddressOfOp::create(builder, loc, pointer, name), index);
    mlir::LLVM::ReturnOp::create(builder, loc, value);
  }

  /// Declares a function of the runtime or of the kernel library.
  void declare(llvm::StringRef name, llvm::ArrayRef<mlir::Type> arguments) {
    if (symbols.lookup(name))
      return;
    builder.setInsertionPointToStart(module.getBody());
    auto type = mlir::LLVM::LLVMFunctionType::get(
        mlir::LLVM::LLVMVoidType::get(module.getContext()), arguments);
    symbols.insert(
        mlir::LLVM::LLVMFuncOp::create(builder, module.getLoc(), name, type));
  }

  /// Declares an entry point of the runtime, a function of C (EntryPoints.def).
  template <typename Function> void declareEntry(llvm::StringRef name) {
    declareEntry(name, static_cast<Function *>(nullptr));
  }
  template <typename... Parameters>
  void declareEntry(llvm::StringRef name, void (*)(Parameters...)) {
    declare(name, {getType<Parameters>()...});
  }
  template <typename T> mlir::Type getType() const {
    static_assert(std::is_pointer_v<T> || std::is_same_v<T, int64_t>,
                  "generated code passes pointers and integers of 64 bits");
    return std::is_pointer_v<T> ? pointer : i64;
  }

  mlir::ModuleOp module;
  mlir::SymbolTable symbols;
  exec::ArenaOp arena;
  GPUKernelTable gpuKernels;
  /// The GPU's compute capability: 80 for sm_80.
  int capability;
  mlir::OpBuilder builder;
  mlir::Type pointer, i64;
  llvm::DenseMap<mlir::Attribute, llvm::StringRef> structs;
  llvm::StringMap<int64_t> buckets;
  llvm::SetVector<llvm::StringRef> products, decodingProducts;
  int64_t numCollectives = 0;
};

} // namespace poplar

#endif // POPLAR_CONVERSION_PROGRAM_LOWERINGCONTEXT_H
