//===- Passes.td - Descriptions of programs ----------------*- tablegen -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_REPORT_PASSES_TD
#define POPLAR_REPORT_PASSES_TD

include "mlir/Pass/PassBase.td"

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

#endif // POPLAR_REPORT_PASSES_TD
