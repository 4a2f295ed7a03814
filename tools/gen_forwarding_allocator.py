"""Writes the functions of an allocator that passes every call on to another one, from the installed torch's headers.

PyTorch's CUDA allocator is an abstract class whose functions differ from release to release. The output, to be included
in a class that derives from it and has a member `to_` (which points to the other allocator), overrides each virtual
function that the class does not write by hand. A declaration that the script cannot read is an error: nothing is left
out.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# From the base class to the allocator itself.
CLASSES = (
    ("c10/core/Allocator.h", "Allocator"),
    ("c10/core/CachingDeviceAllocator.h", "DeviceAllocator"),
    ("c10/cuda/CUDACachingAllocator.h", "CUDAAllocator"),
)

TYPE_WORDS = ["bool", "char", "double", "float", "int", "long", "short", "signed", "unsigned", "void"]
# Words that begin a declaration that is neither a function nor a member.
OTHERS = re.compile(r"(using|typedef|friend|static|static_assert|enum|class|struct|union|template)\b")


class Unreadable(Exception):
    """The headers differ from what this script can read."""


@dataclass(frozen=True)
class Function:
    result: str
    name: str
    parameters: tuple[str, ...]  # types
    constant: bool
    noexcept: bool
    final: bool

    @property
    def key(self) -> tuple[str, tuple[str, ...], bool]:
        """Equal for functions of which one overrides the other."""
        short = tuple(re.sub(r"\b(c10|at|std)::|\s", "", t) for t in self.parameters)
        return self.name, short, self.constant

    def text(self) -> str:
        named = ", ".join(f"{t} a{i}" for i, t in enumerate(self.parameters))
        passed = ", ".join(f"std::forward<{t}>(a{i})" for i, t in enumerate(self.parameters))
        qualifiers = " const" * self.constant + " noexcept" * self.noexcept
        return f"{self.result} {self.name}({named}){qualifiers} override {{ return to_->{self.name}({passed}); }}"


def without_comments(text: str) -> str:
    """The text without comments and without the contents of string literals, which may contain brackets."""
    return re.sub(
        r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"', lambda m: '""' if m[0][0] == '"' else " ", text, flags=re.DOTALL
    )


def closing(text: str, at: int) -> int:
    """The index of the bracket that closes the one at ``at``."""
    opened, closed, depth = text[at], {"(": ")", "{": "}"}[text[at]], 0
    for i in range(at, len(text)):
        depth += (text[i] == opened) - (text[i] == closed)
        if depth == 0:
            return i
    raise Unreadable(f"no {closed} closes: {text[at : at + 60]!r}")


def body_of(text: str, name: str, base: str | None) -> str:
    found = list(re.finditer(rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\b(?P<bases>[^;{{]*){{", text))
    if len(found) != 1:
        raise Unreadable(f"{len(found)} definitions of the class {name}")
    bases = " ".join(found[0]["bases"].split())
    if not re.fullmatch(rf": (public )?(c10::)?{base}" if base else "", bases):
        raise Unreadable(
            f"the class {name} derives from {bases.lstrip(': ') or 'nothing'}, not from {base or 'nothing'}"
        )
    body = text[found[0].end() : closing(text, found[0].end() - 1)]
    if directive := re.search(r"^\s*#.*", body, flags=re.MULTILINE):
        raise Unreadable(f"a directive in the class {name}: {directive[0].strip()}")
    return body


def declarations(body: str) -> list[str]:
    """The text before each ; or { of the class, without the bodies of functions."""
    out, start, i = [], 0, 0
    while i < len(body):
        if body[i] == "(":
            i = closing(body, i)
        elif body[i] == "{":
            out.append(body[start:i])
            i = closing(body, i)
            start = i + 1
        elif body[i] == ";":
            out.append(body[start:i])
            start = i + 1
        i += 1
    out.append(body[start:])
    plain = (re.sub(r"\b(public|protected|private)\s*:(?!:)|\[\[.*?\]\]", " ", d, flags=re.DOTALL) for d in out)
    return [" ".join(d.split()) for d in plain]


def apart(parameters: str) -> list[str]:
    out, depth, start = [], 0, 0
    for i, c in enumerate(parameters):
        depth += (c in "(<{[") - (c in ")>}]")
        if c == "," and depth == 0:
            out.append(parameters[start:i])
            start = i + 1
    last = parameters[start:].strip()
    return [p.strip() for p in out] + ([last] if last else [])


def type_of(parameter: str) -> str:
    parameter = parameter.split("=")[0].strip()
    if not re.fullmatch(r"[\w:\s&*]+(<[\w:\s&*<>,()]*>[\w:\s&*]*)?", parameter):
        raise Unreadable(f"cannot read the parameter: {parameter}")
    named = re.fullmatch(r"(?P<type>.*[\s&*>])(?P<name>[A-Za-z_]\w*)", parameter)
    if (
        not named
        or named["name"] in TYPE_WORDS
        or named["type"].split() in (["const"], ["struct"], ["class"], ["enum"])
    ):
        return parameter  # no name
    return named["type"].strip()


def function_of(declaration: str) -> Function | None:
    """None if this is a destructor or not a virtual function."""
    if not re.search(r"\b(virtual|override|final)\b", declaration):
        if "(" in declaration and not OTHERS.match(declaration):
            # Anything but a constructor or a function with a result may be a macro that declares functions.
            names = "|".join(name for _, name in CLASSES)
            if not re.match(rf"(explicit )?~?({names}) ?\(|[\w:<>,&* ]+[ &*>](\w+|operator.*?) ?\(", declaration):
                raise Unreadable(f"cannot read: {declaration}")
        return None
    found = re.match(r"(?:virtual )?(?P<result>.*?[\s&*>])?(?P<name>~?\w+) ?\(", declaration)
    if not found:
        raise Unreadable(f"cannot read: {declaration}")
    opened = found.end() - 1
    end = closing(declaration, opened)
    after = (
        r" ?(?P<const>const)? ?(?P<noexcept>noexcept)? ?(?P<override>override)? ?(?P<final>final)? ?(= ?(0|default))?"
    )
    rest = re.fullmatch(after, declaration[end + 1 :])
    result = (found["result"] or "").strip()
    if found["name"].startswith("~") and not result:
        return None
    if not rest or not re.fullmatch(r"[\w:<>,&*() ]+", result) or re.search(r"\b(virtual|inline|operator)\b", result):
        raise Unreadable(f"cannot read: {declaration}")
    parameters = tuple(type_of(p) for p in apart(declaration[opened + 1 : end]))
    return Function(result, found["name"], parameters, bool(rest["const"]), bool(rest["noexcept"]), bool(rest["final"]))


def virtual_functions(include: Path) -> list[Function]:
    """Each virtual function that is not final, once, as the most derived class declares it."""
    found: dict[tuple[str, tuple[str, ...], bool], Function] = {}
    base = None
    for header, name in CLASSES:
        text = without_comments((include / header).read_text(encoding="utf-8"))
        for declaration in declarations(body_of(text, name, base)):
            if function := function_of(declaration):
                found[function.key] = function
        base = name
    return [f for f in found.values() if not f.final]


def forwarded(include: Path, by_hand: dict[str, int]) -> list[Function]:
    """The functions except those named in ``by_hand``, which must have as many overloads as given there."""
    functions = virtual_functions(include)
    for name, overloads in by_hand.items():
        there = [f for f in functions if f.name == name]
        if len(there) != overloads:
            raise Unreadable(f"{len(there)} virtual functions {name}(), not {overloads}, which are written by hand")
    return [f for f in functions if f.name not in by_hand]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("include", type=Path, help="torch's folder of headers")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("by_hand", nargs="*", metavar="NAME[=OVERLOADS]", help="functions that the class writes itself")
    given = parser.parse_args()
    by_hand = {name: int(count or 1) for name, _, count in (item.partition("=") for item in given.by_hand)}
    try:
        functions = forwarded(given.include, by_hand)
    except (Unreadable, OSError) as e:
        print(f"gen_forwarding_allocator: {given.include}: {e}", file=sys.stderr)
        return 1
    lines = ["// Made by tools/gen_forwarding_allocator.py.", *(f.text() for f in functions), ""]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
