"""Writes the README's table of what capture costs: `python -m bench.readme [results.json]`."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from bench.processes import COMPILERS, ROOT, TITLES

BEGIN, END = "<!-- capture: python -m bench.readme -->\n", "<!-- end of capture -->\n"


def text(row: dict[str, Any], compiler: str) -> str:
    value = row["values"].get(compiler)
    if value is None:
        return "-"
    return f"{value:.2g} {row['unit']}" if abs(value) < 100 else f"{value:.0f} {row['unit']}"


def table(rows: list[dict[str, Any]]) -> str:
    lines = ["| | " + " | ".join(TITLES[c] for c in COMPILERS) + " |", "|---" * (len(COMPILERS) + 1) + "|"]
    lines += [f"| {row['name']} | " + " | ".join(text(row, c) for c in COMPILERS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> None:
    results = Path(sys.argv[1]) if len(sys.argv) > 1 else ROOT / "build" / "bench" / "results.json"
    rows = json.loads(results.read_text())["capture"]
    if not rows:
        sys.exit(f"{results} has no capture section")
    readme = ROOT / "README.md"
    before, rest = readme.read_text().split(BEGIN)
    readme.write_text(before + BEGIN + table(rows) + END + rest.split(END)[1])


if __name__ == "__main__":
    main()
