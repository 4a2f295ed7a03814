"""Changes of values that a compiled function has read: every change is noticed, and none compiles for nothing."""

from __future__ import annotations

import gc
import importlib
import pkgutil

import pytest
import torch

import vesta
from tests.capture import guard_rows

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

for _topic in pkgutil.iter_modules(guard_rows.__path__):
    importlib.import_module(f"{guard_rows.__name__}.{_topic.name}")


@pytest.mark.parametrize("name", sorted(guard_rows.ROWS))
def test_change_is_seen(name: str) -> None:
    guard_rows.check(guard_rows.ROWS[name], vesta.compile)


@pytest.mark.parametrize("name", sorted(guard_rows.ROWS))
def test_rows_tell_the_calls_apart(name: str) -> None:
    """A row whose calls all give the same would not notice a change that is missed."""
    seen = guard_rows.run(guard_rows.ROWS[name], None).seen
    assert any(guard_rows.difference(seen[0], other) is not None for other in seen[1:])


def test_a_missed_change_is_found() -> None:
    def first_result_for_ever(function):
        results = []
        return lambda *arguments: (results or results.append(function(*arguments)) or results)[0]

    def program(runner: guard_rows.Runner) -> None:
        scale = [1.0]
        f = runner.compile(lambda x: x * scale[0])
        runner.call(f, torch.ones(2))
        scale[0] = 2.0
        runner.call(f, torch.ones(2))

    with pytest.raises(AssertionError, match="call 2"):
        guard_rows.check(program, first_result_for_ever)


@vesta.disable
def _as_it_is(x):
    return x


def test_a_function_is_where_another_was() -> None:
    names = [f"n{i}" for i in range(40)]  # so many facts that a check is remembered
    space = {name: i for i, name in enumerate(names)} | {"as_it_is": _as_it_is}
    exec(
        f"""
def outer(x, held):
    def keep():
        return held
    def inner(y):
        n = {" + ".join(names)}
        return y + n, as_it_is(held)
    return inner(x), keep
""",
        space,
    )
    compiled = vesta.compile(space["outer"])
    x, held, cells = torch.ones(2), [[i] for i in range(20)], []
    for now in held:
        result, keep = compiled(x, now)
        cells.append(keep.__closure__)
        assert result[1] is now
        del result, keep


def test_garbage_collected_in_a_check_calls_the_function() -> None:
    def function(x, names):
        y = x + 1
        return y * (3 if "a" in names else 1)  # the set is looked through at every call

    class Cycle:
        def __init__(self) -> None:
            self.me = self

        def __del__(self) -> None:
            results.append(compiled(other, names))

    compiled = vesta.compile(function)
    x, other, names = torch.zeros(3), torch.ones(3), {"a", "b"}
    compiled(x, names)
    results: list[torch.Tensor] = []
    threshold = gc.get_threshold()
    try:
        for allocations in range(1, 40):
            gc.collect()
            gc.disable()
            Cycle()
            gc.set_threshold(allocations, 1000, 1000)
            gc.enable()
            found = compiled(x, names)
            gc.set_threshold(*threshold)
            assert torch.equal(found, torch.full((3,), 3.0)), allocations
    finally:
        gc.set_threshold(*threshold)
        gc.enable()
    gc.collect()
    assert len(results) == 39 and all(torch.equal(r, torch.full((3,), 6.0)) for r in results)
