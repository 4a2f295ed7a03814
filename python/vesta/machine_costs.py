"""What ``strategy="auto"`` predicts with: the costs of operators, calls and compiles on this machine.

Built-in values serve until the machine is measured. A process of a low priority does this once, in the background, and
keeps the result in the cache for it and for later processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable

import torch

from vesta import _C
from vesta.explain_capture import Graph

__all__ = ["measure_costs", "use_costs_of_machine"]

NAMES = tuple(name for name in vars(_C.MachineCosts) if name.endswith(("_us", "_factor")))
LOWEST = 19  # a nice value
started = False


def use_costs_of_machine() -> None:
    """Predicts with the costs that the cache has for this machine. If there are none, another process measures them."""
    global started
    if started or _C.cache_folder() is None:
        return
    started = True
    found = _C.cache_find(key())
    if found is not None:
        _C.set_machine_costs(costs_of(json.loads(found)))
        return
    subprocess.Popen(
        [sys.executable, "-m", "vesta.machine_costs", key()],
        env={**os.environ, "VESTA_CACHE_DIR": _C.cache_folder() or ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def key() -> str:
    from vesta.machine_speed import circumstances

    return "costs_" + hashlib.sha256(repr(circumstances()).encode()).hexdigest()[:32]


def costs_of(values: dict[str, float]) -> _C.MachineCosts:
    costs = _C.MachineCosts()
    for name in NAMES:
        setattr(costs, name, values[name])
    return costs


def measure_costs() -> _C.MachineCosts:
    """Measures for about two seconds: single operators, and a small model by which their costs are corrected."""
    from vesta.compile import compile
    from vesta.explain import explain
    from vesta.machine_speed import measure_speed, microseconds

    before = _C.machine_costs()
    plain = {"cache": False, "only_if_faster": False, "deadline_ms": -1}

    def predicted(model: torch.nn.Module, x: torch.Tensor, costs: _C.MachineCosts) -> Graph:
        """The model compiled with ``strategy="auto"`` by these costs, for so many calls that it is always compiled."""
        _C.set_machine_costs(costs)
        compiled = compile(model, options={**plain, "strategy": "auto", "expected_calls": 10**12})
        compiled(x), compiled(x), compiled(x)  # the first two calls run uncompiled
        (graph,) = explain(compiled).explanation.graphs
        return graph

    try:
        with torch.no_grad():
            costs, speed = _C.MachineCosts(), measure_speed()
            costs.kernel_factor, costs.product_factor = speed.kernels, speed.product_kernels
            costs.attention_us = speed.products["attention f32"][0]
            costs.convolution_us = speed.products["aten::convolution f32"][0]
            costs.packed_convolution_us = speed.product("mkldnn::_convolution_pointwise", "f32")[0]
            costs.bytes_per_us, costs.entry_us = speed.cache, max(0.2, speed.entry_us)
            set_rates(costs, microseconds)
            model, x = Block().eval(), torch.randn(1, 16, 64)
            graph = predicted(model, x, costs)
            report = graph.compiled
            assert report is not None and report.strategy is not None
            ms = graph.stages
            costs.codegen_us *= ms.get("codegen", 0.0) / max(report.strategy.whole_ms, 1e-3) or 1.0
            costs.code_us = ms.get("codegen", 0.0) * 1e3 / graph.op_count
            by_calls = compile(model, options={**plain, "kernels": False})
            by_calls(x)
            (second,) = explain(by_calls).explanation.graphs
            costs.trace_us = second.stages["trace"] * 1e3 / second.op_count
            planned = sum(took for stage, took in second.stages.items() if stage != "trace")
            costs.plan_us = planned * 1e3 / second.op_count
            eager_us, calls_us = microseconds(lambda: model(x)), microseconds(lambda: by_calls(x))
            costs.saved_us = max(0.1, (eager_us - calls_us) / graph.op_count)
            s = report.strategy
            calls = max(0.1, (calls_us - costs.entry_us) / (s.calls_us - costs.entry_us))
            python = max(0.1, (eager_us - calls_us) / (s.eager_us - s.calls_us))
            costs.call_us *= calls
            costs.python_us *= python
            costs.frame_us *= python
            return costs
    finally:
        _C.set_machine_costs(before)


def set_rates(costs: _C.MachineCosts, microseconds: Callable[[Callable[[], object]], float]) -> None:
    """Products of the sizes of small models, with the weights as programs have them and in the library's own order."""
    from vesta.machine_speed import convolution, linear, plain_convolution

    def rate(few: tuple[int, Callable[[], object]], many: tuple[int, Callable[[], object]]) -> float:
        return (many[0] - few[0]) / max(microseconds(many[1]) - microseconds(few[1]), 1e-3)

    f32 = torch.float32
    costs.linear_flops_us = rate(linear(f32, False, 1, 8), linear(f32, False, 64, 256))
    few, many = plain_convolution(f32, 8, 4), plain_convolution(f32, 32, 28)
    costs.convolution_flops_us = rate(few, many)
    channels, side = 256, 4
    flops, heavy = plain_convolution(f32, channels, side)
    rest = microseconds(heavy) - flops / costs.convolution_flops_us
    costs.convolution_weights_us = 4 * 9 * channels**2 / max(rest, 1e-3)
    if torch.backends.mkldnn.is_available():
        costs.packed_linear_flops_us = rate(linear(f32, True, 1, 8), linear(f32, True, 64, 256))
        costs.packed_convolution_flops_us = rate(convolution(f32, 8, 4), convolution(f32, 32, 28))


class Block(torch.nn.Module):
    """Modules, views and operators in the proportions of a transformer's layer."""

    def __init__(self, width: int = 64, heads: int = 4) -> None:
        super().__init__()
        self.heads = heads
        self.before, self.between = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.q, self.k, self.v, self.out = (torch.nn.Linear(width, width) for _ in range(4))
        self.up, self.down = torch.nn.Linear(width, 4 * width), torch.nn.Linear(4 * width, width)
        self.activation = torch.nn.GELU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.before(x)
        q, k, v = (p(y).unflatten(-1, (self.heads, -1)).transpose(1, 2) for p in (self.q, self.k, self.v))
        k = torch.cat([k * 0.5, k * 0.5], -2)[..., : q.shape[-2], :]
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        x = x + self.out(y.transpose(1, 2).flatten(-2))
        x = x + self.down(self.activation(self.up(self.between(x))))
        return x


if __name__ == "__main__":
    os.nice(LOWEST)
    measured = measure_costs()
    _C.cache_put(sys.argv[1], json.dumps({name: getattr(measured, name) for name in NAMES}))
