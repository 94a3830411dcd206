//===- ZeroOps.td - The zero dialect ----------------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_ZERO_ZEROOPS_TD
#define POPLAR_DIALECT_ZERO_ZEROOPS_TD

include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/EnumAttr.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "Poplar/Dialect/Cluster/ClusterEnums.td"
include "Poplar/Dialect/NN/NNInterfaces.td"
include "Poplar/Dialect/Zero/ZeroEnums.td"
include "Poplar/Dialect/Zero/ZeroInterfaces.td"

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

def ZeroDialect : Dialect {
  let name = "zero";
  let cppNamespace = "::poplar::zero";
  let summary = "ZeRO: who holds what, who computes how much, what is sent when";
  let description = [{
    The plan (`zero.plan`), the shards (`zero.bucket`) and, in the functions of
    a program, the collectives. Collectives act on whole buckets, in program
    order, the same on every rank: a rank without samples runs the same
    functions with a micro-batch of 0. See docs/Rationale.md, "ZeRO".
  }];
  let useDefaultTypePrinterParser = 1;
  /// Attributes of turns, see Zero.h.
  let hasOperationAttrVerify = 1;
  let hasRegionArgAttrVerify = 1;
  let hasRegionResultAttrVerify = 1;
}

def Zero_PlanScheduleAttr
    : Cluster_WordAttr<"::poplar::PlanSchedule",
                       "the order in which groups take their turns">;

class Zero_Op<string mnemonic, list<Trait> traits = []>
    : Op<ZeroDialect, mnemonic, traits>;

def Zero_Token : TypeDef<ZeroDialect, "Token"> {
  let mnemonic = "token";
  let summary = "A collective under way";
}

//===----------------------------------------------------------------------===//
// The plan
//===----------------------------------------------------------------------===//

def Zero_PlanOp : Zero_Op<"plan", [NoRegionArguments, SingleBlock,
    NoTerminator, IsolatedFromAbove,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Allocation of a global batch to ranks";
  let description = [{
    ```mlir
    zero.plan stage 2 global_batch 15 policy "exact" {
      zero.rank @a100 node "n0" micro_batch 4 steps 2 last 3
      zero.rank @v100 node "n1" micro_batch 4 steps 2 last 4
    }
    ```
    `stage` is ZeRO's: 0 replicates everything, 1 shards optimizer state, 2
    gradients as well, 3 parameters as well. Ranks are in order. Shares add up
    to `global_batch` samples; in stages 2 and 3, where ranks meet in every
    micro-step, all have the same number of steps. Where the module has a
    cluster, every rank is one of its devices.

    A plan without `zero.group` has one group of all ranks, which computes the
    whole model. Where they are written, each computes a pipeline stage:
    ```mlir
    zero.plan stage 1 global_batch 8 policy "stages" schedule "1f1b" {
      zero.group units [0, 3] stage 1
      zero.group units [3, 5] stage 0
      zero.rank @a100 node "n0" group 0 micro_batch 2 steps 4 last 2
      zero.rank @v100 node "n1" group 1 micro_batch 2 steps 4 last 2
    }
    ```
    Every pipeline has ranks in each group: the first ones of the groups are a
    pipeline, so are the next ones, and so on. The ranks of a pipeline have the
    same micro-batches, which count once for the global batch. `schedule`
    is the order in which ranks take their turns, see Planner/Pipeline/Timetable.h; with
    "custom", ranks say it themselves. `stage` is the highest of the groups'.

    With the schedules "interleaved" and "custom", groups may own several ranges
    of units, their chunks, all of them equally many. Chunk v of group j of S is
    virtual stage v * S + j:
    ```mlir
    zero.plan stage 0 global_batch 8 policy "stages" schedule "interleaved" {
      zero.group units [0, 2, 4, 6] stage 0
      zero.group units [2, 4, 6, 8] stage 0
      zero.rank @a100 node "n0" micro_batch 2 steps 4 last 2
      zero.rank @v100 node "n1" group 1 micro_batch 2 steps 4 last 2
    }
    ```

    Where links are slow, a plan may say that collectives carry less than they
    are given: in bf16, or as i8, blocks of int8 (docs/lossy-wires.md):
    ```mlir
    zero.plan stage 2 global_batch 2 policy "exact" gradient_wire i8
        parameter_wire bf16 {
      zero.rank @fast node "n0" micro_batch 1 steps 1 last 1
      zero.rank @slow node "n1" micro_batch 1 steps 1 last 1
    }
    ```
    Gradients then have error feedback. Without, nothing that is trained is
    rounded on the wire to less than what all ranks compute in.

    Where links between nodes are slow, the state may be sharded inside of each
    of several shard groups, and replicated across them (MiCS; PyTorch's HSDP):
    ```mlir
    zero.plan stage 3 global_batch 8 policy "exact" replicas 2 {
      zero.rank @a100 node "n0" micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n0" micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n1" micro_batch 2 steps 1 last 2
      zero.rank @a100 node "n1" micro_batch 2 steps 1 last 2
    }
    ```
    `replicas` is how many there are. The first ranks are a shard group, so are
    as many next ones, and so on. Rank i of each of them holds the same elements,
    so has the same `state`. Only shards of gradients cross between groups, once
    an iteration.

    What planning found out is kept beside: seconds of an iteration by the closed
    form (`predicted_seconds`), what no plan that the policy chooses from takes
    less than by that form (`lower_bound_seconds`), the relative uncertainty of
    the former where profiles are estimates, and seconds when simulated
    (`simulated_seconds`). `simulated_plans` lists the
    plans that were simulated to find this one, each with both times and with what
    it is. Of a plan by cost, `priced_plans` lists the plans of parts of the
    cluster than which none is both faster and cheaper: their `devices`, `policy`,
    `simulated_seconds` and `cost` of an iteration.
  }];
  let arguments = (ins
    ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<3>]>:$stage,
    ConfinedAttr<I64Attr, [IntPositive]>:$global_batch,
    StrAttr:$policy,
    OptionalAttr<Zero_PlanScheduleAttr>:$schedule,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$replicas,
    OptionalAttr<Zero_CollectiveWire>:$gradient_wire,
    OptionalAttr<Zero_CollectiveWire>:$parameter_wire,
    OptionalAttr<F64Attr>:$predicted_seconds,
    OptionalAttr<F64Attr>:$lower_bound_seconds,
    OptionalAttr<F64Attr>:$predicted_uncertainty,
    OptionalAttr<F64Attr>:$simulated_seconds,
    OptionalAttr<DictArrayAttr>:$simulated_plans,
    OptionalAttr<DictArrayAttr>:$priced_plans);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = [{
    `stage` $stage `global_batch` $global_batch `policy` $policy
    (`schedule` $schedule^)? (`replicas` $replicas^)?
    (`gradient_wire` $gradient_wire^)? (`parameter_wire` $parameter_wire^)?
    attr-dict-with-keyword $body
  }];
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    llvm::SmallVector<RankOp, 0> getRanks();
    /// Those that are written. What zero::readPlan() returns has at least one,
    /// and says what follows from groups and ranks.
    llvm::SmallVector<GroupOp, 0> getGroups();
  }];
}

def Zero_GroupOp : Zero_Op<"group", [HasParent<"PlanOp">]> {
  let summary = "Ranks that compute ranges of the model's units";
  let description = [{
    The units [first, end), in their order, or several such ranges, one after
    the other in `units`; `stage` is that of ZeRO, with which the ranks of the
    group share their units' state. A unit is the call of a layer; what is in
    front of all layers is one more, so is what is behind them.

    `tensor` is how many ranks of a pipeline share each unit (tensor
    parallelism); 1 where it is not written. Unlike pipelines may have unlike
    numbers, which are listed then, one for each:
    ```mlir
    zero.plan stage 0 global_batch 8 policy "stages" schedule "1f1b" {
      zero.group units [0, 3] stage 0 tensor 2
      zero.group units [3, 5] stage 0 tensor [1, 2]
      zero.rank @a100 node "n0" micro_batch 2 steps 2 last 2
      zero.rank @a100 node "n0" micro_batch 2 steps 2 last 2
      zero.rank @a100 node "n0" micro_batch 1 steps 4 last 1
      zero.rank @a100 node "n0" micro_batch 1 steps 4 last 1
      zero.rank @a100 node "n1" group 1 micro_batch 2 steps 2 last 2
      zero.rank @v100 node "n2" group 1 micro_batch 1 steps 4 last 1
      zero.rank @v100 node "n2" group 1 micro_batch 1 steps 4 last 1
    }
    ```
    Ranks that share units follow one another in the group, and do the same at
    the same time. `parts` says how much of a unit each of them computes, relative
    to the others; equal parts where it is not written. Where not all pipelines share units, they are of those that do:
    ```mlir
    zero.plan stage 0 global_batch 4 policy "stages" {
      zero.group units [0, 6] stage 0 tensor 2 parts [3, 1]
      zero.rank @fast node "n0" micro_batch 2 steps 2 last 2
      zero.rank @slow node "n0" micro_batch 2 steps 2 last 2
    }
    ```
    The state of a part is sharded among the ranks, of all pipelines, that compute
    it.
  }];
  let arguments = (ins DenseI64ArrayAttr:$units,
    ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<3>]>:$stage,
    DefaultValuedAttr<DenseI64ArrayAttr, "{1}">:$tensor,
    OptionalAttr<DenseI64ArrayAttr>:$parts);
  let assemblyFormat = [{
    `units` $units `stage` $stage (`tensor` custom<TensorDegrees>($tensor)^)?
    (`parts` $parts^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getNumChunks() { return getUnits().size() / 2; }
    int64_t getFirst(int64_t chunk = 0) { return getUnits()[2 * chunk]; }
    int64_t getEnd(int64_t chunk = 0) { return getUnits()[2 * chunk + 1]; }
    bool owns(int64_t unit);
    /// How many ranks of a pipeline share each unit.
    int64_t getTensorDegree(int64_t pipeline) {
      return getTensor().size() == 1 ? getTensor()[0] : getTensor()[pipeline];
    }
    int64_t getLargestTensorDegree();
    /// The parts of the ranks that share units; one where none do.
    llvm::SmallVector<int64_t> getPartsOfRanks();
  }];
}

def Zero_RankOp : Zero_Op<"rank", [HasParent<"PlanOp">]> {
  let summary = "What one rank does in an iteration";
  let description = [{
    `steps` micro-steps: all of `micro_batch` samples but the last one, which
    has `last` (usually fewer). `state` is the rank's part of the sharded state, relative to
    the other ranks of its group; without it, shards are equal. `threads` are those
    of a host. `turns`, in plans of schedule "custom": i + 1 is the forward pass
    of micro-batch i, -i - 1 its backward pass; `chunks` says of each through
    which chunk of the group, where there are several. `recompute` is what the
    rank recomputes if not what its device type does; the same for all ranks of
    a type in a group. In plans without groups it may be the policy of the first
    layers alone: "recompute-unit:8".
  }];
  let arguments = (ins FlatSymbolRefAttr:$device_type, StrAttr:$node,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$micro_batch,
    ConfinedAttr<I64Attr, [IntPositive]>:$steps,
    ConfinedAttr<I64Attr, [IntNonNegative]>:$last,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntPositive]>, "1">:$threads,
    DefaultValuedAttr<F64Attr, "1.0">:$state,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntNonNegative]>, "0">:$group,
    OptionalAttr<DenseI64ArrayAttr>:$turns,
    OptionalAttr<DenseI64ArrayAttr>:$chunks, OptionalAttr<Cluster_RecomputeAttr>:$recompute);
  let assemblyFormat = [{
    $device_type `node` $node (`group` $group^)? `micro_batch` $micro_batch
    `steps` $steps `last` $last (`threads` $threads^)? (`state` $state^)?
    (`turns` $turns^)? (`chunks` $chunks^)? (`recompute` $recompute^)? attr-dict
  }];
  let builders = [
    /// A rank of a plan without groups.
    OpBuilder<(ins "::mlir::FlatSymbolRefAttr":$deviceType,
               "::mlir::StringAttr":$node, "::mlir::IntegerAttr":$microBatch,
               "::mlir::IntegerAttr":$steps, "::mlir::IntegerAttr":$last,
               "::mlir::IntegerAttr":$threads, "::mlir::FloatAttr":$state), [{
      build($_builder, $_state, deviceType, node, microBatch, steps, last,
            threads, state, $_builder.getI64IntegerAttr(0), nullptr, nullptr,
            nullptr);
    }]>
  ];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Samples of an iteration, and of its largest micro-step.
    int64_t getSamples() {
      return (getSteps() - 1) * getMicroBatch() + getLast();
    }
    int64_t getLargestStep() {
      return getSteps() > 1 ? std::max(getMicroBatch(), getLast()) : getLast();
    }
  }];
}

def Zero_BucketOp : Zero_Op<"bucket",
    [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Parameters that are sharded, gathered and reduced together";
  let description = [{
    ```mlir
    zero.bucket @block0 [@"h.0.w", @"h.0.b"] bounds [0, 4096, 8224]
    ```
    The parameters lie one after the other in a flat array, each from a multiple
    of 32 elements on. Rank r owns the elements [bounds[r], bounds[r+1]), which
    may be none; without `bounds` there is one rank. In stage 0 the bounds only
    divide the work of a reduction. Where a plan has replicas, bounds are those
    of each shard group.

    In a plan of several groups, `groups` are those that use the bucket, and
    `stage` is that of ZeRO in which their ranks hold it: that of the one
    group, but at most 1 where there are several, as these meet but once an
    iteration. Where ranks of a group share units, `positions` says for each
    entry of `groups` which of them use the bucket; a group may then be there
    several times. Ranks that compute whole units beside them are at the position behind theirs.

    All parameters of a `frozen` bucket are frozen: it is never reduced nor
    updated, and gathered in stage 3 only. Those of a `quantized` one, which is
    frozen, are quantised in one format: it is an array of bytes, ui8, which bounds
    count and collectives carry:
    ```mlir
    zero.bucket @block0.frozen.quantized [@"h.0.q.weight"] frozen quantized
    ```
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
    TypedArrayAttrBase<FlatSymbolRefAttr, "names of parameters">:$parameters,
    OptionalAttr<DenseI64ArrayAttr>:$bounds,
    OptionalAttr<DenseI64ArrayAttr>:$groups,
    OptionalAttr<DenseI64ArrayAttr>:$positions,
    OptionalAttr<ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<3>]>>:$stage,
    UnitAttr:$frozen, UnitAttr:$quantized);
  let assemblyFormat = [{
    $sym_name $parameters (`frozen` $frozen^)? (`quantized` $quantized^)?
    (`bounds` $bounds^)? (`groups` $groups^)?
    (`positions` $positions^)? (`stage` $stage^)? attr-dict
  }];
  let builders = [
    OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::ArrayAttr":$parameters,
                   CArg<"bool", "false">:$frozen,
                   CArg<"bool", "false">:$quantized), [{
      build($_builder, $_state, name, parameters, nullptr, nullptr, nullptr,
            nullptr, frozen, quantized);
    }]>
  ];
  let extraClassDeclaration = [{
    /// Whether the ranks at a position among those that share units of a group
    /// use it.
    bool isUsedBy(int64_t group, int64_t position);
    /// The type of its working copy in a program that computes in `working`.
    ::mlir::Type getStorageType(::mlir::Type working);
  }];
}

//===----------------------------------------------------------------------===//
// The program of a device type
//===----------------------------------------------------------------------===//

def Zero_ProgramOp : Zero_Op<"program", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "What sets the program of a device type apart";
  let description = [{
    ```mlir
    module @a100.program {
      zero.program "a100" target "cuda:sm_80" precision bf16 wire bf16
        gradient_wire f32 recompute "keep" stage 3 world_size 4
    }
    ```
    The first op of a module that `--specialize-device-types` makes. A module
    without it is the program of one rank, the machine at hand.

    `precision` is the format of activations and of working copies; `wire` that
    of gathered parameters, the widest of all device types or, with
    `lossy_parameters`, what the plan says where links are slow; `gradient_wire`
    that of reduced gradients. `mixed_recompute`: other device types of the job recompute otherwise. `scaled`: some pipeline
    stage of the job keeps gradients in f16.

    `replicas` are the plan's: there are world_size / replicas ranks in a shard
    group.

    `group 1 of 2 chunks 2` is the pipeline stage that the program computes, and
    in how many chunks. `received` and `sent` are the formats of the activations
    that it receives and sends, and of their gradients, where these are not its
    own. `parts [3, 1] position 0`: how much of each unit the ranks that share
    units compute, relative to each other, and which of them the program is of. Position 2 of two parts: it computes whole units beside them.
    `sharers_bandwidth` is that of the slowest link between such ranks of the
    group, in bytes a second.
  }];
  let arguments = (ins StrAttr:$device_type, StrAttr:$target,
    Cluster_NumberFormat:$precision, Zero_CollectiveWire:$wire,
    Zero_CollectiveWire:$gradient_wire, UnitAttr:$lossy_parameters,
    Cluster_RecomputeAttr:$recompute,
    ConfinedAttr<I64Attr, [IntMinValue<0>, IntMaxValue<3>]>:$stage,
    ConfinedAttr<I64Attr, [IntMinValue<1>]>:$world_size,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$replicas,
    UnitAttr:$mixed_recompute, UnitAttr:$scaled,
    OptionalAttr<Zero_WireType>:$received, OptionalAttr<Zero_WireType>:$sent,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<0>]>, "0">:$group,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$groups,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<1>]>, "1">:$chunks,
    OptionalAttr<DenseI64ArrayAttr>:$parts,
    DefaultValuedAttr<ConfinedAttr<I64Attr, [IntMinValue<0>]>, "0">:$position,
    OptionalAttr<F64Attr>:$sharers_bandwidth);
  let assemblyFormat = [{
    $device_type `target` $target `precision` $precision `wire` $wire
    `gradient_wire` $gradient_wire (`lossy_parameters` $lossy_parameters^)?
    `recompute` $recompute `stage` $stage `world_size` $world_size
    (`replicas` $replicas^)? (`mixed_recompute` $mixed_recompute^)? (`scaled` $scaled^)?
    (`received` $received^)? (`sent` $sent^)? (`group` $group `of` $groups^)?
    (`chunks` $chunks^)? (`parts` $parts^ `position` $position)?
    (`sharers_bandwidth` $sharers_bandwidth^)? attr-dict
  }];
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Collectives
//===----------------------------------------------------------------------===//

class Zero_CollectiveOp<string mnemonic, string kind, list<Trait> traits = []>
    : Zero_Op<mnemonic, !listconcat(traits, [
        DeclareOpInterfaceMethods<SymbolUserOpInterface>,
        DeclareOpInterfaceMethods<CollectiveOpInterface>])> {
  string collectiveKind = kind;
}

def Zero_AllGatherOp : Zero_CollectiveOp<"all_gather", "AllGather"> {
  let summary = "Collects the parameters of a bucket from its shards";
  let description = [{
    With results, these are the bucket's parameters, in transient memory (stage
    3). Without, refreshes the rank's whole working copies from the shards that
    the ranks have updated (stages 1 and 2).
    ```mlir
    %w, %b = zero.all_gather @block0 wire f32 : tensor<64x64xf32>, tensor<64xf32>
    zero.all_gather @block0 wire bf16
    ```
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Zero_CollectiveWire:$wire);
  let results = (outs Variadic<AnyStaticShapeTensor>:$values);
  let assemblyFormat = [{
    $bucket `wire` $wire attr-dict (`:` type($values)^)?
  }];
}

def Zero_ReduceScatterOp : Zero_CollectiveOp<"reduce_scatter", "ReduceScatter"> {
  let summary = "Adds the ranks' gradients, each sum to the rank that owns it";
  let description = [{
    With operands, the gradients of a micro-step, all of the bucket and in its
    order: the sums are added to the rank's gradient shard (stages 2 and 3).
    Without, the running gradients: the rank's slice of them is replaced by the
    sums (stage 1). `unscale` divides by the loss scale first and notes
    overflows.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Zero_CollectiveWire:$wire,
    UnitAttr:$unscale, Variadic<AnyStaticShapeTensor>:$gradients);
  let assemblyFormat = [{
    $bucket `wire` $wire (`unscale` $unscale^)? attr-dict
    (`(` $gradients^ `:` type($gradients) `)`)?
  }];
}

def Zero_AllReduceOp : Zero_CollectiveOp<"all_reduce", "AllReduce"> {
  let summary = "Adds the gradients of ranks that hold the same elements";
  let description = [{
    In stage 0, replaces the running gradients of a bucket by the sum of all
    ranks. Where a plan has replicas, replaces the rank's gradient shard, which a
    reduce-scatter has made, by the sum of the ranks in its place of all shard
    groups.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket, Zero_CollectiveWire:$wire,
    UnitAttr:$unscale);
  let assemblyFormat = "$bucket `wire` $wire (`unscale` $unscale^)? attr-dict";
}

def Zero_StartOp : Zero_CollectiveOp<"start", ""> {
  let summary = "Issues a collective without waiting for it";
  let description = [{
    The asynchronous half of zero.all_gather, zero.reduce_scatter and
    zero.all_reduce. What it reads must stay as it is, and what it writes must
    not be touched, until zero.wait.
    ```mlir
    %t = zero.start all_gather @block0 wire f32
    %w, %b = zero.wait %t : tensor<64x64xf32>, tensor<64xf32>
    ```
    `transient` tells an all_gather into transient memory from one into the
    working copies.
  }];
  let arguments = (ins Zero_CollectiveKind:$kind, FlatSymbolRefAttr:$bucket,
    Zero_CollectiveWire:$wire, UnitAttr:$unscale, UnitAttr:$transient,
    Variadic<AnyStaticShapeTensor>:$gradients);
  let results = (outs Zero_Token:$token);
  let assemblyFormat = [{
    $kind $bucket `wire` $wire (`unscale` $unscale^)? (`transient` $transient^)?
    attr-dict (`(` $gradients^ `:` type($gradients) `)`)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The one op that waits for this.
    WaitOp getWait();
  }];
}

def Zero_WaitOp : Zero_Op<"wait",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Waits for a collective; gives what it gathered";
  let arguments = (ins Zero_Token:$token);
  let results = (outs Variadic<AnyStaticShapeTensor>:$values);
  let assemblyFormat = "$token attr-dict (`:` type($values)^)?";
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Between pipeline stages
//===----------------------------------------------------------------------===//

def Zero_SendOp : Zero_Op<"send",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Hands a micro-batch's activations or gradients to a group";
  let description = [{
    To the rank of the same pipeline. Does not wait for it; `value` must stay as
    it is until the memory of its next message but one is wanted.
    ```mlir
    zero.send activation %x to 1 : tensor<?x16x64xf32>
    zero.send activation %y to 0 chunk 1 : tensor<?x16x64xf32>
    ```
    `chunk` is the group's that receives it. The derivative of sending is to
    receive a gradient.
  }];
  let arguments = (ins Zero_MessageKind:$kind, AnyRankedTensor:$value,
    I64Attr:$group, DefaultValuedAttr<I64Attr, "0">:$chunk);
  let assemblyFormat = [{
    $kind $value `to` $group (`chunk` $chunk^)? attr-dict `:` type($value)
  }];
}

def Zero_ReceiveOp : Zero_Op<"receive",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Waits for what a group sends";
  let description = [{
    ```mlir
    %x = zero.receive activation from 0 : tensor<?x16x64xf32>
    %y = zero.receive activation from 0 chunk 1 : tensor<?x16x64xf32>
    ```
    `chunk` is the group's that has sent it. The derivative of receiving is to
    send a gradient.
  }];
  let arguments = (ins Zero_MessageKind:$kind, I64Attr:$group,
    DefaultValuedAttr<I64Attr, "0">:$chunk);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = [{
    $kind `from` $group (`chunk` $chunk^)? attr-dict `:` type($value)
  }];
}

//===----------------------------------------------------------------------===//
// Between devices that share units
//===----------------------------------------------------------------------===//

/// `bounds` divide the tokens of a sample, `position` is the rank's place, see
/// Dialect/NN/NNTensorParallel.h.
class Zero_TokensOp<string mnemonic, list<Trait> traits = []>
    : Zero_Op<mnemonic, !listconcat(traits, [Pure,
        DeclareOpInterfaceMethods<ExchangeOpInterface, ["getExchanges"]>,
        DeclareOpInterfaceMethods<CostOpInterface>])> {
  let hasVerifier = 1;
}

def Zero_GatherTokensOp : Zero_TokensOp<"gather_tokens",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface,
       ["isRecomputedWithAttention"]>]> {
  let summary = "All-gather: all tokens from those of each rank";
  let description = [{
    ```mlir
    %x = zero.gather_tokens %mine bounds [0, 16, 32] position 1
        : tensor<?x16x64xf32> -> tensor<?x32x64xf32>
    ```
    The derivative is zero.scatter_tokens.
  }];
  let arguments = (ins AnyRankedTensor:$tokens, DenseI64ArrayAttr:$bounds,
    I64Attr:$position);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $tokens `bounds` $bounds `position` $position attr-dict
    `:` type($tokens) `->` type($result)
  }];
}

def Zero_ScatterTokensOp : Zero_TokensOp<"scatter_tokens",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "Reduce-scatter: the sum of the ranks' values, by tokens";
  let description = [{
    ```mlir
    %mine = zero.scatter_tokens %partial bounds [0, 16, 32] position 1
        : tensor<?x32x64xf32> -> tensor<?x16x64xf32>
    ```
    The ranks' values travel in their format and are added in f32, in the order
    of the ranks. The derivative is zero.gather_tokens.
  }];
  let arguments = (ins AnyRankedTensor:$partial, DenseI64ArrayAttr:$bounds,
    I64Attr:$position);
  let results = (outs AnyRankedTensor:$result);
  let assemblyFormat = [{
    $partial `bounds` $bounds `position` $position attr-dict
    `:` type($partial) `->` type($result)
  }];
}

def Zero_ExchangeOp : Zero_TokensOp<"exchange"> {
  let summary = "What each rank that shares units has for this one";
  let description = [{
    With `scatter_tokens`, this rank's tokens of each rank's value; with
    `collect`, all of each rank's value:
    ```mlir
    %a, %b = zero.exchange scatter_tokens %x bounds [0, 16, 32]
        : tensor<?x32x64xf32> -> tensor<?x16x64xf32>, tensor<?x16x64xf32>
    ```
  }];
  let arguments = (ins Zero_ExchangeKind:$kind, AnyRankedTensor:$value,
    DenseI64ArrayAttr:$bounds);
  let results = (outs Variadic<AnyRankedTensor>:$results);
  let assemblyFormat = [{
    $kind $value `bounds` $bounds attr-dict `:` type($value)
    `->` type($results)
  }];
}

def Zero_CrossEntropyOp : Zero_TokensOp<"cross_entropy",
    [DeclareOpInterfaceMethods<DifferentiableOpInterface>]> {
  let summary = "nn.cross_entropy of a vocabulary that ranks share";
  let description = [{
    ```mlir
    %loss, %lse = zero.cross_entropy %logits, %targets first_column 128
        bounds [0, 16, 32] : (tensor<?x32x128xf32>, tensor<?x32xi32>)
          -> (tensor<?x32xf32>, tensor<?x32xf32>)
    ```
    The logits are those of the vocabulary from `first_column` on. Every rank has
    the same loss and the same log-sum-exp, over all columns.
  }];
  let arguments = (ins AnyRankedTensor:$logits, AnyRankedTensor:$targets,
    I64Attr:$first_column, DenseI64ArrayAttr:$bounds);
  let results = (outs AnyRankedTensor:$loss, AnyRankedTensor:$lse);
  let assemblyFormat = [{
    $logits `,` $targets `first_column` $first_column `bounds` $bounds attr-dict
    `:` functional-type(operands, results)
  }];
}

//===----------------------------------------------------------------------===//
// State
//===----------------------------------------------------------------------===//

def Zero_GradientsOp : Zero_Op<"gradients",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Zeroed f32 gradients of a bucket in transient memory";
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let results = (outs Variadic<AnyStaticShapeTensor>:$values);
  let assemblyFormat = "$bucket attr-dict `:` type($values)";
}

def Zero_NormOp : Zero_Op<"norm",
    [DeclareOpInterfaceMethods<CollectiveOpInterface>]> {
  let summary = "The 2-norm of the reduced gradient, over all ranks";
  let description = [{
    Partial sums of squares in f64, added in the order of the ranks, so that all
    have the same bits; tied parameters count once. Decides by how much
    zero.adamw clips and, if a rank has seen an overflow, that all skip the
    update. With `unscale`, divides the gradients by the loss scale first.
  }];
  let arguments = (ins UnitAttr:$unscale);
  let assemblyFormat = "(`unscale` $unscale^)? attr-dict";
}

def Zero_AdamWOp : Zero_Op<"adamw",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Updates the rank's shard of a bucket";
  let description = [{
    Masters and moments, then the working copy of the same elements.
  }];
  let arguments = (ins FlatSymbolRefAttr:$bucket);
  let assemblyFormat = "$bucket attr-dict";
}

include "Poplar/Dialect/Zero/ZeroExchangeOps.td"

#endif // POPLAR_DIALECT_ZERO_ZEROOPS_TD
