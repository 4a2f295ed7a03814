"""What enters PyTorch's own compiler inside of a compiled function: it is part of the program, or a break that does as
eager does. Results, gradients and where there are none are eager's."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch import nn
from torch._higher_order_ops import associative_scan, map, scan, while_loop
from torch.nn.attention.flex_attention import create_block_mask, create_mask, flex_attention
from torch.utils import _pytree as pytree

import vesta

pytestmark = pytest.mark.filterwarnings("ignore")

torch.manual_seed(0)
X = torch.randn(4, 3)
Q = torch.randn(2, 2, 128, 8)
K = torch.randn(2, 1, 128, 8)


def distance(score, b, h, m, n):
    return score - (m - n).abs() * 0.1


def causal(b, h, m, n):
    return m >= n


def attention(q):
    return flex_attention(q * 2, q, q) + 1


def attention_with_score(q):
    return flex_attention(q, q, q, score_mod=distance).relu()


def attention_with_mask(q):
    mask = create_block_mask(causal, None, None, 128, 128, device="cpu")
    return flex_attention(q * 2, q, q, block_mask=mask) * 2


def attention_with_bias(q):
    bias = q.mean((0, 2, 3))
    return flex_attention(q, q, q, score_mod=lambda score, b, h, m, n: score + bias[h])


def attention_with_groups(q):
    return flex_attention(q, K, K * 2, enable_gqa=True, scale=0.3)


def attention_with_statistics(q):
    out, logsumexp = flex_attention(q, q, q, return_lse=True)
    return out, logsumexp * 2


def dense_mask(q):
    return create_mask(causal, None, None, 8, 8, device="cpu") & (q[0, 0, :8, :8] > 0)


def branch_on_values(x):
    return torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x * 2,)) + 1


def branch_on_sizes(x):
    return torch.cond(x.shape[0] > 2, lambda x: x.sin(), lambda x: x.cos(), (x * 2,)) + 1


def branch_that_uses_one(x):
    y = x * 3
    return torch.cond(x.sum() > 0, lambda x, y: x * 2, lambda x, y: y * 2, (x + 1, y))


def loop(x):
    return while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2), (torch.tensor(0), x * 1))


def carried(x):
    return scan(lambda c, y: (c + y, (c * y).sin()), x[0] * 1, x + 1)


def carried_backwards(x):
    return scan(lambda c, y: (c * y, c + y), x[:, 0] * 1, x + 1, dim=1, reverse=True)


def prefix_sums(x):
    return associative_scan(lambda a, b: a + b, x * 2, 0, combine_mode="generic")


def mapped(x):
    return map(lambda a, b: a.sin() + b, x * 2, x[0])


def mapped_trees(x):
    return map(lambda a, b: {"sum": a["x"] + b, "both": (a["x"] * 3, a["y"] * 2)}, {"x": x.sin(), "y": x * 2}, x[0])[
        "both"
    ][1]


def trees(x):
    leaves, spec = pytree.tree_flatten({"a": [x, x * 2], "b": (x.sin(),)})
    return pytree.tree_map(lambda t: t + 1, pytree.tree_unflatten([t * 3 for t in leaves], spec))


PROGRAMS = [
    (attention, Q),
    (attention_with_score, Q),
    (attention_with_mask, Q),
    (attention_with_bias, Q),
    (attention_with_groups, Q),
    (attention_with_statistics, Q),
    (dense_mask, Q),
    (branch_on_values, X.abs()),
    (branch_on_values, -X.abs()),
    (branch_on_sizes, X),
    (branch_that_uses_one, X.abs()),
    (loop, X),
    (carried, X),
    (carried_backwards, X),
    (prefix_sums, X),
    (mapped, X),
    (mapped_trees, X),
    (trees, X),
]
ONE_GRAPH = {attention, attention_with_score, branch_on_sizes, loop, carried, prefix_sums, mapped, trees}


def assert_equal(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected)
        for f, e in zip(found, expected, strict=True):
            assert_equal(f, e)
    elif isinstance(expected, dict):
        assert list(found) == list(expected)
        assert_equal(list(found.values()), list(expected.values()))
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)
        assert found.stride() == expected.stride() and found.requires_grad == expected.requires_grad
    else:
        assert found == expected


def run(function, x, gradients):
    """The result of the function and the gradient of its input, or the type of its exception."""
    x = x.clone().requires_grad_(gradients)
    try:
        out = function(x)
    except NotImplementedError as e:  # flex_attention's of gradients on a CPU
        return type(e), None
    losses = [t.float().pow(2).sum() for t in pytree.tree_leaves(out) if t.requires_grad]
    if losses:
        sum(losses).backward()
    return out, x.grad


def name_of(value):
    return getattr(value, "__name__", None)


@pytest.mark.parametrize("mode", ["no_grad", "grad mode", "gradients"])
@pytest.mark.parametrize(("function", "x"), PROGRAMS, ids=name_of)
def test_equals_eager(function, x, mode):
    with torch.set_grad_enabled(mode != "no_grad"):
        expected = run(function, x, mode == "gradients")
        compiled = vesta.compile(function)
        for _ in range(3):
            assert_equal(run(compiled, x, mode == "gradients"), expected)


@pytest.mark.parametrize(("function", "x"), [p for p in PROGRAMS if p[0] in ONE_GRAPH], ids=name_of)
def test_is_one_graph_without_gradients(function, x):
    with torch.no_grad():
        function(x)  # lazy imports
        explain = vesta.explain(function)
        explain(x)
        explain(x)
        graphs = [g for g in explain.explanation.captures[0].graphs if g.stop is None and g.hits]
        assert graphs, str(explain)
        vesta.compile(function, fullgraph=True)(x)


class Expert(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(3, 3), nn.Linear(3, 3)

    def forward(self, x):
        return torch.cond(x.sum() > 0, self.a, self.b, (x,))


def test_gradients_of_the_branch_that_is_not_taken_are_zeros():
    def gradients(model):
        model(X.abs()).sum().backward()
        return [p.grad for p in model.parameters()]

    torch.manual_seed(1)
    expected = gradients(Expert())
    torch.manual_seed(1)
    found = gradients(vesta.compile(Expert()))
    assert_equal(found, expected)
    assert len(found) == 4 and all(g is not None for g in found)


def test_a_branch_may_be_another_one_in_the_next_call():
    compiled = vesta.compile(branch_on_values)
    with torch.no_grad():
        for x in (X.abs(), -X.abs(), X.abs()):
            torch.testing.assert_close(compiled(x), branch_on_values(x))


def test_a_loop_runs_as_often_as_its_values_say():
    def halve(x):
        return while_loop(lambda n, x: x.sum() > 1, lambda n, x: (n + 1, x / 2), (torch.tensor(0), x + 0))

    compiled = vesta.compile(halve)
    with torch.no_grad():
        for scale in (1.0, 100.0, 0.0):
            assert_equal(compiled(X.abs() * scale), halve(X.abs() * scale))


@pytest.mark.parametrize(
    "wrong",
    [
        lambda x: torch.cond(x.sum() > 0, 3, lambda x: x, (x,)),
        lambda x: map(lambda a: a, torch.empty(0, 3)),
        lambda x: scan(lambda c, y: (c, y), x[0], x, dim=7),
        lambda x: flex_attention(x, x, x),
    ],
)
def test_what_eager_refuses_is_refused(wrong):
    with torch.no_grad():
        with pytest.raises(Exception) as expected:
            wrong(X)
        for _ in range(2):
            with pytest.raises(type(expected.value)):
                vesta.compile(wrong)(X)


# ---- functions that torch.compile made


def inner(x):
    return torch.relu(x) * 2 + 1


BACKENDS = ["eager", "aot_eager", "vesta", lambda gm, examples: gm.forward]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("backend", BACKENDS, ids=["eager", "aot_eager", "vesta", "own"])
def test_a_function_compiled_by_torch_is_part_of_the_program(backend, gradients):
    by_torch = torch.compile(inner, backend=backend)

    def program(x):
        return by_torch(x * 2) - 1

    expected = run(lambda x: inner(x * 2) - 1, X, gradients)
    compiled = vesta.compile(program, fullgraph=True)
    for _ in range(2):
        assert_equal(run(compiled, X, gradients), expected)


def test_a_module_compiled_by_torch_is_part_of_the_program():
    torch.manual_seed(2)
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    by_torch = torch.compile(model, backend="eager")
    compiled = vesta.compile(lambda x: by_torch(x) + 1, fullgraph=True)
    assert_equal(run(compiled, X, True), run(lambda x: model(x) + 1, X, True))


def test_a_break_in_a_function_compiled_by_torch():
    said = []

    @torch.compile(backend="eager")
    def breaks(x):
        said.append(float(x.sum()))
        torch._dynamo.graph_break()
        return x + said[-1]

    compiled = vesta.compile(lambda x: breaks(x * 2) * 2)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), (X * 2 + (X * 2).sum()) * 2)
    assert len(said) == 2


def test_torch_compile_called_inside():
    def program(x):
        return torch.compile(inner, backend="eager")(x * 2) - 1

    compiled = vesta.compile(program)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), inner(X * 2) - 1)


def test_compiling_by_vesta_what_torch_compiled():
    compiled = vesta.compile(torch.compile(inner, backend="eager"))
    assert_equal(run(compiled, X, True), run(inner, X, True))


def test_export_inside():
    class Model(nn.Module):
        def forward(self, x):
            return x.sin() + 1

    def program(x):
        y = x * 2
        return torch.export.export(Model(), (y,)).module()(y) * 3

    compiled = vesta.compile(program)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), ((X * 2).sin() + 1) * 3)


def test_tracers_inside():
    from torch.fx.experimental.proxy_tensor import make_fx

    def by_fx(x):
        return torch.fx.symbolic_trace(inner)(x * 2) + make_fx(inner)(x)(x) + torch.jit.trace(inner, (x,))(x)

    compiled = vesta.compile(by_fx)
    for _ in range(2):
        torch.testing.assert_close(compiled(X), inner(X * 2) + inner(X) * 2)


@torch._dynamo.allow_in_graph
def allowed(x):
    return x.sin()


@torch._dynamo.nonstrict_trace
def nonstrict(x):
    return x.cos()


@torch.compiler.assume_constant_result
def constant():
    return 3


@torch.compiler.disable
def disabled(x):
    return x * 5


def marks(x):
    y = x + 1
    torch._dynamo.mark_dynamic(y, 0)
    torch._dynamo.mark_static(y, 1)
    torch._dynamo.maybe_mark_dynamic(y, 0)
    return y * 2


def stances(x):
    with torch.compiler.set_stance("force_eager"):
        y = x * 2
    return y + 1


def patched(x):
    with torch._dynamo.config.patch(verbose=False):
        y = x * 2
    return y + 1


def resets(x):
    y = x * 2
    torch.compiler.reset()
    return y + 1


def steps(x):
    torch.compiler.cudagraph_mark_step_begin()
    return x + 1


def decorates(x):
    return torch.compiler.disable(torch._dynamo.allow_in_graph(lambda y: y * 2))(x + 1)


MARKED = [
    lambda x: allowed(x) + 1,
    lambda x: nonstrict(x) + 1,
    lambda x: x + constant(),
    lambda x: disabled(x) + 1,
    marks,
    stances,
    patched,
    resets,
    steps,
    decorates,
]


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize("function", MARKED, ids=[f.__name__ + str(i) for i, f in enumerate(MARKED)])
def test_functions_of_torch_compiler_inside(function, gradients):
    expected = run(function, X, gradients)
    compiled = vesta.compile(function)
    for _ in range(3):
        assert_equal(run(compiled, X, gradients), expected)


def test_dynamo_after_vesta_and_vesta_after_dynamo():
    by_vesta, by_torch = vesta.compile(inner), torch.compile(inner, backend="eager")
    for _ in range(2):
        for f in (by_vesta, by_torch, vesta.compile(attention_with_score)):
            with warnings.catch_warnings(), torch.no_grad():
                f(Q)
    torch.testing.assert_close(by_torch(X), by_vesta(X))
