"""Every instruction of this Python is interpreted, or it is known why none is ever met."""

from __future__ import annotations

import dis

import pytest

import vesta

COMPILED = sorted(
    name
    for name, number in dis.opmap.items()
    if number < 256 and name not in getattr(dis, "_specialized_opmap", {}) and not name.startswith("INSTRUMENTED_")
)


@pytest.mark.parametrize("name", COMPILED)
def test_is_handled(name: str) -> None:
    how = vesta._C.how_handled(dis.opmap[name])
    assert how == "handled" or how.startswith(("never: ", "break: ")), how


def test_a_forgotten_one_is_told() -> None:
    unused = next(number for number in range(256) if number not in dis.opmap.values())
    assert vesta._C.how_handled(unused) == ""
