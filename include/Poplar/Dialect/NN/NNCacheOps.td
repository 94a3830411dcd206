//===- NNCacheOps.td - Ops of functions for sampling ------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Included by NNOps.td, whose classes it uses. Made by --nn-add-decoding.
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_DIALECT_NN_NNCACHEOPS_TD
#define POPLAR_DIALECT_NN_NNCACHEOPS_TD

def NN_CacheOp : NN_Op<"cache", [Symbol]> {
  let summary = "What attention keeps of the tokens of a text";
  let description = [{
    ```mlir
    nn.cache @"cache.0.keys" : tensor<?x12x1024x64xf32>
    ```
    Memory that functions for sampling share, and that keeps its content from
    call to call. Nothing else has room for it.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name,
                       TypeAttrOf<AnyRankedTensor>:$type);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
}

def NN_GetCacheOp : NN_Op<"get_cache",
    [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "A cache";
  let arguments = (ins FlatSymbolRefAttr:$cache);
  let results = (outs AnyRankedTensor:$value);
  let assemblyFormat = "$cache attr-dict `:` type($value)";
}

def NN_CachedAttentionOp : NN_Op<"cached_attention", [Pure,
    AttrSizedOperandSegments]> {
  let summary = "Causal attention of new tokens over what caches hold";
  let description = [{
    Of nn.attention, the rows of a few new tokens. Their keys and values go to
    the caches, at their positions, and a token attends over what the caches
    hold up to its own position; `sinks`, `window` and `cap` as there. The caches are
    [B,Hkv,P,d] with room for P positions, a multiple of 16. How elements lie in
    one is the kernel's business. Results: out [B,T,H*d] and the caches, which
    are updated in place. Made by `--nn-add-decoding`.
    ```mlir
    %y, %k1, %v1 = nn.cached_attention %qkv at %positions
        caches %k0, %v0 heads 12 kv_heads 12 scale 0.125 : ...
    ```
  }];
  let arguments = (ins NN_Activation:$q, Optional<NN_Activation>:$k,
                       Optional<NN_Activation>:$v, NN_Ids:$positions,
                       4DTensorOf<[NN_Float]>:$key_cache,
                       4DTensorOf<[NN_Float]>:$value_cache,
                       Optional<NN_Vector>:$sinks, I64Attr:$num_heads, I64Attr:$num_kv_heads,
                       F64Attr:$scale,
                       DefaultValuedAttr<I64Attr, "0">:$window,
                       DefaultValuedAttr<F64Attr, "0.0">:$cap);
  let results = (outs NN_Activation:$result,
                      4DTensorOf<[NN_Float]>:$new_key_cache,
                      4DTensorOf<[NN_Float]>:$new_value_cache);
  let assemblyFormat = [{
    $q (`,` $k^ `,` $v)? `at` $positions `caches` $key_cache `,` $value_cache
    (`sinks` $sinks^)? `heads` $num_heads `kv_heads` $num_kv_heads `scale` $scale
    (`window` $window^)? (`cap` $cap^)? attr-dict
    `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Positions that a cache has room for, of `length` that are wanted.
    static int64_t getRoom(int64_t length) { return (length + 15) / 16 * 16; }
  }];
}

#endif // POPLAR_DIALECT_NN_NNCACHEOPS_TD
