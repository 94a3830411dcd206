//===- ExecBase.td - Classes of the exec dialect -----------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the definitions of ops use.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECBASE_TD
#define POPLAR_DIALECT_EXEC_EXECBASE_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/IR/TensorEncoding.td"
include "mlir/Interfaces/FunctionInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "Poplar/Dialect/Exec/ExecEnums.td"
include "Poplar/Dialect/Zero/ZeroEnums.td"

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

def ExecDialect : Dialect {
  let name = "exec";
  let cppNamespace = "::poplar::exec";
  let summary = "The program of one rank: kernels, buffers, calls";
  let description = [{
    The level between tensors and machine code. `--form-kernels` outlines loops
    into kernels (`exec.kernel`), still on tensors. `--plan-memory` places every
    value in the arena (`exec.arena`) and turns functions of tensors into lists
    of calls on buffers (`exec.function`): kernels, matrix products, attention,
    collectives, messages. `--lower-program` translates each call into one call
    of the runtime (Runtime/ABI.h). See docs/Rationale.md, "Calls on buffers".
  }];
  let useDefaultTypePrinterParser = 1;
  let useDefaultAttributePrinterParser = 1;
}

class Exec_Op<string mnemonic, list<Trait> traits = []>
    : Op<ExecDialect, mnemonic, traits>;

def Exec_RecordAttr : AttrDef<ExecDialect, "Record"> {
  let mnemonic = "record";
  let summary = "A constant of a struct of the ABI";
  let description = [{
    ```mlir
    #exec.record<"PoplarLink", {count = 4 : i64, first = 0 : i64, rank = 1 : i64}>
    ```
    The struct is a table (Runtime/ABI.def) or a descriptor of kernels
    (Descriptors.def). The record has every field but counts of lists (num_F),
    which follow from the lists. Integers and floats have the field's width. A
    string stands for a text, a dense array for integers, a record for a struct or
    a pointer to one, an array of records for a pointer to several, a symbol for a
    function. `unit` is a null pointer.
  }];
  let parameters = (ins "::mlir::StringAttr":$type,
                        "::mlir::DictionaryAttr":$fields);
  let assemblyFormat = "`<` $type `,` $fields `>`";
  let genVerifyDecl = 1;
}

def Exec_RowAttr : AttrDef<ExecDialect, "Row",
    [DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let mnemonic = "row";
  let summary = "How far apart the rows of a tensor lie in memory";
  let description = [{
    ```mlir
    tensor<?x32x257xbf16, #exec.row<320>>
    ```
    The encoding of a tensor whose buffer has this many elements from one row,
    the last dimension, to the next. What is behind a row is never read. The
    buffer is a memref with such strides.
  }];
  let parameters = (ins "int64_t":$elements);
  let assemblyFormat = "`<` $elements `>`";
}

def Exec_Place : DefaultValuedParameter<"int64_t", "-1">;

def Exec_InputsAttr : AttrDef<ExecDialect, "Inputs"> {
  let mnemonic = "inputs";
  let summary = "Where the inputs of a step or a turn lie";
  let description = [{
    ```mlir
    #exec.inputs<ids = 0, targets = 64, keys = 128, dloss = 192>
    ```
    Bytes per sample, of the batch region or of the slot of a turn. An input that
    the function does not take is missing here, and -1 in C++. `dloss` is the
    gradient of the loss.
  }];
  let parameters = (ins Exec_Place:$ids, Exec_Place:$targets, Exec_Place:$keys,
                        Exec_Place:$positions, Exec_Place:$dloss);
  let assemblyFormat = "`<` struct(params) `>`";
  let genVerifyDecl = 1;
}

def Exec_Buffer : MemRefOf<[AnyType]>;
def Exec_Bytes : ConfinedAttr<I64Attr, [IntNonNegative]>;

#endif // POPLAR_DIALECT_EXEC_EXECBASE_TD
