//===- ZeroInterfaces.td - Interfaces of zero ops ---------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZEROINTERFACES_TD
#define POPLAR_DIALECT_ZERO_ZEROINTERFACES_TD

include "mlir/IR/OpBase.td"

def CollectiveOpInterface : OpInterface<"CollectiveOpInterface"> {
  let cppNamespace = "::poplar::zero";
  let description = [{
    An op that issues a collective: every rank of the group has to issue the
    same ones, in the same order, whatever its device type.
  }];
  let methods = [
    InterfaceMethod<"What is done with the bucket.",
      "::poplar::zero::CollectiveKind", "getCollectiveKind">,
    InterfaceMethod<"Name of the bucket, null for the norm.",
      "::mlir::FlatSymbolRefAttr", "getBucketName">,
    InterfaceMethod<"Element type on the wire.", "::mlir::Type", "getWireType">
  ];
}

def ExchangeOpInterface : OpInterface<"ExchangeOpInterface"> {
  let cppNamespace = "::poplar::zero";
  let description = [{
    An op in which the ranks that share units wait for each other: all of them
    have the same ones, in the same order.
  }];
  let methods = [
    InterfaceMethod<"How the tokens of a sample are divided among the ranks.",
      "::llvm::ArrayRef<int64_t>", "getBounds">,
    InterfaceMethod<"What is exchanged, one after the other.",
      "::llvm::SmallVector<TokenExchange>", "getExchanges">
  ];
}

#endif // POPLAR_DIALECT_ZERO_ZEROINTERFACES_TD
