//===- ReportStyle.cpp - The style sheet of reports -----------------------===//
//
// Part of the Poplar project, under the Apache License v2.0 with LLVM
// Exceptions. See LICENSE for license information.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReportStyle.h"

// A class for each meaning of a colour sets --it, which fills what has it:
// patches, bars, marks and lines.
const char *const poplar::reportStyle = R"css(
:root { color-scheme: light dark;
  --ink: #1b2430; --soft: #5b6675; --paper: #fbfcfd; --card: #fff;
  --line: #dde3ea; --track: #eef1f5; --shade: #0003;
  --compute: #3a6ed0; --communicate: #e8833a; --waitranks: #c4ccd8;
  --waitlink: #f2cf63; --measured: #17936c; --simulated: #7a5fcb;
  --other: #a3aebc; --state: #4a6580; --batch: #6cbbe0; --validation: #c2386f;
  --type0: #0b7a8c; --type1: #b8458f; --type2: #7b8f1e; --type3: #5a4fa8;
  --type4: #a65e2e; --type5: #566270; }
@media (prefers-color-scheme: dark) { :root {
  --ink: #e4eaf1; --soft: #96a3b3; --paper: #0e141b; --card: #151d26;
  --line: #2a3541; --track: #1e2833; --shade: #000b;
  --compute: #5b8fee; --communicate: #f09a55; --waitranks: #465364;
  --waitlink: #b5942f; --measured: #35c795; --simulated: #a48cf0;
  --other: #66738a; --state: #6d8fb3; --batch: #8fd0ee; --validation: #f070a0;
  --type0: #37b6c9; --type1: #e07fc0; --type2: #b4c94a; --type3: #938ae6;
  --type4: #d99362; --type5: #93a1b2; } }
* { box-sizing: border-box; }
body { font: 16px/1.5 system-ui, "Segoe UI", Roboto, "DejaVu Sans", sans-serif;
  color: var(--ink); background: var(--paper); max-width: 66rem;
  margin: 0 auto; padding: 1.5rem 1rem 4rem; }
h1 { font-size: clamp(1.35rem, 4vw, 1.9rem); line-height: 1.2; margin: 0;
  overflow-wrap: anywhere; letter-spacing: -.01em; }
h2 { font-size: 1.2rem; margin: 0 0 .8rem; }
h3 { font-size: .75rem; font-weight: 600; letter-spacing: .06em;
  text-transform: uppercase; color: var(--soft); margin: .9rem 0 .1rem; }
section { background: var(--card); border: 1px solid var(--line);
  border-radius: .8rem; padding: 1.1rem 1.2rem; margin-top: 1.1rem; }
p { margin: .5rem 0; }
header .soft { margin: 0 0 .2rem; font-size: .875rem; overflow-wrap: anywhere; }
.verdict { font-size: 1.08rem; max-width: 52rem; margin: .7rem 0; }
.soft, figcaption, .legend, .note, .facts span, small, .xtitle, .ytitle
  { color: var(--soft); }
.note, .legend, figcaption { font-size: .875rem; }
.facts { display: grid; gap: .6rem; margin-top: 1rem;
  grid-template-columns: repeat(var(--columns), 1fr); }
.facts div { background: var(--card); border: 1px solid var(--line);
  border-radius: .6rem; padding: .55rem .8rem; }
.facts b { display: block; font-size: 1.2rem; font-weight: 650;
  overflow-wrap: anywhere; line-height: 1.3; }
.facts span { display: block; font-size: .8rem; line-height: 1.35; }
.setup { display: flex; flex-wrap: wrap; gap: .8rem 3rem;
  align-items: flex-start; }
.setup > * { max-width: 100%; }
.wide + .wide { margin-top: 1.1rem; }
.nodes { display: flex; flex-wrap: wrap; gap: .8rem; }
.pair { display: grid; gap: 0 2rem;
  grid-template-columns: repeat(auto-fit, minmax(min(100%, 24rem), 1fr)); }
/* A shadow at the side where more is hidden. */
.wide { overflow-x: auto; margin: .4rem 0; background:
    linear-gradient(to right, var(--card) 40%, transparent) 0 0 / 2.5rem 100%
      no-repeat local,
    linear-gradient(to left, var(--card) 40%, transparent) 100% 0 / 2.5rem 100%
      no-repeat local,
    linear-gradient(to right, var(--shade), transparent) 0 0 / .8rem 100%
      no-repeat,
    linear-gradient(to left, var(--shade), transparent) 100% 0 / .8rem 100%
      no-repeat; }
table { border-collapse: collapse; font-size: .875rem;
  font-variant-numeric: tabular-nums; }
th, td { padding: .3rem .65rem; text-align: right; white-space: nowrap;
  border-bottom: 1px solid var(--line); }
th { font-weight: 600; color: var(--soft); white-space: normal;
  line-height: 1.25; vertical-align: bottom; }
tr:last-child td { border-bottom: 0; }
th:first-child, td:first-child { text-align: left; padding-left: 0; }
th.text, td.text { text-align: left; white-space: normal; min-width: 14rem; }
table:has(td.text) th:last-child { text-align: left; }
td.heat { text-align: center; line-height: 1.3;
  background: color-mix(in srgb, var(--compute) var(--heat), transparent); }
ul { margin: .4rem 0; padding-left: 1.2rem; font-size: .875rem; }
figure { margin: .6rem 0 1rem; min-width: 0; }
figcaption { font-weight: 600; margin-bottom: .3rem; }

.compute { --it: var(--compute); } .communicate { --it: var(--communicate); }
.waitranks { --it: var(--waitranks); } .waitlink { --it: var(--waitlink); }
.measured { --it: var(--measured); } .simulated { --it: var(--simulated); }
.other { --it: var(--other); } .state { --it: var(--state); }
.batch { --it: var(--batch); } .validation { --it: var(--validation); }
.estimate { --it: var(--simulated); } .chosen { --it: var(--ink); }
.line.soft, i.soft { --it: var(--other); }
.type0 { --it: var(--type0); } .type1 { --it: var(--type1); }
.type2 { --it: var(--type2); } .type3 { --it: var(--type3); }
.type4 { --it: var(--type4); } .type5 { --it: var(--type5); }
i { display: inline-block; background: var(--it); }
td i, .who i, .legend i { width: .75em; height: .75em; border-radius: .2em;
  margin-right: .4em; }
.legend { display: flex; flex-wrap: wrap; gap: .1rem 1.1rem; }
.legend i.stroke { height: .2em; width: 1.3em; vertical-align: .25em; }
.legend i.disk { border-radius: 50%; }
.legend i.circle { border-radius: 50%; background: none;
  border: .17em solid var(--it); }
.legend i.capacity { background: var(--track); outline: 1px solid var(--line); }
rect { fill: var(--it); }

.plot { display: grid; grid-template-columns: var(--label) 1fr;
  column-gap: .5rem; font-size: .78rem; font-variant-numeric: tabular-nums; }
.plot > svg { grid-column: 2; width: 100%; height: 13rem; display: block;
  overflow: visible; }
.ytitle { grid-column: 1 / 3; margin: 0 0 .35rem; }
.ylabels { position: relative; color: var(--soft); }
.ylabels span { position: absolute; right: 0; transform: translateY(50%);
  line-height: 1; }
.xlabels { position: relative; height: 1.3rem; margin-top: .3rem;
  color: var(--soft); font-size: .78rem; font-variant-numeric: tabular-nums; }
.xlabels span { position: absolute; transform: translateX(-50%);
  white-space: nowrap; }
.xlabels span[style="left:100%"] { transform: translateX(-70%); }
.plot .xlabels, .plot .xtitle { grid-column: 2; }
.xtitle { text-align: center; margin: 0; font-size: .78rem; }
svg path, svg polyline { vector-effect: non-scaling-stroke; fill: none; }
.grid { stroke: var(--line); stroke-width: 1; }
.line { stroke: var(--it); stroke-width: 2; stroke-linejoin: round; }
.dot { stroke: var(--it); stroke-width: 7; stroke-linecap: round; }
.ring { stroke: var(--it); stroke-width: 15; stroke-linecap: round; }
.hole { stroke: var(--card); stroke-width: 11; stroke-linecap: round; }

.bars, .timeline { display: grid; gap: .45rem .9rem; align-items: center;
  font-size: .875rem; }
.bars { grid-template-columns: minmax(10rem, max-content) 1fr
  minmax(9.5rem, max-content); }
.track { display: flex; position: relative; height: 1.5rem;
  border-radius: .3rem; background: var(--track); overflow: hidden; }
.track i { height: 100%; min-width: 3px; position: relative; }
.memory .track { background: none; }
.track .capacity { position: absolute; height: 100%; background: var(--track);
  border-radius: .3rem; outline: 1px solid var(--line);
  outline-offset: -1px; }
.value { font-variant-numeric: tabular-nums; }
.value small { display: block; font-size: .78rem; line-height: 1.2; }
.bars .xlabels, .bars .xtitle { grid-column: 2; margin-top: -.2rem; }
.timeline { grid-template-columns: minmax(9rem, max-content) 1fr;
  max-width: 100%; }
.timeline .who { max-width: 15rem; line-height: 1.3; overflow-wrap: anywhere; }
.timeline h3 { grid-column: 1 / 3; }
.timeline .xlabels, .timeline .xtitle { grid-column: 2; margin-top: -.2rem; }
.lanes { background: var(--track); border-radius: .3rem; overflow: hidden;
  min-width: 0; }
.lane { display: block; width: 100%; height: .8rem; }
.lane.below { border-top: 1px solid var(--card); }
.lane.steps { height: 1.5rem; }
.steps .measured { opacity: .45; }
.mark { stroke: var(--measured); stroke-width: 1.5; opacity: .55; }

.cluster { display: block; height: auto; }
.cluster text { font-size: 13px; fill: var(--ink); }
.cluster .name { font-weight: 600; font-size: 14px; }
.cluster .end { text-anchor: end; fill: var(--soft); }
.cluster .soft { fill: var(--soft); font-size: 12px; }
.node { fill: var(--card); stroke: var(--line); stroke-width: 1.5; }
.idle { fill: none; stroke: var(--other); stroke-dasharray: 3 2; }
.link { stroke: var(--other); stroke-width: 2; }

@media (max-width: 40rem) {
  body { padding: 1rem .7rem 3rem; }
  section { padding: .9rem .8rem; }
  .facts { grid-template-columns: repeat(2, 1fr); }
  th, td { padding: .3rem .4rem; }
  td.text { min-width: 24rem; }
  td:first-child { white-space: normal; }
  td:first-child:has(i) { white-space: nowrap; }
  .bars { grid-template-columns: 1fr max-content; gap: .15rem .8rem;
    grid-auto-flow: dense; }
  .bars .who { grid-column: 1; margin-top: .5rem; }
  .bars .value { grid-column: 2; text-align: right; align-self: end; }
  .bars .track { grid-column: 1 / 3; }
  .bars .xlabels, .bars .xtitle { grid-column: 1 / 3; }
  .timeline { grid-template-columns: 1fr; gap: .2rem; }
  .timeline h3, .timeline .xlabels, .timeline .xtitle { grid-column: 1; }
  .timeline .who { max-width: none; margin-top: .3rem; }
}
@media print { section { break-inside: avoid; } }
)css";
