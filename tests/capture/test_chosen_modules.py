"""vesta.compile(model, only=..., skip=...), and layers that cannot be compiled, beside which the others still are."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.threads import in_threads
from vesta import _C
from vesta.errors import UserError

LAYERS = 20  # more than the limit of variants
FAULT = "kernel:exp"


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(8, 8) / 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x @ self.weight, -1) + 1


class Mlp(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.up, self.down = nn.Linear(8, 16), nn.Linear(16, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.down(torch.sin(self.up(x)) * 2)


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.attention, self.mlp = Attention(), Mlp()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(x)
        return x + self.mlp(torch.tanh(x) * 3)


class Model(nn.Module):
    def __init__(self, layers: int = LAYERS) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer() for _ in range(layers))
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x)
        return self.head(x).abs() + 1


@pytest.fixture(autouse=True)
def _no_gradients_and_no_faults() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield
    for stage in (FAULT, "operator:aten::exp", "plan", "trace"):
        _C.inject_fault(stage, "none")


def _compiled(model: nn.Module, **arguments: Any) -> Any:
    return vesta.compile(model, options={"only_if_faster": False, "cache": False}, **arguments)


def _explained(model: nn.Module, calls: int = 3, **arguments: Any) -> Any:
    """The explanation after some calls, each of which gave what eager gives."""
    explainer = vesta.explain(_compiled(model, **arguments))
    for rows in range(4, 4 + calls):
        x = torch.randn(rows, 8)
        explainer(x)
        torch.testing.assert_close(explainer.result, model(x))
    return explainer.explanation.captures[0]


def _operators(captured: Any) -> dict[str, int]:
    """Operators of graphs by name, once for each time that a graph ran."""
    counts: dict[str, int] = {}
    for g in captured.graphs:
        for name, n in g.ops.items():
            counts[name] = counts.get(name, 0) + n * g.hits
    return counts


def test_only_these_modules_are_compiled() -> None:
    model = Model().eval()
    c = _explained(model, only=["layers.*.mlp", "head"])
    assert c.only == tuple(sorted(["head", *(f"layers.{i}.mlp" for i in range(LAYERS))]))
    ops = _operators(c)
    assert ops == {"aten::linear": 3 * (2 * LAYERS + 1), "aten::sin": 3 * LAYERS, "aten::mul.Scalar": 3 * LAYERS}
    assert not c.fallbacks and not c.breaks
    assert "compiled of its modules: head, layers.0.mlp" in str(c)


def test_only_of_a_class_and_without_what_skip_names() -> None:
    c = _explained(Model(3).eval(), only=[Layer], skip=["layers.1"])
    assert c.only == ("layers.0", "layers.2")
    assert _operators(c)["aten::softmax.int"] == 2 * 3


@pytest.mark.parametrize("layers", [2, LAYERS, 70])
def test_skipped_modules_run_in_python(layers: int) -> None:
    c = _explained(Model(layers).eval(), skip=["layers.*.mlp"])
    ops = _operators(c)
    assert "aten::sin" not in ops
    assert ops["aten::softmax.int"] == ops["aten::tanh"] == 3 * layers
    assert ops["aten::abs"] == 3
    assert {b.name for b in c.breaks} <= {"module-skipped", "outer-iterator"}  # the latter is that of the loop
    assert "calls the module layers.0.mlp, which vesta.compile(skip=...) names" in str(c)
    assert not c.fallbacks


def test_a_variant_for_one_layer_does_not_serve_one_that_skip_names() -> None:
    class Printing(Layer):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            print(end="")  # so that each layer is a call of its own
            x = x + self.attention(x)
            return x + self.mlp(torch.tanh(x) * 3)

    model = Model(4).eval()
    model.layers = nn.ModuleList(Printing() for _ in range(4))
    c = _explained(model, skip=["layers.2.mlp"])
    ops = _operators(c)
    assert ops["aten::sin"] == 3 * 3 and ops["aten::softmax.int"] == 3 * 4


def test_skip_by_class_leaves_methods_out_too() -> None:
    class Calls(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = Mlp()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.part.forward(x).cos()

    c = _explained(Calls().eval(), skip=[Mlp])
    assert _operators(c) == {"aten::cos": 3}


def test_a_compiled_method_follows_only() -> None:
    model = Model(2).eval()
    compiled = _compiled(model, only=["layers.1"])
    x = torch.randn(4, 8)
    torch.testing.assert_close(compiled.forward(x), model(x))
    captured = [c for c in vesta.explain(compiled).explanation.captures if c.calls]
    assert [_operators(c).get("aten::softmax.int") for c in captured] == [1]


class Raising(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.part, self.raises = Mlp(), False

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.part(x)
        if self.raises:
            raise ValueError
        return x


class Catching(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Raising(), Raising()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        try:
            x = self.first(x)
        except ValueError:
            x = x + 100
        return self.second(self.second(x))


def test_errors_pass_through_what_is_compiled() -> None:
    model = Catching().eval()
    compiled = _compiled(model, only=["first", "second"])
    x = torch.randn(4, 8)
    for raises in (False, True, False, True):
        model.first.raises = raises
        torch.testing.assert_close(compiled(x), model(x))
    captured = vesta.explain(compiled).explanation.captures[0]
    assert _operators(captured)["aten::sin"] >= 4 * 2 + 2


def test_threads_capture_their_own_frames() -> None:
    model = Catching().eval()
    compiled = _compiled(model, only=["second"])
    x = torch.randn(4, 8)
    expected = model(x)

    def work(_: int) -> None:
        with torch.no_grad():
            for _call in range(50):
                torch.testing.assert_close(compiled(x), expected)

    in_threads(4, work)
    assert vesta.explain(compiled).explanation.captures[0].calls == 200


def test_a_model_and_its_compiled_form_can_be_collected() -> None:
    model = Catching().eval()
    model.compiled = [vesta.compile(model, only=["first"], skip=["second"])]  # a cycle
    model.compiled[0](torch.randn(4, 8))
    gone = weakref.ref(model)
    del model
    gc.collect()
    assert gone() is None


def test_gradients_reach_what_is_compiled_and_what_is_not() -> None:
    model = Model(2)
    compiled = _compiled(model, only=["layers.*.mlp"])
    x = torch.randn(4, 8)
    with torch.enable_grad():
        compiled(x).sum().backward()
        ours = [p.grad.clone() for p in model.parameters() if p.grad is not None]
        model.zero_grad()
        model(x).sum().backward()
    theirs = [p.grad for p in model.parameters() if p.grad is not None]
    torch.testing.assert_close(ours, theirs)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"skip": ["layers.*.mpl"]}, 'skip: Model has no module named "layers.*.mpl"; the nearest are "layers.'),
        ({"only": ["haed"]}, 'only: Model has no module named "haed"; the nearest are "head"'),
        ({"only": [nn.Conv2d]}, "only: Model has no module of class Conv2d"),
        ({"only": "head"}, "only takes a list of module names and classes, not 'head'"),
        ({"skip": [3]}, 'skip takes names of modules, such as "layers.*.mlp", and classes of modules, not 3'),
        ({"only": []}, "only is empty"),
        ({"only": ["head"], "skip": [nn.Linear]}, "skip names every module that is chosen"),
    ],
)
def test_wrong_names_are_errors(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError) as error:
        vesta.compile(Model(2), **arguments)
    assert message in str(error.value)
    with pytest.raises(UserError, match="for modules and their methods"):
        vesta.compile(lambda x: x, skip=["head"])


def test_wildcards_stay_in_one_part_of_a_name() -> None:
    model = nn.Sequential(nn.Sequential(nn.Linear(8, 8)), nn.Linear(8, 8)).eval()
    assert _explained(model, only=["*"]).only == ("0", "1")
    assert _explained(model, only=["*.*"]).only == ("0.0",)
    assert _explained(model, only=["**"]).only == ("0", "0.0", "1")


def test_parts_cannot_be_saved(tmp_path: Path) -> None:
    compiled = _compiled(Model(2).eval(), only=["layers.0"])
    compiled(torch.randn(4, 8))
    with pytest.raises(UserError, match=r"Model cannot be saved: only=\.\.\. compiles parts of it"):
        vesta.save(compiled, tmp_path / "parts.vesta")


def test_compare_compiles_the_same_parts() -> None:
    model = Model(2).eval()
    assert vesta.compare(vesta.compile(model, skip=["layers.0.mlp"]), torch.randn(4, 8)).graphs > 1
    assert vesta.compare(vesta.compile(model), torch.randn(4, 8)).graphs == 1


def test_equal_arguments_give_the_same_object() -> None:
    compiled = vesta.compile(Model(2), skip=["head"])
    assert vesta.compile(compiled, skip=["head"]) is compiled
    assert vesta.compile(compiled, skip=["layers.0"]) is not compiled


class Failing(Attention):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.exp(x @ self.weight) @ self.weight  # one kernel, in each graph that has it


@pytest.mark.kernels
@pytest.mark.parametrize("background", [False, True])
def test_a_layer_that_cannot_be_compiled_leaves_the_others_compiled(background: bool) -> None:
    model = Model().eval()
    model.layers[7].attention = Failing()
    compiled = vesta.compile(model, options={"only_if_faster": False, "cache": False, "background": background})
    _C.inject_fault(FAULT, "throw")
    x = torch.randn(4, 8)
    expected = model(x)
    for _ in range(30):  # each background compile that fails is seen by the next call
        torch.testing.assert_close(compiled(x), expected)
        vesta.wait()
    explainer = vesta.explain(compiled)
    before = _operators(explainer.explanation.captures[0])
    explainer(x)
    torch.testing.assert_close(explainer.result, expected)
    c = explainer.explanation.captures[0]
    ran = {name: n - before.get(name, 0) for name, n in _operators(c).items() if n > before.get(name, 0)}
    assert ran["aten::softmax.int"] == LAYERS - 1
    assert ran["aten::sin"] == ran["aten::tanh"] == LAYERS
    assert "aten::exp" not in ran
    assert any(b.name == "compiled-apart" and "exp" not in b.where.function for b in c.breaks)
    assert any(s.name == "compile-failed" for s in c.skipped)


@pytest.mark.kernels
def test_without_a_fault_nothing_is_compiled_apart() -> None:
    assert len(_explained(Model(3).eval(), calls=1).graphs) == 1


@pytest.mark.kernels
def test_strict_refuses_a_layer_that_cannot_be_compiled() -> None:
    model = Model(3).eval()
    model.layers[1].attention = Failing()
    _C.inject_fault(FAULT, "throw")
    with pytest.raises(vesta.errors.Unsupported):
        vesta.compile(model, options={"strict": True, "cache": False})(torch.randn(4, 8))


def test_an_operator_that_cannot_be_traced_leaves_the_others_compiled() -> None:
    model = Model().eval()
    model.layers[7].attention = Failing()
    _C.inject_fault("operator:aten::exp", "throw")
    c = _explained(model, calls=3)
    ops = _operators(c)
    assert ops["aten::sin"] == ops["aten::tanh"] == 3 * LAYERS and ops["aten::softmax.int"] == 3 * (LAYERS - 1)
    assert "aten::exp" not in ops
    assert any("operator:aten::exp" in b.reason for b in c.breaks)


@pytest.mark.parametrize("stage", ["trace", "plan"])
def test_a_fault_in_every_graph_leaves_eager(stage: str) -> None:
    _C.inject_fault(stage, "throw")
    model = Model(3).eval()
    compiled = _compiled(model)
    x = torch.randn(4, 8)
    for _ in range(6):
        torch.testing.assert_close(compiled(x), model(x))
    assert not _operators(vesta.explain(compiled).explanation.captures[0])
