//===- ReportStyle.h - The style sheet of reports ---------------*- C++ -*-===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef POPLAR_LIB_REPORT_REPORTSTYLE_H
#define POPLAR_LIB_REPORT_REPORTSTYLE_H

namespace poplar {

/// CSS for narrow and wide screens, by day and by night.
extern const char *const reportStyle;

} // namespace poplar

#endif // POPLAR_LIB_REPORT_REPORTSTYLE_H
