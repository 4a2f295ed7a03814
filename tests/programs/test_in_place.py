"""Programs that change their inputs: kernels write them directly where nothing can notice."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch.nn import functional as F

import vesta

Program = Callable[..., Any]


def adam(p: torch.Tensor, g: torch.Tensor, m: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
    m.mul_(0.9).add_(g, alpha=0.1)
    v.mul_(0.99).addcmul_(g, g, value=0.01)
    p.addcdiv_(m, v.sqrt().add_(1e-8), value=-0.01)
    return g.sum()


def swap(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    old = x.clone()
    x.copy_(y)
    y.copy_(old)
    return old + 1


def attend(cache: torch.Tensor, k: torch.Tensor, at: torch.Tensor) -> torch.Tensor:
    cache[:, :, at] = k * 2
    return F.scaled_dot_product_attention(k, cache, cache)


def write_slices(cache: torch.Tensor, k: torch.Tensor) -> torch.Tensor:
    cache[:, :, 3:4] = k
    cache[:, :, 4:5] += k
    return cache.sum()


def multiply_later(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    x.add_(y)
    return x @ x.T


def flip(x: torch.Tensor) -> torch.Tensor:
    total = x.sum()
    x.copy_(x.flip(1) + total)
    return total


def centre(x: torch.Tensor) -> torch.Tensor:
    old = x * 2
    x.sub_(x.mean(1, keepdim=True))
    return old


def swap_before_a_call(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
    old = x.exp()
    x.copy_(-y)
    y.copy_(old)
    return z.sort(0)[0]


def statistics(a: torch.Tensor, b: torch.Tensor, steps: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
    """Each call needs the mean before it, and none needs the running ones."""
    for running in (a, b):
        mean = x.mean(0)
        running.lerp_(mean, 0.1)
        steps.add_(1)
        x = (x - mean).sort(0)[0]
    return x


def inputs(*shapes: tuple[int, ...]) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return [torch.rand(s, generator=generator) for s in shapes]


CASES: dict[str, tuple[Program, list[torch.Tensor]]] = {
    "optimizer": (adam, inputs(*[(6, 33)] * 4)),
    "exchange": (swap, inputs((6, 33), (6, 33))),
    "cache at an index": (attend, [*inputs((1, 4, 32, 8), (1, 4, 2, 8)), torch.tensor([5, 30])]),
    "cache slices": (write_slices, inputs((1, 4, 32, 8), (1, 4, 1, 8))),
    "a call afterwards": (multiply_later, inputs((6, 33), (6, 33))),
    "exchange before a call": (swap_before_a_call, inputs((33,), (33,), (6, 33))),
    "statistics": (statistics, [*inputs((33,), (33,)), torch.tensor(0), *inputs((6, 33))]),
    "moved elements": (flip, inputs((6, 33))),
    "a row at a time": (centre, inputs((6, 33))),
    "strided": (lambda x: x.mul_(2).sum(), [inputs((6, 33))[0].t()]),
    "zero": (lambda x: (x * 2, x.zero_())[0], inputs((6, 33))),
}


@pytest.mark.parametrize("name", CASES)
def test_inputs_are_eagers(name: str) -> None:
    program, given = CASES[name]
    eager, ours = [t.clone() for t in given], [t.clone() for t in given]
    compiled = vesta.trace_and_compile(program, strict=True)
    for _ in range(2):
        expected, got = program(*eager), compiled(*ours)
        torch.testing.assert_close(got, expected)
        for a, b, before in zip(ours, eager, given, strict=True):
            torch.testing.assert_close(a, b)
            assert (a._version == before._version) == (b._version == before._version)


def test_one_tensor_as_two_arguments() -> None:
    eager = torch.arange(4.0)
    ours = eager.clone()
    compiled = vesta.trace_and_compile(lambda x, y: (x.add_(y), y * 1)[1])
    assert torch.equal(compiled(ours, ours), eager.add_(eager))
    assert torch.equal(ours, eager)


def test_arguments_that_share_memory() -> None:
    eager = torch.arange(10.0)
    ours = eager.clone()

    def program(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        return y * 1

    compiled = vesta.trace_and_compile(program)
    assert torch.equal(compiled(ours[:5], ours[2:7]), program(eager[:5], eager[2:7]))
    assert torch.equal(ours, eager)


def test_a_lazy_copy_keeps_its_content() -> None:
    x = torch.arange(4.0)
    lazy = torch._lazy_clone(x)
    vesta.trace_and_compile(lambda t: t.add_(1).sum())(x)
    assert torch.equal(lazy, torch.arange(4.0))
    assert torch.equal(x, torch.arange(4.0) + 1)


def grow(x: torch.Tensor, far: torch.Tensor) -> torch.Tensor:
    """The result takes more memory than there is, after x has changed."""
    x.add_(x.softmax(-1)).mul_(2)
    return x.cumsum(-1)[..., None] * far


def grow_twice(x: torch.Tensor, y: torch.Tensor, far: torch.Tensor) -> tuple[torch.Tensor, ...]:
    x.mul_(y).add_(1)
    y.copy_(x.sin())
    return (x + y).sum(0), torch.cumsum(x, 0)[..., None] + far


@pytest.mark.parametrize(("program", "changed"), [(grow, 1), (grow_twice, 2)])
def test_what_lacks_memory_changes_its_inputs_once(program: Program, changed: int):
    far = torch.ones(()).expand(2**32)  # 64 TiB: a process can address it, no machine has it
    small = [torch.randn(64, 64) for _ in range(changed)]
    ours, eager = [x.clone() for x in small], [x.clone() for x in small]
    compiled = vesta.trace_and_compile(program)
    for _ in range(2):
        with pytest.raises(RuntimeError, match="memory"):
            program(*eager, far)
        with pytest.raises(RuntimeError, match="memory"):
            compiled(*ours, far)
        for a, b in zip(ours, eager, strict=True):
            torch.testing.assert_close(a, b)
    assert compiled.report().variants
