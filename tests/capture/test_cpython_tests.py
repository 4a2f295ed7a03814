"""CPython's own tests pass with every test method compiled."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

import vesta
from tests.capture.cpython_tests import FILES, MORE, available, failures

needs_capture = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

ALWAYS = """
test_grammar test_generators test_with test_exceptions test_exception_group test_except_star test_raise test_listcomps
test_super test_descr test_scope test_unpack test_patma test_fstring test_dataclasses test_contextlib test_extcall
test_named_expressions test_yield_from
"""


def check(files: list[str]) -> None:
    files, _ = available(files)
    if not files:
        pytest.skip("this Python has no test package")
    found, passed = failures(files, "vesta:compile", jobs=2)
    assert passed > 100
    assert not found, "\n".join(f"{o.test}: {o.kind}: {o.detail[-600:]}" for o in found)


@needs_capture
def test_the_language() -> None:
    check(ALWAYS.split())


@needs_capture
@pytest.mark.slow
def test_more() -> None:
    check(FILES + MORE)


_calls = itertools.count()


def breaks_each_third(function: Any) -> Any:
    """A compiler whose every third function raises."""
    if next(_calls) % 3:
        return function

    def broken(*args: Any) -> None:
        raise RuntimeError("broken on purpose")

    return broken


def test_a_broken_compiler_is_found() -> None:
    files, _ = available(["test_with"])
    if not files:
        pytest.skip("this Python has no test package")
    found, passed = failures(files, f"{__name__}:breaks_each_third")
    assert passed > 20
    assert passed / 4 < len(found) < passed / 2
    assert all("broken on purpose" in outcome.detail for outcome in found)
