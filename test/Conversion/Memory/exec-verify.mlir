// RUN: poplar-opt %s --exec-verify --split-input-file --verify-diagnostics

// Buffers may take each other's place; a collective may be under way while
// others are used.
exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @good() inputs <ids = 0> {
  %0 = exec.buffer batch at 64 : memref<?x16xf32>
  exec.end %0 : memref<?x16xf32>
  %1 = exec.buffer batch at 64 : memref<?x16xf32>
  %b = exec.buffer transient at 0 : memref<64xf32>
  %t = exec.start all_gather @a wire f32 %b transient : memref<64xf32>
  exec.end %1 : memref<?x16xf32>
  exec.wait %t
  %w = exec.view %b at 0 : memref<64xf32> to memref<8x8xf32>
  exec.return
}

// -----

// expected-error @below {{has buffers, but there is no exec.arena}}
exec.function step @step() inputs <ids = 0> {
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
// expected-error @below {{duplicates the arena: a program has one}}
exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function step @step() inputs <ids = 0> {
  // expected-note @below {{which is here}}
  %0 = exec.buffer batch at 0 : memref<?x32xf32>
  // expected-error @below {{overlaps a live buffer}}
  %1 = exec.buffer batch at 64 : memref<?x16xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{ends at 192, but batch has 128 bytes}}
  %0 = exec.buffer batch at 64 : memref<?x32xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function unit @unit() scratch 64 {
  // expected-error @below {{lies in batch, which a unit does not have}}
  %0 = exec.buffer batch at 64 : memref<?x16xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function step @step() inputs <ids = 0> {
  // expected-error @below {{lies in slot, which a step does not have}}
  %0 = exec.buffer slot at 64 : memref<?x16xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
exec.function step @step() inputs <ids = 0> {
  // expected-note @below {{which is here}}
  %b = exec.buffer transient at 0 : memref<64xf32>
  %w = exec.view %b at 0 : memref<64xf32> to memref<8x8xf32>
  exec.end %b : memref<64xf32>
  // expected-error @below {{uses a buffer after its end}}
  exec.zero %w : memref<8x8xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @step() inputs <ids = 0> {
  %b = exec.buffer transient at 0 : memref<64xf32>
  %w = exec.view %b at 0 : memref<64xf32> to memref<8x8xf32>
  // expected-note @below {{which starts here}}
  %t = exec.start all_gather @a wire f32 %b transient : memref<64xf32>
  // expected-error @below {{uses a buffer before the collective on it has been waited for}}
  exec.zero %w : memref<8x8xf32>
  exec.wait %t
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @step() inputs <ids = 0> {
  %b = exec.buffer transient at 0 : memref<64xf32>
  // expected-error @below {{is never waited for}}
  %t = exec.start all_gather @a wire f32 %b transient : memref<64xf32>
  exec.return
}

// -----

exec.arena fixed 256 per_sample 128 live 128 transient 0 bytes 256 live 256 scratch 256 bytes 0
nn.parameter @w : tensor<8x8xf32> ones
zero.bucket @a [@w]
exec.function step @step() inputs <ids = 0> {
  %b = exec.buffer transient at 0 : memref<64xf32>
  %t = exec.start all_gather @a wire f32 %b transient : memref<64xf32>
  exec.wait %t
  // expected-error @below {{waits for a collective that is not under way}}
  exec.wait %t
  exec.return
}

// -----

// Rows that have arrived may be read while others are on their way.
exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.function unit @rows(%mine: memref<?x4x16xf32>, %w: memref<16x16xf32>, %y: memref<?x8x16xf32>) scratch 512 {
  %all = exec.buffer scratch at 0 : memref<?x8x16xf32>
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 round 1 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  %u = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 round 0 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.wait_exchange %u
  %a = exec.rows %all from 4 : memref<?x8x16xf32> to memref<?x4x16xf32>
  %b = exec.rows %y from 4 : memref<?x8x16xf32> to memref<?x4x16xf32>
  exec.product %a, %w into %b trans_b : (memref<?x4x16xf32>, memref<16x16xf32>, memref<?x4x16xf32>)
  exec.wait_exchange %t
  exec.end %all : memref<?x8x16xf32>
  exec.return
}

// -----

// A piece is on its way, another has arrived.
exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.function unit @pieces(%mine: memref<?x4x16xf32>, %w: memref<16x16xf32>, %y: memref<?x3x16xf32>, %z: memref<?x2x16xf32>) scratch 512 {
  %all = exec.buffer scratch at 0 : memref<?x8x16xf32>
  %s = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  // expected-note @below {{which starts here}}
  %t = exec.start_exchange gather_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.wait_exchange %s
  %a = exec.rows %all from 0 : memref<?x8x16xf32> to memref<?x2x16xf32>
  exec.product %a, %w into %z trans_b : (memref<?x2x16xf32>, memref<16x16xf32>, memref<?x2x16xf32>)
  %b = exec.rows %all from 0 : memref<?x8x16xf32> to memref<?x3x16xf32>
  // expected-error @below {{uses a buffer before its exchange has been waited for}}
  exec.product %b, %w into %y trans_b : (memref<?x3x16xf32>, memref<16x16xf32>, memref<?x3x16xf32>)
  exec.wait_exchange %t
  exec.return
}

// -----

// Of what is scattered to a rank, too: its first token has arrived, not the others.
exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.kernel @copy(%a: tensor<?x1x16xf32>) -> tensor<?x1x16xf32> rows 1 per_sample {
  exec.yield %a : tensor<?x1x16xf32>
}
exec.function unit @scattered(%x: memref<?x8x16xf32>, %y: memref<?x3x16xf32>, %z: memref<?x3x16xf32>, %c: memref<?x3x16xf32>) scratch 0 {
  %s = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 0 of 2 %x into %y, %z : (memref<?x8x16xf32>, memref<?x3x16xf32>, memref<?x3x16xf32>)
  // expected-note @below {{which starts here}}
  %t = exec.start_exchange scatter_tokens bounds [0, 5, 8] position 1 round 1 piece 1 of 2 %x into %y, %z : (memref<?x8x16xf32>, memref<?x3x16xf32>, memref<?x3x16xf32>)
  exec.wait_exchange %s
  %0 = exec.rows %y from 0 : memref<?x3x16xf32> to memref<?x1x16xf32>
  %1 = exec.rows %c from 0 : memref<?x3x16xf32> to memref<?x1x16xf32>
  exec.dispatch @copy(%0, %1) : (memref<?x1x16xf32>, memref<?x1x16xf32>) -> ()
  %2 = exec.rows %y from 1 : memref<?x3x16xf32> to memref<?x1x16xf32>
  // expected-error @below {{uses a buffer before its exchange has been waited for}}
  exec.dispatch @copy(%2, %1) : (memref<?x1x16xf32>, memref<?x1x16xf32>) -> ()
  exec.wait_exchange %t
  exec.return
}

// -----

exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.function unit @early(%mine: memref<?x4x16xf32>, %w: memref<16x16xf32>, %y: memref<?x4x16xf32>) scratch 512 {
  %all = exec.buffer scratch at 0 : memref<?x8x16xf32>
  // expected-note @below {{which starts here}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 round 1 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  %a = exec.rows %all from 0 : memref<?x8x16xf32> to memref<?x4x16xf32>
  // expected-error @below {{uses a buffer before its exchange has been waited for}}
  exec.product %a, %w into %y trans_b : (memref<?x4x16xf32>, memref<16x16xf32>, memref<?x4x16xf32>)
  exec.wait_exchange %t
  exec.return
}

// -----

exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.function unit @given(%all: memref<?x8x16xf32>) scratch 512 {
  %mine = exec.buffer scratch at 0 : memref<?x4x16xf32>
  // expected-note @below {{which starts here}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  // expected-error @below {{uses a buffer before its exchange has been waited for}}
  exec.end %mine : memref<?x4x16xf32>
  exec.wait_exchange %t
  exec.return
}

// -----

exec.arena fixed 0 per_sample 512 live 512 transient 0 bytes 0 live 0 scratch 0 bytes 0
exec.function unit @forgotten(%mine: memref<?x4x16xf32>, %all: memref<?x8x16xf32>) scratch 0 {
  // expected-error @below {{is never waited for}}
  %t = exec.start_exchange gather_tokens bounds [0, 4, 8] position 1 %mine into %all : (memref<?x4x16xf32>, memref<?x8x16xf32>)
  exec.return
}
