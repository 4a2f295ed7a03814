"""Models whose layers repeat: kernels are made once for all layers, and many layers compile in little more time."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta

ROOT = Path(__file__).parents[2]


class Layer(nn.Module):
    """A norm, attention and a gated product. `power` is a constant of its kernels."""

    def __init__(self, power: float = 2.0, dtype: torch.dtype = torch.float32) -> None:
        super().__init__()
        self.power = power
        self.scale = nn.Parameter(torch.rand(32, dtype=dtype) + 0.5)
        self.mix = nn.Linear(32, 96, dtype=dtype)
        self.gate = nn.Linear(32, 64, dtype=dtype)

    def forward(self, x: torch.Tensor, turn: torch.Tensor) -> torch.Tensor:
        h = x.to(self.scale.dtype)
        h = h * torch.rsqrt(h.abs().pow(self.power).mean(-1, keepdim=True) + 1e-5) * self.scale
        q, k, v = ((t * turn.to(t.dtype)).tanh() for t in self.mix(h).chunk(3, -1))
        h = torch.softmax(q @ k.mT / 6, -1) @ v
        a, b = self.gate(h).chunk(2, -1)
        return x + (nn.functional.silu(a) * b).to(x.dtype)


class Stack(nn.Module):
    def __init__(self, layers: list[nn.Module]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layers)
        self.turn = nn.Parameter(torch.rand(32))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = layer(x, self.turn)
        return x


def compiled_as_eager(model: Callable[..., Any], *args: torch.Tensor, **options: Any) -> Any:
    """The report of the one graph, after two calls of equal results. `args` are copied for each call."""
    compiled = vesta.compile(model, options={"cache": False, "strict": True}, **options)
    with torch.no_grad():
        for _ in range(2):
            theirs, ours = [a.clone() for a in args], [a.clone() for a in args]
            torch.testing.assert_close(compiled(*ours), model(*theirs), rtol=2e-4, atol=2e-4)
            for a, b in zip(ours, theirs, strict=True):
                torch.testing.assert_close(a, b)
    (graph,) = vesta.explain(compiled).explanation.graphs
    return graph.compiled


@pytest.mark.kernels
def test_many_layers_have_the_kernels_of_few() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 32)
    few, more, many = (compiled_as_eager(Stack([Layer() for _ in range(n)]).eval(), x) for n in (3, 6, 24))
    assert few.distinct_kernels == more.distinct_kernels == many.distinct_kernels
    assert few.code_bytes == many.code_bytes
    # Every further layer runs as many kernels: also where more than 16 kernels read one value, here `turn`.
    per_layer = (len(more.kernels) - len(few.kernels)) // 3
    assert len(many.kernels) == len(few.kernels) + 21 * per_layer


@pytest.mark.kernels
def test_layers_that_differ_have_kernels_of_their_own() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 32)
    alike = compiled_as_eager(Stack([Layer() for _ in range(8)]).eval(), x)
    turns = compiled_as_eager(Stack([Layer(2.0 + n % 2) for n in range(8)]).eval(), x)
    assert turns.distinct_kernels > alike.distinct_kernels
    types = [torch.float32, torch.float64, torch.float32, torch.float32, torch.float64]
    compiled_as_eager(Stack([Layer(dtype=t) for t in types]).eval(), x)


def outputs_of_layers(model: Callable[..., Any]) -> Callable[..., Any]:
    def run(x: torch.Tensor) -> list[torch.Tensor]:
        states = [x + 1]
        for layer in model.layers:
            states.append(layer(states[-1], model.turn))
        return states[1:]

    return run


@pytest.mark.kernels
def test_layers_are_planned_once() -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 32)
    model = Stack([Layer() for _ in range(12)]).eval()
    assert compiled_as_eager(model, x).layers in (11, 12)
    assert compiled_as_eager(model, x, dynamic=True).layers in (11, 12)
    assert compiled_as_eager(outputs_of_layers(model), x).layers in (11, 12)
    assert compiled_as_eager(Stack([Layer() for _ in range(7)]).eval(), x).layers == 0
    assert compiled_as_eager(Stack([Layer(2.0 + n) for n in range(12)]).eval(), x).layers == 0


@pytest.mark.kernels
def test_the_plan_of_layers_is_that_of_all(tmp_path: Path) -> None:
    torch.manual_seed(0)
    x = torch.randn(2, 9, 32)
    model = Stack([Layer() for _ in range(12)]).eval()
    plans = []
    for skipped in ([], ["layers"]):
        folder = tmp_path / "_".join(["dump", *skipped])
        options = {"cache": False, "skip_passes": skipped, "dump_dir": str(folder)}
        with torch.no_grad():
            vesta.compile(model, options=options)(x)
        (plan,) = folder.rglob("*plan.txt")
        plans.append(plan.read_text())
        assert bool(list(folder.rglob("*graph_layers.txt"))) == (not skipped)
    assert plans[0] == plans[1]


def test_one_layer_many_times() -> None:
    torch.manual_seed(0)
    layer = Layer()
    compiled_as_eager(Stack([layer, layer, Layer(), layer]).eval(), torch.randn(2, 9, 32))


def test_layers_of_symbolic_sizes() -> None:
    torch.manual_seed(0)
    model = Stack([Layer() for _ in range(5)]).eval()
    compiled = vesta.compile(model, dynamic=True, options={"cache": False, "strict": True})
    with torch.no_grad():
        for rows in (7, 12, 30):
            x = torch.randn(2, rows, 32)
            torch.testing.assert_close(compiled(x), model(x), rtol=2e-4, atol=2e-4)
    assert len(vesta.explain(compiled).explanation.graphs) == 1


def test_layers_that_write_caches() -> None:
    def step(x: torch.Tensor, at: torch.Tensor, *caches: torch.Tensor) -> torch.Tensor:
        for n, cache in enumerate(caches):
            x = (x * (1.5 if n % 2 else 1.25)).tanh()
            cache.index_copy_(0, at, x)
            x = x + cache.mean(0)
        return x

    torch.manual_seed(0)
    compiled_as_eager(step, torch.randn(1, 16), torch.tensor([3]), *(torch.randn(8, 16) for _ in range(6)))


def least_times(layers: str, rounds: int) -> dict[int, dict[str, float]]:
    command = [sys.executable, "-m", "bench.layers", "--json", "--rounds", str(rounds), "--layers", *layers.split()]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900, check=True)
    print(done.stdout)
    return {int(n): stages for n, stages in json.loads(done.stdout).items()}


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.kernels
def test_the_time_of_a_compile_by_layers() -> None:
    found = least_times("2 80", rounds=60)
    assert found[2]["kernels"] == found[80]["kernels"]
    assert found[80]["after the trace"] <= 1.3 * found[2]["after the trace"]
    # Time in proportion to the layers, with room for noise: a trace that is quadratic in the layers takes twice as long
    # for each of the later ones.
    trace = {n: stages["trace"] for n, stages in least_times("8 80 160", rounds=10).items()}
    assert (trace[160] - trace[80]) / 80 <= 1.5 * (trace[80] - trace[8]) / 72
