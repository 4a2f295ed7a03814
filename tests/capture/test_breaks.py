"""Each graph break of the table happens in a program of its own, and docs/breaks.md says what it is."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
import torch

from tests.capture.breaks.examples import WITHOUT_EXAMPLE, examples, reported
from tests.capture.breaks.page import PAGE, page
from vesta import _C

ROWS = _C._graph_breaks()


@pytest.fixture(autouse=True)
def _modes_as_before() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_default_device(None)


@pytest.mark.parametrize("name", examples())
def test_example(name: str) -> None:
    example = examples()[name]
    assert reported(example.source) == example.reported


def test_every_row_has_an_example_or_says_why() -> None:
    names = [name for name, *_ in ROWS]
    assert len(set(names)) == len(names)
    assert {*examples(), *WITHOUT_EXAMPLE} == {*names} and not {*examples()} & {*WITHOUT_EXAMPLE}


@pytest.mark.parametrize("row", ROWS, ids=[row[0] for row in ROWS])
def test_row(row: tuple[str, str, str, str]) -> None:
    name, text, why, hint = row
    assert re.fullmatch(r"[a-z]+(-[a-z]+)*", name)
    assert text.count("{}") <= 2 and text and why.endswith(".") and hint and not hint.endswith(".")


def test_page() -> None:
    assert PAGE.read_text() == page(), "python -m tests.capture.breaks.page --write"
