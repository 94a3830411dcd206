//===- ExecExchangeOps.td - Exchanges beside products -----*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Part of ExecOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECEXCHANGEOPS_TD
#define POPLAR_DIALECT_EXEC_EXECEXCHANGEOPS_TD

def Exec_RowsOp : Exec_Op<"rows", [Pure]> {
  let summary = "Tokens of a buffer that lie together where ranks share units";
  let description = [{
    ```mlir
    %r = exec.rows %x from 16 : memref<?x32x64xf32> to memref<?x16x64xf32>
    ```
    With B samples, B * 16 rows from row B * 16 on.
  }];
  let arguments = (ins Exec_Buffer:$buffer, Exec_Bytes:$first);
  let results = (outs Exec_Buffer:$rows);
  let assemblyFormat = [{
    $buffer `from` $first attr-dict `:` type($buffer) `to` type($rows)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes of a token.
    int64_t getRowBytes();
  }];
}

def Exec_StartExchangeOp : Exec_Op<"start_exchange"> {
  let summary = "Begins an exchange, or a piece of one round of it";
  let description = [{
    ```mlir
    %t = exec.start_exchange gather_tokens bounds [0, 16, 32] position 1 round 1
        piece 0 of 4 %mine into %all : (memref<?x16x64xf32>, memref<?x32x64xf32>)
    ```
    In round r, of as many as there are ranks, a rank gives to the one r places
    behind it, and gets from the one r places before it, in a circle. In round 0
    it copies what is its own. Without `round`, all of them. Of a rank's n tokens,
    piece p of P is those from n * p / P up to n * (p + 1) / P, each rounded down.
    `chained` is zero.start_exchange's, for all rounds together.
  }];
  let arguments = (ins Zero_ExchangeKind:$kind, DenseI64ArrayAttr:$bounds,
    Exec_Bytes:$position, OptionalAttr<Exec_Bytes>:$round,
    DefaultValuedAttr<Exec_Bytes, "0">:$piece,
    DefaultValuedAttr<Exec_Bytes, "1">:$pieces, UnitAttr:$chained,
    Exec_Buffer:$source, Variadic<Exec_Buffer>:$results);
  let results = (outs Exec_Token:$token);
  let assemblyFormat = [{
    $kind `bounds` $bounds `position` $position (`round` $round^)?
    (`piece` $piece `of` $pieces^)? (`chained` $chained^)?
    $source `into` $results attr-dict `:` `(` type(operands) `)`
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The one op that waits for it; null if there is none.
    WaitExchangeOp getWait();
    /// Where the piece begins, and where it ends, of all tokens of a rank.
    int64_t getFirst(int64_t rank) { return getCut(rank, getPiece()); }
    int64_t getEnd(int64_t rank) { return getCut(rank, getPiece() + 1); }

  private:
    int64_t getCut(int64_t rank, int64_t piece);

  public:
  }];
}

def Exec_WaitExchangeOp : Exec_Op<"wait_exchange"> {
  let summary = "Waits for what exec.start_exchange has begun";
  let arguments = (ins Exec_Token:$token);
  let assemblyFormat = "$token attr-dict";
}

#endif // POPLAR_DIALECT_EXEC_EXECEXCHANGEOPS_TD
