"""One program, eager and compiled, in a process of its own: whether its results are right, and its times."""

from __future__ import annotations

import functools
import gc
import re
import statistics
import time
import traceback
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from tests.ecosystem.program import Built, Program, load_programs
from tests.numerics.compare import differences
from tests.numerics.wide_runs import SHAKES, copies, shaking, widen, widened
from tests.programs.models import plain

CALLS = 3  # that are judged: the one that compiles, one with a changed state, one more
ROUND_S = 0.05


@dataclass(frozen=True)
class Stop:
    """Where a graph ended, or what is left to CPython, and why. `kind`: break, skipped or fallback."""

    kind: str
    where: str
    reason: str


@dataclass(frozen=True)
class Row:
    """What became of one program. `failure`: '' if every result is eager's. `error`: the program does not run in eager.
    `first_ms`: what the first call takes beyond one of eager's. `ratio`: eager's time over the compiled one's."""

    name: str
    package: str
    version: str = ""
    what: str = ""
    trains: bool = False
    error: str = ""
    failure: str = ""
    graphs: int = 0
    stops: tuple[Stop, ...] = ()
    recompiles: tuple[str, ...] = ()
    late_recompiles: int = 0
    first_ms: float = 0.0
    eager_us: float = 0.0
    ours_us: float = 0.0
    ratio: float = 0.0

    @property
    def slow(self) -> bool:
        return not self.failure and self.eager_us > 50 and self.ratio < 0.95


def verdict(error: str, failure: str, slow: bool) -> str:
    """In rich's markup, for a line of the run."""
    return "[red]ERROR[/]" if error else "[red]FAILS[/]" if failure else "[yellow]slow [/]" if slow else "right"


def identity(function: Any) -> Any:
    return function


def built(program: Program, compile: Callable[[Any], Any]) -> Built:
    torch.manual_seed(0)
    return program.build(compile)


def call(program: Built, inputs: dict[str, Any], seed: int) -> tuple[dict[str, torch.Tensor], float]:
    """The n-th call's tensors and seconds; the tensors are copies, as they were when it returned."""
    torch.manual_seed(seed)
    start = time.perf_counter()
    result = program.call(**inputs)
    seconds = time.perf_counter() - start
    found: dict[str, torch.Tensor] = copies({name: t.detach() for name, t in plain(result).items()})
    if not found:
        raise TypeError(f"the program returns no tensor: {type(result).__name__}")
    return found, seconds


def wide_call(program: Program, number: int, direction: int | None) -> dict[str, torch.Tensor]:
    """The call `number` in float64, after those before it; everything moves by an ulp where a direction is given."""
    wide = built(program, identity)
    moving = torch.Generator().manual_seed(direction or 0)
    with torch.no_grad():
        for module in wide.modules:
            module.double()
            for p in module.parameters() if direction is not None else ():
                step = torch.randint(0, 2, p.shape, generator=moving, dtype=torch.float64) * 2 - 1
                p.mul_(1 + step * torch.finfo(torch.float32).eps)
    found: dict[str, torch.Tensor] = {}
    for n in range(number + 1):
        inputs = widen(wide.inputs(n))
        with widened(shaking(torch.float32, direction) if direction is not None else None):
            found, _ = call(wide, inputs, n)
    return found


def wrong(program: Program, number: int, ours: dict[str, torch.Tensor], eager: dict[str, torch.Tensor]) -> str:
    """'' if `ours` may stand for `eager` (docs/numerics.md)."""
    if list(ours) != list(eager):
        return f"results {list(ours)}, eager's {list(eager)}"

    def reference(direction: int | None = None) -> Any:
        try:
            return wide_call(program, number, direction)
        except Exception:  # an operator without a float64 kernel: there is no reference
            return None

    perturbed = [functools.partial(reference, n) for n in range(SHAKES)]
    found = differences(ours, eager, reference, perturbed)
    names = list(eager)
    shown = [f"{names[int(d.where.split()[1])]}: {d.text}" if d.where[7:8].isdigit() else str(d) for d in found[:4]]
    return f"{len(found)} of {len(names)} tensors differ\n" + "\n".join(shown) if found else ""


def batch_seconds(program: Built, inputs: dict[str, Any], batch: int) -> float:
    start = time.perf_counter()
    for _ in range(batch):
        program.call(**inputs)
    return (time.perf_counter() - start) / batch


def timed(eager: Built, ours: Built, count: int) -> tuple[float, float, float]:
    """Seconds of a call, eager's and ours, and their ratio: the median of rounds, in each of which both run."""
    theirs_given, ours_given = eager.inputs(0), ours.inputs(0)
    once = min(batch_seconds(eager, theirs_given, 1) for _ in range(2))
    batch = max(1, min(2000, int(ROUND_S / (once + 1e-7))))
    for program, given in ((eager, theirs_given), (ours, ours_given)):
        batch_seconds(program, given, max(2, batch // 4))
    rounds: list[tuple[float, float]] = []
    gc.collect()
    for i in range(count):
        if i % 2:
            b, a = batch_seconds(ours, ours_given, batch), batch_seconds(eager, theirs_given, batch)
        else:
            a, b = batch_seconds(eager, theirs_given, batch), batch_seconds(ours, ours_given, batch)
        rounds.append((a, b))
    theirs, mine = (statistics.median(r[side] for r in rounds) for side in (0, 1))
    return theirs, mine, statistics.median(a / b for a, b in rounds)


def place(line: Any) -> str:
    """A line as a reader finds it: the path within its package."""
    file = line.file.rpartition("site-packages/")[2] or line.file
    file = "tests/ecosystem/" + file.rpartition("/tests/ecosystem/")[2] if "/tests/ecosystem/" in file else file
    return f"{file}:{line.line} {line.function}".strip() if file else ""


def without_addresses(text: str) -> str:
    return re.sub(r" at 0x[0-9a-f]+", "", text)


def stops_of(captures: Any) -> tuple[Stop, ...]:
    """Each once: objects that differ by their addresses alone are one reason."""
    found: dict[Stop, None] = {}
    for seen in captures:
        told_already = {s.reason for s in seen.skipped}
        found |= dict.fromkeys(Stop("break", place(b.where), b.reason) for b in seen.breaks)
        found |= dict.fromkeys(Stop("skipped", place(s.where), s.reason) for s in seen.skipped)
        found |= dict.fromkeys(
            Stop("fallback", "", without_addresses(f.reason)) for f in seen.fallbacks if f.reason not in told_already
        )
    return tuple(found)


def version_of(package: str) -> str:
    import importlib.metadata

    return importlib.metadata.version(package)


def run_row(program: Program, rounds: int) -> Row:
    """`rounds` of timed calls; none: only whether it is right."""
    import vesta

    def row(**facts: Any) -> Row:
        return Row(program.name, program.package, version, program.what, program.trains, **facts)

    version = ""
    try:
        version = version_of(program.package)
        eager = built(program, identity)
        expected, seconds = zip(*(call(eager, eager.inputs(n), n) for n in range(CALLS)), strict=True)
    except Exception:
        return row(error=traceback.format_exc(limit=-6))
    failure, first = "", 0.0
    recompiles_before: int | None = None
    try:
        ours = built(program, vesta.compile)
        for n in range(CALLS):
            result, took = call(ours, ours.inputs(n), n)
            first = first or took
            if found := wrong(program, n, result, expected[n]):
                failure = failure or f"call {n + 1}: {found}"
        recompiles_before = len(vesta.explain().recompiles)
        theirs, mine, ratio = timed(eager, ours, rounds) if rounds else (0.0, 0.0, 0.0)
    except Exception:
        theirs, mine, ratio = 0.0, 0.0, 0.0
        failure = failure or "raises\n" + traceback.format_exc(limit=-8)
    seen = vesta.explain()
    recompiles = tuple(f"{r.guard} {r.was} {r.now}".strip() for r in seen.recompiles)
    return row(
        failure=failure,
        graphs=sum(1 for g in seen.graphs if g.compiled),
        stops=stops_of(seen.captures),
        recompiles=recompiles,
        late_recompiles=0 if recompiles_before is None else len(recompiles) - recompiles_before,
        first_ms=1e3 * max(0.0, first - statistics.median(seconds[1:])),
        eager_us=1e6 * theirs,
        ours_us=1e6 * mine,
        ratio=ratio,
    )


def work(task: tuple[str, int], emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    name, rounds = task
    emit(("begin", name))
    emit(("row", run_row(load_programs()[name], rounds)))
