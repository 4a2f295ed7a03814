"""Writes the body of an allocator that passes every call on to another one, from the headers of the torch at hand.

PyTorch's CUDA allocator is an abstract class whose functions differ from release to release. The output, to be included
in a class that derives from it and has a member `to_` (a pointer to the other allocator), overrides each virtual
function that the class does not write by hand.
"""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path

# From the root of the classes to the allocator itself.
CLASSES = (
    ("c10/core/Allocator.h", "Allocator"),
    ("c10/core/CachingDeviceAllocator.h", "DeviceAllocator"),
    ("c10/cuda/CUDACachingAllocator.h", "CUDAAllocator"),
)


class Unreadable(Exception):
    """The headers are not as this script knows them."""


@dataclass(frozen=True)
class Function:
    result: str
    name: str
    parameters: tuple[str, ...]  # types
    constant: bool

    @property
    def key(self) -> tuple[str, tuple[str, ...], bool]:
        return self.name, tuple(t.replace("c10::", "").replace("at::", "") for t in self.parameters), self.constant

    def text(self) -> str:
        named = ", ".join(f"{t} a{i}" for i, t in enumerate(self.parameters))
        passed = ", ".join(f"std::forward<{t}>(a{i})" for i, t in enumerate(self.parameters))
        constant = " const" if self.constant else ""
        return f"{self.result} {self.name}({named}){constant} override {{ return to_->{self.name}({passed}); }}"


def without_comments(text: str) -> str:
    return re.sub(r"//[^\n]*|/\*.*?\*/", " ", text, flags=re.DOTALL)


def closing(text: str, at: int) -> int:
    """The place of the bracket that closes the one at ``at``."""
    pairs = {"(": ")", "{": "}", "<": ">", "[": "]"}
    opened, closed, depth = text[at], pairs[text[at]], 0
    for i in range(at, len(text)):
        depth += (text[i] == opened) - (text[i] == closed)
        if depth == 0:
            return i
    raise Unreadable(f"no {closed} closes: {text[at : at + 60]!r}")


def body_of(text: str, name: str) -> str:
    found = re.search(rf"\b(?:class|struct)\s+(?:\w+\s+)?{name}\b[^;{{]*{{", text)
    if not found:
        raise Unreadable(f"there is no class {name}")
    return text[found.end() : closing(text, found.end() - 1)]


def declarations(body: str) -> list[str]:
    """What stands before each ; or { of the class, without the bodies of functions."""
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
    return [" ".join(re.sub(r"\b(public|protected|private)\s*:", " ", d).split()) for d in out]


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
    found = re.fullmatch(r"(?P<type>.*[\s&*>])(?P<name>[A-Za-z_]\w*)", parameter)
    if not found or found["type"].split() in (["const"], ["unsigned"]):
        return parameter
    return found["type"].strip()


def functions_of(body: str) -> list[Function]:
    out = []
    for declaration in declarations(body):
        virtual = re.match(r"virtual\b", declaration)
        if not virtual and not re.search(r"\boverride\b", declaration):
            continue
        found = re.match(r"(?:virtual\s+)?(?P<result>.*?[\s&*>])?(?P<name>~?\w+)\s*\(", declaration)
        if not found:
            raise Unreadable(f"cannot read: {declaration}")
        if found["name"].startswith("~"):
            continue
        opened = declaration.index("(", found.start("name"))
        end = closing(declaration, opened)
        rest = declaration[end + 1 :]
        if not found["result"] or not re.fullmatch(r"\s*(const)?\s*(noexcept)?\s*(override)?\s*(=\s*0)?\s*", rest):
            raise Unreadable(f"cannot read: {declaration}")
        parameters = tuple(type_of(p) for p in apart(declaration[opened + 1 : end]))
        out.append(Function(found["result"].strip(), found["name"], parameters, "const" in rest.split()))
    return out


def forwarded(include: Path, by_hand: set[str]) -> list[Function]:
    """Each virtual function once, as the most derived class declares it."""
    found: dict[tuple[str, tuple[str, ...], bool], Function] = {}
    for header, name in CLASSES:
        text = without_comments((include / header).read_text(encoding="utf-8"))
        for function in functions_of(body_of(text, name)):
            found[function.key] = function
    missing = by_hand - {f.name for f in found.values()}
    if missing:
        raise Unreadable(f"the headers have no virtual {', '.join(sorted(missing))}")
    return [f for f in found.values() if f.name not in by_hand]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("include", type=Path, help="torch's folder of headers")
    parser.add_argument("out", type=Path, help="the file to write")
    parser.add_argument("by_hand", nargs="*", help="functions that the class writes itself")
    given = parser.parse_args()
    try:
        functions = forwarded(given.include, set(given.by_hand))
    except Unreadable as e:
        print(f"gen_forwarding_allocator: {given.include}: {e}", file=sys.stderr)
        return 1
    lines = ["// Made by tools/gen_forwarding_allocator.py.", *(f.text() for f in functions), ""]
    given.out.parent.mkdir(parents=True, exist_ok=True)
    given.out.write_text("\n".join(lines), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
