"""Vesta's evaluator of bytecode does what CPython's does, whole frames and frames that CPython takes over midway."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import vesta
from tests.capture.case import FOLDER
from tests.capture.cpython_tests import FILES, available, failures
from tests.capture.running import run
from tests.capture.semantics import Task

LANGUAGE = """
test_grammar test_generators test_with test_except_star test_exception_group test_scope test_super test_descr test_patma
test_unpack_ex test_listcomps test_contextlib test_raise test_extcall test_yield_from
"""
CASES = ["exceptions", "generators", "with_blocks", "match_statements", "comprehensions", "frames"]
# Asks for attributes of the compiled callable, which this one has not.
LEFT_OUT = {"with_a_docstring"}
# Depth of recursion: frames in a hook take C's stack, and CPython's own count of that before 3.14 is coarse.
DEEP = {"test_call.TestRecursion.test_super_deep", "test_functools.TestLRUPy.test_lru_recursion"}


def check(files: list[str], compile: str) -> None:
    files, _ = available(files)
    if not files:
        pytest.skip("this Python has no test package")
    # test_math.MathTests.test_sumprod_stress, of 3.12 and later, takes half a minute of plain Python.
    found, passed = failures(files, f"tests.capture.evaluated:{compile}", jobs=2, limit_s=300.0)
    found = [outcome for outcome in found if outcome.test not in DEEP]
    assert passed > 10
    assert not found, "\n".join(f"{o.test}: {o.kind}: {o.detail[-600:]}" for o in found)


def test_the_language() -> None:
    check(LANGUAGE.split(), "all_frames")


TAKEN_OVER = "test_generators test_with test_except_star test_patma test_listcomps test_raise test_extcall"


@pytest.mark.slow
@pytest.mark.parametrize("compile", ["all_frames_resumed", "all_frames_thrown"])
def test_frames_are_taken_over(compile: str) -> None:
    check(TAKEN_OVER.split(), compile)


@pytest.mark.slow
@pytest.mark.parametrize("compile", ["all_frames", "all_frames_resumed", "all_frames_thrown"])
def test_more_of_the_language(compile: str) -> None:
    check(FILES, compile)


@pytest.mark.parametrize("compile", ["evaluated", "resumed", "thrown"])
def test_cases_as_plain_python(compile: str) -> None:
    tasks = [Task(str(FOLDER / f"{name}.py"), f"tests.capture.evaluated:{compile}") for name in CASES]
    outcomes = [outcome for outcome in run(tasks, jobs=2) if outcome.case not in LEFT_OUT]
    wrong = [f"{o.file}.{o.case}: " + "\n    ".join(o.differences) for o in outcomes if o.differences]
    assert len(outcomes) > 50
    assert not wrong, "\n".join(wrong)


class _Manager:
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> bool:
        return True


def _caught(x: Any) -> Any:
    for kind in (KeyError, ValueError, TypeError):
        try:
            with _Manager():
                raise kind(x)
            raise kind(x)
        except (KeyError, ValueError) as error:
            last = error.args
        except TypeError as error:
            try:
                raise RuntimeError(x) from error
            except RuntimeError as again:
                last = again.args
        finally:
            x = [x]
    return last


def _generated(x: Any) -> Any:
    def inner() -> Iterator[Any]:
        try:
            yield x
            yield from ([x], [[x]])
        except ValueError:
            yield x

    thrown, closed = inner(), inner()
    next(thrown), next(closed)
    closed.close()
    return [*inner()], thrown.throw(ValueError)


def _failed(x: Any) -> Any:
    def f(*args: Any, **kwargs: Any) -> Any:
        a, b = args
        return a, b, kwargs

    errors = []
    for call in (
        lambda: f(x),
        lambda: f(**{"a": x}, **{"a": x}),
        lambda: f(*x),
        lambda: x.nothing,
        lambda: x[0],
        lambda: x + x,
        lambda: [*x],
        lambda: {**x},
        lambda: nothing,  # type: ignore[name-defined]  # noqa: F821
    ):
        try:
            call()
        except Exception as error:
            errors.append(str(error))
    return errors


class _Point:
    __match_args__ = ("x", "y")

    def __init__(self, x: Any, y: Any) -> None:
        self.x, self.y = x, y


def _built(x: Any) -> Any:
    first, *rest = [x for _ in range(4)]
    match _Point(first, {"rest": rest, "x": x}):
        case _Point(a, {"rest": [b, *_], **others}):
            return f"{len(others)!r:>4}", {**others}, (a, b), [lambda: x][0]()
    return None


@pytest.mark.parametrize("how", [0, 3, -1])
@pytest.mark.parametrize("function", [_caught, _generated, _failed, _built])
def test_references_are_balanced(function: Callable[[Any], Any], how: int) -> None:
    x = object()
    assert vesta._C.evaluate(function, (x,), {}, how) == function(x)

    def many(count: int) -> None:
        for _ in range(count):
            vesta._C.evaluate(function, (x,), {}, how)

    many(50)
    gc.collect()
    references, blocks = sys.getrefcount(x), sys.getallocatedblocks()
    many(1000)
    gc.collect()
    assert sys.getrefcount(x) == references
    assert sys.getallocatedblocks() - blocks < 500


def test_an_aborted_evaluation_runs_no_handler() -> None:
    x, handled = object(), []

    def inner() -> Iterator[Any]:
        try:
            yield x
            raise ValueError(x)
        finally:
            handled.append(x)

    def f(x: Any) -> Any:
        with _Manager():
            try:
                return [y for y in inner()]
            except ValueError:
                handled.append(x)

    def many(count: int) -> None:
        for _ in range(count):
            with pytest.raises(ValueError):
                vesta._C.evaluate(f, (x,), {}, -2)

    many(50)
    gc.collect()
    references, blocks = sys.getrefcount(x), sys.getallocatedblocks()
    many(500)
    gc.collect()
    assert not handled
    assert sys.getrefcount(x) == references
    assert sys.getallocatedblocks() - blocks < 500


def test_recursion_ends_as_in_python() -> None:
    def down(n: int) -> int:
        return down(n + 1)

    def depth(n: int) -> int:
        return 0 if n == 0 else 1 + depth(n - 1)

    with pytest.raises(RecursionError, match="maximum recursion depth exceeded"):
        vesta._C.evaluate(down, (0,))
    assert vesta._C.evaluate(depth, (sys.getrecursionlimit() - 200,)) == sys.getrecursionlimit() - 200
    limit = sys.getrecursionlimit()
    try:
        sys.setrecursionlimit(10**8)  # the stack ends first
        with pytest.raises(RecursionError):
            vesta._C.evaluate(down, (0,))
    finally:
        sys.setrecursionlimit(limit)


def test_a_tool_sees_what_runs() -> None:
    lines = []

    def tool(frame: Any, event: str, arg: Any) -> Any:
        lines.append((frame.f_code.co_name, event))
        return tool

    def traced() -> int:
        return 1

    def f() -> int:
        sys.settrace(tool)
        x = traced()
        sys.settrace(None)
        return x

    assert vesta._C.evaluate(f, ()) == 1
    assert ("traced", "line") in lines and ("traced", "return") in lines
