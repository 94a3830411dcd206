#include "Poplar/Dialect/NN/NN.h"
using namespace mlir;
using namespace poplar::nn;
#define GET_OP_CLASSES
#include "Poplar/Dialect/NN/NNOps.cpp.inc"
LogicalResult EmbeddingOp::verify() { return success(); }
LogicalResult PositionEmbeddingOp::verify() { return success(); }
LogicalResult LinearOp::verify() { return success(); }
LogicalResult LayerNormOp::verify() { return success(); }
LogicalResult RMSNormOp::verify() { return success(); }
LogicalResult RopeOp::verify() { return success(); }
LogicalResult AttentionOp::verify() { return success(); }
LogicalResult GeluOp::verify() { return success(); }
LogicalResult CastOp::verify() { return success(); }
LogicalResult DropoutOp::verify() { return success(); }
LogicalResult CrossEntropyOp::verify() { return success(); }
LogicalResult EmbeddingGradOp::verify() { return success(); }
LogicalResult PositionEmbeddingGradOp::verify() { return success(); }
LogicalResult LinearGradWeightOp::verify() { return success(); }
LogicalResult SumRowsOp::verify() { return success(); }
LogicalResult NormGradGammaOp::verify() { return success(); }
LogicalResult LayerNormGradOp::verify() { return success(); }
LogicalResult RMSNormGradOp::verify() { return success(); }
LogicalResult AttentionGradOp::verify() { return success(); }
LogicalResult CrossEntropyGradOp::verify() { return success(); }
LogicalResult ParameterOp::verify() { return success(); }
LogicalResult AdamWOp::verify() { return success(); }
LogicalResult GetParameterOp::verifySymbolUses(SymbolTableCollection &) { return success(); }
LogicalResult GetGradientOp::verifySymbolUses(SymbolTableCollection &) { return success(); }
LogicalResult SetGradientOp::verifySymbolUses(SymbolTableCollection &) { return success(); }
