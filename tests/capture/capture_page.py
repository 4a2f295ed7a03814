"""The worked example of docs/capture.md: the program of examples/python/explain.py and what it prints.

``python -m tests.capture.capture_page`` writes it anew.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "capture.md"
EXAMPLE = ROOT / "examples" / "python" / "explain.py"
BEGIN, END = "<!-- example: python -m tests.capture.capture_page -->\n", "<!-- end of the example -->\n"


def program() -> str:
    """The function and the loop, without the file's frame."""
    text = EXAMPLE.read_text()
    function = text[text.index("def step") : text.index("\n\ndef main")]
    calls = text[text.index("    explain = ") : text.index('\n\nif __name__ == "')]
    return function + "\n\n" + re.sub("^    ", "", calls, flags=re.MULTILINE)


def printed() -> str:
    done = subprocess.run([sys.executable, str(EXAMPLE)], capture_output=True, text=True, check=True, timeout=300)
    return done.stdout


def example() -> str:
    return f"{BEGIN}```python\n{program().strip()}\n```\nprints\n```text\n{printed().strip()}\n```\n{END}"


def written() -> str:
    """The example in the page."""
    page = PAGE.read_text()
    return page[page.index(BEGIN) : page.index(END) + len(END)]


def story(text: str) -> str:
    """Without times, bytes and guards; the guards differ in other versions of Python and torch."""
    text = re.sub(r"  guards\n(    .*\n)+", "", text)
    differs = r"\d+ guards?|\d+(\.\d+)?(?= [KM]iB)|\d+\.\d+(?= ms)|(?<= )\d+\.\d+(?=,|$)"
    return re.sub(differs, "-", text, flags=re.MULTILINE)


if __name__ == "__main__":
    PAGE.write_text(PAGE.read_text().replace(written(), example()))
