#!/usr/bin/env python3
"""Writes src/graph/ops/schemas.inc: the schema of every row of the op table, read from the installed torch.

The texts must hold for every supported torch version; `--check` compares the file with the installed one.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

import torch

GRAPH = Path(__file__).resolve().parent.parent / "src" / "graph"
TARGET = GRAPH / "ops" / "schemas.inc"
TEXT = re.compile(r'"([^"\n]*)"')
NAME = re.compile(r"aten::[A-Za-z0-9_]+(?:\.[A-Za-z0-9_]+)?")


def row_names() -> list[str]:
    """Every operator named in the row files: the rows, and the operators that decompositions emit."""
    names: set[str] = set()
    for path in sorted([*GRAPH.glob("ops/*.cpp"), *GRAPH.glob("rules/*.cpp")]):
        words = [word for text in TEXT.findall(path.read_text()) for word in text.split()]
        names.update(filter(NAME.fullmatch, words))
    return sorted(names)


def schema_of(name: str) -> str | None:
    operator, _, overload = name.partition(".")
    try:
        return str(torch._C._get_schema(operator, overload))
    except RuntimeError:
        return None


def render() -> str:
    lines = []
    for name in row_names():
        schema = schema_of(name)
        if schema is None:
            print(f"no such operator in torch {torch.__version__}: {name}", file=sys.stderr)
            continue
        escaped = schema.replace("\\", "\\\\").replace('"', '\\"')
        lines.append(f'"{escaped}",')
    return "// Written by tools/gen_schemas.py; sorted by operator.\n" + "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="fail if the file differs from the installed torch")
    text = render()
    if parser.parse_args().check:
        if TARGET.read_text() != text:
            print(f"{TARGET} does not match torch {torch.__version__}", file=sys.stderr)
            return 1
        return 0
    TARGET.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
