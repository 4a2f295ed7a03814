"""Effects that are no result: a profiler's ranges, hooks that come and go within the program, levels of forward AD."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.autograd.forward_ad as fwad
from torch import nn
from torch.profiler import ProfilerActivity, profile, record_function

import vesta

pytestmark = pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")


# Ranges


def ranges(function: Callable[..., Any], *args: Any) -> list[str]:
    with profile(activities=[ProfilerActivity.CPU]) as seen:
        function(*args)
    return [e.name for e in sorted(seen.events(), key=lambda e: e.time_range.start) if e.name.startswith("range ")]


def two_ranges(x):
    with record_function("range 1"):
        y = x.relu() + 1
    with record_function("range 2", "with arguments"):
        return y * 2


def nested_ranges(x):
    with record_function("range 1"), record_function("range 2"):
        return x.relu() + 1


@record_function("range of a function")
def decorated(x):
    return x.relu() + 1


def range_of_a_callee(x):
    return decorated(x * 2) + decorated(x)


def ranges_of_a_loop(x):
    for i in range(3):
        with record_function(f"range {i}"):
            x = x * i + 1
    return x


def range_of_an_error(x):
    try:
        with record_function("range 1"):
            y = x + 1
            raise ValueError(len(y))
    except ValueError as error:
        return x * error.args[0]


RANGES = [two_ranges, nested_ranges, range_of_a_callee, ranges_of_a_loop, range_of_an_error]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", RANGES)
def test_ranges_once_a_call(function: Callable[..., Any], gradients: bool) -> None:
    """In the call that compiles, in those after it, and in one that compiled before the profiler came."""
    x = torch.randn(4, requires_grad=gradients)
    wanted = ranges(function, x)
    assert wanted
    compiled = vesta.compile(function)
    for _ in range(3):
        assert ranges(compiled, x) == wanted
    compiled = vesta.compile(function)
    for _ in range(2):
        assert torch.equal(compiled(x), function(x))
    assert ranges(compiled, x) == wanted
    assert vesta.explain(compiled).explanation.captures[0].graphs


# Hooks


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(3, 3)

    def forward(self, x):
        return self.inner(x)


@contextlib.contextmanager
def removed(handle: Any) -> Iterator[None]:
    try:
        yield
    finally:
        handle.remove()


def forward_hook(m, x):
    seen: list[Any] = []
    with removed(m.inner.register_forward_hook(lambda m, i, o: seen.append(o.shape) or o * 2)):
        y = m(x)
    return y, m(x), seen, len(m.inner._forward_hooks)


def forward_pre_hook(m, x):
    handle = m.inner.register_forward_pre_hook(lambda m, i: (i[0] * 2,))
    y = m(x)
    handle.remove()
    return y, m(x), len(m.inner._forward_pre_hooks)


def hook_as_a_context(m, x):
    with m.inner.register_forward_hook(lambda m, a, kw, o: o * 2, with_kwargs=True, always_call=True, prepend=True):
        y = m(x)
    return y, m(x)


def global_forward_hook(m, x):
    with removed(nn.modules.module.register_module_forward_hook(lambda m, i, o: o * 2)):
        y = m(x)
    return y, m(x), len(nn.modules.module._global_forward_hooks)


def global_forward_pre_hook(m, x):
    with removed(nn.modules.module.register_module_forward_pre_hook(lambda m, i: (i[0] * 2,))):
        y = m(x)
    return y, m(x)


def tensor_hook(m, x):
    y, seen = m(x), []
    with removed(y.register_hook(lambda g: seen.append(g) or g * 2)):
        y.sum().backward()
    return y, seen, taken(m)


def tensor_hook_that_stays(m, x):
    y = m(x) * 2
    y.register_hook(lambda g: g * 2)
    (y * 3).sum().backward()
    return y, taken(m)


def hook_of_a_parameter(m, x):
    with removed(m.inner.weight.register_hook(lambda g: g * 3)):
        m(x).sum().backward()
    return taken(m)


def hook_after_accumulation(m, x):
    seen = []
    with removed(m.inner.weight.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum().item()))):
        m(x).sum().backward()
    return seen, taken(m)


def backward_hook(m, x):
    seen = []
    with removed(m.inner.register_full_backward_hook(lambda m, i, o: seen.append(o[0].clone()))):
        m(x).sum().backward()
    return seen, taken(m)


def backward_pre_hook(m, x):
    with removed(m.inner.register_full_backward_pre_hook(lambda m, o: (o[0] * 2,))):
        m(x).sum().backward()
    return taken(m)


def hook_of_a_node(m, x):
    y, seen = m(x), []
    with removed(y.grad_fn.register_hook(lambda i, o: seen.append(len(o)))):
        y.sum().backward()
    return seen, taken(m)


def taken(m: nn.Module) -> list[Any]:
    grads = [p.grad for p in m.parameters()]
    m.zero_grad()
    return grads


WITHOUT_GRADIENTS = [forward_hook, forward_pre_hook, hook_as_a_context, global_forward_hook, global_forward_pre_hook]
HOOKS = [*WITHOUT_GRADIENTS, tensor_hook, tensor_hook_that_stays, hook_of_a_parameter, hook_after_accumulation]
HOOKS += [backward_hook, backward_pre_hook, hook_of_a_node]


def same(found: Any, wanted: Any) -> None:
    leaves, others = torch.utils._pytree.tree_leaves(found), torch.utils._pytree.tree_leaves(wanted)
    assert len(leaves) == len(others)
    for a, b in zip(leaves, others, strict=True):
        if isinstance(a, torch.Tensor):
            torch.testing.assert_close(a, b)
        else:
            assert a == b or a == pytest.approx(b)


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("program", HOOKS)
def test_hooks_of_the_program(program: Callable[..., Any], gradients: bool) -> None:
    if not gradients and program not in WITHOUT_GRADIENTS:
        return
    m, x = Model(), torch.ones(2, 3, requires_grad=gradients)
    compiled = vesta.compile(program)
    with torch.set_grad_enabled(gradients):
        for _ in range(3):
            same(compiled(m, x), program(m, x))
            x.grad = None


def test_hooks_that_come_and_go_around_it() -> None:
    m, x = Model(), torch.ones(2, 3)
    compiled = vesta.compile(lambda x: m(x) + 1)

    def both() -> None:
        for _ in range(2):
            same(compiled(x), m(x) + 1)

    both()
    for register in (m.inner.register_forward_hook, nn.modules.module.register_module_forward_hook):
        with removed(register(lambda m, i, o: o * 5)):
            both()
        both()


# Forward-mode levels


def inner(x):
    return (x * x).sin() + x.exp()


def dual_level(x, t):
    with fwad.dual_level():
        y = inner(fwad.make_dual(x, t))
        return tuple(fwad.unpack_dual(y))


def levels_one_after_another(x, t):
    first = dual_level(x, t)
    level = fwad.enter_dual_level()
    second = fwad.unpack_dual(fwad.make_dual(x, t) * 3).tangent
    fwad.exit_dual_level(level=level)
    return first, second, fwad._current_level, x + 1


FORWARD: dict[str, Callable[..., Any]] = {
    "a level": dual_level,
    "levels": levels_one_after_another,
    "jvp": lambda x, t: torch.func.jvp(inner, (x,), (t,)),
    "jvp of a jvp": lambda x, t: torch.func.jvp(lambda x: torch.func.jvp(inner, (x,), (t,))[1], (x,), (t,)),
    "jvp of a compiled one": lambda x, t: torch.func.jvp(vesta.compile(inner), (x,), (t,)),
    "jacfwd": lambda x, t: torch.func.jacfwd(inner)(x),
    "no level": lambda x, t: (fwad._current_level, inner(x)),
}


@pytest.mark.parametrize("name", FORWARD)
def test_forward_mode_inside(name: str) -> None:
    program = FORWARD[name]
    compiled = vesta.compile(program)
    x, t = torch.linspace(0, 1, 4), torch.ones(4)
    for _ in range(3):
        same(compiled(x, t), program(x, t))
        assert fwad._current_level == -1


def test_forward_mode_around() -> None:
    compiled = vesta.compile(inner)
    x, t = torch.linspace(0, 1, 4), torch.linspace(1, 2, 4)
    for _ in range(3):
        with fwad.dual_level():
            dual = fwad.make_dual(x, t)
            same(tuple(fwad.unpack_dual(compiled(dual))), tuple(fwad.unpack_dual(inner(dual))))
            same(fwad.unpack_dual(vesta.compile(lambda dual=dual: dual * 2)()).tangent, t * 2)
        same(compiled(x), inner(x))
        same(torch.func.jvp(compiled, (x,), (t,)), torch.func.jvp(inner, (x,), (t,)))
    assert vesta.explain(compiled).explanation.captures[0].hits
