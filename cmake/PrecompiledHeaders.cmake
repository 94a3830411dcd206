# MLIR's headers, which most of the compiler's sources begin with, are compiled
# once. Sources include what they use all the same: the option turns this off.
option(POPLAR_PRECOMPILE_HEADERS "Compile MLIR's headers once" ON)

# Precompiles the headers for libraries of add_mlir_library(). Flags of all have
# to be the same: GCC ignores a precompiled header that was made with others.
function(poplar_precompile_headers)
  if(NOT POPLAR_PRECOMPILE_HEADERS)
    return()
  endif()
  set(owner)
  foreach(library IN LISTS ARGN)
    if(owner)
      target_precompile_headers(obj.${library} REUSE_FROM ${owner})
      continue()
    endif()
    set(owner obj.${library})
    target_precompile_headers(${owner} PRIVATE
      <mlir/Dialect/Arith/IR/Arith.h>
      <mlir/Dialect/Func/IR/FuncOps.h>
      <mlir/Dialect/Linalg/IR/Linalg.h>
      <mlir/Dialect/Math/IR/Math.h>
      <mlir/Dialect/Tensor/IR/Tensor.h>
      <mlir/IR/Builders.h>
      <mlir/IR/BuiltinOps.h>
      <mlir/IR/IRMapping.h>
      <mlir/IR/SymbolTable.h>
      <mlir/Pass/Pass.h>)
  endforeach()
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    foreach(library IN LISTS ARGN)
      # What ccache needs to know the header by.
      target_compile_options(obj.${library} PRIVATE -fpch-preprocess)
    endforeach()
  endif()
endfunction()
