"""Random Python functions are the same plain and compiled; the generator and its shrinking."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vesta
from tests.capture.random_functions import Batch, Failure, difference, kind_of, run, shrink
from tests.capture.random_statements import generate
from tests.capture.semantics import observe
from tests.capture.statements import count

needs_capture = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


def check(seeds: range, compile: str) -> None:
    batches = [Batch(tuple(seeds[at : at + 50]), compile) for at in range(0, len(seeds), 50)]
    found = [Failure(batch.program(at), kind_of(text), text) for batch, at, text in run(batches, jobs=2) if text]
    shown = [str(shrink(failure, compile, 30.0)) for failure in found[:2]] + [
        f"seed {f.program.seed}" for f in found[2:]
    ]
    assert not found, "\n\n".join(shown)


@needs_capture
def test_compiled_as_plain() -> None:
    check(range(100), "vesta:compile")


@needs_capture
@pytest.mark.slow
def test_many_compiled_as_plain() -> None:
    check(range(1000, 3000), "vesta:compile")


def test_plain_as_plain() -> None:
    check(range(40), "plain")


def forgets_lists(function: Any) -> Callable[..., Any]:
    """A compiler that is wrong where the function appends to the list among its arguments."""
    return lambda x, y, n, xs, *rest: function(x, y, n, list(xs), *rest)


def test_a_difference_is_found_and_shrunk(tmp_path: Path) -> None:
    compile = f"{__name__}:forgets_lists"
    for seed in range(40):
        found = difference(generate(seed), forgets_lists, tmp_path)
        if kind_of(found) == "wrong" and found:
            shrunk = shrink(Failure(generate(seed), "wrong", found), compile, 30.0)
            assert count(shrunk.program.body) <= 4, str(shrunk)
            return
    raise AssertionError("no function of these appends to its list")


def test_functions_return_more_often_than_they_raise(tmp_path: Path) -> None:
    outcomes = []
    for seed in range(60):
        path = tmp_path / f"random_{seed}.py"
        path.write_text(generate(seed).text())
        outcomes += [observation.outcome for observation in observe(path, "program", lambda function: function)]
    assert outcomes.count("returned") > len(outcomes) / 2
    assert len(set(outcomes)) > 4


def test_functions_use_most_of_the_language() -> None:
    used = {type(node).__name__ for seed in range(150) for node in ast.walk(ast.parse(generate(seed).text()))}
    wanted = (
        "For While Try With If Match ListComp GeneratorExp DictComp SetComp Lambda Yield YieldFrom Nonlocal Global "
    )
    wanted += (
        "Starred NamedExpr JoinedStr AugAssign AnnAssign Delete Assert Raise Break Continue ClassDef IfExp Subscript"
    )
    assert set(wanted.split()) <= used, set(wanted.split()) - used
