"""Checks what the documents say about the repository: names of files, of functions and types, and links.

A name in backticks that looks like a path (`guards/guard.h`, `tests/unit`, `rows_*.cpp`) is the end of the path of
exactly one file or folder; one with a star or braces of at least one. A name with `::` or `()` occurs in the sources.
A link that is no URL leads to a file, and its anchor to a heading of it.
"""

from __future__ import annotations

import argparse
import fnmatch
import functools
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# The documents about the code; of all others only the links are checked.
ABOUT_CODE = ("CONTRIBUTING.md", "docs/architecture.md", "docs/adding-an-op.md", "docs/cuda-graphs.md")
SOURCES = ("src/", "include/", "python/", "tests/", "tools/", "bench/")
SUFFIX = r"\.(h|cpp|py|pyi|sh|md|fbs|inc|cmake|in|map|toml|lock|txt)"
# Made by a build, or by a user.
NOT_TRACKED = re.compile(r"^(build|dist|~|/|\.venv|\.cache)")

CODE = re.compile(r"`([^`\n]+)`")
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)")
HEADING = re.compile(r"^#+ (.+)$", re.MULTILINE)
PATH = re.compile(rf"[\w.*{{}},-]+(/[\w.*{{}},-]+)*({SUFFIX}|/)?")
QUALIFIED = re.compile(r"~?\w+(::~?\w+)*(\(\))?")


@functools.cache
def tracked() -> tuple[str, ...]:
    """Files of the repository and their folders, new ones too."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout
    files = [name for name in listed.split("\0") if name and (ROOT / name).exists()]
    folders = {str(parent) for name in files for parent in Path(name).parents if str(parent) != "."}
    return (*files, *sorted(folders))


@functools.cache
def words() -> frozenset[str]:
    """Every identifier of the sources."""
    found: set[str] = set()
    for name in tracked():
        if name.startswith(SOURCES) and name.endswith((".h", ".cpp", ".py", ".pyi", ".fbs")):
            found.update(re.findall(r"\w+", (ROOT / name).read_text(encoding="utf-8")))
    return frozenset(found)


def expanded(pattern: str) -> list[str]:
    """`a/{b,c}.h` as `a/b.h` and `a/c.h`."""
    found = re.search(r"\{([^{}]*)\}", pattern)
    if not found:
        return [pattern]
    return [
        text
        for part in found[1].split(",")
        for text in expanded(pattern[: found.start()] + part + pattern[found.end() :])
    ]


def is_path(name: str) -> bool:
    if not PATH.fullmatch(name) or NOT_TRACKED.match(name):
        return False
    return bool(re.search(SUFFIX + "$", name)) or ("/" in name and not re.search(r"\d/\d", name))


def wrong_path(name: str) -> str | None:
    for each in expanded(name.rstrip("/")):
        matches = [path for path in tracked() if fnmatch.fnmatchcase("/" + path, "*/" + each)]
        if not matches:
            return "no file or folder has this name"
        if "*" not in each and len(matches) > 1 and each not in matches:
            return f"more than one has this name: {', '.join(matches[:4])}"
    return None


def wrong_name(name: str) -> str | None:
    missing = [word for word in re.findall(r"\w+", name) if word not in words()]
    return f"the sources have no {missing[0]}" if missing else None


def anchors(text: str) -> set[str]:
    """The anchors that a page's headings have."""
    headings = (re.sub(r"[`*]|\]\([^)]*\)|\[", "", h) for h in HEADING.findall(BLOCK.sub("", text)))
    return {re.sub(r"[^\w\- ]", "", h.strip().lower()).replace(" ", "-") for h in headings}


def wrong_link(page: Path, link: str) -> str | None:
    if re.match(r"[a-z]+:", link):
        return None
    target, _, anchor = link.partition("#")
    path = (page.parent / target) if target else page
    if not path.exists():
        return "there is no such file"
    if anchor and anchor not in anchors(path.read_text(encoding="utf-8")):
        return f"{path.name} has no such heading"
    return None


def faults(page: Path) -> Iterator[str]:
    about_code = str(page.relative_to(ROOT)) in ABOUT_CODE
    text = BLOCK.sub(lambda block: "\n" * block[0].count("\n"), page.read_text(encoding="utf-8"))
    for number, line in enumerate(text.splitlines(), 1):
        where = f"{page.relative_to(ROOT)}:{number}"
        for link in LINK.findall(CODE.sub("", line)):
            if fault := wrong_link(page, link):
                yield f"{where}: ({link}): {fault}"
        for name in CODE.findall(line) if about_code else ():
            fault = None
            if is_path(name):
                fault = wrong_path(name)
            elif ("::" in name or name.endswith("()")) and QUALIFIED.fullmatch(name):
                fault = wrong_name(name)
            if fault:
                yield f"{where}: `{name}`: {fault}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pages", nargs="*", type=Path, help="documents (default: all)")
    pages = [page.resolve() for page in parser.parse_args().pages]
    pages = pages or [ROOT / name for name in tracked() if name.endswith(".md")]
    found = [fault for page in pages for fault in faults(page)]
    print("\n".join([*found, f"{len(pages)} documents, {len(found)} wrong names and links"]))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
