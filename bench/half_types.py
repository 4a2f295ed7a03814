"""Inference in a half type beside float32 on a CPU: `python -m bench.half_types [--dtype float16]`.

Vesta in both types and eager in the half type take turns in one process. A ratio is the time of the other one to that
of Vesta in the half type in the same round; shown are medians, and the least milliseconds of a call.
"""

from __future__ import annotations

import argparse
import copy
import json
import statistics
import time
from collections.abc import Callable
from typing import Any

import torch
from rich.console import Console
from rich.progress import track
from rich.table import Table

import vesta
from bench.workloads import MODELS
from tests.programs.torchvision_operators import declare_torchvision_operators

NAMES = ("bert", "minilm", "gpt2", "llama", "t5", "vit", "resnet50", "mobilenetv3", "convnext")
# Asked: so many times the speed of float32. Kernels convert float16 to float32 before they multiply.
AIMS = {"bfloat16": 1.5, "float16": 1.0}
CALLERS = ("float32", "half", "eager")


def callers(name: str, half: torch.dtype) -> dict[str, Callable[[], Any]]:
    model, args = MODELS[name].build()[:2]
    out: dict[str, Callable[[], Any]] = {}
    for caller, dtype in (("float32", torch.float32), ("half", half)):
        own = copy.deepcopy(model).to(dtype)
        given = [a.to(dtype) if isinstance(a, torch.Tensor) and a.is_floating_point() else a for a in args]
        compiled = vesta.compile(own, options={"only_if_faster": False})
        compiled(*given)
        vesta.wait(compiled)
        out[caller] = lambda f=compiled, x=given: f(*x)
    out["eager"] = lambda f=own, x=given: f(*x)
    return out


def measure(name: str, half: torch.dtype, rounds: int) -> dict[str, float]:
    """Milliseconds of each caller, and the ratios of two of them to the third: "to float32", "to eager"."""
    with torch.no_grad():
        functions = callers(name, half)
        times: dict[str, list[float]] = {c: [] for c in CALLERS}
        for caller in CALLERS * 2:
            functions[caller]()
        for _ in range(rounds):
            for caller in CALLERS:
                start = time.perf_counter()
                functions[caller]()
                times[caller].append(1e3 * (time.perf_counter() - start))
    found = {c: min(t) for c, t in times.items()}
    for other in ("float32", "eager"):
        found[f"to {other}"] = statistics.median(a / b for a, b in zip(times[other], times["half"], strict=True))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", nargs="+", default=list(NAMES), choices=NAMES, metavar="NAME")
    parser.add_argument("--dtype", default="bfloat16", choices=AIMS)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    torch.set_num_threads(args.threads)
    declare_torchvision_operators()  # transformers imports torchvision
    console = Console(stderr=True)
    models, half_type = track(args.models, "models", console=console), getattr(torch, args.dtype)
    found = {name: measure(name, half_type, args.rounds) for name in models}
    if args.json:
        print(json.dumps(found))
        return
    half = args.dtype
    titles = ("model", "float32 ms", f"{half} ms", f"eager {half} ms", f"float32 / {half}", "eager / Vesta")
    table = Table(*titles, title=f"{args.threads} threads; asked are {AIMS[half]} times the speed of float32")
    table.columns[0].no_wrap = True
    for name, r in found.items():
        table.add_row(name, *(f"{r[c]:.3g}" for c in CALLERS), f"{r['to float32']:.2f}", f"{r['to eager']:.2f}")
    Console().print(table)


if __name__ == "__main__":
    main()
