"""Checks the sizes in src/capture: lines of headers and files, and members (fields and functions) of classes.

A class is counted where it is defined: each field, function and constructor that it declares counts once, overloads
included; nested types, friends and functions that are deleted do not count.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path

MOST_HEADER_LINES = 200
MOST_FILE_LINES = 450
MOST_MEMBERS = 25
# What instructions do to objects, a function for each kind, and the tracer's front, which overrides and forwards them.
ALLOWED = {"Operations", "Tracer"}

COMMENT_OR_TEXT = re.compile(r'//[^\n]*|/\*.*?\*/|R"\((?:.|\n)*?\)"|"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', re.DOTALL)
CLASS = re.compile(r"\b(?:class|struct)\s+(?:\w+\s+)*?(\w+)(?:\s+final)?\s*(?::[^{};()]*)?\{")
NO_MEMBER = re.compile(r"^(?:using|friend|typedef|static_assert|class|struct|enum|union)\b|=\s*delete$")
LABEL = re.compile(r"^\s*(?:public|private|protected)\s*:")


def plain_text(source: str) -> str:
    """The source without comments, strings and preprocessor lines."""
    text = COMMENT_OR_TEXT.sub(lambda m: " " if m.group().startswith("/") else '""', source)
    return re.sub(r"^[ \t]*#(?:[^\n\\]|\\\n|\\.)*", "", text, flags=re.MULTILINE)


def end_of_block(text: str, start: int) -> int:
    """The position after the brace that closes the one at `start`."""
    depth = 0
    for at in range(start, len(text)):
        depth += (text[at] == "{") - (text[at] == "}")
        if depth == 0:
            return at + 1
    return len(text)


def declarations(body: str) -> Iterator[str]:
    """The declarations of a class body, each without what is in its braces and brackets."""
    said = ""
    at = 0
    while at < len(body):
        char = body[at]
        if char == "{":
            at = end_of_block(body, at)
            # A function ends with its body; a type or a field goes on to a semicolon.
            rest = body[at:].lstrip()
            if not rest.startswith((";", ",", "=")) and "(" in said and not NO_MEMBER.search(said.strip()):
                yield said
                said = ""
            else:
                said += "{}"
            continue
        if char == ";":
            yield said
            said = ""
        else:
            said += char
            if LABEL.match(said):
                said = ""
        at += 1


def without_brackets(text: str) -> str:
    """The text without what is in (), <> and []."""
    before = None
    while before != text:
        before = text
        text = re.sub(r"\([^()]*\)|<[^<>]*>|\[[^\[\]]*\]", "", text)
    return text


def members(body: str) -> int:
    count = 0
    for said in declarations(body):
        said = re.sub(r"^template\s*<[^;]*?>\s*(?:requires\s*\(.*?\)\s*)?", "", " ".join(said.split()))
        fields_of_type = re.match(r"^(?:class|struct|enum|union)\b.*\{\}\s*(\S.*)$", said)
        if fields_of_type:
            count += without_brackets(fields_of_type.group(1)).count(",") + 1
        elif said and not NO_MEMBER.search(said):
            is_function = re.match(r"^[^={]*\(", said) is not None
            count += 1 if is_function else without_brackets(said).count(",") + 1
    return count


def classes(source: str) -> Iterator[tuple[str, int]]:
    text = plain_text(source)
    for match in CLASS.finditer(text):
        if re.search(r"enum\s*$", text[: match.start()]):
            continue
        yield match.group(1), members(text[match.end() : end_of_block(text, match.end() - 1) - 1])


def problems(root: Path) -> Iterator[str]:
    for path in sorted((root / "src/capture").rglob("*")):
        if path.suffix not in (".h", ".cpp"):
            continue
        name = path.relative_to(root)
        source = path.read_text(encoding="utf-8")
        lines = len(source.splitlines())
        most = MOST_HEADER_LINES if path.suffix == ".h" else MOST_FILE_LINES
        if lines > most:
            yield f"{name}: {lines} lines, more than {most}; divide it by topic"
        for cls, count in classes(source):
            if count > MOST_MEMBERS and cls not in ALLOWED:
                yield f"{name}: {cls} has {count} members, more than {MOST_MEMBERS}; divide it by task"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the checkout")
    parser.add_argument("--list", action="store_true", help="the classes of src/capture, the largest first")
    arguments = parser.parse_args()
    if arguments.list:
        counted = [
            (count, cls, path.relative_to(arguments.root))
            for path in (arguments.root / "src/capture").rglob("*")
            if path.suffix in (".h", ".cpp")
            for cls, count in classes(path.read_text(encoding="utf-8"))
        ]
        for count, cls, path in sorted(counted, key=lambda row: -row[0]):
            print(f"{count:4} {cls} ({path})")
        return 0
    found = list(problems(arguments.root))
    for problem in found:
        print(problem)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
