poplar build plan.mlir -o job
