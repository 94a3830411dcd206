//===- Softcap.td - The ops of the example ----------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef SOFTCAP_TD
#define SOFTCAP_TD

include "mlir/IR/OpBase.td"
include "mlir/Interfaces/InferTypeOpInterface.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "Poplar/Dialect/NN/NNInterfaces.td"

def ExampleDialect : Dialect {
  let name = "example";
  let cppNamespace = "::example";
  let summary = "An op that the nn dialect lacks";
}

/// Activations [B, T, D], B dynamic.
def Activation : 3DTensorOf<[F32, BF16, F16]>;

class SoftcapBase<string mnemonic, list<Trait> traits>
    : Op<ExampleDialect, mnemonic, !listconcat([Pure,
        DeclareOpInterfaceMethods<LinalgLoweringOpInterface>,
        DeclareOpInterfaceMethods<CostOpInterface>], traits)>;

def SoftcapOp : SoftcapBase<"softcap", [AllTypesMatch<["x", "result"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "cap tanh(x / cap): keeps values between -cap and cap";
  let description = "Gemma 2 caps the scores of attention and the logits.";
  let arguments = (ins Activation:$x, F64Attr:$cap);
  let results = (outs Activation:$result);
  let assemblyFormat = "$x `cap` $cap attr-dict `:` type($x)";
  let hasVerifier = 1;
}

def SoftcapGradOp : SoftcapBase<"softcap_grad",
    [AllTypesMatch<["dy", "y", "result"]>]> {
  let summary = "dy (1 - (y / cap)^2), where y is what softcap gave";
  let arguments = (ins Activation:$dy, Activation:$y, F64Attr:$cap);
  let results = (outs Activation:$result);
  let assemblyFormat = "$dy `,` $y `cap` $cap attr-dict `:` type($y)";
}

#endif // SOFTCAP_TD
