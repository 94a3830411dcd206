//===- ExecOps.td - The exec dialect ----------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_EXEC_EXECOPS_TD
#define POPLAR_DIALECT_EXEC_EXECOPS_TD

include "Poplar/Dialect/Exec/ExecBase.td"

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

def Exec_KernelOp : Exec_Op<"kernel",
    [FunctionOpInterface, IsolatedFromAbove, SingleBlock]> {
  let summary = "Loops that run in parallel parts";
  let description = [{
    ```mlir
    exec.kernel @negate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
        rows 4 per_sample reuse [array<i64: 0>] {
      ...
      exec.yield %y : tensor<?x4x8xf32>
    }
    ```
    The body holds `linalg.generic` ops over iteration spaces (b, t[, d]), and
    what initialises them. The kind says which part of the work a part is:

    - `rows`: (parallel, parallel[, any]), a range of rows (b, t). All ops run
      for one row before the next begins, so that what is used inside the kernel
      only never leaves the cache.
    - `columns`: (reduction, reduction, parallel), a range of columns d.
    - `positions`: (reduction, parallel, parallel), a range of positions t.
    - `flat`: (parallel), a range of elements.

    There are `parts` of them, for every sample with `per_sample`. Result i is
    accumulated into argument `in_place[i]` and has no buffer of its own, if that
    is not -1; else it may take over the buffer of any argument in `reuse[i]`
    that is not read afterwards.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type, Exec_KernelKind:$kind,
    ConfinedAttr<I64Attr, [IntPositive]>:$parts, UnitAttr:$per_sample,
    OptionalAttr<DenseI64ArrayAttr>:$in_place,
    OptionalAttr<TypedArrayAttrBase<DenseI64ArrayAttr, "lists of arguments">>:$reuse,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name,
    "::mlir::FunctionType":$type, "KernelKind":$kind, "int64_t":$parts,
    "bool":$perSample)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The argument that result `index` is accumulated into.
    std::optional<unsigned> getInPlaceArgument(unsigned index);
    /// The arguments whose buffers result `index` may take over.
    llvm::ArrayRef<int64_t> getReusableArguments(unsigned index);
    /// Buffers that a call passes: arguments, then the results that are not in
    /// place.
    llvm::SmallVector<mlir::RankedTensorType> getBufferTypes();

    llvm::ArrayRef<mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    llvm::ArrayRef<mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Exec_YieldOp : Exec_Op<"yield",
    [Pure, Terminator, HasParent<"KernelOp">]> {
  let summary = "Ends a kernel";
  let arguments = (ins Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = "attr-dict ($values^ `:` type($values))?";
}

def Exec_DispatchOp : Exec_Op<"dispatch",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Runs a kernel";
  let description = [{
    On tensors it is a call: operands and results are the kernel's. On buffers
    it has no results; its operands are the kernel's arguments and, behind them,
    the buffers of the results that are not in place.
    ```mlir
    %y = exec.dispatch @negate(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
    exec.dispatch @negate(%0, %1) : (memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel,
    Variadic<AnyTypeOf<[AnyRankedTensor, Exec_Buffer]>>:$args);
  let results = (outs Variadic<AnyRankedTensor>:$values);
  let assemblyFormat = [{
    $kernel `(` $args `)` attr-dict
    `:` functional-type($args, $values)
  }];
}

//===----------------------------------------------------------------------===//
// The arena
//===----------------------------------------------------------------------===//

def Exec_ArenaOp : Exec_Op<"arena", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "Sizes of the regions of a rank's memory";
  let description = [{
    ```mlir
    exec.arena fixed 4096 per_sample 640 live 640
        transient 1024 bytes 512 live 512 scratch 1536 bytes 2560
    ```
    In bytes. The fixed region holds whole copies of buckets, then what comes
    and goes in it (`transient`), then the scratch of libraries. The batch region
    behind it takes `per_sample` bytes for each sample of a micro-batch, so
    peak_bytes(b) = fixed + b * per_sample. `live` are the largest sums of bytes
    that are alive at one time: no placement needs less. A program that only
    samples has a larger batch region, of `sampling` bytes, in which caches lie
    from `caches` on, behind what functions for sampling and @infer need.
  }];
  let arguments = (ins Exec_Bytes:$fixed, Exec_Bytes:$per_sample,
    Exec_Bytes:$live_per_sample, Exec_Bytes:$transient_offset,
    Exec_Bytes:$transient_bytes, Exec_Bytes:$live_transient_bytes,
    Exec_Bytes:$scratch_offset, Exec_Bytes:$scratch_bytes,
    OptionalAttr<Exec_Bytes>:$caches_offset,
    OptionalAttr<Exec_Bytes>:$sampling_per_sample);
  let assemblyFormat = [{
    `fixed` $fixed `per_sample` $per_sample `live` $live_per_sample
    `transient` $transient_offset `bytes` $transient_bytes
    `live` $live_transient_bytes `scratch` $scratch_offset
    `bytes` $scratch_bytes
    (`sampling` $sampling_per_sample^ `caches` $caches_offset)? attr-dict
  }];
  let hasVerifier = 1;
}

def Exec_CopiesOp : Exec_Op<"copies", [HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Whole copies of a bucket in the fixed region";
  let description = [{
    ```mlir
    exec.copies @block0 bf16 working 0 gradient 16448
    ```
    Offsets of the working copy, in the given type, and of the running gradient,
    in f32. Either is missing where it is sharded.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Zero_WireType:$type,
    OptionalAttr<Exec_Bytes>:$working, OptionalAttr<Exec_Bytes>:$gradient);
  let assemblyFormat = [{
    $bucket $type (`working` $working^)? (`gradient` $gradient^)? attr-dict
  }];
}

def Exec_ChunkOp : Exec_Op<"chunk", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "Memory of a micro-batch in a chunk of a pipeline stage";
  let description = [{
    ```mlir
    exec.chunk 0 slot 192 activation_in 64 activation_out 64 keeps_sent
        gradient_in 64 gradient_out 64
    ```
    Bytes per sample of its slot, which holds its inputs and what its backward
    pass needs, and of its messages, 0 where there is none. With `keeps_sent`
    the backward pass reads what the forward pass has sent.
  }];
  let arguments = (ins Exec_Bytes:$index, Exec_Bytes:$slot_bytes,
    Exec_Bytes:$activation_in_bytes, Exec_Bytes:$activation_out_bytes,
    UnitAttr:$keeps_sent, Exec_Bytes:$gradient_in_bytes,
    Exec_Bytes:$gradient_out_bytes);
  let assemblyFormat = [{
    $index `slot` $slot_bytes `activation_in` $activation_in_bytes
    `activation_out` $activation_out_bytes (`keeps_sent` $keeps_sent^)?
    `gradient_in` $gradient_in_bytes `gradient_out` $gradient_out_bytes
    attr-dict
  }];
}

def Exec_OptimizerOp : Exec_Op<"optimizer", [HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The kernels by which the runtime updates its shards";
  let description = [{
    ```mlir
    exec.optimizer update @kernel_7 round @kernel_8
    ```
    `update` takes parameters, gradients, moments and eight numbers (adamw in
    Runtime/ABI.h); `round` makes working copies of masters, where their types
    differ. Up to `--plan-memory` the symbols are functions of tensors, of which
    `--form-kernels` makes one kernel each, with all updates in place.
  }];
  let arguments = (ins FlatSymbolRefAttr:$update,
    OptionalAttr<FlatSymbolRefAttr>:$round);
  let assemblyFormat = "`update` $update (`round` $round^)? attr-dict";
  let extraClassDeclaration = [{
    /// Whether this is the update or the rounding.
    bool runs(mlir::StringAttr function) {
      return getUpdateAttr().getAttr() == function ||
             (getRoundAttr() && getRoundAttr().getAttr() == function);
    }
  }];
}

def Exec_GPUKernelOp : Exec_Op<"gpu_kernel", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "How a kernel of a GPU is launched, and what it costs";
  let description = [{
    ```mlir
    exec.gpu_kernel "kernel_0_add" block [128, 1, 1] pointers 3
        parts_per_block 8 bytes 128 per_sample 4000 flops_per_sample 0
    exec.gpu_kernel "poplar_gpu_route_0" block [32, 8, 1] pointers 3
        parts_per_block 8 calls "poplar_gpu_route" with <"PoplarRoute", {
          normalized = 1 : i32, num_experts = 8 : i64, ...}>
        bytes 0 per_sample 8 flops_per_sample 0
    ```
    A PoplarGPUKernel (Runtime/ABI.h). A kernel of the library has the function
    that it `calls`, and the descriptor that it passes, if any: a struct of
    Descriptors.def. A launch moves `bytes`, and `per_sample` bytes for each
    sample. `--map-kernels-to-gpu`
    makes one for each generated kernel; `--lower-program` adds those of the
    library.
  }];
  let arguments = (ins StrAttr:$kernel,
    ConfinedAttr<DenseI32ArrayAttr, [DenseArrayCount<3>]>:$block,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$pointers,
    ConfinedAttr<I64Attr, [IntPositive]>:$parts_per_block,
    OptionalAttr<StrAttr>:$callee,
    OptionalAttr<Exec_RecordAttr>:$descriptor, Exec_Bytes:$bytes,
    Exec_Bytes:$bytes_per_sample,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$flops_per_sample);
  let assemblyFormat = [{
    $kernel `block` $block `pointers` $pointers
    `parts_per_block` $parts_per_block (`calls` $callee^)?
    (`with` $descriptor^)? `bytes` $bytes `per_sample` $bytes_per_sample
    `flops_per_sample` $flops_per_sample attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Tables
//===----------------------------------------------------------------------===//

def Exec_ProgramOp : Exec_Op<"program", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "What the runtime has to know of the program";
  let description = [{
    ```mlir
    exec.program #exec.record<"PoplarProgram", {
      infer = @infer.step, stage = 2 : i64, train = @train.step, ...}>
    ```
    The constant `poplar_program` of the shared object (Runtime/ABI.def).
    `--describe-program` makes it of the module's plan, buckets, parameters and
    functions, `--lower-program` adds the lists of products, and the translation to
    LLVM IR writes it.
  }];
  let arguments = (ins Exec_RecordAttr:$table);
  let assemblyFormat = "$table attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Replaces the value of a field of the table.
    void setField(llvm::StringRef field, mlir::Attribute value);
  }];
}

//===----------------------------------------------------------------------===//
// Functions
//===----------------------------------------------------------------------===//

def Exec_FunctionOp : Exec_Op<"function",
    [FunctionOpInterface, IsolatedFromAbove, SingleBlock]> {
  let summary = "A list of calls on buffers";
  let description = [{
    A `unit` is called by other functions with the buffers of its arguments and
    of its results, and with `scratch` bytes per sample for its temporaries:
    ```mlir
    exec.function unit @block(%x: memref<?x4x8xf32>, %y: memref<?x4x8xf32>)
        scratch 256 {
      %0 = exec.buffer scratch at 0 : memref<?x4x8xf32>
      ...
      exec.return
    }
    ```
    A `step` is called by the runtime for a micro-batch, whose `inputs` lie in
    the batch region; it leaves what it computes at `result`. A `turn` is a step
    of a pipeline stage, whose inputs lie in the micro-batch's slot.
    ```mlir
    exec.function step @evaluate() inputs <ids = 0, targets = 64>
        result 512 : memref<?x4xf32> { ... }
    ```
    With `decoding`, it is run by sampling alone, and takes that many new tokens
    of each sample. `exec.entry` says what a step or a turn is for.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    TypeAttrOf<FunctionType>:$function_type, Exec_FunctionKind:$kind,
    OptionalAttr<Exec_Bytes>:$scratch_bytes,
    OptionalAttr<Exec_InputsAttr>:$inputs, OptionalAttr<Exec_Bytes>:$result,
    OptionalAttr<TypeAttrOf<Exec_Buffer>>:$result_type,
    OptionalAttr<ConfinedAttr<I64Attr, [IntPositive]>>:$decoding,
    OptionalAttr<DictArrayAttr>:$arg_attrs,
    OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let builders = [OpBuilder<(ins "FunctionKind":$kind, "::llvm::StringRef":$name,
    "::mlir::TypeRange":$arguments)>];
  let skipDefaultBuilders = 1;
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    llvm::ArrayRef<mlir::Type> getArgumentTypes() {
      return getFunctionType().getInputs();
    }
    llvm::ArrayRef<mlir::Type> getResultTypes() {
      return getFunctionType().getResults();
    }
    mlir::Region *getCallableRegion() { return &getBody(); }
  }];
}

def Exec_EntryOp : Exec_Op<"entry", [HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "The role of a step or a turn";
  let description = [{
    ```mlir
    exec.entry evaluate @evaluate
    exec.entry backward_last @backward_last.chunk1 chunk 1
    ```
    The runtime calls a function by its role. The roles are those of `nn::Entry`
    but `model`; a module has at most one function of each role and, of turns, of
    each `chunk`. The verifier compares what the role is given with what the
    function takes.
  }];
  let arguments = (ins StrAttr:$role, FlatSymbolRefAttr:$function,
    DefaultValuedAttr<Exec_Bytes, "0">:$chunk);
  let assemblyFormat = [{
    custom<Role>($role) $function (`chunk` $chunk^)? attr-dict
  }];
  let builders = [OpBuilder<(ins "nn::Entry":$role, "FunctionOp":$function,
    "int64_t":$chunk)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    nn::Entry getEntry() { return *parseWord<nn::Entry>(getRole()); }
  }];
}

def Exec_ReturnOp : Exec_Op<"return",
    [Terminator, HasParent<"FunctionOp">]> {
  let summary = "Ends a function";
  let assemblyFormat = "attr-dict";
}

def Exec_CallOp : Exec_Op<"call",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Calls a unit";
  let description = [{
    ```mlir
    %s = exec.buffer batch at 1024 : memref<?x256xi8>
    exec.call @block(%x, %y) scratch %s
        : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x256xi8>)
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$callee, Variadic<Exec_Buffer>:$args,
    Exec_Buffer:$scratch);
  let assemblyFormat = [{
    $callee `(` $args `)` `scratch` $scratch attr-dict
    `:` `(` type(operands) `)`
  }];
}

//===----------------------------------------------------------------------===//
// Buffers
//===----------------------------------------------------------------------===//

def Exec_BufferOp : Exec_Op<"buffer"> {
  let summary = "A place in memory, from here on";
  let description = [{
    ```mlir
    %0 = exec.buffer batch at 128 : memref<?x4x8xf32>
    %1 = exec.buffer fixed at 4096 : memref<8x8xf32>
    ```
    The offset is in bytes; in regions whose buffers scale with the batch
    (`batch`, `scratch`, `slot`, `cache`), in bytes per sample, as are the sizes of
    buffers, rounded up to POPLAR_ALIGNMENT. Buffers of `batch`, `transient` and
    `scratch` are alive until exec.end or the end of the function: no two of them
    overlap that are alive at one time. `fixed` holds the copies of buckets,
    `slot` what a turn is given, `cache` what stays from call to call.
  }];
  let arguments = (ins Exec_Region:$region, Exec_Bytes:$offset);
  let results = (outs Exec_Buffer:$buffer);
  let assemblyFormat = "$region `at` $offset attr-dict `:` type($buffer)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Whether offset and size are per sample.
    bool isPerSample() { return poplar::exec::isPerSample(getRegion()); }
    /// Whether others may take its place when it is dead.
    bool hasLifetime() {
      return getRegion() != Region::Fixed && getRegion() != Region::Slot &&
             getRegion() != Region::Cache;
    }
    /// What it takes in its region.
    int64_t getBytes();
  }];
}

def Exec_EndOp : Exec_Op<"end"> {
  let summary = "Ends the life of a buffer: its place may become another's";
  let arguments = (ins Exec_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

def Exec_ViewOp : Exec_Op<"view", [Pure]> {
  let summary = "A tensor in the flat array of a bucket";
  let description = [{
    ```mlir
    %w = exec.view %bucket at 4096 : memref<8224xf32> to memref<64x64xf32>
    ```
    `offset` is in elements.
  }];
  let arguments = (ins Exec_Buffer:$bucket, Exec_Bytes:$offset);
  let results = (outs Exec_Buffer:$tensor);
  let assemblyFormat = [{
    $bucket `at` $offset attr-dict `:` type($bucket) `to` type($tensor)
  }];
  let hasVerifier = 1;
}

def Exec_PortOp : Exec_Op<"port", [Pure]> {
  let summary = "The buffer of a message, which the runtime gives to a turn";
  let arguments = (ins Exec_PortKind:$kind);
  let results = (outs Exec_Buffer:$buffer);
  let assemblyFormat = "$kind attr-dict `:` type($buffer)";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Calls of libraries and of kernels written by hand
//===----------------------------------------------------------------------===//

def Exec_ProductOp : Exec_Op<"product", [AttrSizedOperandSegments]> {
  let summary = "A matrix product";
  let description = [{
    ```mlir
    exec.product %x, %w bias %b into %y trans_b
        : (memref<?x4x8xf32>, memref<16x8xf32>, memref<16xf32>, memref<?x4x16xf32>)
    exec.product %dy, %x into %dw
        : (memref<?x4x16xf32>, memref<?x4x8xf32>, memref<16x8xf32>)
    ```
    Where `c` is per sample, its rows are: [B*T,N] = [B*T,K] op(b). Where it is
    not, the rows of `a` and `b` are added up over all samples, and `c` is
    accumulated into: [M,N] += [B*T,M]^T [B*T,N]. `epilogue` and the operands
    `bias` and `aux` are PoplarGemm's (Runtime/ABI.h). `tf32` rounds operands in
    f32 to TF32; `fp8` rounds operands of a product per sample to 8 bits
    (Runtime/FP8.h). Of a plain product on a GPU, the rows of `a`, or those of a
    `c` per sample, may be padded.
  }];
  let arguments = (ins Exec_Buffer:$a, Exec_Buffer:$b,
    Optional<Exec_Buffer>:$bias, Optional<Exec_Buffer>:$aux, Exec_Buffer:$c,
    UnitAttr:$trans_b,
    DefaultValuedAttr<Exec_Epilogue, "Epilogue::Store">:$epilogue,
    UnitAttr:$tf32, UnitAttr:$fp8);
  let assemblyFormat = [{
    $a `,` $b (`bias` $bias^)? (`aux` $aux^)? `into` $c (`trans_b` $trans_b^)?
    (`epilogue` $epilogue^)? (`tf32` $tf32^)? (`fp8` $fp8^)? attr-dict
    `:` `(` type(operands) `)`
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    PoplarGemm getDescriptor();
  }];
}

class Exec_AttentionBase<string mnemonic>
    : Exec_Op<mnemonic, [AttrSizedOperandSegments]> {
  /// As nn.attention's; with `library`, a library may compute it on the machine
  /// that runs the program.
  dag attributes = (ins I64Attr:$num_heads, I64Attr:$num_kv_heads,
    F64Attr:$scale, UnitAttr:$causal, DefaultValuedAttr<I64Attr, "0">:$window,
    DefaultValuedAttr<F64Attr, "0.0">:$dropout,
    DefaultValuedAttr<I64Attr, "0">:$op_id,
    DefaultValuedAttr<I64Attr, "0">:$first_head,
    DefaultValuedAttr<F64Attr, "0.0">:$cap, UnitAttr:$library);
  let hasVerifier = 1;
  code descriptor = [{
    PoplarAttention getDescriptor();
    int64_t getHeadDim() {
      return llvm::cast<mlir::MemRefType>(getOut().getType()).getDimSize(2) /
             getNumHeads();
    }
    bool isPacked() { return !getK(); }
  }];
}

def Exec_AttentionOp : Exec_AttentionBase<"attention"> {
  let summary = "nn.attention on buffers";
  let arguments = !con(
      (ins Exec_Buffer:$q, Optional<Exec_Buffer>:$k, Optional<Exec_Buffer>:$v,
          Optional<Exec_Buffer>:$keys, Optional<Exec_Buffer>:$positions,
          Exec_Buffer:$out, Exec_Buffer:$lse),
      attributes);
  let assemblyFormat = [{
    $q (`,` $k^ `,` $v)? (`keys` $keys^)? (`positions` $positions^)?
    `into` $out `,` $lse
    (`causal` $causal^)? `heads` $num_heads `kv_heads` $num_kv_heads
    `scale` $scale (`window` $window^)? (`dropout` $dropout^)?
    (`op_id` $op_id^)? (`first_head` $first_head^)? (`cap` $cap^)?
    (`library` $library^)? attr-dict `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = descriptor;
}

def Exec_AttentionSinksOp : Exec_Op<"attention_sinks"> {
  let summary = "Makes what attention gave without sinks what it gives with them";
  let arguments = (ins Exec_Buffer:$out, Exec_Buffer:$lse, Exec_Buffer:$sinks);
  let assemblyFormat = [{
    $out `,` $lse `sinks` $sinks attr-dict `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = "PoplarAttention getDescriptor();";
}

def Exec_AttentionGradOp : Exec_AttentionBase<"attention_grad"> {
  let summary = "nn.attention_grad on buffers";
  let description = [{
    `delta` is scratch of the shape of `lse`, on GPUs: the kernel of the
    gradient of q leaves dy . out of each row and head there for that of k and v.
    With `library`, it is the memory that the library works in, f32 [B,N], which
    has room for that, too.
  }];
  let arguments =
      !con((ins Exec_Buffer:$dy, Exec_Buffer:$out, Exec_Buffer:$lse,
               Exec_Buffer:$q, Optional<Exec_Buffer>:$k,
               Optional<Exec_Buffer>:$v, Optional<Exec_Buffer>:$keys,
               Optional<Exec_Buffer>:$positions,
               Optional<Exec_Buffer>:$delta, Exec_Buffer:$dq,
               Optional<Exec_Buffer>:$dk, Optional<Exec_Buffer>:$dv),
           attributes);
  let assemblyFormat = [{
    $dy `,` $out `,` $lse `,` $q (`,` $k^ `,` $v)? (`keys` $keys^)?
    (`positions` $positions^)? (`delta` $delta^)?
    `into` $dq (`,` $dk^ `,` $dv)? (`causal` $causal^)?
    `heads` $num_heads `kv_heads` $num_kv_heads `scale` $scale
    (`window` $window^)? (`dropout` $dropout^)? (`op_id` $op_id^)?
    (`first_head` $first_head^)? (`cap` $cap^)? (`library` $library^)? attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = descriptor;
}

def Exec_CachedAttentionOp : Exec_Op<"cached_attention",
    [AttrSizedOperandSegments]> {
  let summary = "nn.cached_attention on buffers";
  let arguments = (ins Exec_Buffer:$q, Optional<Exec_Buffer>:$k,
    Optional<Exec_Buffer>:$v, Exec_Buffer:$positions, Exec_Buffer:$key_cache,
    Exec_Buffer:$value_cache, Optional<Exec_Buffer>:$sinks, Exec_Buffer:$out,
    I64Attr:$num_heads, I64Attr:$num_kv_heads, F64Attr:$scale,
    DefaultValuedAttr<I64Attr, "0">:$window,
    DefaultValuedAttr<F64Attr, "0.0">:$cap);
  let assemblyFormat = [{
    $q (`,` $k^ `,` $v)? `at` $positions `caches` $key_cache `,` $value_cache
    (`sinks` $sinks^)? `into` $out `heads` $num_heads `kv_heads` $num_kv_heads `scale` $scale
    (`window` $window^)? (`cap` $cap^)? attr-dict `:` `(` type(operands) `)`
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    PoplarCachedAttention getDescriptor();
    int64_t getHeadDim() {
      return llvm::cast<mlir::MemRefType>(getOut().getType()).getDimSize(2) /
             getNumHeads();
    }
    bool isPacked() { return !getK(); }
  }];
}

def Exec_EmbeddingGradOp : Exec_Op<"embedding_grad"> {
  let summary = "nn.embedding_grad on buffers";
  let arguments = (ins Exec_Buffer:$dy, Exec_Buffer:$ids, Exec_Buffer:$acc,
    OptionalAttr<I64Attr>:$padding_idx, OptionalAttr<I64Attr>:$first_row);
  let assemblyFormat = [{
    $dy `,` $ids `into` $acc (`padding_idx` $padding_idx^)?
    (`first_row` $first_row^)? attr-dict
    `:` `(` type(operands) `)`
  }];
  let extraClassDeclaration = [{
    PoplarEmbeddingGrad getDescriptor();
  }];
}

//===----------------------------------------------------------------------===//
// Calls of the runtime
//===----------------------------------------------------------------------===//

def Exec_Token : TypeDef<ExecDialect, "Token"> {
  let mnemonic = "token";
  let summary = "A collective under way";
}

def Exec_StartOp : Exec_Op<"start",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Issues a collective over the buffer of a bucket";
  let description = [{
    ```mlir
    %t = exec.start all_gather @block0 wire bf16 %0 transient : memref<8224xbf16>
    ```
    The buffer is the bucket's whole working copy (all_gather) or gradient, or
    with `transient` one that comes and goes. An all_reduce without one is of the
    rank's gradient shard. Until exec.wait, what the collective reads must not
    change, and what it writes must not be touched.
  }];
  let arguments = (ins Zero_CollectiveKind:$kind, FlatSymbolRefAttr:$bucket,
    Zero_CollectiveWire:$wire, Optional<Exec_Buffer>:$buffer,
    UnitAttr:$transient);
  let results = (outs Exec_Token:$token);
  let assemblyFormat = [{
    $kind $bucket `wire` $wire ($buffer^)? (`transient` $transient^)? attr-dict
    (`:` type($buffer)^)?
  }];
}

def Exec_WaitOp : Exec_Op<"wait"> {
  let summary = "Waits for a collective";
  let arguments = (ins Exec_Token:$token);
  let assemblyFormat = "$token attr-dict";
}

def Exec_SendOp : Exec_Op<"send"> {
  let summary = "Hands over the message in the turn's port";
  let arguments = (ins Zero_MessageKind:$kind);
  let assemblyFormat = "$kind attr-dict";
}

def Exec_ReceiveOp : Exec_Op<"receive"> {
  let summary = "Waits for the message in the turn's port";
  let arguments = (ins Zero_MessageKind:$kind);
  let assemblyFormat = "$kind attr-dict";
}

def Exec_ExchangeOp : Exec_Op<"exchange"> {
  let summary = "Exchanges values with the ranks that share units with this one";
  let description = [{
    ```mlir
    exec.exchange gather_tokens bounds [0, 16, 32] %mine into %all
        : (memref<?x16x64xf32>, memref<?x32x64xf32>)
    exec.exchange scatter_tokens bounds [0, 16, 32] %all into %first, %second
        : (memref<?x32x64xf32>, memref<?x16x64xf32>, memref<?x16x64xf32>)
    exec.exchange collect bounds [0, 16, 32] %mine into %first, %second
        : (memref<?x32xf32>, memref<?x32xf32>, memref<?x32xf32>)
    ```
    `bounds` divide the tokens of a sample among the ranks, see
    Dialect/NN/NNTensorParallel.h.
  }];
  let arguments = (ins Zero_ExchangeKind:$kind, DenseI64ArrayAttr:$bounds,
    Exec_Buffer:$source, Variadic<Exec_Buffer>:$results);
  let assemblyFormat = [{
    $kind `bounds` $bounds $source `into` $results attr-dict
    `:` `(` type(operands) `)`
  }];
  let hasVerifier = 1;
}

def Exec_ZeroOp : Exec_Op<"zero"> {
  let summary = "Fills a buffer with zeros";
  let arguments = (ins Exec_Buffer:$buffer);
  let assemblyFormat = "$buffer attr-dict `:` type($buffer)";
}

class Exec_BucketCall<string mnemonic>
    : Exec_Op<mnemonic, [DeclareOpInterfaceMethods<SymbolUserOpInterface>]>;

def Exec_UnscaleOp : Exec_BucketCall<"unscale"> {
  let summary = "Divides gradients by the loss scale and notes overflows";
  let arguments = (ins FlatSymbolRefAttr:$bucket, Exec_Buffer:$gradients);
  let assemblyFormat = "$bucket $gradients attr-dict `:` type($gradients)";
}

def Exec_NormOp : Exec_Op<"norm"> {
  let summary = "Decides by the norm of the gradient how to update, see zero.norm";
  let arguments = (ins UnitAttr:$unscale);
  let assemblyFormat = "(`unscale` $unscale^)? attr-dict";
}

def Exec_AdamWOp : Exec_BucketCall<"adamw"> {
  let summary = "Updates the rank's shard of a bucket";
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let assemblyFormat = "$bucket attr-dict";
}

include "Poplar/Dialect/Exec/ExecExchangeOps.td"

#endif // POPLAR_DIALECT_EXEC_EXECOPS_TD
