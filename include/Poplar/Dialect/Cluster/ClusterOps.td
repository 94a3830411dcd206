//===- ClusterOps.td - The cluster dialect ----------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_CLUSTER_CLUSTEROPS_TD
#define POPLAR_DIALECT_CLUSTER_CLUSTEROPS_TD

include "mlir/IR/BuiltinAttributeInterfaces.td"
include "mlir/IR/OpBase.td"
include "mlir/IR/SymbolInterfaces.td"
include "Poplar/Dialect/Cluster/ClusterEnums.td"

//===----------------------------------------------------------------------===//
// Dialect
//===----------------------------------------------------------------------===//

def ClusterDialect : Dialect {
  let name = "cluster";
  let cppNamespace = "::poplar::cluster";
  let summary = "The devices a job runs on, their links and their speed";
  let description = [{
    Ops at the top level of a module, beside the model they serve. A *rank* is
    one device; ranks are numbered by the order of the nodes in the module, then
    by the order of the devices in a node.

    ```mlir
    cluster.device_type @a100 target "cuda:sm_80" memory 85899345920 precision bf16
    cluster.device_type @v100 target "cuda:sm_70" memory 34359738368 precision f16
    cluster.node @node0 devices [4 x @a100]
    cluster.node @node1 devices [@v100, @v100]
    cluster.link inside nodes latency 3.0e-06 bandwidth 2.5e+10
    cluster.link between nodes latency 1.0e-05 bandwidth 1.25e+10
    ```

    Units are bytes, seconds, bytes per second and FLOP per second. The same in
    JSON is described in docs/cluster-file.md. Optional clauses may stand in any
    order.
  }];
}

/// Everything of the dialect stands at the top level: references between the
/// ops are resolved in the module.
class Cluster_Op<string mnemonic, list<Trait> traits = []>
    : Op<ClusterDialect, mnemonic,
         !listconcat([HasParent<"::mlir::ModuleOp">], traits)> {
  let hasVerifier = 1;
}

//===----------------------------------------------------------------------===//
// Ops
//===----------------------------------------------------------------------===//

def Cluster_DeviceTypeOp : Cluster_Op<"device_type", [Symbol]> {
  let summary = "A kind of device: devices of one type run one executable";
  let description = [{
    ```mlir
    cluster.device_type @a100 target "cuda:sm_80" memory 85899345920
        precision bf16 recompute "recompute-attention"
        flops {bf16 = 3.12e+14, f32 = 1.95e+13} bandwidth 2.039e+12
        power 4.0e+02 source "NVIDIA A100 datasheet, 2021"
    ```

    - `target`: `host` (the CPU at hand), `host:<set of instructions>`,
      `cuda:sm_NN` or `hip:gfxNNN`.
    - `memory`: bytes that a rank may use, above 0.
    - `precision`: a format that the target computes in.
    - `recompute`: `keep`, `recompute-attention` or `recompute-unit`;
      `recompute-unit:8` for the first 8 layers, with `keep` for the others.
    - `fixed_recompute`: plans recompute what `recompute` says; else planners
      choose it.
    - `flops`: peak FLOP/s of matrix products by number format.
    - `bandwidth`: of the device's memory, bytes per second.
    - `power`: the limit of the board, watts.
    - `price`: of a device and hour, in any currency; 0 or more.
    - `threads`: of a rank; host targets only.
    - `source`: where the figures come from.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       StrAttr:$target,
                       OptionalAttr<I64Attr>:$memory,
                       Cluster_NumberFormat:$precision,
                       DefaultValuedAttr<Cluster_RecomputeAttr,
                           "::poplar::RecomputePolicy::Keep">:$recompute,
                       OptionalAttr<DictionaryAttr>:$flops,
                       OptionalAttr<F64Attr>:$bandwidth,
                       OptionalAttr<F64Attr>:$power,
                       OptionalAttr<F64Attr>:$price,
                       OptionalAttr<I64Attr>:$threads,
                       OptionalAttr<StrAttr>:$source,
                       UnitAttr:$fixed_recompute);
  let assemblyFormat = [{
    $sym_name `target` $target (`memory` $memory^)? `precision` $precision
    oilist(`recompute` $recompute | `fixed_recompute` $fixed_recompute
           | `flops` custom<Flops>($flops)
           | `bandwidth` custom<Real>($bandwidth)
           | `power` custom<Real>($power) | `price` custom<Real>($price)
           | `threads` $threads
           | `source` $source)
    attr-dict
  }];
}

def Cluster_NodeOp : Cluster_Op<"node",
    [Symbol, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A machine and its devices";
  let description = [{
    ```mlir
    cluster.node @node0 devices [@a100, @a100, @v100]
    cluster.node @node1 devices [2 x @a100, @v100]
    ```

    `2 x @a100` stands for `@a100, @a100`. Any two devices of the cluster need a
    link: a node of several devices one inside it, and every two nodes one in
    each direction, their own or a default.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypedArrayAttrBase<FlatSymbolRefAttr,
                         "types of the node's devices">:$devices);
  let assemblyFormat = [{
    $sym_name `devices` custom<Devices>($devices) attr-dict
  }];
}

def Cluster_LinkOp : Cluster_Op<"link",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Latency and bandwidth between devices";
  let description = [{
    ```mlir
    cluster.link between @node0 and @node1 latency 1.0e-05 bandwidth 1.25e+10
    cluster.link from @node0 to @node2 latency 2.0e-02 bandwidth 5.0e+06
    cluster.link from @node2 to @node0 latency 2.0e-02 bandwidth 1.0e+08
    cluster.link inside @node0 latency 3.0e-06 bandwidth 3.0e+11
    cluster.link inside nodes latency 1.0e-05 bandwidth 1.2e+10
    cluster.link between nodes latency 5.0e-05 bandwidth 1.25e+09
        overhead 2.0e-10
    ```

    A message of n bytes takes `latency` + n / `bandwidth` seconds on a link
    without other traffic. Every byte that a rank sends or receives takes
    `overhead` seconds of its computation away (LogGP's overhead): copies and
    sums on the core that computes. None by default. `between` holds in both directions, `from .. to` in
    one. `inside nodes` and `between nodes` are the defaults where no link names
    the node or the pair. No direction may be given twice.
  }];
  let arguments = (ins Cluster_LinkKind:$kind,
                       OptionalAttr<FlatSymbolRefAttr>:$first,
                       OptionalAttr<FlatSymbolRefAttr>:$second,
                       F64Attr:$latency,
                       F64Attr:$bandwidth,
                       OptionalAttr<F64Attr>:$overhead,
                       OptionalAttr<StrAttr>:$source);
  let assemblyFormat = [{
    custom<Ends>($kind, $first, $second) `latency` custom<Real>($latency)
    `bandwidth` custom<Real>($bandwidth)
    (`overhead` custom<Real>($overhead)^)? (`source` $source^)? attr-dict
  }];
  let extraClassDeclaration = [{
    /// For devices that no other link serves.
    bool isDefault() { return !getFirst(); }
  }];
}

def Cluster_ProfileOp : Cluster_Op<"profile",
    [DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "Measured speed of a device type in one ZeRO stage";
  let description = [{
    ```mlir
    cluster.profile @a100 stage 2 micro_batches [1, 2, 4, 8]
        seconds [0.11, 0.19, 0.36, 0.7] spread [0.01, 0.01, 0.004, 0.004]
        max_micro_batch 11 memory fixed 1073741824 per_sample 157286400
        optimizer 0.02 model "3f786850e387550f" machine "node0"
        versions {poplar = "0.1.0"}
    ```

    - `seconds`: forward and backward of one micro-step at each micro-batch,
      time spent on or waiting for collectives excluded.
    - `spread`: of the repetitions, interquartile range over median; of an
      estimate, its relative uncertainty.
    - `max_micro_batch`: the largest that fits, 0 if none does. A curve has at
      least two points, fewer only where fewer micro-batches fit.
    - `memory`: the executable's peak is `fixed` + b * `per_sample` bytes at
      micro-batch b, for a rank that is alone.
    - `optimizer`: seconds of the optimizer's step, for a rank that is alone.
    - `precision`, `recompute`: as measured; by default the device type's.
    - `model`: fingerprint of the model measured. A plan for another model must
      not use the profile.
    - `estimate`: computed from figures, not measured.
  }];
  let arguments = (ins FlatSymbolRefAttr:$device_type,
                       I64Attr:$stage,
                       DenseI64ArrayAttr:$micro_batches,
                       DenseF64ArrayAttr:$seconds,
                       OptionalAttr<DenseF64ArrayAttr>:$spread,
                       OptionalAttr<I64Attr>:$max_micro_batch,
                       OptionalAttr<I64Attr>:$fixed_bytes,
                       OptionalAttr<I64Attr>:$bytes_per_sample,
                       OptionalAttr<F64Attr>:$optimizer,
                       OptionalAttr<Cluster_NumberFormat>:$precision,
                       OptionalAttr<Cluster_RecomputeAttr>:$recompute,
                       UnitAttr:$estimate,
                       OptionalAttr<StrAttr>:$model,
                       OptionalAttr<StrAttr>:$machine,
                       OptionalAttr<DictionaryAttr>:$versions,
                       OptionalAttr<StrAttr>:$source);
  let assemblyFormat = [{
    $device_type `stage` $stage `micro_batches` $micro_batches
    `seconds` custom<Reals>($seconds)
    oilist(`spread` custom<Reals>($spread) | `max_micro_batch` $max_micro_batch
           | `memory` `fixed` $fixed_bytes `per_sample` $bytes_per_sample
           | `optimizer` custom<Real>($optimizer) | `precision` $precision
           | `recompute` $recompute | `estimate` $estimate | `model` $model
           | `machine` $machine | `versions` $versions | `source` $source)
    attr-dict
  }];
}

#endif // POPLAR_DIALECT_CLUSTER_CLUSTEROPS_TD
