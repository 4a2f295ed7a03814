"""Models through torch.compile, compared with eager: outputs, gradients, buffers, parameters after steps.

    python -m tests.programs.models --all --jobs 2
    python -m tests.programs.models llama resnet50 --modes training
    python -m tests.programs.models --all --backend inductor        the same questions to another compiler

Each model and mode runs in a process of its own with a time limit.
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import functools
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
from tests.numerics.compare import differences
from tests.numerics.wide_runs import SHAKES, copies, shaking, widen, widened
from tests.programs.zoo import ZOO
from tests.torch_compilers import forbidden

MODES = ("inference", "dynamic", "training", "steps", "autocast", "bfloat16", "float16", "float64")
TRAINING = ("training", "steps", "autocast")
DTYPES = {name: getattr(torch, name) for name in ("bfloat16", "float16", "float64")}


@dataclass(frozen=True)
class Case:
    model: str
    mode: str
    backend: str  # of torch.compile; "capture": vesta.compile
    device: str = "cpu"
    calls: int = 2  # with equal sizes


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
    total = torch.zeros((), dtype=torch.get_default_dtype(), device=next(iter(outputs.values())).device)
    for i, t in enumerate(outputs.values()):
        if t.is_floating_point() and t.requires_grad:
            weights = torch.randn(t.shape, generator=torch.Generator().manual_seed(i)).to(t)
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


def train_in_autocast(call: Callable[..., Any], module: nn.Module, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    def cast(**inputs: Any) -> Any:
        with torch.autocast("cpu", dtype=torch.bfloat16):
            return call(**inputs)

    return train(cast, module, inputs)


def take_steps(call: Callable[..., Any], module: nn.Module, inputs: dict[str, Any]) -> dict[str, torch.Tensor]:
    """Five optimizer steps, each on the sum of two gradients."""
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)
    found = {}
    for step in range(5):
        optimizer.zero_grad(set_to_none=True)
        for _ in range(2):
            loss = loss_of(plain(call(**inputs)))
            loss.backward()
        torch.nn.utils.clip_grad_norm_(module.parameters(), 1.0)
        optimizer.step()
        found[f"loss of step {step + 1}"] = loss.detach()
    found.update({f"parameter {n}": p.detach() for n, p in module.named_parameters()})
    found.update({f"buffer {n}": b.detach() for n, b in module.named_buffers()})
    return found


STEPS: dict[str, Callable[..., dict[str, torch.Tensor]]] = {
    "training": train,
    "steps": take_steps,
    "autocast": train_in_autocast,
}


def wide_copy(module: nn.Module) -> nn.Module:
    return copy.deepcopy(module).double()


def shaken_copy(module: nn.Module, dtype: torch.dtype, seed: int) -> nn.Module:
    wide = wide_copy(module)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in wide.parameters():
            step = torch.randint(0, 2, p.shape, generator=g, dtype=torch.float64) * 2 - 1
            p.mul_(1 + step.to(p.device) * torch.finfo(dtype).eps)
    return wide


def cast(inputs: dict[str, Any], dtype: torch.dtype | None) -> dict[str, Any]:
    return {k: v.to(dtype) if dtype and v.is_floating_point() else v for k, v in inputs.items()}


def moved(inputs: dict[str, Any], device: str) -> dict[str, Any]:
    return pytree.tree_map(lambda v: v.to(device) if isinstance(v, torch.Tensor) else v, inputs)


def compile_with(case: Case, module: nn.Module) -> Callable[..., Any]:
    dynamic = case.mode == "dynamic" or None
    if case.backend == "capture":
        import vesta

        return vesta.compile(module, dynamic=dynamic)
    return torch.compile(module, backend=case.backend, dynamic=dynamic)


def judge(case: Case) -> tuple[str, str]:
    """'' or what is wrong, and what was compiled."""
    entry = ZOO[case.model]
    module = entry.build().to(device=case.device, dtype=DTYPES.get(case.mode))
    module.train(case.mode in TRAINING)
    ours = copy.deepcopy(module)
    compiled = compile_with(case, ours)
    failure = compare(case, module, ours, compiled)
    eager, note = compiled_at_all(case)
    return failure or eager, note


def compare(case: Case, module: nn.Module, ours: nn.Module, compiled: Callable[..., Any]) -> str:
    """Calls of both, with equal weights."""
    entry, dtype = ZOO[case.model], DTYPES.get(case.mode)
    computed = torch.bfloat16 if case.mode == "autocast" else dtype or torch.float32
    step, wide = STEPS.get(case.mode, infer), wide_copy(module)
    lengths = entry.lengths if case.mode == "dynamic" else entry.lengths[:1] * case.calls
    for call, length in enumerate(lengths):
        inputs = cast(moved(entry.inputs(call, length), case.device), dtype)
        for m in (module, ours, wide):
            m.zero_grad(set_to_none=True)
        before = copy.deepcopy(module)
        eager = step(module, module, copies(inputs))
        result = step(compiled, ours, copies(inputs))

        def reference(inputs: Any = inputs) -> Any:
            numbers = widen(inputs)
            with widened():
                return step(wide, wide, numbers)

        def perturbed(seed: int, inputs: Any = inputs, before: nn.Module = before) -> Any:
            numbers, shaken = widen(inputs), shaken_copy(before, computed, seed)
            with widened(shaking(computed, seed)):
                return step(shaken, shaken, numbers)

        names = list(eager)
        if names != list(result):
            return f"call {call + 1}: results {list(result)}, eager's {names}"
        found = differences(result, eager, reference, [functools.partial(perturbed, seed) for seed in range(SHAKES)])
        if found:
            shown = [
                f"{names[int(d.where.split()[1])]}: {d.text}" if d.where[7:8].isdigit() else str(d) for d in found[:6]
            ]
            return f"call {call + 1}, {len(found)} of {len(names)} tensors differ\n" + "\n".join(shown)
        if case.mode in TRAINING:  # weights and statistics of batch normalisation go on from the same numbers
            for m in (wide, ours):
                m.load_state_dict(module.state_dict())
    return ""


def compiled_at_all(case: Case) -> tuple[str, str]:
    """With Vesta, a call that ran eager is a failure of its own here; and what was compiled."""
    if case.backend not in ("vesta", "capture"):
        return "", ""
    import vesta

    report = vesta.explain()
    fused, extern = (sum(getattr(v, name) for v in report.variants) for name in ("ops_fused", "ops_extern"))
    note = f"{len(report.functions)} graphs, {len(report.variants)} variants, {fused} ops fused, {extern} extern"
    reasons = [f.reason for f in report.fallbacks]
    if reasons:
        return f"{len(reasons)} reasons to run eager: " + "; ".join(reasons[:3]), note
    return "" if report.variants else "Vesta compiled nothing", note


def work(case: Case, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    torch._dynamo.config.allow_rnn = True  # without it Dynamo gives no LSTM or GRU to any compiler
    emit(("begin", case))
    start = time.perf_counter()
    note = ""
    try:
        with forbidden() if case.backend == "capture" else contextlib.nullcontext([]) as called:
            failure, note = judge(case)
        failure = failure or ", ".join(f"{name} is called" for name in called)
    except Exception:
        failure = "raises\n" + traceback.format_exc(limit=-6)
    emit(("verdict", failure, time.perf_counter() - start, note))


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
        yield Verdict(case, *message[1:])
    yield from lost


def cases_of(names: list[str], modes: tuple[str, ...], backend: str) -> list[Case]:
    found = []
    for name in names:
        for mode in modes:
            if (mode != "dynamic" or len(ZOO[name].lengths) > 1) and (mode not in TRAINING or ZOO[name].trains):
                found.append(Case(name, mode, backend))
    return found


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(ZOO)}")
    parser.add_argument("--all", action="store_true", help="every model; without names, the tested ones")
    parser.add_argument("--modes", nargs="*", default=list(MODES[:3]), choices=MODES)
    parser.add_argument("--after", default="", metavar="MODEL", help="only models that come later in the list")
    parser.add_argument("--backend", default="vesta")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--limit", type=float, default=300.0, metavar="S", help="seconds one model may take")
    options = parser.parse_args(arguments)
    unknown = [m for m in options.models if m not in ZOO]
    if unknown:
        parser.error(f"no model {', '.join(unknown)}; there are {', '.join(ZOO)}")
    names = options.models or [n for n, e in ZOO.items() if options.all or e.tests]
    if options.after:
        names = names[names.index(options.after) + 1 :]
    console = Console()
    failed = count = 0
    start = time.perf_counter()
    for verdict in run(cases_of(names, tuple(options.modes), options.backend), options.jobs, options.limit):
        count += 1
        failed += bool(verdict.failure)
        word = "[red]FAILS[/red]" if verdict.failure else "[green]right[/green]"
        console.print(
            f"{verdict.case.model:18s} {verdict.case.mode:10s} {word} {verdict.seconds:6.1f} s  {verdict.note}",
            highlight=False,
            soft_wrap=True,
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
