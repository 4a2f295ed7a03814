"""Fails on words of a private vocabulary: docs/glossary.md has the word for each thing.

    python tools/check_words.py [FILE...]     checks the tracked files of FOLDERS, or only these

A row of WORDS is a regular expression (whole words, case as written) and what to write instead. A row of ALLOWED names
a file, or a folder that ends in "/", in which a row does not apply.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]
MOST_TERMS = 40

FOLDERS: tuple[str, ...] = (
    "src",
    "include",
    "python",
    "docs",
    "bench",
    "tools",
    "examples",
    "cmake",
    "README.md",
    "CHANGELOG.md",
)
FOLDERS += ("CONTRIBUTING.md", "CMakeLists.txt", "Makefile")

WORDS: dict[str, str] = {
    "[Dd]oors?|front door": "entry point",
    "[Rr]oads?": "pipeline",
    "[Tt]wins?": "wrapper",
    "[Ss]tand-ins?|stand_ins?|StandIns?": "fake tensor",
    "[Ss]tands? in (?:for|the place)": "replaces",
    "[Ss]ettle[sd]?|settling": "guard by value, guard by identity",
    "[Aa]dopt(?:s|ed|ing)?": "track, wrap",
    "[Vv]arying": "symbolic scalar",
    "(?:give|gives|gave)_up|GiveUp": "graph break, abandon",
    "Held|Home": "memory reference, index map",
    "Recipes?|recipes?": "reconstruction",
    "Memo|memos?": "guard cache",
    "Seen": "shape history",
    "Arrivals?|arrivals?": "hook scope",
    "Exclusive": "GIL hold",
    "[Ll]ibrary pass(?:es)?": "oneDNN pass",
    "[Dd]erived weights?": "prepacked constant",
    "[Hh]eadless": "a sentence with its subject",
    "[Ss]omebody|[Ww]hoever": "name who it is",
    "(?:is|are|was|were) no part of": "is not part of",
    "(?:lets?|letting) go of": "releases",
    "go(?:es)? backward": "has a backward pass",
    "goes away|went away": "is destroyed",
    "of which others are told": "a weak reference or finalizer observes",
    "called without what": "a complete sentence",
    "so long as there is": "while there is",
    "in the guise of": "as",
}

ALLOWED: dict[str, tuple[str, ...]] = {
    "tools/check_words.py": tuple(WORDS),
    # Names that others gave: models, sentences of an example, Python's argument of __deepcopy__.
    "docs/models.md": ("[Tt]wins?",),
    "examples/python/sentence_encoder.py": ("Recipes?|recipes?",),
    "python/vesta/compiled_function.py": ("Memo|memos?",),
    "python/vesta/compiled_module.py": ("Memo|memos?",),
}


def allowed(path: str, word: str) -> bool:
    return any(
        word in words and (path == place or (place.endswith("/") and path.startswith(place)))
        for place, words in ALLOWED.items()
    )


def check(path: str) -> list[str]:
    """One line for each use of a word in the file."""
    try:
        lines = (ROOT / path).read_text().splitlines()
    except (UnicodeDecodeError, IsADirectoryError, FileNotFoundError):
        return []
    rules = [
        (re.compile(rf"(?<![\w-])(?:{word})(?![\w-])"), use) for word, use in WORDS.items() if not allowed(path, word)
    ]
    return [
        f'{path}:{number}: "{found[0]}": write {use}: {line.strip()[:90]}'
        for number, line in enumerate(lines, 1)
        for rule, use in rules
        if (found := rule.search(line))
    ]


def terms() -> int:
    """How many words the glossary has."""
    return sum(line.startswith("| ") for line in (ROOT / "docs/glossary.md").read_text().splitlines()) - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("files", nargs="*", help="files to check (default: every tracked file of the checked folders)")
    parser.add_argument("--quiet", action="store_true", help="print only the number of uses")
    options = parser.parse_args()
    files = options.files or subprocess.run(
        ["git", "ls-files", *FOLDERS], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    uses = [use for path in files if path for use in check(path)]
    if not options.quiet:
        print("\n".join(uses), end="\n" if uses else "")
    if uses:
        print(f"check_words: {len(uses)} uses of private words (tools/check_words.py has the table)", file=sys.stderr)
    if terms() > MOST_TERMS:
        print(f"check_words: docs/glossary.md has {terms()} words, more than {MOST_TERMS}", file=sys.stderr)
    return int(bool(uses) or terms() > MOST_TERMS)


if __name__ == "__main__":
    sys.exit(main())
