"""Switches outside of the program, with the real compiler: stances, marks, disable, fullgraph, reset."""

from __future__ import annotations

import contextlib
import functools
import inspect
import sys
import time
import traceback
import typing
from typing import NamedTuple

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code
from vesta import _C
from vesta.errors import GraphBreak, RecompileError

pytestmark = pytest.mark.skipif(not hasattr(_C, "capture"), reason="this build has no capture of Python functions")


@pytest.fixture
def x():
    return torch.randn(5, 4)


def captured(compiled):
    return vesta.explain(compiled).explanation.captures[0]


def variants(compiled):
    return len(captured(compiled).graphs)


def fallbacks(compiled):
    return sum(f.count for f in captured(compiled).fallbacks)


def plus(x):
    return x.sin() + 1


def line_in(function, text):
    lines, first = inspect.getsourcelines(function)
    return first + next(i for i, line in enumerate(lines) if text in line)


def test_one_graph_then_hits(x):
    compiled = vesta.compile(plus)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), plus(x))
    c = captured(compiled)
    assert (len(c.graphs), c.calls, len(c.breaks), len(c.recompiles)) == (1, 3, 0, 0)
    assert c.op_count == 2 and c.graphs[0].end == "return" and not c.fallbacks
    assert c.graphs[0].compiled.ops_fused == (2 if generates_code() else 0)
    assert c.total_ms > 0 and "trace" in c.graphs[0].ms
    assert c.where.file == __file__ and c.where.line == line_in(plus, "def plus")


def test_a_profiler_that_is_gone_costs_no_call(x):
    seen = []
    sys.setprofile(lambda frame, event, argument: seen.append(event))
    sys.setprofile(None)
    compiled = vesta.compile(plus)
    torch.testing.assert_close(compiled(x), plus(x))
    assert seen and variants(compiled) == 1 and not fallbacks(compiled)


def test_force_eager(x):
    compiled = vesta.compile(plus)
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(compiled(x), plus(x))
    assert variants(compiled) == 0
    torch.testing.assert_close(compiled(x), plus(x))
    assert variants(compiled) == 1


def test_eager_on_recompile(x):
    compiled = vesta.compile(plus)
    compiled(x)
    with torch.compiler.set_stance("eager_on_recompile"):
        compiled(x)
        assert fallbacks(compiled) == 0
        torch.testing.assert_close(compiled(x.double()), plus(x.double()))
    assert variants(compiled) == 1 and fallbacks(compiled) == 1
    compiled(x.double())
    assert variants(compiled) == 2


def test_fail_on_recompile(x):
    compiled = vesta.compile(plus)
    with torch.compiler.set_stance("fail_on_recompile"), pytest.raises(RecompileError, match="was not compiled before"):
        compiled(x)
    compiled(x)
    with torch.compiler.set_stance("fail_on_recompile"):
        torch.testing.assert_close(compiled(x), plus(x))
        with pytest.raises(RecompileError, match="guard") as error:
            compiled(x.double())
    assert error.value.name == "plus" and error.value.guard
    torch.testing.assert_close(compiled(x.double()), plus(x.double()))


def test_eager_then_compile(x):
    compiled = vesta.compile(plus)
    with torch.compiler.set_stance("eager_then_compile"):
        compiled(x)
        assert variants(compiled) == 0
        compiled(x)
        assert variants(compiled) == 1


def test_marked_sizes(x):
    compiled = vesta.compile(plus)
    torch._dynamo.mark_dynamic(x, 0)
    for rows in (5, 6, 7):
        y = torch.randn(rows, 4) if rows > 5 else x
        torch.testing.assert_close(compiled(y), plus(y))
    assert variants(compiled) == 1

    compiled = vesta.compile(plus, dynamic=True)
    for rows in (5, 6):
        y = torch.randn(rows, 4)
        torch._dynamo.mark_static(y, 0)
        compiled(y)
    assert variants(compiled) == 2


def test_sizes_that_change(x):
    for dynamic, expected in ((None, 2), (True, 1), (False, 4)):
        compiled = vesta.compile(plus, dynamic=dynamic)
        for rows in (5, 6, 7, 8):
            y = torch.randn(rows, 4)
            torch.testing.assert_close(compiled(y), plus(y))
        assert variants(compiled) == expected, dynamic


@pytest.mark.parametrize(
    "make, sizes",
    [
        (lambda: nn.LayerNorm(8), [(2, 3, 8), (4, 5, 8)]),
        (lambda: nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()), [(2, 3, 9, 11), (4, 3, 7, 8)]),
        (lambda: nn.GroupNorm(2, 4), [(2, 4, 5), (3, 4, 7)]),
        (lambda: nn.MultiheadAttention(8, 2), [(3, 2, 8), (5, 4, 8)]),
    ],
)
def test_every_size_symbolic_from_the_first_call(make, sizes):
    """A dimension that a weight fixes is a constant with a guard."""
    model = make().eval()
    compiled = vesta.compile(model, dynamic=True)
    with torch.no_grad():
        for size in sizes:
            y = torch.randn(size)
            arguments = (y, y, y) if isinstance(model, nn.MultiheadAttention) else (y,)
            torch.testing.assert_close(compiled(*arguments), model(*arguments))
    assert not fallbacks(compiled) and variants(compiled) == 1


def test_a_size_that_is_compared_has_its_line():
    def compared(a):
        if a.shape[0] * 2 < 16:
            return a + 1
        return a * 2

    compiled = vesta.compile(compared, dynamic=True)
    for rows in (9, 10):
        a = torch.randn(rows)
        torch.testing.assert_close(compiled(a), compared(a))
    (guard,) = (g for g in captured(compiled).guards if "2*" in g.text)
    assert guard.text == "2*a.size(0) >= 16" and guard.where.line == line_in(compared, "< 16")
    a = torch.randn(4)
    torch.testing.assert_close(compiled(a), compared(a))
    assert variants(compiled) == 2
    (recompile,) = captured(compiled).recompiles
    assert recompile.where.line == line_in(compared, "< 16")


def test_under_a_default_device(x):
    def made(x):
        return x * torch.full((4,), 3.0) + torch.arange(4), torch.ones(2).device

    compiled = vesta.compile(made, fullgraph=True)
    try:
        for device in ("cpu", None, "cpu", None):
            torch.set_default_device(device)
            torch.testing.assert_close(compiled(x)[0], made(x)[0])
        with torch.device("cpu"):
            torch.testing.assert_close(compiled(x)[0], made(x)[0])
        assert not fallbacks(compiled) and variants(compiled) == 2
        torch.set_default_device("meta")
        assert vesta.compile(lambda x: (x * 2, torch.ones(2).device))(x)[1].type == "meta"
    finally:
        torch.set_default_device(None)


def test_a_break_that_is_asked_for(x):
    def parted(x):
        y = x + 1
        torch._dynamo.graph_break()
        return y * 2

    compiled = vesta.compile(parted)
    for _ in range(2):
        torch.testing.assert_close(compiled(x), parted(x))
    (where,) = captured(compiled).breaks
    assert where.name == "requested-break" and len(captured(compiled).graphs) == 2
    with pytest.raises(vesta.errors.GraphBreak, match="requested-break"):
        vesta.compile(parted, fullgraph=True)(x)


def test_exceptions_of_the_program_are_not_refused(x):
    def checked(x):
        y = x * 2
        if x.shape[0] == 3:
            raise ValueError(f"{x.shape[0]} rows")
        return y

    compiled = vesta.compile(checked, fullgraph=True)
    for _ in range(3):
        with pytest.raises(ValueError, match="3 rows"):
            compiled(torch.ones(3, 4))
        torch.testing.assert_close(compiled(x), checked(x))
    assert [f.reason for f in captured(compiled).fallbacks] == ["raises ValueError"]
    assert len(captured(compiled).graphs) == 1


def test_annotations_are_no_break(x):
    T = typing.TypeVar("T")

    def annotated(x):
        def total(y: torch.Tensor) -> torch.Tensor:
            return y.sum()

        def applied(f: typing.Callable[[T], T], y: typing.Optional[dict[str, typing.List[T]]] = None) -> T:  # noqa: UP006, UP045
            return f(x)

        return applied(total)

    torch.testing.assert_close(vesta.compile(annotated, fullgraph=True)(x), annotated(x))


def test_is_compiling_in_captured_code(x):
    def asks(x):
        if vesta.is_compiling() and torch.compiler.is_compiling():
            return x + 1
        return x + 2

    torch.testing.assert_close(vesta.compile(asks)(x), x + 1)
    assert not vesta.is_compiling()


@pytest.mark.parametrize("decorated", [False, True])
def test_a_block_without_gradients_is_compiled(x, decorated):
    linear = nn.Linear(4, 4)

    @torch.no_grad() if decorated else lambda f: f
    def f(x):
        with torch.no_grad():
            return linear(x) * 2

    compiled = vesta.compile(f, fullgraph=True)
    for given in (x, x.clone().requires_grad_(), x):
        result = compiled(given)
        torch.testing.assert_close(result, f(given))
        assert not result.requires_grad
    assert variants(compiled) == 1 and not fallbacks(compiled)
    assert captured(compiled).graphs[0].op_count <= 3


def test_disabled_functions_are_breaks(x):
    def body(x):
        return x * 2 if vesta.is_compiling() else x * 3

    for disabled in (vesta.disable(body, reason="it counts"), torch.compiler.disable(body, reason="it counts")):

        def calls(x, disabled=disabled):
            y = x.sin()
            z = disabled(y)
            return z.cos()

        compiled = vesta.compile(calls)
        torch.testing.assert_close(compiled(x), calls(x))
        (stop,) = captured(compiled).breaks
        assert "it counts" in stop.reason and stop.where.line == line_in(calls, "disabled(y)")
        with pytest.raises(GraphBreak, match="it counts"):
            vesta.compile(calls, fullgraph=True)(x)


def test_fullgraph_names_the_line_and_leaves_no_trace(x, capsys):
    log = []

    def prints(x):
        log.append(1)
        y = x + 1
        print("y")
        return y * 2

    compiled = vesta.compile(prints, fullgraph=True)
    for _ in range(2):
        with pytest.raises(GraphBreak) as error:
            compiled(x)
        assert error.value.line == line_in(prints, "print(") and error.value.file == __file__
        assert error.value.function.endswith("prints") and error.value.reason
        assert 'print("y")' in str(error.value)
    assert log == [] and capsys.readouterr().out == ""
    vesta.compile(prints)(x)
    assert log == [1] and capsys.readouterr().out == "y\n"


def test_compiled_code_calls_compiled_code(x):
    inner = vesta.compile(plus)
    layer = vesta.compile(nn.Linear(4, 4).eval())

    class Thing:
        @vesta.compile
        def method(self, x):
            return x * 2

    thing = Thing()

    def outer(x):
        return thing.method(layer(inner(x)))

    compiled = vesta.compile(outer, fullgraph=True)
    with torch.no_grad():
        for _ in range(2):
            torch.testing.assert_close(compiled(x), outer(x))
    assert variants(compiled) == 1


def test_compiled_code_that_is_replaced_is_seen(x):
    parts = {"function": vesta.compile(plus), "layer": vesta.compile(nn.Linear(4, 4).eval())}

    def outer(x):
        return parts["layer"](parts["function"](x))

    compiled = vesta.compile(outer)
    with torch.no_grad():
        torch.testing.assert_close(compiled(x), outer(x))
        parts["function"] = vesta.compile(lambda x: x * 5)
        torch.testing.assert_close(compiled(x), outer(x))
        parts["layer"] = vesta.compile(nn.Linear(4, 4).eval())
        torch.testing.assert_close(compiled(x), outer(x))


def test_reset(x):
    compiled = vesta.compile(plus)
    compiled(x)
    assert variants(compiled) == 1
    vesta.reset()
    assert variants(compiled) == 0
    torch.testing.assert_close(compiled(x), plus(x))
    assert variants(compiled) == 1


def test_no_frame_of_ours_in_tracebacks(x):
    def fails(x):
        y = x + 1
        raise ValueError(y.shape)

    class Failing(nn.Module):
        def forward(self, x):
            return fails(x)

    for compiled, plain in ((vesta.compile(fails), fails), (vesta.compile(Failing()), Failing())):
        for _ in range(2):
            frames = []
            for call in (compiled, plain):
                with pytest.raises(ValueError, match="5, 4") as error:
                    call(x)
                frames.append([(f.name, f.lineno) for f in traceback.extract_tb(error.value.__traceback__)][1:])
            assert frames[0] == frames[1]


def test_explain_tells_the_story(x):
    def story(x, log):
        y = x.sin() * 2
        print("between")
        log.append(len(log))
        return y + 1

    explain = vesta.explain(story)
    log = []
    explanation = explain(x, log)
    torch.testing.assert_close(explain.result, x.sin() * 2 + 1)
    assert log == [0] and len(explanation.graphs) == 2
    (stop,) = explanation.breaks
    assert stop.where.text == 'print("between")' and stop.count == 1 and stop.name == "print"
    text = str(explain(x.double(), log))
    assert "Recompiles" in text and "Float became Double" in text and 'print("between")' in text


def test_floats_that_change_need_no_recompiles(x):
    def step(x, rate):
        lr = rate * 0.9**2
        if lr > 100:
            return x
        return (x * lr + 1 / rate).sin()

    compiled = vesta.compile(step)
    for rate in (0.1, 0.2, 0.3, 0.4, 0.5):
        torch.testing.assert_close(compiled(x, rate), step(x, rate))
    assert variants(compiled) == 2 and len(captured(compiled).recompiles) == 1
    compiled(x, 1000.0)
    assert variants(compiled) == 3
    last = captured(compiled).recompiles[-1]
    assert (last.guard, last.was, last.now) == ("((rate * 0.81) > 100) is False", "False", "True")
    assert last.where.line == line_in(step, "if lr > 100")


def test_the_item_of_a_tensor_is_another_number_each_time(x):
    def f(x):
        total = x.sum().item()
        return x * total if total < 1e9 else x

    compiled = vesta.compile(f)
    for i in range(5):
        torch.testing.assert_close(compiled(x + i), f(x + i))
    assert variants(compiled) == 2 and not captured(compiled).recompiles and not fallbacks(compiled)


def test_values_that_are_asked_for_become_breaks(x):
    def f(x, text, limit):
        y = torch.clamp(x, max=limit)
        return {text: y}, text.upper()

    compiled = vesta.compile(f)
    for i in range(12):
        torch.testing.assert_close(compiled(x, "a", 0.1 * i)[0], f(x, "a", 0.1 * i)[0])
    assert captured(compiled).breaks and not fallbacks(compiled)
    assert variants(compiled) <= 8
    compiled = vesta.compile(f)
    for i in range(12):
        assert compiled(x, f"text {i}", 0.5)[1] == f"TEXT {i}"
    assert not fallbacks(compiled)


def test_fullgraph_compiles_each_value(x):
    compiled = vesta.compile(lambda x, s: torch.clamp(x, max=s), fullgraph=True)
    for i in range(8):
        torch.testing.assert_close(compiled(x, 0.1 * i), torch.clamp(x, max=0.1 * i))
    assert variants(compiled) == 8


class Pair(NamedTuple):
    left: torch.Tensor
    right: list


def test_fields_of_named_tuples_are_read(x):
    compiled = vesta.compile(lambda pair: pair.left * 2 + pair.right[0], fullgraph=True)
    torch.testing.assert_close(compiled(Pair(x, [x])), x * 3)


@pytest.mark.parametrize("fullgraph", [False, True])
@pytest.mark.parametrize("most", [4, None])
def test_results_that_are_kept_are_read(x, fullgraph, most):
    computed = []

    @functools.lru_cache(maxsize=most)
    def table(n, *, scale=1.0):
        computed.append(n)
        return torch.arange(n) * scale

    def f(x):
        return x + table(4) - table(4, scale=0.5)

    compiled = vesta.compile(f, fullgraph=fullgraph)
    for calls in range(1, 4):
        torch.testing.assert_close(compiled(x), x + torch.arange(4) * 0.5)
        assert computed == [4, 4] and table.cache_info()[:2] == (2 * calls - 2, 2)
    c = captured(compiled)
    assert len([g for g in c.graphs if g.end == "return" and g.op_count == 2]) == 1
    table.cache_clear()
    torch.testing.assert_close(compiled(x), x + torch.arange(4) * 0.5)
    assert computed == [4] * 4 and table.cache_info()[:2] == (0, 2)


def test_results_that_are_never_kept_are_breaks(x):
    table = functools.lru_cache(maxsize=0)(lambda n: n + 1)
    f = vesta.compile(lambda x: (x + table(4)) * table(5))
    for _ in range(12):
        torch.testing.assert_close(f(x), (x + 5) * 6)
    assert len(captured(f).breaks) == 1 and variants(f) == 3 and not fallbacks(f)
    with pytest.raises(GraphBreak, match="cached-result-missing"):
        g = vesta.compile(lambda x: (x + table(4)) * table(5), fullgraph=True)
        for _ in range(12):
            g(x)


def test_dynamic_false_keeps_constants(x):
    compiled = vesta.compile(lambda x, s: x * s, dynamic=False)
    for i in range(1, 4):
        torch.testing.assert_close(compiled(x, 0.1 * i), x * (0.1 * i))
    assert variants(compiled) == 3


@pytest.mark.parametrize("disable", [vesta.disable, torch.compiler.disable])
def test_what_a_function_disabled_alone_calls_is_compiled(x, disable):
    def inner(x):
        return x.sin() + 1

    @disable(recursive=False)
    def alone(x):
        assert not vesta.is_compiling()
        return inner(x) * 2 + inner(x + 1)

    @disable
    def whole(x):
        return inner(x) * 2

    def f(x, middle):
        return middle(x.cos()) - 1

    compiled = vesta.compile(f)
    for _ in range(3):
        torch.testing.assert_close(compiled(x, alone), f(x, alone))
    assert any("aten::sin" in g.ops for g in captured(compiled).graphs)
    compiled = vesta.compile(lambda x, middle: middle(x.cos()) - 1)
    torch.testing.assert_close(compiled(x, whole), f(x, whole))
    assert not any("aten::sin" in g.ops for g in captured(compiled).graphs)


def hooks_on_saved_tensors(x):
    with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
        return x.sin()


def generator(x):
    yield x


@pytest.mark.parametrize(
    ("function", "reason"),
    [(hooks_on_saved_tensors, "hooks on the tensors"), (generator, "generator")],
)
def test_fullgraph_refuses_what_is_not_compiled_at_all(function, reason):
    compiled = vesta.compile(function, fullgraph=True)
    for _ in range(2):
        with pytest.raises(GraphBreak, match=reason) as caught:
            compiled(torch.ones(2, requires_grad=True))
        assert caught.value.file == __file__


def test_fullgraph_refuses_one_variant_too_many(x):
    compiled = vesta.compile(lambda x, flag: x + 1 if flag == "a" else x, fullgraph=True, options={"variant_limit": 3})
    for i in range(3):
        compiled(x, str(i))
    with pytest.raises(GraphBreak, match="limit of 3 variants"):
        compiled(x, "3")


def test_much_python_before_the_first_operator_is_left_to_python(x):
    """A trace takes many times as long as Python: it is given up once, early, and not for each call."""

    def f(x, n):
        seen = 0
        for i in range(n):
            seen = seen + i % 3
        return x + seen

    compiled = vesta.compile(f)
    start = time.perf_counter()
    for _ in range(3):
        torch.testing.assert_close(compiled(x, 1_000_000), f(x, 1_000_000))
    assert time.perf_counter() - start < 10
    assert [s.name for s in captured(compiled).skipped] == ["long-trace"]
    brief = vesta.compile(f)
    torch.testing.assert_close(brief(x, 1000), f(x, 1000))
    assert not captured(brief).skipped and captured(brief).graphs


def test_a_long_loop_is_left_to_python(x):
    """A loop that unrolls to tens of thousands of operators would take longer to compile than to run."""

    def f(x, n):
        for i in range(n):
            x[i % 4] = x[i % 3] + 1
        return x

    compiled = vesta.compile(f)
    x = torch.arange(5.0)
    torch.testing.assert_close(compiled(x.clone(), 9000), f(x.clone(), 9000))
    assert [s.name for s in captured(compiled).skipped] == ["many-operators"]


def test_a_break_in_what_a_closure_wraps_leaves_nothing_to_python(x):
    """The generator behind a context manager cannot be rebuilt: the trace goes back to where it was made."""

    @contextlib.contextmanager
    def scope():
        yield 2

    def body(x):
        y = x.sin()
        torch._dynamo.graph_break()
        return y.cos()

    def wrap(body):
        def wrapper(x):
            with scope() as n:
                for _ in range(40):
                    x = x + n
                y = body(x)
            return y + 1

        return wrapper

    explanation = vesta.explain(wrap(body))(x)
    assert not explanation.fallbacks
    assert {"aten::sin", "aten::cos"} <= {op for g in explanation.graphs for op in g.ops}


def test_forward_mode_gradients_run_eager(x):
    def f(x):
        return (x * x).sin()

    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
        compiled = vesta.compile(f)
        result = torch.autograd.forward_ad.unpack_dual(compiled(dual))
        torch.testing.assert_close(result.tangent, (x * x).cos() * 2 * x)
    torch.testing.assert_close(compiled(x), f(x))

    def tangent(x):
        with torch.autograd.forward_ad.dual_level():
            dual = torch.autograd.forward_ad.make_dual(x, torch.ones_like(x))
            return torch.autograd.forward_ad.unpack_dual(f(dual)).tangent

    torch.testing.assert_close(vesta.compile(tangent)(x), tangent(x))
