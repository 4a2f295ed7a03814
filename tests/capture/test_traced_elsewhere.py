"""Compiled functions and modules under other tracers: each sees the program itself, as if it were not compiled."""

from __future__ import annotations

import copy
import operator

import pytest
import torch
from torch import fx, nn
from torch._subclasses import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils._python_dispatch import TorchDispatchMode

import vesta

pytestmark = pytest.mark.filterwarnings("ignore")

X = torch.randn(3, 3, generator=torch.Generator().manual_seed(0))


def product(x, y):
    return torch.relu(x @ y) + 1


class Inner(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.register_buffer("scale", torch.tensor(2.0))

    def forward(self, x):
        return torch.relu(self.lin(x)) * self.scale


class Outer(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out(self.inner(x)) + 1


class Calls(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = nn.Parameter(torch.ones(3, 3))

    def forward(self, x):
        return self.function(x, self.weight).sum(-1)


class Method(nn.Module):
    def __init__(self, compiled):
        super().__init__()
        self.lin = nn.Linear(3, 3)
        self.compiled = compiled

    def plain(self, x):
        return self.lin(x).relu()

    fast = vesta.compile(plain)

    def forward(self, x):
        return (self.fast(x) if self.compiled else self.plain(x)) * 2


def whole(compiled):
    model = Outer(Inner())
    return vesta.compile(model) if compiled else model


def submodule(compiled):
    model = Outer(Inner())
    if compiled:
        model.inner = vesta.compile(model.inner)
    return model


def list_of_layers(compiled):
    model = nn.Sequential(Inner(), nn.ModuleList([Inner()])[0], nn.Linear(3, 2))
    if compiled:
        model[1] = vesta.compile(model[1], dynamic=True)
    return model


def function(compiled):
    return Calls(vesta.compile(product) if compiled else product)


def of_fx(compiled):
    graph = fx.symbolic_trace(Outer(Inner()))
    return vesta.compile(graph) if compiled else graph


KINDS = [whole, submodule, list_of_layers, function, Method, of_fx]


def without_ids(graph):
    return [(n.op, str(n.target).split(" at 0x")[0], str(n.args), str(n.kwargs)) for n in graph.nodes]


class LeafInner(fx.Tracer):
    def is_leaf_module(self, module, name):
        return isinstance(module, Inner) or super().is_leaf_module(module, name)


def by_symbolic_trace(model):
    traced = fx.symbolic_trace(model)
    return without_ids(traced.graph), list(traced.state_dict()), traced(X)


def by_leaf_tracer(model):
    graph = LeafInner().trace(model)
    return without_ids(graph), fx.GraphModule(model, graph)(X)


def by_jit_trace(model):
    traced = torch.jit.trace(model, (X,))
    return [n.kind() for n in traced.inlined_graph.nodes()], list(traced.state_dict()), traced(X + 1)


def by_make_fx(model):
    return without_ids(make_fx(model)(X).graph)


def by_symbolic_make_fx(model):
    return without_ids(make_fx(model, tracing_mode="symbolic", _allow_non_fake_inputs=True)(X).graph)


def exported(strict):
    def by_export(model):
        program = torch.export.export(model, (X,), strict=strict)
        names = program.graph_signature
        return (
            [n.target for n in program.graph.nodes if n.op == "call_function"],
            list(program.state_dict),
            list(names.inputs_to_parameters.values()),
            list(names.inputs_to_buffers.values()),
            program.module()(X),
        )

    by_export.__name__ = f"by_export_strict_{strict}"
    return by_export


def by_unflatten(model):
    model = torch.export.unflatten(torch.export.export(model, (X,)))
    try:
        out = model(X)
    except ValueError as e:  # of what is exported from a torch.fx.GraphModule
        out = str(e)
    return out, list(model.state_dict())


def by_dynamo(model):
    torch._dynamo.reset()
    graphs = []

    def backend(gm, examples):
        graphs.append([str(n.target).split(" at 0x")[0] for n in gm.graph.nodes if n.op == "call_function"])
        return gm

    out = torch.compile(lambda x: model(x) * 3, backend=backend, fullgraph=True)(X)
    return graphs, out


def by_torch_compile(model):
    torch._dynamo.reset()
    return torch.compile(model, backend="eager", fullgraph=True)(X)


def by_vmap(model):
    return torch.vmap(model)(torch.stack([X, X + 1]))


def by_grad(model):
    return torch.func.grad(lambda x: model(x).sum())(X)


def by_jacobian(model):
    return torch.func.jacrev(model)(X), torch.func.jvp(model, (X,), (X,))


def by_functional_call(model):
    zeros = {k: torch.full_like(v, 0.5) for k, v in model.named_parameters()}
    return torch.func.functional_call(model, zeros, (X,))


def by_fake_tensors(model):
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        return str(model(mode.from_tensor(X)).shape)


def by_dispatch_mode(model):
    seen = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            seen.append(str(func))
            return func(*args, **(kwargs or {}))

    with Watch():
        out = model(X)
    return seen, out


def by_deepcopy(model):
    copied = copy.deepcopy(model)
    return copied(X), by_symbolic_trace(copied)


def by_transformer(model):
    return fx.Transformer(fx.symbolic_trace(model)).transform()(X)


def by_passes(model):
    traced = fx.symbolic_trace(model)
    for node in traced.graph.nodes:
        if node.target is torch.relu or node.target is operator.add:
            node.target = torch.abs if node.target is torch.relu else operator.sub
    traced.recompile()
    return traced(X), vesta.compile(traced)(X), list(vesta.compile(traced).state_dict())


EXPORTED_STRICTLY = exported(True)
DYNAMO = [EXPORTED_STRICTLY, by_dynamo, by_torch_compile]
WAYS = [
    by_symbolic_trace,
    by_leaf_tracer,
    by_jit_trace,
    by_make_fx,
    by_symbolic_make_fx,
    exported(False),
    EXPORTED_STRICTLY,
    by_unflatten,
    by_dynamo,
    by_torch_compile,
    by_vmap,
    by_grad,
    by_jacobian,
    by_functional_call,
    by_fake_tensors,
    by_dispatch_mode,
    by_deepcopy,
    by_transformer,
    by_passes,
]


def assert_same(found, expected):
    assert type(found) is type(expected)
    if isinstance(expected, tuple | list):
        assert len(found) == len(expected), (found, expected)
        for f, e in zip(found, expected, strict=True):
            assert_same(f, e)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(found, expected)
    else:
        assert found == expected


def made(kind, compiled):
    torch.manual_seed(0)
    return kind(compiled)


@pytest.mark.parametrize("way", WAYS, ids=lambda w: w.__name__)
@pytest.mark.parametrize("kind", KINDS, ids=lambda k: k.__name__)
def test_it_is_as_if_it_were_not_compiled(kind, way):
    if kind is function and way in DYNAMO and torch.__version__.startswith("2.11."):
        pytest.skip("Dynamo of torch 2.11 takes what is in an instance and has a __get__ for the class's")
    expected = way(made(kind, False))
    model = made(kind, True)
    assert_same(way(model), expected)
    before = model(X)
    model(X)  # with a variant that could be hit
    assert_same(way(model), expected)
    torch.testing.assert_close(model(X), before)


@pytest.mark.parametrize("kind", [whole, submodule, list_of_layers])
def test_scripted(kind):
    expected, found = torch.jit.script(made(kind, False)), torch.jit.script(made(kind, True))
    assert_same(found(X), expected(X))
    assert list(found.state_dict()) == list(expected.state_dict())
    assert [n.kind() for n in found.inlined_graph.nodes()] == [n.kind() for n in expected.inlined_graph.nodes()]


def test_functions():
    compiled = vesta.compile(product)
    compiled(X, X)
    assert_same(without_ids(fx.symbolic_trace(compiled).graph), without_ids(fx.symbolic_trace(product).graph))
    assert_same(without_ids(make_fx(compiled)(X, X).graph), without_ids(make_fx(product)(X, X).graph))
    kinds = [[n.kind() for n in torch.jit.trace(f, (X, X)).graph.nodes()] for f in (compiled, product)]
    assert kinds[0] == kinds[1]
    assert torch.jit.script(compiled).code == torch.jit.script(product).code


@vesta.compile
class Callable:
    def __call__(self, x):
        return x.sin() + 1


def test_objects_of_a_compiled_class():
    thing = Callable()
    thing(X)
    assert without_ids(fx.symbolic_trace(lambda x: thing(x)).graph) == without_ids(
        fx.symbolic_trace(lambda x: x.sin() + 1).graph
    )
    torch._dynamo.reset()
    torch.testing.assert_close(torch.compile(lambda x: thing(x), backend="eager")(X), X.sin() + 1)


def test_a_disabled_module_stays_a_break():
    torch._dynamo.reset()
    disabled = vesta.disable(Inner())
    with pytest.raises(torch._dynamo.exc.Unsupported):
        torch.compile(lambda x: disabled(x) + 1, backend="eager", fullgraph=True)(X)
    torch.testing.assert_close(torch.compile(lambda x: disabled(x) + 1, backend="eager")(X), disabled(X) + 1)
    torch.testing.assert_close(vesta.compile(lambda x: disabled(x) + 1)(X), disabled(X) + 1)


def test_the_method_call_is_compiled_too():
    model, compiled_function = vesta.compile(Inner()), vesta.compile(product)
    torch.testing.assert_close(model.__call__(X), model._orig_mod(X))
    torch.testing.assert_close(compiled_function.__call__(X, X), product(X, X))
    assert vesta.explain(model)(X).graphs and model._vesta_call.report().calls
    outer = vesta.compile(lambda x: model.__call__(x) + compiled_function.__call__(x, x), fullgraph=True)
    torch.testing.assert_close(outer(X), model(X) + product(X, X))


def test_a_changed_class_changes_no_calls():
    """fx replaces nn.Module.__call__ while it traces; afterwards calls are compiled as before."""
    model = vesta.compile(Inner())
    model(X)
    fx.symbolic_trace(model)
    calls, hits = model._vesta_call.report().calls, model._vesta_call.report().hits
    model(X)
    assert (model._vesta_call.report().calls, model._vesta_call.report().hits) == (calls + 1, hits + 1)


def test_hooks_are_traced_once():
    def traced(compiled):
        model = made(submodule, compiled)
        model.inner.register_forward_hook(lambda module, args, out: out * 5)
        model.inner.register_forward_pre_hook(lambda module, args: (args[0] - 1,))
        return without_ids(fx.symbolic_trace(model).graph), by_make_fx(model)

    assert traced(True) == traced(False)


def test_quantization_passes_see_the_plain_graph():
    quantize = pytest.importorskip("torch.ao.quantization.quantize_fx")
    from torch.ao.quantization import get_default_qconfig_mapping

    def prepared(model):
        return without_ids(quantize.prepare_fx(model.eval(), get_default_qconfig_mapping("x86"), (X,)).graph)

    for kind in (whole, submodule):
        assert prepared(made(kind, True)) == prepared(made(kind, False))


def test_onnx():
    onnx = pytest.importorskip("onnx")
    pytest.importorskip("onnxscript")
    import io

    def exported_by(model, dynamo):
        file = io.BytesIO()
        if dynamo:
            program = torch.onnx.export(model.eval(), (X,), dynamo=True, verbose=False)
            proto = program.model_proto
        else:
            torch.onnx.export(model.eval(), (X,), file, dynamo=False)
            proto = onnx.load_from_string(file.getvalue())
        return [n.op_type for n in proto.graph.node], sorted(i.name for i in proto.graph.initializer)

    for dynamo in (True, False):
        for kind in (whole, submodule, function):
            assert exported_by(made(kind, True), dynamo) == exported_by(made(kind, False), dynamo)
