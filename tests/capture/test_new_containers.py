"""Objects that the compiled function makes: containers, whose contents are guarded where C code reads them, and methods
that live on after a graph break."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta


def appended(x: torch.Tensor, items: list[Any]) -> torch.Tensor:
    made: list[Any] = []
    made.append(items)
    return x + len(str(made))


def put(x: torch.Tensor, items: list[Any]) -> torch.Tensor:
    made: dict[str, Any] = {}
    made["items"] = items
    return x + len(str(made))


def extended(x: torch.Tensor, items: list[Any]) -> torch.Tensor:
    made = [[0]]
    made += [items]
    return x + sum(sum(made, []))  # noqa: RUF017


def sorted_by_items(x: torch.Tensor, items: list[Any]) -> torch.Tensor:
    made = [[2, 1]]
    made.append(items)
    return x * max(sorted(made)[0])


def put_in_a_set(x: torch.Tensor, items: list[Any]) -> torch.Tensor:
    made: set[Any] = set()
    made.add(tuple(items))
    return x + max(max(made))


@pytest.mark.parametrize("f", [appended, put, extended, sorted_by_items, put_in_a_set])
def test_what_they_hold_is_guarded(f: Callable[..., torch.Tensor]) -> None:
    compiled, x = vesta.compile(f), torch.ones(2)
    for items in ([1, 2], [1, 2, 3], [5, 2], [1, 2]):
        torch.testing.assert_close(compiled(x, items), f(x, items))


def test_unpacking_reads_an_iterator_as_the_program_does() -> None:
    def f(x: torch.Tensor, n: int) -> torch.Tensor:
        *first, last = (x + i for i in range(n))
        a, *rest = zip(first, first, strict=True)
        return last * len(rest) + a[0]

    compiled, x = vesta.compile(f), torch.ones(2)
    for n in (3, 4, 3):
        torch.testing.assert_close(compiled(x, n), f(x, n))


def test_unpacking_an_iterator_from_outside_advances_it_once() -> None:
    def f(x: torch.Tensor, values: Any) -> torch.Tensor:
        *first, last = values
        return x + sum(first) * last

    x = torch.ones(2)
    for compiled in (f, vesta.compile(f)):
        values = iter([1, 2, 3])
        torch.testing.assert_close(compiled(x, values), x + 9)
        assert list(values) == []


def test_a_method_that_reads_its_class_lives_on() -> None:
    def f(x: torch.Tensor, pattern: re.Pattern[str]) -> torch.Tensor:
        match = pattern.match  # C code that takes the class it is bound through
        torch._dynamo.graph_break()
        found = match("aab")
        return x + (found.end() if found else 0)

    compiled, x = vesta.compile(f), torch.ones(2)
    for pattern in (re.compile("a+"), re.compile("b"), re.compile("a+")):
        torch.testing.assert_close(compiled(x, pattern), f(x, pattern))
