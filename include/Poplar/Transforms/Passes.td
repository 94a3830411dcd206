//===- Passes.td - All of Poplar's passes -----------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_TRANSFORMS_PASSES_TD
#define POPLAR_TRANSFORMS_PASSES_TD

include "mlir/Pass/PassBase.td"

//===----------------------------------------------------------------------===//
// Model level
//===----------------------------------------------------------------------===//

def NNConvertPrecision : Pass<"nn-convert-precision", "::mlir::ModuleOp"> {
  let summary = "Compute in bf16 or f16, with f32 master parameters";
  let description = [{
    Activations and the parameters' working copies become `type`; parameters,
    gradients, statistics and losses stay f32.
  }];
  let options = [
    Option<"type", "type", "std::string", "\"bf16\"", "bf16, f16 or f32">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

def NNStoreActivations : Pass<"nn-store-activations", "::mlir::ModuleOp"> {
  let summary = "Keep activations between units in a narrow format";
  let description = [{
    Arguments and results of units have the format `type`; units compute in f32,
    on f32 parameters. Gradients of activations have the format `type`, too, and
    need a loss scale in f16.
  }];
  let options = [
    Option<"type", "type", "std::string", "\"f16\"", "bf16, f16 or f32">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::poplar::zero::ZeroDialect"];
}

def AnnotateCost : Pass<"annotate-cost", "::mlir::ModuleOp"> {
  let summary = "Record the FLOPs of a training sample (nn.training_cost)";
  let description = [{
    Counts three times the forward pass, the usual convention for forward and
    backward, over all units that @model calls. Recomputation is not counted.
  }];
  let options = [
    Option<"report", "report", "bool", "false",
           "Also remark on every op what it costs">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect"];
}

//===----------------------------------------------------------------------===//
// Train level
//===----------------------------------------------------------------------===//

def NNDifferentiate : Pass<"nn-differentiate", "::mlir::ModuleOp"> {
  let summary = "Build forward, backward and the training step";
  let description = [{
    For every unit @f makes @f.forward, which also returns the residuals, and
    @f.backward, which takes them; from @model makes @train, @evaluate and
    @infer. `recompute` chooses the residuals.
  }];
  let options = [
    Option<"recompute", "recompute", "std::string", "\"keep\"",
           "keep, recompute-attention or recompute-unit">
  ];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"];
}

def AddOptimizer : Pass<"add-optimizer", "::mlir::ModuleOp"> {
  let summary = "Add the optimizer's step as functions of flat arrays";
  let description = [{
    Adds @adamw, and @convert_working if parameters are read in a format lower
    than f32. The runtime calls them once per parameter or shard, with its
    element count as the batch. `exec.optimizer` names them.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::poplar::exec::ExecDialect", "::mlir::func::FuncDialect"];
}

//===----------------------------------------------------------------------===//
// Zero level
//===----------------------------------------------------------------------===//

def ZeroFormBuckets : Pass<"zero-form-buckets", "::mlir::ModuleOp"> {
  let summary = "Group the parameters into buckets";
  let description = [{
    Each call of a unit in @model gets a bucket, in order; a parameter that
    several calls use gets its own. Neighbours are merged until they have
    `min-bytes` (in f32), so that small ones do not cost a latency each. Buckets
    of different groups of a plan are not merged.
  }];
  let options = [
    Option<"minBytes", "min-bytes", "int64_t", "0",
           "Merge neighbours until they have this many bytes">
  ];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def EstimateProfiles : Pass<"estimate-profiles", "::mlir::ModuleOp"> {
  let summary = "Estimate profiles of devices from their specifications";
  let description = [{
    Works on a module that holds a model, its buckets and a cluster. Adds a
    `cluster.profile` marked `estimate` for every stage in which a device type
    that ranks use has none of this model (in its precision, with its
    recomputation policy), if `flops` and `bandwidth` of the type are known.

    Times are those of Planner/Model/Roofline.h, over the ops of the program that the
    type would run. Memory is that program's plan. The program is made for a
    model with few of its equal units, and extrapolated to all of them, so that
    a deep model takes no longer than a shallow one.
  }];
  let dependentDialects = ["::poplar::cluster::ClusterDialect",
    "::poplar::nn::NNDialect", "::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect", "::mlir::linalg::LinalgDialect",
    "::mlir::tensor::TensorDialect", "::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect"];
}

def HeteroAllocate : Pass<"hetero-allocate", "::mlir::ModuleOp"> {
  let summary = "Allocate the global batch to the ranks of a cluster";
  let description = [{
    The module must hold a model, a cluster (`cluster.device_type`,
    `cluster.node`, `cluster.link`) and a `cluster.profile` per device type. The
    pass adds the `zero.plan`. `BatchPolicy.h` describes the policies;
    `homogeneous:T` plans a job of the devices of type T alone. If there are
    buckets, the plan accounts for the latencies of their collectives and for
    the transient memory of the largest one.

    With the policy `exact`, options that are `auto` are searched together. With
    other policies, `auto` means equal state, all devices, and recomputation as
    set. Devices that are left out have no `zero.rank`. The recomputation policy
    is set on the `cluster.device_type`.
  }];
  let options = [
    Option<"globalBatch", "global-batch", "int64_t", "0",
           "Samples per iteration">,
    Option<"stage", "zero", "std::string", "\"auto\"",
           "ZeRO stage: 0, 1, 2, 3, or auto for the fastest that fits">,
    Option<"policy", "policy", "std::string", "\"exact\"",
           "exact, poplar, uniform, whale, homogeneous:T or batch:T=N,...">,
    Option<"state", "state", "std::string", "\"auto\"",
           "How state is sharded: equal, by memory, or auto for the faster">,
    Option<"leaveOut", "leave-out", "std::string", "\"auto\"",
           "auto drops devices if that is faster, none keeps all">,
    Option<"recompute", "recompute", "std::string", "\"auto\"",
           "What types recompute: as-set, or auto for the fastest profiled">
  ];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::poplar::cluster::ClusterDialect"];
}

def ZeroPlanStages : Pass<"zero-plan-stages", "::mlir::ModuleOp"> {
  let summary = "Plan the pipeline stages that an option describes";
  let description = [{
    The module must hold a model and a cluster. The pass adds the `zero.plan` with
    its groups. `stages` lists the ranks of each stage, from the first to the
    last, and the unit before which it ends: `a100*2@12+v100*2` means two A100
    with the units before number 12, and two V100 with the rest. Stages without a
    number share units evenly, and the pipelines share the global batch evenly.
    In `a100*2/4@12`, each of two pipelines has four A100 of a node, which share
    units. A stage with several chunks can say where each ends:
    `a100@2@6+v100@4@8`.
  }];
  let options = [
    Option<"stages", "stages", "std::string", "\"\"",
           "TYPE[*PIPELINES][/DEGREE][@END]... of each stage, joined by +">,
    Option<"schedule", "schedule", "std::string", "\"1f1b\"",
           "gpipe, 1f1b or interleaved">,
    Option<"chunks", "chunks", "int64_t", "1",
           "Ranges of units of each stage, several if interleaved">,
    Option<"globalBatch", "global-batch", "int64_t", "0",
           "Samples per iteration">,
    Option<"microBatch", "micro-batch", "int64_t", "1",
           "Samples of a micro-batch">,
    Option<"stage", "zero", "std::string", "\"auto\"",
           "ZeRO stage of all groups: 0, 1, 2 or 3; auto means 0">
  ];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::poplar::cluster::ClusterDialect"];
}

def SpecializeDeviceTypes : Pass<"specialize-device-types", "::mlir::ModuleOp"> {
  let summary = "Make one program per device type of the plan";
  let description = [{
    For each device type T that a rank uses, the pass clones the model with its
    buckets and the plan into a nested module @"T.program". `zero.program` holds
    the type's number format and recomputation policy. Later passes work on
    these modules one by one. Buckets are sharded by the plan's `state`
    shares, in multiples of 16 elements.

    In a plan of groups, there is a module @"T.stageG.program" for each device
    type T of group G, and the buckets say which groups hold them.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::poplar::cluster::ClusterDialect"];
}

def ZeroCutStages : Pass<"zero-cut-stages", "::mlir::ModuleOp"> {
  let summary = "Reduce @model to the units of the program's group";
  let description = [{
    In a program of a group: @model receives the activations that the group
    before sends, and sends on its own instead of returning a loss, unless it is
    the last. With several chunks, this holds for each of them. Other programs are
    not changed. A plan in which devices share units (`tensor` of a zero.group)
    is refused: this is not implemented yet.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroSplitTurns : Pass<"zero-split-turns", "::mlir::ModuleOp"> {
  let summary = "Split @train of a pipeline stage into its turns";
  let description = [{
    The turns are @forward and @backward; other micro-batches may run between
    them. What @backward reads is a result of @forward (`zero.residual`), unless
    it can be read again, as parameters can. A group with several chunks has
    functions for each: @forward.chunk0, @forward.chunk1 and so on, and likewise
    for @evaluate and @infer. Other programs are not changed.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect"];
}

def ZeroMaterialize : Pass<"zero-materialize", "::mlir::ModuleOp"> {
  let summary = "Add the collectives of a ZeRO stage, all synchronous";
  let description = [{
    Works on a program at the train level with buckets; stage and number of
    ranks are in the module's `zero.program`. Makes @update, the optimizer's
    step, and:

    stage 0  @train_last = @train + an all_reduce of every bucket when its
             gradients are complete
    stage 1  the same with reduce_scatter; @update gathers the parameters
    stage 2  @train reduce_scatters every unit's gradients; @update gathers
    stage 3  every function gathers parameters before the units that use them;
             @train reduce_scatters. Where device types recompute differently,
             a backward pass gathers all parameters of its unit

    In a pipeline stage, @backward is what is called @train here. Buckets that
    several groups hold, or several chunks of the group use, are reduced in
    @update, before the norm.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect",
    "::mlir::func::FuncDialect"];
}

def ZeroAsync : Pass<"zero-async", "::mlir::ModuleOp"> {
  let summary = "Split every collective in zero.start and zero.wait";
  let description = [{
    The wait stays right behind its start; --zero-prefetch and
    --zero-delay-waits move them apart.
  }];
  let dependentDialects = ["::poplar::zero::ZeroDialect"];
}

def ZeroPrefetch : Pass<"zero-prefetch", "::mlir::ModuleOp"> {
  let summary = "Start gathers of parameters while earlier units compute";
  let description = [{
    Moves the start of a gather upwards, so that the gather runs while earlier
    units compute. `depth` gathers are under way beside the one in use; each needs
    a buffer of its own. The order of the collectives stays the same. Gathers into
    the working copies, in @update, are not moved.
  }];
  let options = [
    Option<"depth", "depth", "int", "1",
           "Gathers under way beside the one in use">
  ];
}

def ZeroDelayWaits : Pass<"zero-delay-waits", "::mlir::ModuleOp"> {
  let summary = "Let reductions finish while later units compute";
  let description = [{
    Moves the wait of a reduction downwards, so that the reduction runs while later
    units compute. At most `depth` reductions of transient gradients are under way.
    A wait stays before whatever needs the result.
  }];
  let options = [
    Option<"depth", "depth", "int", "1",
           "Reductions of transient gradients under way">
  ];
}

def ZeroVerify : Pass<"zero-verify", "::mlir::ModuleOp"> {
  let summary = "Check that the programs of a plan work together";
  let description = [{
    All programs issue the same collectives in the same order in each function;
    nothing touches what a collective under way reads or writes; where ranks
    have step counts of their own (stages 0 and 1), @train issues none; @update
    takes the norm first and updates every bucket once. A violation names both
    places. Runs after each phase of the zero level.
  }];
}

def ZeroVerifyStages : Pass<"zero-verify-stages", "::mlir::ModuleOp"> {
  let summary = "Check that the groups of a plan work together";
  let description = [{
    Every unit is computed by one group; every send has its receive, of the same
    type, in the function of the other group's chunk; collectives in turns are
    among the ranks of one group, which take their turns in the same order where
    they meet in them; those among several groups stand in @update, in an order
    that is the same for all. The timetable of every pipeline can be carried out
    with the memory there is for messages. A violation names both places.
  }];
}

def ZeroReport : Pass<"zero-report", "::mlir::ModuleOp"> {
  let summary = "Report what every rank sends, issues and needs";
  let description = [{
    Per rank and iteration: collectives, bytes received (contributions of others
    to the own shard, shards of others), and, once --plan-memory has run on the
    programs, peak memory.
  }];
  let options = [
    Option<"json", "json", "bool", "false", "JSON instead of text">,
    Option<"output", "output", "std::string", "\"-\"",
           "File to write to; - for stdout">
  ];
}

//===----------------------------------------------------------------------===//
// Code generation for hosts
//===----------------------------------------------------------------------===//

def ConvertNNToLinalg : Pass<"convert-nn-to-linalg", "::mlir::ModuleOp"> {
  let summary = "Lower row-wise nn ops to linalg on tensors";
  let description = [{
    Lowers all ops that implement `LinalgLoweringOpInterface`: of nn, all except
    GEMMs, attention, embedding gradients and parameters.
  }];
  let dependentDialects = ["::poplar::nn::NNDialect",
    "::mlir::linalg::LinalgDialect", "::mlir::tensor::TensorDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect"];
}

def FormKernels : Pass<"form-kernels", "::mlir::ModuleOp"> {
  let summary = "Outline groups of linalg ops that share their rows";
  let description = [{
    Groups of ops with the same rows become one `exec.kernel` each, and a
    `exec.dispatch` takes their place. Values that only the ops of a group read stay
    inside the kernel. A group also contains what initialises its outputs. `reuse`
    says which results may take the buffer of which argument.
  }];
  let dependentDialects = ["::poplar::exec::ExecDialect",
    "::poplar::nn::NNDialect", "::mlir::func::FuncDialect",
    "::mlir::tensor::TensorDialect"];
}

def PlanMemory : Pass<"plan-memory", "::mlir::ModuleOp"> {
  let summary = "Place every buffer in a static arena";
  let description = [{
    Functions of tensors become `exec.function`s, lists of calls on buffers.
    Offsets are linear in the micro-batch: peak_bytes(b) = fixed + b * per_sample
    (`exec.arena`).
  }];
  let dependentDialects = ["::poplar::exec::ExecDialect"];
  let options = [
    Option<"threads", "threads", "int", "1",
           "Threads that share the libraries' scratch">,
    Option<"maxBatch", "max-batch", "int64_t", "64",
           "Largest micro-batch the libraries' scratch must serve">,
    Option<"workspaceBytes", "workspace-bytes", "int64_t", "-1",
           "Bytes of the libraries' scratch; -1 to ask the one at hand">
  ];
}

def ExecVerify : Pass<"exec-verify", "::mlir::ModuleOp"> {
  let summary = "Check the places of buffers";
  let description = [{
    Closes the memory level. Each buffer lies inside its region. Buffers that are
    alive at the same time do not overlap. No buffer is used after its end, or
    while a collective uses it. Every collective has exactly one wait.
  }];
}

def FuseGemmEpilogues : Pass<"fuse-gemm-epilogues", "::mlir::ModuleOp"> {
  let summary = "Fuse GELU and gradients of biases into products";
  let description = [{
    For GPUs, after differentiation: cuBLASLt applies GELU by tanh, or its
    gradient, before it stores a product, and so saves reading the product
    again. GELU by erf is another function and stays as it is. The gradient of a
    weight and that of a bias sum over the same gradient, which the product
    reads anyway.

    ```mlir
    %h = nn.linear %x, %w bias %b
    %y = nn.gelu %h form tanh       // -> %y, %h = nn.linear_gelu %x, %w bias %b
    %d = nn.linear %dy, %w
    %g = nn.gelu_grad %d, %h form tanh  // -> %g = nn.linear_gelu_grad %dy, %w pre %h
    %dw = nn.linear_grad_weight %dy, %x into %aw
    %db = nn.sum_rows %dy into %ab
    // -> %dw, %db = nn.linear_grad_weight_bias %dy, %x into %aw bias %ab
    ```
  }];
}

def LowerKernels : Pass<"lower-kernels", "::mlir::ModuleOp"> {
  let summary = "Lower outlined kernels to loops over a part of their extent";
  let description = [{
    For a host. Every `exec.kernel` @k gets a function @k.body of pointers to its
    buffers, the batch, and the range [begin, end) of rows to compute; its ops
    become loops over the columns of a row. What a kernel computes does not depend
    on how the rows are divided among threads. The `exec.kernel` stays until
    --lower-program has replaced its dispatches.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
    "::mlir::scf::SCFDialect", "::mlir::arith::ArithDialect",
    "::mlir::func::FuncDialect", "::mlir::math::MathDialect"];
}

def MapKernelsToGPU : Pass<"map-kernels-to-gpu", "::mlir::ModuleOp"> {
  let summary = "Map outlined kernels to the blocks and threads of a GPU";
  let description = [{
    Adds the module @kernels with a `gpu.func` for every kernel: its pointers
    and the batch. A row is a block, or a subgroup where it is short; threads
    access 16 bytes at a time where the width allows it; sums have a fixed order.
    `exec.gpu_kernel` says how it is launched.
  }];
  let options = [Option<"subgroupSize", "subgroup-size", "int64_t", "32",
                        "Threads of a subgroup: 32 of NVIDIA's, 64 of AMD's">];
  let dependentDialects = ["::poplar::exec::ExecDialect",
    "::mlir::gpu::GPUDialect", "::mlir::LLVM::LLVMDialect",
    "::mlir::scf::SCFDialect",
    "::mlir::arith::ArithDialect", "::mlir::math::MathDialect",
    "::mlir::memref::MemRefDialect", "::mlir::vector::VectorDialect"];
}

def ExpandGPUOps : Pass<"expand-gpu-ops", "::mlir::ModuleOp"> {
  let summary = "Expand ops for which GPUs have no instruction";
  let description = [{
    Sums over a block or a subgroup become exchanges of registers, in a fixed
    order; operations of `math` become intrinsics, where the conversions of the
    gpu dialect would call a vendor's library.
  }];
  let options = [Option<"subgroupSize", "subgroup-size", "int64_t", "32",
                        "Threads of a subgroup: 32 of NVIDIA's, 64 of AMD's">];
  let dependentDialects = ["::mlir::gpu::GPUDialect",
    "::mlir::memref::MemRefDialect", "::mlir::arith::ArithDialect",
    "::mlir::cf::ControlFlowDialect", "::mlir::LLVM::LLVMDialect"];
}

def EmitGPUAssembly : Pass<"emit-gpu-assembly", "::mlir::ModuleOp"> {
  let summary = "Write the assembly of @kernels: PTX for NVIDIA's chips";
  let description = [{
    After --poplar-lower-gpu for the same chip. The module stays as it is.
  }];
  let options = [
    Option<"chip", "chip", "std::string", "\"sm_80\"", "sm_70, gfx90a, ...">,
    Option<"output", "output", "std::string", "\"-\"",
           "File to write to; - for stdout">
  ];
}

def ExpandMath : Pass<"expand-math", "::mlir::ModuleOp"> {
  let summary = "Approximate transcendental functions by polynomials";
  let description = [{
    exp, tanh, erf and log become basic operations. LLVM can vectorise these with
    the loop around them, but not calls of libm.
  }];
  let dependentDialects = ["::mlir::arith::ArithDialect",
    "::mlir::math::MathDialect", "::mlir::vector::VectorDialect"];
}

def LowerProgram : Pass<"lower-program", "::mlir::ModuleOp"> {
  let summary = "Lower units and steps to calls of kernels and the runtime";
  let description = [{
    Every `exec.function` becomes an LLVM function of the context, the batch and its
    buffers; a buffer becomes an address in the arena. Products, kernels and
    collectives become calls of the runtime (`poplar_rt_...`) with constant
    descriptors. Where --map-kernels-to-gpu has run, kernels are launched by number.
  }];
  let dependentDialects = ["::mlir::LLVM::LLVMDialect",
    "::mlir::arith::ArithDialect", "::mlir::func::FuncDialect"];
  let options = [
    Option<"capability", "capability", "int", /*default=*/"0",
           "Of the GPU that kernels are mapped to: 80 for sm_80">,
    Option<"trapDeadRanges", "trap-dead-ranges", "bool", "false",
           "Let the program fill buffers with NaN when they die">
  ];
}

#endif // POPLAR_TRANSFORMS_PASSES_TD
