//===- ZeroExchangeOps.td - Exchanges beside products -----*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What --zero-overlap-exchanges makes of the exchanges of ranks that share
// units. Part of ZeroOps.td; the classes are declared by Dialect/Zero/
// ZeroExchange.h.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZEROEXCHANGEOPS_TD
#define POPLAR_DIALECT_ZERO_ZEROEXCHANGEOPS_TD

def Zero_StartExchangeOp : Zero_TokensOp<"start_exchange"> {
  let summary = "Begins to exchange, and goes on";
  let description = [{
    With `gather_tokens` the result is all tokens, which arrive until
    zero.wait_exchange. Up to there, products of them by a weight may read it:
    they compute the rows of each rank once these are there. With
    `scatter_tokens` the results are this rank's tokens of each rank's value. A
    product whose result is the value gives the rows of each rank away as soon as
    it has them.
    ```mlir
    %all = zero.start_exchange gather_tokens %mine bounds [0, 16, 32] position 1
        : tensor<?x16x64xf32> -> tensor<?x32x64xf32>
    %a, %b = zero.start_exchange scatter_tokens %x keep %h bounds [0, 16, 32]
        position 1 : tensor<?x32x64xf32>, tensor<?x32x32xf32>
          -> tensor<?x16x64xf32>, tensor<?x16x64xf32>
    ```
    What is to `keep` is read by such a product while the exchange is under way.
    With `pieces 4`, each rank's tokens travel in four pieces, and products run
    piece by piece. Tokens that are gathered `chained` are made row by row of what
    was scattered before, in as many pieces: each piece of them is computed and
    sent as soon as the same piece has arrived.
  }];
  let arguments = (ins Zero_ExchangeKind:$kind, AnyRankedTensor:$value,
    Variadic<AnyRankedTensor>:$kept, DenseI64ArrayAttr:$bounds,
    I64Attr:$position, DefaultValuedAttr<I64Attr, "1">:$pieces,
    UnitAttr:$chained);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kind $value (`keep` $kept^)? `bounds` $bounds `position` $position
    (`pieces` $pieces^)? (`chained` $chained^)? attr-dict
    `:` type(operands) `->` type($results)
  }];
  let extraClassDeclaration = [{
    /// The rank's part of all tokens.
    double getOwnPart();
    /// For gathered tokens that are chained: the scatter before. Null if there
    /// is none in the block.
    WaitExchangeOp getChain();
    /// What waits for it, in the same block; null if nothing does.
    WaitExchangeOp getWait();
  }];
}

def Zero_WaitExchangeOp : Zero_Op<"wait_exchange",
    [DeclareOpInterfaceMethods<CostOpInterface>]> {
  let summary = "Waits for what was begun to exchange, and gives it";
  let description = [{
    ```mlir
    %x = zero.wait_exchange %all of %mine : tensor<?x32x64xf32>
        of tensor<?x16x64xf32> -> tensor<?x32x64xf32>
    ```
    It takes all results of a zero.start_exchange, and its value, which must stay
    as it is up to here.
  }];
  let arguments = (ins Variadic<AnyRankedTensor>:$started,
    AnyRankedTensor:$value);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $started `of` $value attr-dict `:` type($started) `of` type($value)
    `->` type($results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    StartExchangeOp getStart();
  }];
  let builders = [OpBuilder<(ins "StartExchangeOp":$start)>];
}

def Zero_SumExchangeOp : Zero_Op<"sum_exchange",
    [Pure, DeclareOpInterfaceMethods<CostOpInterface>]> {
  let summary = "The sum of the ranks' values, in f32 and in their order";
  let arguments = (ins Variadic<AnyRankedTensor>:$parts);
  let results = (outs AnyRankedTensor:$sum);
  let assemblyFormat = "$parts attr-dict `:` type($parts) `->` type($sum)";
  let hasVerifier = 1;
}

#endif // POPLAR_DIALECT_ZERO_ZEROEXCHANGEOPS_TD
