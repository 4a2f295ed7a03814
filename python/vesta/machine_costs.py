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
from functools import partial
from typing import Any

import torch

from vesta import _C

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
    circumstances = torch.__version__, torch.get_num_threads(), sorted(_C.host_target().items(), key=str)
    return "costs_" + hashlib.sha256(repr(circumstances).encode()).hexdigest()[:32]


def costs_of(values: dict[str, float]) -> _C.MachineCosts:
    costs = _C.MachineCosts()
    for name in NAMES:
        setattr(costs, name, values[name])
    return costs


def measure_costs() -> dict[str, float]:
    """Measures for about a second."""
    from vesta.compile import compile
    from vesta.explain import explain
    from vesta.machine_speed import measure_speed, microseconds

    few, many = 8, 40

    def chain(n: int) -> Callable[[torch.Tensor], torch.Tensor]:
        def f(x: torch.Tensor) -> torch.Tensor:
            for _ in range(n):
                x = torch.neg(x)
            return x

        return f

    def report(compiled: Any) -> tuple[dict[str, float], _C.CompileReport]:
        (graph,) = explain(compiled).explanation.graphs
        return graph.stages, graph.compiled

    plain = {"cache": False, "only_if_faster": False, "deadline_ms": -1, "numerics": "fast"}
    with torch.no_grad():
        speed = measure_speed()
        x = torch.ones(8)
        eager_few, eager_many = (microseconds(partial(chain(n), x)) for n in (few, many))
        by_calls = [compile(chain(n), options={**plain, "kernels": False}) for n in (few, many)]
        calls_few, calls_many = (microseconds(partial(f, x)) for f in by_calls)
        call_us = (calls_many - calls_few) / (many - few)
        stages, _ = report(by_calls[1])
        nested = torch.nn.Sequential(*(torch.nn.Identity() for _ in range(32)))
        frame_us = microseconds(lambda: nested(x)) / 66  # two functions for each of 33 modules
        wide = torch.ones(64, 512)
        code = compile(gated, options={**plain, "strategy": "auto", "expected_calls": 10**9})
        code(wide), code(wide)  # the first call runs uncompiled
        whole_stages, whole = report(code)
        predicted = whole.strategy.whole_ms if whole.strategy else 0.0
        ratio = whole_stages.get("codegen", 0.0) / predicted if predicted else 1.0
        return {
            "python_us": max(0.1, (eager_many - eager_few) / (many - few) - call_us),
            "frame_us": frame_us,
            "call_us": call_us,
            "entry_us": max(0.1, calls_few - few * call_us),
            "step_us": 0.2,
            "kernel_factor": speed.kernels,
            "bytes_per_us": speed.cache,
            "flops_per_us": speed.product("aten::linear", "f32")[1],
            "trace_us": stages["trace"] * 1e3 / many,
            "plan_us": sum(ms for stage, ms in stages.items() if stage != "trace") * 1e3 / many,
            "codegen_us": _C.machine_costs().codegen_us * ratio,
        }


def gated(x: torch.Tensor) -> torch.Tensor:
    return torch.layer_norm(torch.softmax(torch.sigmoid(x) * x, -1) + torch.nn.functional.gelu(x), (512,)).sum(0)


if __name__ == "__main__":
    os.nice(LOWEST)
    _C.cache_put(sys.argv[1], json.dumps(measure_costs()))
