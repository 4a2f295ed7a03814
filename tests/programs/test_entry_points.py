"""The Python entry points: torch.compile(backend="vesta"), trace_and_compile, options, explain."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
import torch
from torch import nn

import vesta
from tests.numerics.compare import check
from tests.programs.threads import in_threads
from vesta.graph_walk import walker


def mlp() -> torch.nn.Sequential:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(16, 32), torch.nn.GELU(), torch.nn.LayerNorm(32), torch.nn.Linear(32, 4)
    ).eval()


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    vesta.reset()


def compile_strictly(f: Callable[..., object], **options: object):
    return torch.compile(f, backend="vesta", options={"strict": True, **options})


def test_inference_follows_weights_and_shapes():
    model = mlp()
    compiled = compile_strictly(model)
    with torch.no_grad():
        for rows in (5, 5, 7, 9, 1):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(compiled(x), model(x))
        model[0].weight.mul_(2)
        x = torch.randn(5, 16)
        torch.testing.assert_close(compiled(x), model(x))
        model[3].weight = torch.nn.Parameter(torch.randn(4, 32))
        torch.testing.assert_close(compiled(x), model(x))


def test_dynamic_shapes_share_one_variant():
    model = mlp()
    compiled = torch.compile(model, backend="vesta", dynamic=True, options={"strict": True})
    with torch.no_grad():
        before = len(vesta.explain().variants)
        for rows in range(2, 12):
            x = torch.randn(rows, 16)
            torch.testing.assert_close(compiled(x), model(x))
        assert len(vesta.explain().variants) - before == 1


def test_floats_that_dynamo_passes_as_tensors():
    model = mlp()

    def f(x: torch.Tensor, k: float):
        return model(x) * k + (k * 2 - 1)

    for dynamic in (True, None):
        compiled = torch.compile(f, backend="vesta", dynamic=dynamic, options={"strict": True})
        with torch.no_grad():
            for k in (0.5, 0.7, 0.5, -0.0, 0.0, 3.25):
                x = torch.randn(5, 16)
                torch.testing.assert_close(compiled(x, k), f(x, k))
    compiled = torch.compile(f, backend="vesta", dynamic=True)
    for k in (0.5, 0.5, 0.7):
        x = torch.randn(6, 16, requires_grad=True)
        x_second = x.detach().clone().requires_grad_()
        compiled(x, k).sum().backward()
        f(x_second, k).sum().backward()
        torch.testing.assert_close(x.grad, x_second.grad)


def test_slices_to_the_end_of_symbolic_sizes():
    def f(x: torch.Tensor):
        return torch.diff(x[:, 1:], prepend=x[:, :1]) + x[:, ..., -1:].sin()

    compiled = torch.compile(f, backend="vesta", dynamic=True, options={"strict": True})
    for n in (4, 5, 9):
        x = torch.randn(n, n + 2)
        torch.testing.assert_close(compiled(x), f(x))
    assert len(vesta.explain().variants) == 1


def test_training_step_has_eager_gradients():
    model, second = mlp(), mlp()
    compiled = compile_strictly(model)
    x = torch.randn(6, 16, requires_grad=True)
    x_second = x.detach().clone().requires_grad_()
    compiled(x).square().sum().backward()
    second(x_second).square().sum().backward()
    torch.testing.assert_close(x.grad, x_second.grad)
    for p, q in zip(model.parameters(), second.parameters(), strict=True):
        torch.testing.assert_close(p.grad, q.grad)


def test_outputs_stay_the_callers():
    compiled = compile_strictly(lambda x: torch.tanh(x) * 2 + 1)
    x = torch.randn(64, 64)
    kept = []
    for _ in range(5):
        x = compiled(x)
        kept.append((x, x.clone()))
    for result, copy in kept:
        assert torch.equal(result, copy)


def test_mutation_and_aliasing():
    def f(x: torch.Tensor, y: torch.Tensor):
        x.add_(y)
        return x, x.t(), y * 2

    compiled = compile_strictly(f)
    x, y = torch.randn(3, 4), torch.randn(3, 4)
    x_eager = x.clone()
    version = x._version
    a, b, c = compiled(x, y)
    f(x_eager, y)
    torch.testing.assert_close(x, x_eager)
    assert a is x
    assert b.data_ptr() == x.data_ptr() and b.shape == (4, 3)
    assert x._version > version
    torch.testing.assert_close(c, y * 2)


def test_a_value_read_breaks_the_graph_and_stays_right():
    def f(x: torch.Tensor):
        y = x.sin()
        return y * 2 if bool(y.sum() > 0) else y - 1

    compiled = torch.compile(f, backend="vesta")
    for sign in (1, -1, 1):
        x = sign * torch.rand(8)
        torch.testing.assert_close(compiled(x), f(x))


def test_trace_and_compile_falls_back_with_a_reason_or_raises():
    def f(x: torch.Tensor):
        return x[x > 0].sum() if x.sum().item() > 0 else x

    compiled = vesta.trace_and_compile(f)
    x = torch.ones(4)
    for _ in range(3):
        assert torch.equal(compiled(x), f(x))
    fallbacks = vesta.explain(compiled).fallbacks
    assert [b.count for b in fallbacks] == [3]
    assert "value" in fallbacks[0].reason
    with pytest.raises(vesta.errors.Unsupported):
        vesta.trace_and_compile(f, strict=True)(x)


def test_exceptions_are_eagers():
    compiled = vesta.trace_and_compile(lambda x, y: x @ y)
    for _ in range(2):
        with pytest.raises(RuntimeError) as ours:
            compiled(torch.ones(2, 3), torch.ones(2, 3))
        with pytest.raises(RuntimeError) as eager:
            torch.ones(2, 3) @ torch.ones(2, 3)
        assert str(ours.value) == str(eager.value)

    class Own(Exception):
        pass

    def raises(x: torch.Tensor):
        raise Own("mine")

    with pytest.raises(Own, match="mine"):
        vesta.trace_and_compile(raises)(torch.ones(2))


def test_explain_counts_and_prints():
    def chain(x: torch.Tensor, w: torch.Tensor):
        return torch.softmax(torch.mm(x, w).sigmoid() * 2, -1)

    compiled = vesta.trace_and_compile(chain)
    x, w = torch.randn(8, 8), torch.randn(8, 8)
    for _ in range(4):
        torch.testing.assert_close(compiled(x, w), chain(x, w))
    explanation = vesta.explain(compiled)
    (function,) = explanation.functions
    (variant,) = explanation.variants
    assert (function.hits, function.misses) == (3, 1)
    assert not explanation.fallbacks
    assert variant.ops_extern >= 1 and all(e.reason for e in variant.externs)
    assert {"trace", "plan", "codegen"} <= {s.name for s in variant.stages}
    assert "chain" in str(explanation) and "calls into ATen" in str(explanation)
    compiled(torch.randn(9, 8), w)
    assert "size 0 is 9 instead of 8" in vesta.explain(compiled).functions[0].recompiles[0]
    with pytest.raises(vesta.errors.UserError, match="takes a function, method or module"):
        vesta.explain(x)


def test_options_are_checked():
    for options, message in (
        ({"stric": True}, 'did you mean "strict"'),
        ({"strict": 1}, "takes bool"),
        ({"numerics": "exact"}, '"fast" or "eager"'),
        ({"skip_passes": ["dead-cod"]}, 'did you mean "dead-code"'),
    ):
        with pytest.raises(vesta.errors.UserError, match=message):
            vesta.make_options(options)
    assert "dead-code" in vesta.passes()


def test_every_pass_can_be_skipped():
    model = mlp()
    x = torch.randn(5, 16)
    compiled = compile_strictly(model, skip_passes=vesta.passes())
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), model(x))


def test_integers_of_another_value_are_another_call():
    compiled = vesta.trace_and_compile(lambda x, k: x * k, strict=True)
    x = torch.ones(2)
    for k in (1, 3, 4, 0, 5, -2, 1, 7):
        assert torch.equal(compiled(x, k), x * k)

    def step(x: torch.Tensor, log: torch.Tensor, t: int):
        log[t] = x.mean(0)
        return x * t

    for dynamic in (None, True):
        compiled = torch.compile(step, backend="vesta", dynamic=dynamic, options={"strict": True})
        log, second = torch.zeros(5, 4), torch.zeros(5, 4)
        for t in range(5):
            x = torch.randn(3, 4)
            torch.testing.assert_close(compiled(x, log, t), step(x, second, t))
            torch.testing.assert_close(log, second)


def test_symbolic_numbers_meet_tensors():
    def f(x: torch.Tensor):
        return x.sum() / x.shape[0] + x * (x.shape[1] - 1) - x.shape[0] // 2, x > x.shape[1]

    compiled = torch.compile(f, backend="vesta", dynamic=True, options={"strict": True})
    for sizes in ((4, 8), (5, 8), (6, 3)):
        x = torch.randn(sizes) * 4
        torch.testing.assert_close(compiled(x), f(x))
    assert len(vesta.explain().variants) == 1


def test_values_that_follow_from_numbers_are_known():
    def f(x: torch.Tensor):
        chunks = torch.div(torch.full((), 8), 2, rounding_mode="trunc") - 1
        return x.new_ones(int(chunks), 2) * x.sum()

    compiled = vesta.trace_and_compile(f, strict=True)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), f(x))
    with pytest.raises(vesta.errors.Unsupported):
        vesta.trace_and_compile(lambda x: x.new_ones(int(x.sum())), strict=True)(torch.ones(2))


def test_operators_that_check_or_resize_by_reading():
    functional = torch.nn.functional
    labels = torch.tensor([[0, 3], [2, 1]])
    compiled = vesta.trace_and_compile(lambda i: functional.one_hot(i, 4), strict=True)
    assert torch.equal(compiled(labels), functional.one_hot(labels, 4))
    with pytest.raises(RuntimeError, match="smaller than num_classes"):
        compiled(labels + 1)
    with pytest.raises(RuntimeError, match="non-negative"):
        compiled(labels - 1)

    x, sign = torch.randn(6), torch.randn(6).sign()
    loss = vesta.trace_and_compile(functional.soft_margin_loss, strict=True)
    torch.testing.assert_close(loss(x, sign), functional.soft_margin_loss(x, sign))

    def rewrapped(x: torch.Tensor, w: torch.Tensor):
        w.set_(w.to(x.dtype))
        return x @ w

    w = torch.randn(6, 2)
    torch.testing.assert_close(vesta.trace_and_compile(rewrapped, strict=True)(x, w), x @ w)

    bags = [torch.nn.EmbeddingBag(9, 4, mode=mode) for mode in ("sum", "mean", "max")]

    def pooled(i: torch.Tensor, offsets: torch.Tensor):
        return [bag(i, offsets) for bag in bags]

    compiled = torch.compile(pooled, backend="vesta", options={"strict": True})
    i, offsets = torch.randint(0, 9, (12,)), torch.tensor([0, 3, 3, 8])
    torch.testing.assert_close(compiled(i, offsets), pooled(i, offsets))
    sum(y.sum() for y in compiled(i, offsets)).backward()
    assert all(bag.weight.grad is not None for bag in bags)


def test_threads_share_a_compiled_function():
    compiled = vesta.trace_and_compile(lambda x, y: torch.relu(x) * y + 1, strict=True)

    def work(seed: int):
        g = torch.Generator().manual_seed(seed)
        for i in range(50):
            x, y = torch.randn(2 + i % 3, 8, generator=g), torch.randn(8, generator=g)
            torch.testing.assert_close(compiled(x, y), torch.relu(x) * y + 1)

    in_threads(4, work)


def windows(x: torch.Tensor):
    return x.as_strided((5, 6), (4, 1)) * 2, (x + 1).as_strided((5, 6), (4, 1), 2).sum(0)


def beginnings(x: torch.Tensor):
    begin = x.storage_offset()
    by_offset = x.as_strided((2,), (1,), begin + 1), x.as_strided((3, 4), (2, 1), 6) * begin
    return *by_offset, x[1:].as_strided((2, 2), (1, 2)) + 1, x[1:].storage_offset(), (x * 2)[1:].storage_offset()


def test_where_inputs_begin_in_their_storage():
    compiled = vesta.trace_and_compile(beginnings, strict=True)
    base = torch.arange(40.0)
    for x in (base[5:25], base[2:22], base[5:25] * 2, base[3:23]):
        if x.storage_offset() == 0:
            x = torch.cat([x[:5], x])[5:]
        ours, eagers = compiled(x), beginnings(x)
        torch.testing.assert_close(ours, eagers)
        for mine, eager in zip(ours[:3], eagers[:3], strict=True):
            assert mine.storage_offset() == eager.storage_offset()
    # Memory outside of the input's own is not part of the program.
    outside = vesta.trace_and_compile(lambda x: x.as_strided((2, 2), (1, 2), 0) * 2)
    assert torch.equal(outside(base[5:25]), base.as_strided((2, 2), (1, 2)) * 2)


def write_every_fifth(x: torch.Tensor):
    x.as_strided((4,), (5,)).mul_(3)
    return x + x.as_strided((6,), (1,), 12).sum()


@pytest.mark.parametrize("program", [windows, write_every_fifth])
@pytest.mark.parametrize("dynamic", [False, True])
def test_windows_on_memory_in_another_order(program: Callable[..., object], dynamic: bool):
    compiled = vesta.trace_and_compile(program, strict=True, dynamic=dynamic)
    for base in (torch.randn(6, 4).t(), torch.randn(2, 3, 4).permute(2, 0, 1), torch.randn(4, 6)):
        mine, eagers = base.clone(), base.clone()
        assert mine.stride() == base.stride()
        torch.testing.assert_close(compiled(mine), program(eagers))
        assert torch.equal(mine, eagers)


def test_a_graph_is_walked_without_being_written_as_source():
    """Does the same as torch.fx's source: containers, slices, methods, modules, attributes, keywords."""
    graph = torch.fx.Graph()
    x, n = graph.placeholder("x"), graph.placeholder("n")
    rows = graph.call_method("size", (x, 0))
    shifted = graph.call_function(torch.add, (x, graph.get_attr("inner.offset")), {"alpha": 2})
    part = graph.call_function(operator.getitem, (shifted, (slice(0, n, None), None)))
    joined = graph.call_function(torch.cat, ([part, part],), {"dim": 1})
    out = graph.call_module("inner", (joined,))
    graph.output((out, rows, [joined]))
    root = nn.Module()
    root.inner = nn.ReLU()
    root.inner.register_buffer("offset", torch.ones(4))
    gm = torch.fx.GraphModule(root, graph)
    walk = walker(gm)
    assert walk is not gm
    got, expected = walk(torch.randn(5, 4), 3), gm(torch.randn(5, 4), 3)
    assert type(got) is type(expected) and type(got[2]) is type(expected[2]) and got[1] == 5
    for x in (torch.randn(5, 4), torch.randn(7, 4)):
        got, expected = walk(x, 3), gm(x, 3)
        check((got[0], got[2][0]), (expected[0], expected[2][0]))
