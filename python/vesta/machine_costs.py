"""What ``strategy="auto"`` predicts with: the costs of operators, calls and compiles on this machine.

Built-in values serve until the machine is measured. A process of a low priority does this once, in the background, and
keeps the result in the cache for it and for later processes.
"""

from __future__ import annotations

import hashlib
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import torch

from vesta import _C
from vesta.explain_capture import Graph

if TYPE_CHECKING:
    from vesta.machine_speed import Product

__all__ = ["measure_costs", "use_costs_of_machine"]

NAMES = tuple(name for name in vars(_C.MachineCosts) if name.endswith(("_us", "_factor", "_bytes")))
LOWEST = 19  # a nice value
WIDTHS = 64, 80, 96  # of the small models
PROGRAM = "import sys; from vesta.machine_costs import keep_costs; keep_costs(sys.argv[1])"
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
        [sys.executable, "-c", PROGRAM, key()],
        env={**os.environ, "VESTA_CACHE_DIR": _C.cache_folder() or ""},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )


def key() -> str:
    from vesta.machine_speed import circumstances

    of = circumstances(), NAMES  # another version may keep others
    return "costs_" + hashlib.sha256(repr(of).encode()).hexdigest()[:32]


def costs_of(values: dict[str, float]) -> _C.MachineCosts:
    costs = _C.MachineCosts()
    for name in NAMES:
        setattr(costs, name, values[name])
    return costs


def measure_costs() -> _C.MachineCosts:
    """Measures single operators, and three small models that correct these costs. It takes about two seconds."""
    from vesta.machine_speed import measure_speed, microseconds

    before = _C.machine_costs()
    try:
        with torch.no_grad():
            costs, speed = _C.MachineCosts(), measure_speed()
            costs.kernel_factor, costs.product_factor = speed.kernels, speed.product_kernels
            costs.attention_us = speed.products["attention f32"][0]
            costs.convolution_us = speed.products["aten::convolution f32"][0]
            costs.packed_convolution_us = speed.product("mkldnn::_convolution_pointwise", "f32")[0]
            costs.recurrent_us, costs.recurrent_flops_us = speed.products["recurrent f32"]
            costs.bag_us = max(0.0, statistics.median(map(microseconds, embedding_bags())) - costs.call_us)
            costs.index_us = max(0.0, microseconds(index()) - costs.call_us)
            costs.bytes_per_us, costs.memory_bytes_us = speed.cache, speed.memory
            costs.last_cache_bytes, costs.entry_us = speed.cache_bytes, max(0.2, speed.entry_us + speed.output_us)
            set_rates(costs)
            found = [Measured(width, costs) for width in WIDTHS]
        m = {name: statistics.median(vars(one)[name] for one in found) for name in vars(found[0])}
        costs.codegen_us *= m["codegen"]
        costs.call_us *= m["calls"]
        costs.python_us *= m["python"]
        costs.frame_us *= m["python"]
        costs.kernel_factor *= m["whole"]
        costs.product_factor *= m["whole"]
        costs.code_us, costs.trace_us, costs.plan_us = m["code_us"], m["trace_us"], m["plan_us"]
        costs.saved_us = m["saved_us"]
        return costs
    finally:
        _C.set_machine_costs(before)


class Measured:
    """What was measured of a :class:`Block`. ``codegen``, ``calls``, ``python`` and ``whole`` are factors that correct
    the predicted times of code generation, of calls into ATen, of eager's Python code, and of the machine code.
    ``code_us``, ``trace_us``, ``plan_us``, ``saved_us``: see :class:`vesta._C.MachineCosts`."""

    def __init__(self, width: int, costs: _C.MachineCosts) -> None:
        from vesta.compile import compile
        from vesta.machine_speed import microseconds

        plain = {"cache": False, "only_if_faster": False, "deadline_ms": -1}
        model, x = Block(width).eval(), torch.randn(1, 16, width)
        _C.set_machine_costs(costs)
        # For so many calls it is always compiled. The first two calls run uncompiled.
        whole = compile(model, options={**plain, "strategy": "auto", "expected_calls": 10**12})
        whole(x), whole(x), whole(x)
        calls = compile(model, options={**plain, "kernels": False})
        calls(x)
        graph, early = graph_of(whole), graph_of(calls)
        report, count = graph.compiled, graph.op_count
        assert report is not None and report.strategy is not None
        s, codegen_ms = report.strategy, graph.stages.get("codegen", 0.0)
        self.codegen = codegen_ms / max(s.whole_ms, 1e-3) or 1.0
        self.code_us = codegen_ms * 1e3 / count
        self.trace_us = early.stages["trace"] * 1e3 / count
        self.plan_us = sum(took for stage, took in early.stages.items() if stage != "trace") * 1e3 / count
        eager_us, calls_us, whole_us = (microseconds(lambda f=f: f(x)) for f in (model, calls, whole))  # type: ignore[misc]
        self.saved_us = max(0.1, (eager_us - calls_us) / count)
        entry = costs.entry_us
        self.calls = max(0.1, (calls_us - entry) / (s.calls_us - entry))
        self.python = max(0.1, (eager_us - calls_us) / (s.eager_us - s.calls_us))
        self.whole = max(0.1, (whole_us - entry) / (s.whole_us - entry)) if report.kernels else 1.0


def graph_of(compiled: Callable[..., object]) -> Graph:
    from vesta.explain import explain

    found: list[Graph] = explain(compiled).explanation.graphs
    return found[0]


def set_rates(costs: _C.MachineCosts) -> None:
    """Products of the sizes of small models, with the weights as programs have them and in the library's own order."""
    from vesta.machine_speed import convolution, linear, microseconds, plain_convolution

    def rate(few: Product, many: Product) -> tuple[float, float]:
        """Microseconds of the small product beyond those of a small call; floating-point operations per microsecond."""
        start = microseconds(few[1])
        return max(0.0, start - costs.call_us), (many[0] - few[0]) / max(microseconds(many[1]) - start, 1e-3)

    f32 = torch.float32
    costs.linear_us, costs.linear_flops_us = rate(with_bias(16, 32), with_bias(64, 256))
    _, costs.convolution_flops_us = rate(plain_convolution(f32, 8, 4), plain_convolution(f32, 32, 28))
    channels, side = 256, 4
    flops, heavy = plain_convolution(f32, channels, side)
    rest = microseconds(heavy) - flops / costs.convolution_flops_us
    costs.convolution_weights_us = 4 * 9 * channels**2 / max(rest, 1e-3)
    if torch.backends.mkldnn.is_available():
        small, large = linear(f32, True, 16, 32), linear(f32, True, 64, 256)
        costs.packed_linear_us, costs.packed_linear_flops_us = rate(small, large)
        _, costs.packed_convolution_flops_us = rate(convolution(f32, 8, 4), convolution(f32, 32, 28))


def with_bias(rows: int, columns: int) -> Product:
    x, w = torch.ones(rows, columns), torch.ones(columns, columns)
    return 2 * rows * columns**2, lambda: torch.addmm(w[0], x, w)


def embedding_bags() -> list[Callable[[], object]]:
    """Calls of small bags: of the sum, the mean and the maximum of each set of rows."""
    weight, rows, offsets = torch.ones(16, 8), torch.arange(16), torch.arange(0, 16, 4)
    return [partial(torch.embedding_bag, weight, rows, offsets, mode=mode) for mode in range(3)]


def index() -> Callable[[], object]:
    """A call that picks a few elements by two tensors of positions."""
    x, rows, columns = torch.ones(4, 4), torch.arange(4), torch.arange(4)
    return lambda: x[rows, columns]


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


def keep_costs(key: str) -> None:
    """Measures the costs, at the lowest priority, and puts them into the cache. The main function of a process."""
    global started
    started = True  # the models that are compiled to be measured start no process that measures
    os.nice(LOWEST)
    costs = measure_costs()
    _C.cache_put(key, json.dumps({name: getattr(costs, name) for name in NAMES}))
