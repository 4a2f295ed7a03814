"""The style sheet of the page, for light and dark screens."""

__all__ = ["STYLE"]

STYLE = """
:root {
  color-scheme: light dark;
  --page: #fbfaf8; --card: #ffffff; --line: #e2dfd8; --text: #23211d; --dim: #6f6a60; --accent: #0b6e8f;
  --code: #f4f2ec; --mark: #ffe9a8; --bad: #b3261e; --hot: #ff7a2f; --cold: #f2eee4; --call: #e3ecf1;
  --capture: #c9dfe8; --stage: #8fc1d4; --kernel: #f3b06b; --entry: #c8c2b4; --segment: #a9cf9f; --aten: #b9c9e8;
}
@media (prefers-color-scheme: dark) {
  :root {
    --page: #161512; --card: #1e1d19; --line: #37342d; --text: #e9e5db; --dim: #9c968a; --accent: #69c3e0;
    --code: #26241f; --mark: #57471a; --bad: #ff8a80; --hot: #c2500f; --cold: #2b2924; --call: #22303a;
    --capture: #23434f; --stage: #2f6378; --kernel: #8a5420; --entry: #4a463c; --segment: #39612f; --aten: #36466b;
  }
}
* { box-sizing: border-box; }
body { margin: 0; background: var(--page); color: var(--text); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 1120px; margin: 0 auto; padding: 32px 24px 80px; }
h1 { font-size: 26px; margin: 0 0 4px; overflow-wrap: anywhere; }
h2 { font-size: 19px; margin: 36px 0 10px; }
h3 { font-size: 15px; margin: 18px 0 6px; }
p { margin: 6px 0; }
a { color: var(--accent); }
code, pre, .place { font-family: ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; font-size: 13px; }
.note, .place { color: var(--dim); }
.note { font-size: 13.5px; }
nav { font-size: 14px; margin: 12px 0 0; }
nav a { margin-right: 14px; }
.facts { display: grid; grid-template-columns: repeat(auto-fill, minmax(128px, 1fr)); gap: 10px; margin: 18px 0; }
.fact { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 10px 12px; }
.fact b { display: block; font-size: 20px; font-weight: 600; }
.fact span { color: var(--dim); font-size: 13px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 8px; padding: 14px 16px;
  margin: 12px 0; }
.card > :first-child { margin-top: 0; }
.card > :last-child { margin-bottom: 0; }
summary { cursor: pointer; color: var(--accent); margin: 6px 0; }
.wide { overflow-x: auto; }
table { border-collapse: collapse; font-size: 13.5px; width: 100%; }
th { text-align: left; color: var(--dim); font-weight: 500; }
th, td { padding: 4px 12px 4px 0; border-bottom: 1px solid var(--line); vertical-align: top; overflow-wrap: anywhere; }
tr:last-child td { border-bottom: 0; }
td.number, th.number { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums; }
.bad { color: var(--bad); }
.hint { border-left: 3px solid var(--accent); padding-left: 10px; margin: 8px 0; }
pre { background: var(--code); border-radius: 6px; padding: 8px 0; margin: 8px 0; overflow-x: auto; }
pre span { display: block; padding: 0 12px; white-space: pre; min-width: max-content; }
pre span.here { background: var(--mark); }
pre i { display: inline-block; min-width: 44px; color: var(--dim); font-style: normal; user-select: none; }
svg text { font: 12px system-ui, sans-serif; fill: var(--text); }
svg .track { fill: var(--dim); font-size: 11px; }
svg .tick { stroke: var(--line); }
svg .cut { stroke: var(--bad); stroke-dasharray: 2 3; }
.time svg { width: 100%; height: auto; display: block; }
.bar rect { fill: var(--entry); }
.bar.capture rect { fill: var(--capture); }
.bar.stage rect { fill: var(--stage); }
.bar.kernel rect { fill: var(--kernel); }
.bar.segment rect { fill: var(--segment); }
.bar.aten rect { fill: var(--aten); }
.bar:hover rect, .graph g:hover rect { stroke: var(--text); stroke-width: 1.5; }
.graph { max-height: 620px; overflow: auto; border: 1px solid var(--line); border-radius: 6px; padding: 10px; }
.graph svg { display: block; }
.graph .edge { fill: none; stroke: var(--dim); stroke-opacity: 0.45; }
.graph rect { stroke: var(--line); fill: color-mix(in oklab, var(--hot) var(--heat), var(--cold)); }
.graph .call rect { fill: color-mix(in oklab, var(--hot) var(--heat), var(--call)); stroke-dasharray: 3 2; }
.key { display: inline-block; width: 12px; height: 12px; border-radius: 3px; margin: 0 5px -1px 14px;
  border: 1px solid var(--line); }
.key:first-child { margin-left: 0; }
.scale { display: inline-block; width: 90px; height: 12px; border-radius: 3px; margin: 0 8px -1px; border: 1px solid
  var(--line); background: linear-gradient(to right in oklab, var(--cold), var(--hot)); }
.live { display: block; width: 100%; height: 90px; }
.live path { fill: var(--stage); }
"""
