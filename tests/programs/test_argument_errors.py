"""Arguments that eager refuses are refused in a compiled function, whether or not the result is read."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch.testing._internal.common_methods_invocations import op_db

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")

ROW = torch.ones(3)
TYPES = [torch.float32, torch.float16, torch.int64, torch.uint8, torch.bool, torch.complex64]


def outcome(f: Callable[[], Any]) -> Any:
    try:
        found = f()
    except Exception as error:
        return type(error)
    return (found.dtype, found.shape, found.stride()) if isinstance(found, torch.Tensor) else type(found)


def expect(f: Callable[[], Any]) -> None:
    def unread():
        f()
        return 0

    for program in (f, unread):
        compiled = vesta.compile(program)
        want = outcome(program)
        for _ in range(2):
            assert outcome(compiled) == want


def test_ranges_of_complex_numbers() -> None:
    with pytest.raises(RuntimeError):
        torch.linspace(0, 1j, 5, dtype=torch.float)
    for dtype in TYPES:
        for a, b in ((0, 1j), (1j, 1), (0, 300), (0.5, 2.5), (True, 3)):
            expect(lambda a=a, b=b, d=dtype: torch.linspace(a, b, 5, dtype=d))
            expect(lambda a=a, b=b, d=dtype: torch.logspace(a, b, 3, dtype=d))
            expect(lambda a=a, b=b, d=dtype: torch.arange(a, b, dtype=d))
        expect(lambda d=dtype: torch.linspace(0, 1, -1, dtype=d))
        expect(lambda d=dtype: torch.arange(0, 5, 0, dtype=d))


@pytest.mark.parametrize("value", [1j, 1e30, -1, 300, 0.5, True, float("inf")])
def test_numbers_that_the_type_does_not_hold(value: Any) -> None:
    mask = torch.tensor([True, False, True])
    for dtype in TYPES:
        x = torch.ones(3, dtype=dtype)
        expect(lambda d=dtype: torch.full((2,), value, dtype=d))
        expect(lambda d=dtype: torch.full_like(ROW, value, dtype=d))
        expect(lambda x=x: x.new_full((2,), value))
        expect(lambda x=x: torch.fill(x, value))
        expect(lambda d=dtype: torch.empty(2, dtype=d).fill_(value))
        expect(lambda x=x: x.masked_fill(mask, value))
        expect(lambda x=x: torch.constant_pad_nd(x, (1, 1), value))
        expect(lambda x=x: x.index_fill(0, torch.tensor([0]), value))
        expect(lambda x=x: torch.addcmul(x, x, x, value=value))
        expect(lambda x=x: torch.add(x, x, alpha=value))
        expect(lambda x=x: F.threshold(x, value, value))
        expect(lambda x=x: F.hardshrink(x, value))
        expect(lambda x=x: F.leaky_relu(x, value))
        expect(lambda x=x: F.hardtanh(x, value, value))
        expect(lambda x=x: torch.lerp(x, x, value))
        expect(lambda x=x: x.norm(value))
        expect(lambda x=x: x.clamp(value))
        expect(lambda x=x: x.scatter(0, torch.tensor([0]), value))


def test_types_that_do_not_go_together() -> None:
    for dtype in TYPES:
        x = torch.ones(3, dtype=dtype)
        expect(lambda x=x: torch.heaviside(x, torch.tensor(1.0)))
        expect(lambda x=x: torch.heaviside(ROW, x))
        expect(lambda x=x: x.softmax(0))
        expect(lambda x=x: x.log_softmax(0))
        expect(lambda x=x: torch.complex(x, ROW))
        expect(lambda x=x: torch.polar(x, ROW))


@pytest.mark.parametrize("factory", [torch.zeros, torch.ones, torch.empty, torch.rand, torch.randn])
def test_factories(factory: Callable[..., Any]) -> None:
    like = getattr(torch, f"{factory.__name__}_like")
    options: list[dict[str, Any]] = [
        {"pin_memory": True},
        {"layout": torch.sparse_coo},
        {"device": "nonsense"},
        {"dtype": torch.int64},
        {"memory_format": torch.channels_last},
        {"generator": torch.Generator()},
        {"out": torch.ones(2, dtype=torch.int64)},
    ]
    for more in options:
        expect(lambda more=more: factory((2,), **more))
        expect(lambda more=more: like(ROW, **more))
    for size in ((-1,), (2, -3), (1.5,), ("a",), (1 << 62, 4), (1 << 48,)):
        expect(lambda size=size: factory(size))


def test_error_inputs() -> None:
    """A sample of PyTorch's own list raises the same type of exception as in eager."""
    checked = 0
    for op in op_db[::4]:
        if op.error_inputs_func is None:
            continue
        for given in list(op.error_inputs("cpu"))[:3]:
            s = given.sample_input

            def program(op=op, s=s):
                op.op(s.input, *s.args, **s.kwargs)
                return 0

            want = outcome(program)
            assert outcome(vesta.compile(program)) == want, (op.full_name, s)
            checked += isinstance(want, type) and issubclass(want, Exception)
    assert checked > 20
