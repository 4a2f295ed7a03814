"""docs/breaks.md from the table of breaks and its examples.

python -m tests.capture.breaks.page          says whether the page is up to date
python -m tests.capture.breaks.page --write  writes it
"""

from __future__ import annotations

import sys
from pathlib import Path

from tests.capture.breaks.examples import WITHOUT_EXAMPLE, examples
from vesta import _C

PAGE = Path(__file__).parents[3] / "docs" / "breaks.md"
_HEAD = """# Graph breaks

Written by `python -m tests.capture.breaks.page --write`; do not edit.

A graph break is an instruction that Vesta leaves to Python. The code before and after it is compiled. `vesta.explain`,
the report and the error of `fullgraph=True` name each break; the names are the headings of this page. A `{}` in a
reason stands for a name of the program, or for what an operator said.

The examples need `import torch, vesta`. Each is executed by a test, which checks the name that Vesta reports.

"""


def page() -> str:
    programs = examples()
    parts = []
    for name, text, why, hint in _C._graph_breaks():
        said = "What the operator or the compiler says is the reason." if text == "{}" else f"Reason: {text}."
        lines = [f"## {name}", said, why, f"What to do: {hint}."]
        if name in programs:
            lines.append(f"```python\n{programs[name].source.strip()}\n```")
        else:
            lines.append(f"There is no example: {WITHOUT_EXAMPLE[name]}.")
        parts.append("\n\n".join(lines))
    return _HEAD + "\n\n".join(parts) + "\n"


def main() -> int:
    if "--write" in sys.argv[1:]:
        PAGE.write_text(page())
    elif PAGE.read_text() != page():
        print(f"{PAGE.name} is out of date: python -m tests.capture.breaks.page --write", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
