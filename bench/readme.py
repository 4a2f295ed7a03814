"""Writes the README's tables from a benchmark's results: `python -m bench.readme [results.json]`, and
`python -m bench.readme build/bench/peers.json` for those of `make bench-peers`.

A section that was not measured stays as it is.
"""

from __future__ import annotations

import argparse
import json
import statistics
from pathlib import Path
from typing import Any

from bench.peers.engines import TITLES as ENGINE_TITLES
from bench.peers.results import Results
from bench.processes import COMPILERS, ROOT, TITLES


def marks(section: str) -> tuple[str, str]:
    return f"<!-- {section}: python -m bench.readme -->\n", f"<!-- end of {section} -->\n"


def cell(row: dict[str, Any], compiler: str) -> str:
    value = row["values"].get(compiler)
    if value is None:
        return "-"
    return f"{value:.2g} {row['unit']}" if abs(value) < 100 else f"{value:.0f} {row['unit']}"


def titled(compilers: tuple[str, ...]) -> str:
    return " | ".join(TITLES[c] for c in compilers)


def capture_table(rows: list[dict[str, Any]]) -> str:
    lines = [f"| | {titled(COMPILERS)} |", "|---" * (len(COMPILERS) + 1) + "|"]
    lines += [f"| {row['name']} | " + " | ".join(cell(row, c) for c in COMPILERS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def model_table(models: dict[str, dict[str, Any]]) -> str:
    some = COMPILERS[1:]

    def warm_ms(run: dict[str, Any]) -> str:
        beyond = run.get("warm_beyond_s")
        return f"{1e3 * statistics.median(beyond):.0f}" if beyond else "-"

    def loaded_ms(run: dict[str, Any]) -> str:
        beyond = run.get("loaded_beyond_s")
        return f"{1e3 * statistics.median(beyond):.0f}" if beyond else "-"

    def figure(runs: dict[str, Any], compiler: str, show: Any) -> str:
        run = runs.get(compiler)
        return "-" if run is None or run["failure"] or not run["rounds_s"] else str(show(run))

    head = [
        "model",
        *(f"first call s: {TITLES[c]}" for c in some),
        *(f"warm ms: {TITLES[c]}" for c in COMPILERS),
        "loaded ms",
    ]
    head += [f"steady: {TITLES[c]}" for c in some]
    lines = ["| " + " | ".join(head) + " |", "|---" * len(head) + "|"]
    for name, runs in models.items():
        cells = [figure(runs, c, lambda r: f"{r['first_s']:.2g}") for c in some]
        cells += [figure(runs, c, warm_ms) for c in COMPILERS] + [figure(runs, "vesta", loaded_ms)]
        cells += [figure(runs, c, lambda r: f"{statistics.median(r['ratios'] or [0.0]):.2f}") for c in some]
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def measured(timing: dict[str, Any]) -> list[float]:
    """The ratios of a row, which was measured once or twice."""
    return [timing["ratio"], *([timing["again"]["ratio"]] if timing.get("again") else [])]


def sweep_table(modes: dict[str, dict[str, Any]]) -> str:
    lines = [
        "| | rows | operators | geometric mean | slow rows | lowest ratios above 5 µs |",
        "|---" * 6 + "|",
    ]
    for mode, s in modes.items():
        lowest = ", ".join(f"{t['name']} {t['size']} {max(measured(t)):.2f}" for t in s["worst"])
        lines.append(f"| {mode} | {s['rows']} | {s['operators']} | {s['mean']:.2f} | {s['slow']} | {lowest} |")
    return "\n".join(lines) + "\n"


def peers_table(cells: list[dict[str, Any]]) -> str:
    """Of `make bench-peers`, whose results are in a file of their own."""
    peers = Results.of_data({"machine": {}, "peers": cells, "products": [], "decode": {}}).peers
    engines = [e for e in ENGINE_TITLES if any(e in c.runs for c in peers)]
    titles = [ENGINE_TITLES[e] for e in engines]
    head = ["model", "batch", "eager", *titles, "better / Vesta", f"first call s: {' / '.join(titles)}"]
    lines = [
        "Milliseconds of a call, and the time of the better of the two engines divided by Vesta's in the same round:",
        "",
        "| " + " | ".join(head) + " |",
        "|---" * len(head) + "|",
    ]
    for cell in peers:
        runs = [cell.runs.get(e) for e in engines]
        eager = [r.eager_s for r in cell.runs.values() if r.pairs]
        row = [cell.name, str(cell.batch), f"{1e3 * statistics.median(eager):.3g}" if eager else "-"]
        row += [
            "-" if r is None else "fails" if r.failure else f"{1e3 * r.engine_s:.3g}" if r.is_right else "differs"
            for r in runs
        ]
        row.append("-" if cell.over_better is None else f"{cell.over_better:.2f}")
        row.append(" / ".join("-" if r is None else "fails" if r.failure else f"{r.first_s:.2g}" for r in runs))
        lines.append("| " + " | ".join(row) + " |")
    return "\n".join(lines) + "\n"


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.readme", description=__doc__)
    parser.add_argument(
        "file", nargs="?", type=Path, default=ROOT / "build" / "bench" / "results.json", help="default: %(default)s"
    )
    results = json.loads(parser.parse_args().file.read_text())
    page = ROOT / "README.md"
    text = page.read_text()
    for section, made in (
        ("models", model_table),
        ("peers", peers_table),
        ("capture", capture_table),
        ("sweep", sweep_table),
    ):
        begin, end = marks(section)
        if results.get(section):
            before, rest = text.split(begin)
            text = before + begin + made(results[section]) + end + rest.split(end)[1]
    page.write_text(text)


if __name__ == "__main__":
    main()
