//===- ReportStyle.cpp - The style sheet of reports -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportStyle.h"

const char *const poplar::reportStyle = R"css(
:root { --ink: #1c2128; --soft: #57606a; --paper: #fff; --line: #d8dee4;
  --c0: #0969da; --c1: #bc4c00; --c2: #1a7f37; --c3: #8250df; --c4: #bf3989;
  --c5: #7d4e00; color-scheme: light dark; }
@media (prefers-color-scheme: dark) {
  :root { --ink: #e6edf3; --soft: #9da7b3; --paper: #0d1117; --line: #30363d;
    --c0: #58a6ff; --c1: #f0883e; --c2: #3fb950; --c3: #bc8cff; --c4: #f778ba;
    --c5: #d29922; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--ink);
  background: var(--paper); max-width: 62rem; margin: 0 auto; padding: 1rem; }
h1 { font-size: 1.5rem; overflow-wrap: anywhere; }
h2 { font-size: 1.15rem; margin-top: 2rem; }
.facts { display: grid; gap: .6rem;
  grid-template-columns: repeat(auto-fit, minmax(9rem, 1fr)); }
.facts div { border: 1px solid var(--line); border-radius: .5rem;
  padding: .5rem .7rem; }
.facts b { display: block; font-size: 1.15rem; }
.facts span, figcaption, .legend, .note { color: var(--soft);
  font-size: .875rem; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: .875rem;
  font-variant-numeric: tabular-nums; min-width: 100%; }
th, td { padding: .25rem .6rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th:first-child, td:first-child, .text { text-align: left; }
td.text { white-space: normal; min-width: 12rem; }
figure { margin: 1rem 0; }
svg { width: 100%; height: auto; display: block; }
svg text { font-size: 13px; fill: var(--soft); }
svg.bar { height: .8rem; min-width: 8rem; }
svg.timeline { min-width: 40rem; }
svg.timeline text { font-size: 15px; }
.timeline rect { stroke: none; }
.grid { stroke: var(--line); }
.line { fill: none !important; stroke-width: 2; }
.free { fill: var(--line); }
.c0 { fill: var(--c0); stroke: var(--c0); } .c1 { fill: var(--c1); stroke: var(--c1); }
.c2 { fill: var(--c2); stroke: var(--c2); } .c3 { fill: var(--c3); stroke: var(--c3); }
.c4 { fill: var(--c4); stroke: var(--c4); } .c5 { fill: var(--c5); stroke: var(--c5); }
.bar rect { stroke: none; }
.legend i { display: inline-block; width: .8em; height: .8em; margin-right: .3em; }
i.c0 { background: var(--c0); } i.c1 { background: var(--c1); }
i.c2 { background: var(--c2); } i.c3 { background: var(--c3); }
i.c4 { background: var(--c4); } i.c5 { background: var(--c5); }
)css";
