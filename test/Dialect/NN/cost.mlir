// RUN: poplar-opt %s --annotate-cost=report --verify-diagnostics -o /dev/null

// What every op costs, counted by hand: samples of 4 tokens of width 8, f32
// unless said otherwise. "Once" is parameters and their gradients.

func.func @ops(%x: tensor<?x4x8xf32>, %low: tensor<?x4x8xbf16>, %y: tensor<?x4x16xf32>, %h: tensor<?x4x4xf32>, %lse: tensor<?x2x4xf32>, %p: tensor<?x4xf32>,
    %ids: tensor<?x4xi32>, %keys: tensor<?x2xi32>, %w: tensor<16x8xf32>, %g: tensor<8xf32>, %bias: tensor<16xf32>) {
  // Matrix products: 2 m n k, one more for each bias added.
  // 2*4*16*8 + 4*16; x 128 and y 256 bytes; weight 512 and bias 64.
  // expected-remark @below {{gemm: 1088 FLOPs and 384 bytes per sample, 576 bytes once}}
  %0 = nn.linear %x, %w bias %bias : (tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> tensor<?x4x16xf32>
  // The sum is read and written.
  // expected-remark @below {{gemm: 1024 FLOPs and 384 bytes per sample, 1024 bytes once}}
  %1 = nn.linear_grad_weight %y, %x into %w : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // The bias's, too.
  // expected-remark @below {{gemm: 1024 FLOPs and 384 bytes per sample, 1152 bytes once}}
  %both:2 = nn.linear_grad_weight_bias %y, %x into %w bias %bias : (tensor<?x4x16xf32>, tensor<?x4x8xf32>, tensor<16x8xf32>, tensor<16xf32>) -> (tensor<16x8xf32>, tensor<16xf32>)

  // Attention: two products of 2*d a pair, in each of two heads of 4.
  // 16 pairs: 2*2*4*2*16; q and out 128, k and v 64, lse 32 bytes.
  // expected-remark @below {{attention: 512 FLOPs and 416 bytes per sample, 0 bytes once}}
  %2:2 = nn.attention %x, %h, %h heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // Causal: 1 + 2 + 3 + 4 pairs.
  // expected-remark @below {{attention: 320 FLOPs and 416 bytes per sample, 0 bytes once}}
  %3:2 = nn.attention %x, %h, %h causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // Window: 1 + 2 + 2 + 2.
  // expected-remark @below {{attention: 224 FLOPs and 416 bytes per sample, 0 bytes once}}
  %4:2 = nn.attention %x, %h, %h causal heads 2 kv_heads 1 scale 0.5 window 2 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // Window of the past only: 4 + 4 + 3 + 2.
  // expected-remark @below {{attention: 416 FLOPs and 416 bytes per sample, 0 bytes once}}
  %5:2 = nn.attention %x, %h, %h heads 2 kv_heads 1 scale 0.5 window 2 : (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x2x4xf32>)
  // Five products; dy, out, q, dq 128, k, v, dk, dv 64, lse 32 bytes.
  // expected-remark @below {{attention: 800 FLOPs and 800 bytes per sample, 0 bytes once}}
  %6:3 = nn.attention_grad %x out %x lse %lse qkv %x, %h, %h causal heads 2 kv_heads 1 scale 0.5 : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x2x4xf32>, tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>) -> (tensor<?x4x8xf32>, tensor<?x4x4xf32>, tensor<?x4x4xf32>)

  // Gathers move the rows they touch, not the table: ids 16, rows 128 bytes.
  // expected-remark @below {{gather: 0 FLOPs and 272 bytes per sample, 0 bytes once}}
  %7 = nn.embedding %ids, %w : (tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // dy 128, ids 16, rows read and written.
  // expected-remark @below {{gather: 32 FLOPs and 400 bytes per sample, 0 bytes once}}
  %8 = nn.embedding_grad %x, %ids into %w : (tensor<?x4x8xf32>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // dy in bf16; the sum stays f32.
  // expected-remark @below {{gather: 32 FLOPs and 336 bytes per sample, 0 bytes once}}
  %9 = nn.embedding_grad %low, %ids into %w : (tensor<?x4x8xbf16>, tensor<?x4xi32>, tensor<16x8xf32>) -> tensor<16x8xf32>

  // Rows: some FLOPs for each of 4*8 elements.
  // expected-remark @below {{row: 256 FLOPs and 288 bytes per sample, 64 bytes once}}
  %10:3 = nn.layer_norm %x, %g, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>)
  // expected-remark @below {{row: 128 FLOPs and 272 bytes per sample, 32 bytes once}}
  %11:2 = nn.rms_norm %x, %g eps 1.0e-5 : (tensor<?x4x8xf32>, tensor<8xf32>) -> (tensor<?x4x8xf32>, tensor<?x4xf32>)
  // expected-remark @below {{row: 96 FLOPs and 256 bytes per sample, 0 bytes once}}
  %12 = nn.rope %x head_dim 4 inv_freq [1.0, 0.01] : tensor<?x4x8xf32>
  // expected-remark @below {{row: 256 FLOPs and 256 bytes per sample, 0 bytes once}}
  %13 = nn.gelu %x form tanh : tensor<?x4x8xf32>
  // expected-remark @below {{row: 128 FLOPs and 256 bytes per sample, 0 bytes once}}
  %14 = nn.silu %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 32 FLOPs and 256 bytes per sample, 0 bytes once}}
  %15 = nn.relu %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 32 FLOPs and 384 bytes per sample, 0 bytes once}}
  %16 = nn.add %x, %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 32 FLOPs and 384 bytes per sample, 0 bytes once}}
  %17 = nn.mul %x, %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 0 FLOPs and 192 bytes per sample, 0 bytes once}}
  %18 = nn.cast %x : tensor<?x4x8xf32> to tensor<?x4x8xbf16>
  // Keys of 8 bytes.
  // expected-remark @below {{row: 32 FLOPs and 264 bytes per sample, 0 bytes once}}
  %19 = nn.dropout %x keys %keys p 0.1 op_id 1 : tensor<?x4x8xf32>, tensor<?x2xi32>
  // expected-remark @below {{row: 96 FLOPs and 264 bytes per sample, 0 bytes once}}
  %noise = nn.noise %x keys %keys magnitude 0.1 op_id 1 : tensor<?x4x8xf32>, tensor<?x2xi32>
  // expected-remark @below {{row: 32 FLOPs and 256 bytes per sample, 512 bytes once}}
  %20 = nn.position_embedding %x, %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<?x4x8xf32>
  // Of 4*16 logits.
  // expected-remark @below {{row: 256 FLOPs and 304 bytes per sample, 0 bytes once}}
  %21:2 = nn.cross_entropy %y, %ids : (tensor<?x4x16xf32>, tensor<?x4xi32>) -> (tensor<?x4xf32>, tensor<?x4xf32>)

  // Their gradients.
  // expected-remark @below {{row: 352 FLOPs and 416 bytes per sample, 32 bytes once}}
  %22 = nn.layer_norm_grad %x, %x, %g mean %p rstd %p : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  // expected-remark @below {{row: 256 FLOPs and 400 bytes per sample, 32 bytes once}}
  %23 = nn.rms_norm_grad %x, %x, %g rstd %p : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<8xf32>, tensor<?x4xf32>) -> tensor<?x4x8xf32>
  // expected-remark @below {{row: 128 FLOPs and 288 bytes per sample, 64 bytes once}}
  %24 = nn.norm_grad_gamma %x, %x rstd %p mean %p into %g : (tensor<?x4x8xf32>, tensor<?x4x8xf32>, tensor<?x4xf32>, tensor<?x4xf32>, tensor<8xf32>) -> tensor<8xf32>
  // expected-remark @below {{row: 32 FLOPs and 128 bytes per sample, 64 bytes once}}
  %25 = nn.sum_rows %x into %g : (tensor<?x4x8xf32>, tensor<8xf32>) -> tensor<8xf32>
  // expected-remark @below {{row: 32 FLOPs and 128 bytes per sample, 1024 bytes once}}
  %26 = nn.position_embedding_grad %x into %w : (tensor<?x4x8xf32>, tensor<16x8xf32>) -> tensor<16x8xf32>
  // expected-remark @below {{row: 416 FLOPs and 384 bytes per sample, 0 bytes once}}
  %27 = nn.gelu_grad %x, %x form tanh : tensor<?x4x8xf32>
  // expected-remark @below {{row: 224 FLOPs and 384 bytes per sample, 0 bytes once}}
  %28 = nn.silu_grad %x, %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 32 FLOPs and 384 bytes per sample, 0 bytes once}}
  %29 = nn.relu_grad %x, %x : tensor<?x4x8xf32>
  // expected-remark @below {{row: 256 FLOPs and 560 bytes per sample, 0 bytes once}}
  %30 = nn.cross_entropy_grad %y, %ids lse %p dloss %p : (tensor<?x4x16xf32>, tensor<?x4xi32>, tensor<?x4xf32>, tensor<?x4xf32>) -> tensor<?x4x16xf32>
  return
}

// Operands in fp8 are written and read in 8 bits, and a product of sides that are
// multiples of 16 is scaled in memory.
func.func @rounded(%x: tensor<?x4x16xf32>, %w: tensor<32x16xf32>, %n: tensor<8x16xf32>) {
  // x 256 and 2*64, y 512 and 2*512 bytes; weight 2048 and 2*512.
  // expected-remark @below {{gemm: 4096 FLOPs and 1920 bytes per sample, 3072 bytes once}}
  %0 = nn.linear %x, %w fp8 : (tensor<?x4x16xf32>, tensor<32x16xf32>) -> tensor<?x4x32xf32>
  // expected-remark @below {{gemm: 1024 FLOPs and 384 bytes per sample, 512 bytes once}}
  %1 = nn.linear %x, %n fp8 : (tensor<?x4x16xf32>, tensor<8x16xf32>) -> tensor<?x4x8xf32>
  return
}

func.func @model() {
  return
}
