"""``vesta replay``: compiles cases again, runs them, and compares with the same operators called one by one."""

from __future__ import annotations

import contextlib
import copy
import os
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch

from vesta import _C
from vesta.cases import Inputs, evaluate, fill, inputs_that_run, read
from vesta.child_process import in_child
from vesta.compare_runs import Written, compare_runs
from vesta.comparison import Comparison
from vesta.recording import versions

__all__ = ["Replayed", "compare_kernels", "replay", "replay_file"]

SECONDS = 120.0  # for one case


@dataclass(frozen=True)
class Replayed:
    """A case that ran again.

    ``status``: ``"right"``, ``"wrong"``, ``"failed"`` (the compile or the run raises ``error``), ``"crashed"`` or
    ``"hung"``. ``stages``: milliseconds of each stage. ``plan``: the plan as text. ``confined``: what the process was
    not kept from.
    """

    status: str
    error: str = ""
    comparison: Comparison | None = None
    stages: tuple[tuple[str, float], ...] = ()
    plan: str = ""
    confined: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "right"


def options_of(case: _C.Case, **changed: Any) -> _C.Options:
    """The options of a case, without the cache: what is replayed is compiled."""
    options = copy.copy(case.options)
    options.cache = False
    options.dump_dir = ""
    for name, value in changed.items():
        setattr(options, name, value)
    return options


def replay(case: _C.Case, options: _C.Options | None = None, *, seconds: float = SECONDS) -> Replayed:
    """Compiles and runs a case in a child process without network and without write access."""
    import torch._dynamo  # noqa: F401  (torch imports it at the first operator in float64: once, not in each child)

    def work(say: Any) -> Replayed:
        confined = tuple(confine(case))
        say(confined)
        return replace(replay_here(case, options), confined=confined)

    ended = in_child(work, seconds)
    if ended.how == "done":
        replayed: Replayed = ended.value
        return replayed
    return Replayed("failed" if ended.how == "raised" else ended.how, ended.why, confined=ended.said or ())


def confine(case: _C.Case) -> list[str]:
    """Takes network and write access from this process for ever; what the kernel cannot refuse."""
    tempfile.gettempdir()  # found by writing a file; modules that torch imports later ask for it
    if any(torch.device(x.device).type == "cuda" for x in case.inputs) and torch.cuda.is_available():
        one = torch.ones(1, 1, device="cuda")
        (one @ one).item()  # drivers and libraries of GPUs open sockets and files at their first use
    return _C.confine()


def replay_here(case: _C.Case, options: _C.Options | None = None, values: list[torch.Tensor] | None = None) -> Replayed:
    """The same in this process. ``values``: the numbers of the inputs, in place of random ones."""
    if case.deterministic != torch.are_deterministic_algorithms_enabled():
        torch.use_deterministic_algorithms(case.deterministic, warn_only=True)
    options = options or options_of(case)
    plan = ""
    try:
        plan = case.inspect(options).plan
        repeated = case.repeat(options)
        comparison = compare_case(case, repeated, values)
    except Exception as error:
        return Replayed("failed", f"{type(error).__name__}: {error}", plan=plan)
    stages = tuple((s.name, s.ms) for s in repeated.report.stages if s.name != "trace")
    return Replayed("right" if comparison.ok else "wrong", "", comparison, stages, plan)


def compare_case(case: _C.Case, repeated: _C.Repeated, values: list[torch.Tensor] | None = None) -> Comparison:
    """A case's results by its compiled graph and by its operators one by one. ``values``: in place of random inputs."""
    steps = _C.graph_steps(case.graph)
    bound, positive = (1, False) if values is not None else inputs_that_run(case)

    def inputs() -> Inputs:
        made = Inputs(case, bound, positive)
        for t, value in zip(made.memory, values or (), strict=False):
            fill(t, value)
        return made

    def eager() -> tuple[Callable[[], Any], list[Written]]:
        made = inputs()
        return lambda: evaluate(steps, made.memory), _written(case, made)

    def compiled() -> tuple[Callable[[], Any], list[Written]]:
        made = inputs()
        return lambda: repeated.run(made.given, case.integers), _written(case, made)

    def kept() -> contextlib.AbstractContextManager[None]:
        return seeded(case.seed)

    with torch.no_grad():
        found, why = compare_runs(eager, compiled, Inputs(case).memory, kept)
    return Comparison(tuple(found), why, graphs=1)


def compare_kernels(case: _C.Case) -> Iterator[tuple[str, Comparison]]:
    """Compares each kernel of a case by itself: its name, and what is found. Its inputs are the values that PyTorch's
    operators give there, or random numbers if these cannot be called on the graph after the passes."""
    for name, part, values in kernels_of(case):
        yield name, compare_case(part, part.repeat(options_of(part)), values)


def kernels_of(case: _C.Case) -> list[tuple[str, _C.Case, list[torch.Tensor] | None]]:
    """The kernels of a case as cases of their own, with the values of their inputs."""
    whole = case.inspect(options_of(case))
    kept = dict.fromkeys({value for kernel in whole.kernels for value in kernel.inputs}, torch.empty(0))
    known = True
    try:
        with seeded(case.seed), torch.no_grad():
            inputs = Inputs(case, *inputs_that_run(case)).memory
            evaluate(_C.graph_steps(whole.graph), inputs, kept)
    except Exception:
        known = False
    out = []
    for kernel in whole.kernels:
        part = _C.Case(kernel.graph, options_of(case, skip_passes=_C.passes(), rewrite_limit=-1))
        part.seed = case.seed
        out.append((kernel.name, part, [kept[value] for value in kernel.inputs] if known else None))
    return out


def replay_file(path: str | os.PathLike[str], number: int | None, seconds: float) -> dict[str, Any]:
    """Replays the cases of a file, or the one with this number (from 1), and tells about them as plain data."""
    found, cases = read(path, number)
    here = dict(versions())
    differing = [f"{name} {was}, here {here[name]}" for name, was in found if name in here and here[name] != was]
    out = [{"number": i, **_told(case, replay(case, seconds=seconds))} for i, case in cases.items()]
    return {"file": os.fspath(path), "versions": differing, "compiles": out}


def _told(case: _C.Case, replayed: Replayed) -> dict[str, Any]:
    return {
        "recorded": case.outcome + (f": {case.error_kind}: {case.error}" if case.error else ""),
        "status": replayed.status,
        "error": replayed.error,
        "ms": dict(replayed.stages),
        "recorded_ms": {s.name: s.ms for s in case.stages},
        "results": str(replayed.comparison) if replayed.comparison is not None else "",
        "plan": replayed.plan,
        "not_confined": list(replayed.confined),
    }


def _written(case: _C.Case, inputs: Inputs) -> list[Written]:
    return [Written(d.name, t) for d, t in zip(case.inputs, inputs.memory, strict=True) if d.same_as < 0]


@contextlib.contextmanager
def seeded(seed: int) -> Iterator[None]:
    with torch.random.fork_rng(devices=range(torch.cuda.device_count()) if torch.cuda.is_initialized() else []):
        torch.manual_seed(seed)
        yield
