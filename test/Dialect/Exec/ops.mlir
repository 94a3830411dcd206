// RUN: poplar-opt %s | poplar-opt | FileCheck %s
// RUN: poplar-opt %s --mlir-print-op-generic | poplar-opt | FileCheck %s

// Every op, through its own syntax and through the generic one.

// CHECK: exec.arena fixed 4096 per_sample 640 live 576 transient 1024 bytes 512 live 512 scratch 1536 bytes 2560
exec.arena fixed 4096 per_sample 640 live 576 transient 1024 bytes 512 live 512 scratch 1536 bytes 2560
// CHECK: exec.chunk 0 slot 192 activation_in 64 activation_out 64 keeps_sent gradient_in 64 gradient_out 64
exec.chunk 0 slot 192 activation_in 64 activation_out 64 keeps_sent gradient_in 64 gradient_out 64
// CHECK: exec.chunk 1 slot 192 activation_in 64 activation_out 0 gradient_in 0 gradient_out 64
exec.chunk 1 slot 192 activation_in 64 activation_out 0 gradient_in 0 gradient_out 64
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
// CHECK: exec.copies @a bf16 working 0 gradient 128
exec.copies @a bf16 working 0 gradient 128

// CHECK: exec.kernel @negate(%{{.+}}: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample reuse [array<i64: 0>] {
// CHECK: exec.yield %{{.+}} : tensor<?x4x8xf32>
exec.kernel @negate(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> rows 4 per_sample reuse [array<i64: 0>] {
  exec.yield %x : tensor<?x4x8xf32>
}
// CHECK: exec.kernel @columns(%{{.+}}: tensor<?x4x8xf32>, %{{.+}}: tensor<8xf32>) -> tensor<8xf32> columns 8 in_place [1] {
exec.kernel @columns(%x: tensor<?x4x8xf32>, %acc: tensor<8xf32>) -> tensor<8xf32> columns 8 in_place [1] {
  exec.yield %acc : tensor<8xf32>
}
// CHECK: exec.kernel @two(%{{.+}}: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) flat 1 per_sample in_place [0, -1] {
exec.kernel @two(%x: tensor<?xf32>) -> (tensor<?xf32>, tensor<?xf32>) flat 1 per_sample in_place [0, -1] {
  exec.yield %x, %x : tensor<?xf32>, tensor<?xf32>
}
// CHECK: exec.optimizer update @two round @negate
exec.optimizer update @two round @negate

// CHECK: exec.dispatch @negate(%{{.+}}) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
func.func @tensors(%x: tensor<?x4x8xf32>) -> tensor<?x4x8xf32> {
  %0 = exec.dispatch @negate(%x) : (tensor<?x4x8xf32>) -> tensor<?x4x8xf32>
  return %0 : tensor<?x4x8xf32>
}

// CHECK: exec.function unit @unit(%[[X:.+]]: memref<?x4x8xf32>, %[[W:.+]]: memref<8x8xf32>, %[[Y:.+]]: memref<?x4x8xf32>) scratch 128 {
// CHECK-NEXT: %[[T:.+]] = exec.buffer scratch at 0 : memref<?x4x8xf32>
// CHECK-NEXT: exec.product %[[X]], %[[W]] into %[[T]] trans_b tf32 : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
// CHECK-NEXT: exec.product %[[X]], %[[W]] into %[[T]] trans_b fp8 : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
// CHECK-NEXT: exec.dispatch @negate(%[[T]], %[[Y]]) : (memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
// CHECK-NEXT: exec.end %[[T]] : memref<?x4x8xf32>
// CHECK-NEXT: exec.return
exec.function unit @unit(%x: memref<?x4x8xf32>, %w: memref<8x8xf32>, %y: memref<?x4x8xf32>) scratch 128 {
  %t = exec.buffer scratch at 0 : memref<?x4x8xf32>
  exec.product %x, %w into %t trans_b tf32 : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
  exec.product %x, %w into %t trans_b fp8 : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>)
  exec.dispatch @negate(%t, %y) : (memref<?x4x8xf32>, memref<?x4x8xf32>) -> ()
  exec.end %t : memref<?x4x8xf32>
  exec.return
}

// CHECK: exec.function step @step() inputs <ids = 0, targets = 128> result 256 : memref<?x4x8xf32> {
// CHECK: exec.call @unit(%{{.+}}, %{{.+}}, %{{.+}}) scratch %{{.+}} : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>, memref<?x128xi8>)
// CHECK: exec.zero %[[B:.+]] : memref<64xf32>
// CHECK-NEXT: exec.view %[[B]] at 32 : memref<64xf32> to memref<4x8xf32>
// CHECK-NEXT: exec.unscale @a %[[B]] : memref<64xf32>
// CHECK-NEXT: %[[TOKEN:.+]] = exec.start reduce_scatter @a wire f32 %[[B]] transient : memref<64xf32>
// CHECK-NEXT: exec.wait %[[TOKEN]]
// CHECK-NEXT: %[[SUM:.+]] = exec.start all_reduce @a wire f32{{$}}
// CHECK-NEXT: exec.wait %[[SUM]]
// CHECK-NEXT: exec.norm
// CHECK-NEXT: exec.norm unscale
// CHECK-NEXT: exec.adamw @a
exec.function step @step() inputs <ids = 0, targets = 128> result 256 : memref<?x4x8xf32> {
  %x = exec.buffer batch at 0 : memref<?x4x8xf32>
  %w = exec.buffer fixed at 0 : memref<8x8xf32>
  %y = exec.buffer batch at 256 : memref<?x4x8xf32>
  %s = exec.buffer batch at 384 : memref<?x128xi8>
  exec.call @unit(%x, %w, %y) scratch %s : (memref<?x4x8xf32>, memref<8x8xf32>, memref<?x4x8xf32>, memref<?x128xi8>)
  %b = exec.buffer transient at 0 : memref<64xf32>
  exec.zero %b : memref<64xf32>
  %v = exec.view %b at 32 : memref<64xf32> to memref<4x8xf32>
  exec.unscale @a %b : memref<64xf32>
  %t = exec.start reduce_scatter @a wire f32 %b transient : memref<64xf32>
  exec.wait %t
  %r = exec.start all_reduce @a wire f32
  exec.wait %r
  exec.norm
  exec.norm unscale
  exec.adamw @a
  exec.return
}

// CHECK: exec.function turn @turn() inputs <ids = 0> {
// CHECK: exec.port gradient_in : memref<?x4x8xf32>
// CHECK: exec.attention %{{.+}}, %{{.+}}, %{{.+}} keys %{{.+}} into %{{.+}}, %{{.+}} causal heads 2 kv_heads 2 scale 5.000000e-01 window 3 dropout 1.000000e-01 op_id 7 :
// CHECK: exec.attention_grad %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} into %{{.+}} heads 2 kv_heads 2 scale 5.000000e-01 :
// CHECK: exec.attention_grad %{{.+}}, %{{.+}}, %{{.+}}, %{{.+}} delta %[[DELTA:.+]] into %{{.+}} heads 2 kv_heads 2 scale 5.000000e-01 :
// CHECK: exec.embedding_grad %{{.+}}, %{{.+}} into %{{.+}} padding_idx 0 :
// CHECK: exec.send gradient
// CHECK: exec.receive activation
exec.function turn @turn() inputs <ids = 0> {
  %ids = exec.buffer slot at 0 : memref<?x4xi32>
  %g = exec.port gradient_in : memref<?x4x8xf32>
  %keys = exec.buffer slot at 64 : memref<?x2xi32>
  %y = exec.buffer batch at 0 : memref<?x4x8xf32>
  %lse = exec.buffer batch at 128 : memref<?x2x4xf32>
  exec.attention %g, %g, %g keys %keys into %y, %lse causal heads 2 kv_heads 2 scale 0.5 window 3 dropout 0.1 op_id 7 : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x2xi32>, memref<?x4x8xf32>, memref<?x2x4xf32>)
  %qkv = exec.buffer slot at 128 : memref<?x4x24xf32>
  %d = exec.buffer batch at 192 : memref<?x4x24xf32>
  exec.attention_grad %y, %y, %lse, %qkv into %d heads 2 kv_heads 2 scale 0.5 : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x2x4xf32>, memref<?x4x24xf32>, memref<?x4x24xf32>)
  %delta = exec.buffer batch at 576 : memref<?x2x4xf32>
  exec.attention_grad %y, %y, %lse, %qkv delta %delta into %d heads 2 kv_heads 2 scale 0.5 : (memref<?x4x8xf32>, memref<?x4x8xf32>, memref<?x2x4xf32>, memref<?x4x24xf32>, memref<?x2x4xf32>, memref<?x4x24xf32>)
  %acc = exec.buffer fixed at 0 : memref<16x8xf32>
  exec.embedding_grad %y, %ids into %acc padding_idx 0 : (memref<?x4x8xf32>, memref<?x4xi32>, memref<16x8xf32>)
  exec.send gradient
  exec.receive activation
  exec.return
}

// CHECK: exec.entry evaluate @step
// CHECK: exec.entry forward @turn
// CHECK: exec.entry forward @turn chunk 1
exec.entry evaluate @step
exec.entry forward @turn chunk 0
exec.entry forward @turn chunk 1

// CHECK: exec.gpu_kernel "sum" block [128, 1, 1] pointers 3 parts_per_block 8 bytes 128 per_sample 4000 flops_per_sample 0
// CHECK: exec.gpu_kernel "scale" block [256, 1, 1] pointers 3 parts_per_block 256 calls "poplar_gpu_scale" bytes 0 per_sample 8 flops_per_sample 0
// CHECK: exec.gpu_kernel "route" block [32, 8, 1] pointers 3 parts_per_block 8 calls "poplar_gpu_route" with <"PoplarRoute", {biased = 0 : i32, groups = 1 : i32, normalized = 1 : i32, num_experts = 8 : i64, seq_len = 4 : i64, sigmoid = 0 : i32, top_groups = 1 : i32, top_k = 2 : i64, type = 0 : i32}> bytes 0 per_sample 8 flops_per_sample 0
exec.gpu_kernel "sum" block [128, 1, 1] pointers 3 parts_per_block 8 bytes 128 per_sample 4000 flops_per_sample 0
exec.gpu_kernel "scale" block [256, 1, 1] pointers 3 parts_per_block 256 calls "poplar_gpu_scale" bytes 0 per_sample 8 flops_per_sample 0
exec.gpu_kernel "route" block [32, 8, 1] pointers 3 parts_per_block 8 calls "poplar_gpu_route" with <"PoplarRoute", {biased = 0 : i32, groups = 1 : i32, normalized = 1 : i32, num_experts = 8 : i64, seq_len = 4 : i64, sigmoid = 0 : i32, top_groups = 1 : i32, top_k = 2 : i64, type = 0 : i32}> bytes 0 per_sample 8 flops_per_sample 0
