"""A program for each graph break: examples.txt."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

import vesta
from vesta.errors import GraphBreak

_FILE = Path(__file__).with_name("examples.txt")

# Why no program of a few lines shows it.
WITHOUT_EXAMPLE = {
    "new-cached-function": "to make the cache is a break already (class-unknown)",
    "higher-order-operator": "calls of such operators have other breaks before this one in a short program",
    "checkpoint": "torch's code around an eager checkpoint has breaks that differ in the first call of a process",
    "torch-modes-changed": "functions that change such modes have other breaks before this one",
    "higher-order-kernel": "the operators of PyTorch have such kernels",
    "new-type-not-rebuilt": "to make a class of tensors is a break already (class-of-metaclass)",
    "member-set": "it needs a class that is written in C",
    "default-dict-method": "a subclass of defaultdict with such a method is asked as a Python class first",
    "symbolic-number": "the function is traced again with constants, so that the break is not reported",
    "foreign-symbol": "it needs a trace inside of another one",
    "operator-after-write": "it needs VESTA_GIL_HOLD=0, or a build of PyTorch that Vesta does not know",
    "random-state": "functions that set a seed are breaks already (unknown-function)",
    "tensor-not-reached": "functions that find hidden tensors are breaks already",
    "new-context-variable-read": "to make a context variable is a break already (class-unknown)",
    "new-context-variable-set": "to make a context variable is a break already (class-unknown)",
    "exception-at-work": "Vesta goes back to where the exception is raised and reports that break",
    "items-not-read": "it needs a container that fails when it is read twice",
    "value-not-read": "it needs a number that fails when it is read",
    "unknown-tensor": "it needs a bug",
    "symbolic-float": "it needs a bug",
    "not-a-function": "a test cannot compile the code of a module",
    "observed": "it needs a debugger",
    "run-failed": "it needs a graph that refuses arguments which its guards let pass",
    "compile-failed": "it needs a bug",
    "compiled-apart": "it needs a bug",
    "not-worth-it": "it depends on how long the machine needs",
    "trace-does-not-serve": "it needs a function that changes during its trace",
}


@dataclass
class Example:
    """``reported``: the names of all breaks of the program, the one that it shows among them."""

    source: str
    reported: set[str]


def examples() -> dict[str, Example]:
    """By the break's name. A line "# name" begins each; other breaks that the program has follow after "with"."""
    found: dict[str, Example] = {}
    name = ""
    for line in _FILE.read_text().splitlines(keepends=True):
        if line.startswith("# "):
            name, _, others = line[2:].strip().partition(" with ")
            found[name] = Example("", {name, *others.split()})
        else:
            found[name].source += line
    return found


def reported(source: str) -> set[str]:
    """The names of what the program's explanation, or its error under fullgraph=True, reports."""
    names: dict[str, Any] = {"torch": torch, "vesta": vesta, "__name__": __name__}
    try:
        exec(compile(source, "example", "exec"), names)
    except GraphBreak as e:
        return {e.name}
    captures = names["e"].explanation.captures
    return {b.name for c in captures for b in c.breaks} | {s.name for c in captures for s in c.skipped}
