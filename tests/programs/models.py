"""Models through torch.compile, compared with eager: outputs, and gradients and buffers of a training step.

    python -m tests.programs.models --all --jobs 2
    python -m tests.programs.models llama resnet50 --modes training
    python -m tests.programs.models --all --backend inductor        the same questions to another compiler

Each model and mode runs in a process of its own with a time limit.
"""

from __future__ import annotations

import argparse
import copy
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from rich.console import Console
from torch import nn
from torch.utils import _pytree as pytree

from tests import isolation
from tests.numerics.compare import copies, differences, shaking, widen, widened
from tests.programs.zoo import ZOO

MODES = ("inference", "dynamic", "training")


@dataclass(frozen=True)
class Case:
    model: str
    mode: str
    backend: str


@dataclass
class Verdict:
    case: Case
    failure: str = ""
    seconds: float = 0.0
    note: str = ""


def plain(result: Any) -> dict[str, torch.Tensor]:
    """A model's result as tensors by place."""
    if hasattr(result, "to_tuple"):
        result = dict(result)
    leaves, _ = pytree.tree_flatten_with_path(result)
    return {pytree.keystr(path): leaf for path, leaf in leaves if isinstance(leaf, torch.Tensor)}


def detached(tensors: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {name: t.detach() for name, t in tensors.items()}


def loss_of(outputs: dict[str, torch.Tensor]) -> torch.Tensor:
    """A number on which every output has its own influence at every element."""
    total = torch.zeros((), dtype=torch.get_default_dtype())
    for i, t in enumerate(outputs.values()):
        if t.is_floating_point() and t.requires_grad:
            weights = torch.randn(t.shape, generator=torch.Generator().manual_seed(i)).to(t.dtype)
            total = total + (t * weights).mean()
    return total


def infer(call: Callable[..., Any], _module: nn.Module, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    with torch.no_grad():
        return plain(call(**inputs))


def train(call: Callable[..., Any], module: nn.Module, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    outputs = plain(call(**inputs))
    loss_of(outputs).backward()
    found = {f"output {n}": t for n, t in detached(outputs).items()}
    found.update({f"gradient of {n}": p.grad for n, p in module.named_parameters() if p.grad is not None})
    found.update({f"buffer {n}": b.detach() for n, b in module.named_buffers()})
    return found


def wide_copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).double()


def shaken_copy(module: nn.Module) -> nn.Module:
    wide = wide_copy(module)
    g = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for p in wide.parameters():
            step = torch.randint(0, 2, p.shape, generator=g, dtype=torch.float64) * 2 - 1
            p.mul_(1 + step * torch.finfo(torch.float32).eps)
    return wide


def judge(case: Case) -> str:
    """'' or what is wrong."""
    entry = ZOO[case.model]
    module = entry.build()
    step = train if case.mode == "training" else infer
    if case.mode == "training":
        module.train()
    ours, wide, shaken = copy.deepcopy(module), wide_copy(module), shaken_copy(module)
    compiled = torch.compile(ours, backend=case.backend, dynamic=case.mode == "dynamic" or None)
    lengths = entry.lengths if case.mode == "dynamic" else entry.lengths[:1] * 2
    for call, length in enumerate(lengths):
        inputs = entry.inputs(call, length)
        for m in (module, ours, wide, shaken):
            m.zero_grad(set_to_none=True)
        eager = step(module, module, copies(inputs))
        result = step(compiled, ours, copies(inputs))

        def reference(inputs: Any = inputs) -> Any:
            with widened():
                return step(wide, wide, widen(inputs))

        def perturbed(inputs: Any = inputs) -> Any:
            with widened(shaking(torch.float32)):
                return step(shaken, shaken, widen(inputs))

        names = list(eager)
        if names != list(result):
            return f"call {call + 1}: results {list(result)}, eager's {names}"
        found = differences(result, eager, reference, perturbed)
        if found:
            shown = [
                f"{names[int(d.where.split()[1])]}: {d.text}" if d.where[7:8].isdigit() else str(d) for d in found[:6]
            ]
            return f"call {call + 1}, {len(found)} of {len(names)} tensors differ\n" + "\n".join(shown)
        if step is train:  # statistics of batch normalisation go on from the same numbers
            shaken.load_state_dict(wide.state_dict())
    return ""


def compiled_at_all(case: Case) -> str:
    """With Vesta, a call that ran eager is a failure of its own here."""
    if case.backend != "vesta":
        return ""
    import vesta

    report = vesta.explain()
    reasons = [f.reason for f in report.fallbacks]
    if reasons:
        return "ran eager: " + "; ".join(reasons[:3])
    return "" if report.variants else "Vesta compiled nothing"


def work(case: Case, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    emit(("begin", case))
    start = time.perf_counter()
    try:
        failure = judge(case) or compiled_at_all(case)
    except Exception:
        failure = "raises\n" + traceback.format_exc(limit=-6)
    emit(("verdict", failure, time.perf_counter() - start))


def run(cases: list[Case], jobs: int = 1, limit_s: float = 300.0, threads: int = 2) -> Iterator[Verdict]:
    lost: list[Verdict] = []

    def resume(case: Case, _step: Any, reason: str) -> None:
        lost.append(Verdict(case, reason))

    preload = ("tests.programs.zoo", "tests.numerics.compare", "rich.console", "transformers")
    for case, message in isolation.run(
        cases, work, resume, jobs=jobs, limit_s=limit_s, threads=threads, preload=preload
    ):
        while lost:
            yield lost.pop()
        yield Verdict(case, message[1], message[2])
    yield from lost


def cases_of(names: list[str], modes: tuple[str, ...], backend: str) -> list[Case]:
    found = []
    for name in names:
        for mode in modes:
            if mode != "dynamic" or len(ZOO[name].lengths) > 1:
                found.append(Case(name, mode, backend))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(ZOO)}")
    parser.add_argument("--all", action="store_true", help="every model; without names, the short list")
    parser.add_argument("--modes", nargs="*", default=list(MODES), choices=MODES)
    parser.add_argument("--backend", default="vesta")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="seconds one model may take")
    options = parser.parse_args(arguments)
    unknown = [m for m in options.models if m not in ZOO]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(ZOO)}")
    names = options.models or [n for n, e in ZOO.items() if options.all or e.short]
    console = Console()
    failed = count = 0
    start = time.perf_counter()
    for verdict in run(cases_of(names, tuple(options.modes), options.backend), options.jobs, options.limit):
        count += 1
        failed += bool(verdict.failure)
        word = "[red]FAILS[/red]" if verdict.failure else "[green]right[/green]"
        console.print(
            f"{verdict.case.model:14s} {verdict.case.mode:10s} {word} {verdict.seconds:6.1f} s", highlight=False
        )
        if verdict.failure:
            text = "    " + verdict.failure.replace("\n", "\n    ")
            console.print(text, markup=False, highlight=False, soft_wrap=True)
    console.print(
        f"{count} runs on {options.backend}, {failed} fail, {time.perf_counter() - start:.0f} s", highlight=False
    )
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
