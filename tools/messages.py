"""Writes docs/messages.md: every message that a user can meet, read from the sources.

    python tools/messages.py           prints the page
    python tools/messages.py --write   writes it
    python tools/messages.py --check   exits with 1 if the page is not what this script makes

The page is a proof sheet: read a changed message there as a user would. C++ messages are the string
literals of throwing macros, of `throw`, of the log and of functions that return reasons; Python messages those of
`raise`, of warnings and of `explain`. A {} stands for a value. Graph breaks and the help of commands are read from the
built package (`_C._graph_breaks()`, `vesta.command.parser()`), so it must be importable.
"""

from __future__ import annotations

import argparse
import ast
import io
import itertools
import os
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stdout
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "messages.md"

# How a call names the section of the page that its literals belong to.
SECTIONS = {
    "user": (
        "Errors of the caller",
        "Raised as `vesta.errors.UserError` (C++: `vesta::UserError`), or as an error of Python.",
    ),
    "eager": (
        "Why something runs eager",
        "Users see these texts as reasons in `vesta.explain` and in the log, and as errors with `strict`.",
    ),
    "internal": (
        "Bugs of Vesta",
        "`InternalError` reports a broken invariant or a damaged file. The program runs eager, and the log has the text"
        " once.",
    ),
    "log": (
        "Log lines and warnings",
        "Shown in the log (`VESTA_LOG`), once per text for warnings, or as a Python warning.",
    ),
    "explain": ("What explain shows", "Lines of `vesta.explain` and of reports."),
}

CPP_CALLS = {
    "VESTA_USER_CHECK": ("user", 1),
    "VESTA_UNSUPPORTED": ("eager", 0),
    "VESTA_CHECK": ("internal", 1),
    "VESTA_REQUIRE": ("internal", 1),
    "UserError": ("user", 0),
    "Unsupported": ("eager", 0),
    "NeedsValue": ("eager", 0),
    "InternalError": ("internal", 0),
    "warn_once": ("log", 0),
    "write": ("log", 1),
    "fall_back": ("eager", 0),
    "count_eager": ("eager", 0),
    "PyErr_SetString": ("user", 1),
    "PyErr_Format": ("user", 1),
    "type_error": ("user", 0),
    "value_error": ("user", 0),
}
CALL = re.compile(r"\b(" + "|".join(CPP_CALLS) + r")\s*\(")
# Functions that return a reason, or a part of a report, as text.
REASONS = re.compile(
    r"^ *(?:static )?(?:const )?std::(?:string|optional<std::string>)&? (?:\w+::)*"
    r"(?:why|reason|refus|what_|cannot|says_|missing|difference|mismatch)\w*\(",
    re.M,
)
# Functions that print a report.
REPORTS = re.compile(r"^ *std::string (?:to_string|variant_text|print|describe)\(", re.M)
REPORT_FILES = ("src/pipeline/report.cpp", "src/program/print.cpp")
LITERAL = re.compile(r'(?:R"\((?:.|\n)*?\)"|"(?:[^"\\\n]|\\.)*")')
# The evaluator raises what CPython raises, in its words.
CPYTHON = ("src/capture/python/interpreter/", "src/capture/python/frame/")
PYTHON_RAISES = {"UserError": "user", "Unsupported": "eager", "NeedsValue": "eager", "InternalError": "internal"}


class Message(NamedTuple):
    section: str
    file: str
    text: str


def without_comments(text: str) -> str:
    """C++ with its comments blanked, literals kept."""
    return re.sub(
        r'("(?:[^"\\\n]|\\.)*")|//[^\n]*|/\*(?:.|\n)*?\*/',
        lambda m: m[1] or re.sub(r"[^\n]", " ", m[0]),
        text,
    )


def after_literal(text: str, at: int) -> int:
    """The position after the string or character literal that begins at `at`; `at` itself if none begins there."""
    if text[at] == '"':
        return LITERAL.match(text, at).end()  # type: ignore[union-attr]
    if text[at] == "'" and not text[at - 1].isalnum():
        return text.index("'", at + 2 if text[at + 1] == "\\" else at + 1) + 1
    return at


def arguments(text: str, start: int) -> list[str]:
    """The arguments of the call whose opening parenthesis is before `start`."""
    out, depth, begin, i = [], 0, start, start
    while i < len(text):
        if (after := after_literal(text, i)) > i:
            i = after
            continue
        if text[i] in "([{":
            depth += 1
        elif text[i] in ")]}":
            if depth == 0:
                out.append(text[begin:i])
                return out
            depth -= 1
        elif text[i] == "," and depth == 0:
            out.append(text[begin:i])
            begin = i + 1
        i += 1
    return out


def joined(text: str) -> Iterator[str]:
    """The literals in a piece of C++; adjacent ones are one text."""
    at, current = 0, None
    for m in LITERAL.finditer(text):
        piece = m[0][1:-1] if m[0].startswith('"') else m[0][3:-2]
        piece = piece.replace('\\"', '"').replace("\\n", "\n")
        if current is not None and not text[at : m.start()].strip():
            current += piece
        else:
            if current is not None:
                yield current
            current = piece
        at = m.end()
    if current is not None:
        yield current


def body_of(text: str, start: int) -> str:
    """The block in braces that begins after `start`."""
    begin = text.index("{", start)
    depth, i = 0, begin
    while True:
        if (after := after_literal(text, i)) > i:
            i = after
            continue
        depth += {"{": 1, "}": -1}.get(text[i], 0)
        i += 1
        if depth == 0:
            return text[begin:i]


def is_text(literal: str) -> bool:
    """Whether people read it: at least two words, not code."""
    words = re.findall(r"[A-Za-z]{2,}", literal)
    return len(words) > 1 and " " in literal.strip() and "(?P<" not in literal


def cpp_messages(path: Path) -> Iterator[Message]:
    text = without_comments(path.read_text())
    name = path.relative_to(ROOT).as_posix()
    for m in CALL.finditer(text):
        section, first = CPP_CALLS[m[1]]
        line = text[text.rfind("\n", 0, m.start()) + 1 : m.start()]
        if line.endswith(("class ", "class VESTA_API ")) or "#define" in line:
            continue
        if m[1] == "write" and not text[: m.start()].endswith("log::"):
            continue
        for argument in arguments(text, m.end())[first:]:
            for literal in joined(argument):
                if is_text(literal):
                    yield Message(section, name, literal)
    reports = [("explain", m) for m in REPORTS.finditer(text)] if name in REPORT_FILES else []
    for section, m in [*(("eager", m) for m in REASONS.finditer(text)), *reports]:
        end = text.find(")", m.end())
        after = text[end : end + 200]
        if "{" not in after or (";" in after and after.index(";") < after.index("{")):
            continue
        for literal in joined(body_of(text, m.end())):
            if is_text(literal):
                yield Message(section, name, literal)


def python_text(node: ast.expr) -> str | None:
    """The text of a string, an f-string or a sum of them; values are {}."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(str(v.value) if isinstance(v, ast.Constant) else "{}" for v in node.values)
    return None


def texts_in(node: ast.AST) -> Iterator[str]:
    text = python_text(node) if isinstance(node, ast.expr) else None
    if text is not None:
        if is_text(text):
            yield text
        if not isinstance(node, ast.JoinedStr):
            return
        for part in node.values:
            if isinstance(part, ast.FormattedValue):
                yield from texts_in(part.value)
        return
    for child in ast.iter_child_nodes(node):
        yield from texts_in(child)


def called(node: ast.AST) -> str:
    if not isinstance(node, ast.Call):
        return ""
    return node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")


def python_messages(path: Path) -> Iterator[Message]:
    name = path.relative_to(ROOT).as_posix()
    tree = ast.parse(path.read_text())
    shows = path.name.startswith(("explain", "misses", "command", "saving", "errors"))
    done: set[int] = set()
    for node in ast.walk(tree):
        section = PYTHON_RAISES.get(called(node), "log" if called(node) == "warn" else "")
        if isinstance(node, ast.Raise) and node.exc and called(node.exc) not in PYTHON_RAISES:
            section = "user"
        if section:
            for part in ast.walk(node):
                done.add(id(part))
            yield from (Message(section, name, text) for text in texts_in(node))
    if not shows:
        return
    documentation = {
        id(n.body[0].value)
        for n in ast.walk(tree)
        if isinstance(n, ast.Module | ast.ClassDef | ast.FunctionDef) and n.body and isinstance(n.body[0], ast.Expr)
    }
    documentation |= {id(n.value) for n in ast.walk(tree) if isinstance(n, ast.Expr)}
    inner = {id(v) for n in ast.walk(tree) if isinstance(n, ast.JoinedStr) for v in n.values}
    help_of = {id(p) for n in ast.walk(tree) if called(n) in ("add", "add_argument", "add_parser") for p in ast.walk(n)}
    for node in ast.walk(tree):
        if id(node) in done or id(node) in documentation or id(node) in inner or id(node) in help_of:
            continue
        text = python_text(node) if isinstance(node, ast.expr) else None
        if text and is_text(text):
            yield Message("explain", name, text)


def help_texts() -> Iterator[tuple[str, str]]:
    """The help of the command `vesta` and of each of its commands."""
    from vesta.command import parser

    def walk(p: argparse.ArgumentParser) -> Iterator[tuple[str, str]]:
        out = io.StringIO()
        with redirect_stdout(out):
            p.print_help()
        yield p.prog, out.getvalue().rstrip()
        for action in p._actions:
            if isinstance(action, argparse._SubParsersAction):
                for child in dict.fromkeys(action.choices.values()):
                    yield from walk(child)

    os.environ["COLUMNS"] = "100"
    yield from walk(parser())


def messages() -> list[Message]:
    found: list[Message] = []
    for path in sorted((ROOT / "python" / "vesta").glob("*.py")):
        found += python_messages(path)
    for folder in ("python/bindings", "include", "src"):
        for path in sorted((ROOT / folder).rglob("*")):
            if path.suffix in (".h", ".cpp") and not path.relative_to(ROOT).as_posix().startswith(CPYTHON):
                found += cpp_messages(path)
    return found


def shown(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def page() -> str:
    from vesta import _C

    lines = [
        "# Messages",
        "",
        "<!-- written by: python tools/messages.py --write -->",
        "",
        "Every message that a user can meet, as the sources have it. {} and %s are values. Errors that the evaluator",
        "of bytecode raises as CPython does are left out. Graph breaks have a page with examples: [breaks](breaks.md).",
    ]
    found = messages()
    for section, (title, text) in SECTIONS.items():
        lines += ["", f"## {title}", "", text]
        for file, texts in itertools.groupby((m for m in found if m.section == section), key=lambda m: m.file):
            lines += ["", f"`{file}`", ""]
            lines += dict.fromkeys(f"- {shown(m.text)}" for m in texts)
    lines += ["", "## Graph breaks", "", "| name | reason | why | what to do |", "|---|---|---|---|"]
    lines += [f"| {' | '.join(map(shown, row))} |" for row in _C._graph_breaks()]
    lines += ["", "## Help of the command vesta"]
    for name, text in help_texts():
        lines += ["", f"`{name} --help`", "", "```text", text, "```"]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.relative_to(ROOT)}")
    parser.add_argument("--check", action="store_true", help="exit with 1 if the page differs from the sources")
    options = parser.parse_args()
    text = page()
    if options.check:
        if PAGE.exists() and PAGE.read_text() == text:
            return 0
        print(f"{PAGE.relative_to(ROOT)} is not up to date: run python tools/messages.py --write", file=sys.stderr)
        return 1
    if options.write:
        PAGE.write_text(text)
    else:
        print(text, end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
