"""Ten training steps of the models of tests/programs/zoo, eager and compiled: right or not, first step, times, breaks.

    python -m tests.ecosystem.training                     every model that trains: some hours
    python -m tests.ecosystem.training llama 'gpt*'        some, by shell pattern
    python -m tests.ecosystem.training --family images     transformers' texts: language; both: multimodal;
                                                           timm: images; torch.nn: modules
    python -m tests.ecosystem.training --ways step         the whole step in one compiled function, alone
    python -m tests.ecosystem.training --json rows.json    keeps the rows; models that do not run now keep theirs

A model trains in two ways: `model` compiles the module, and loss, backward pass and optimizer are called as in eager;
`step` compiles one function from zero_grad to the optimizer's step. Dropout is on, batches differ, and the last steps
have another length where the model has one. Each step begins from eager's parameters, buffers and optimizer state. Its
loss, gradients, parameters, buffers and states are judged as everywhere (docs/numerics.md). Each model and way runs in
a process of its own, with a time limit for each step. Exits with 1 if a result is not eager's, with 2 if a model does
not train in eager.
"""

from __future__ import annotations

import argparse
import copy
import dataclasses
import fnmatch
import functools
import inspect
import json
import statistics
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from torch import nn
from torch.utils import _pytree as pytree

from tests import isolation
from tests.ecosystem.worker import Stop, stops_of, verdict
from tests.numerics.compare import K, differences, ulp
from tests.numerics.wide_runs import copies, shaking, widen, widened
from tests.programs.models import plain
from tests.programs.zoo import ZOO, Entry

WAYS = ("model", "step")
FAMILIES = ("language", "multimodal", "images", "modules")
STEPS = 10
OTHER_LENGTH_FROM = 7  # steps that take the entry's last length
ROWS = 8  # of a batch of images
DROPOUT = 0.1
# Runs with moved numbers, each made only where those before do not suffice. A number so close to the kink of a ReLU
# that rounding decides its side changes sides in some directions only, and a model has several: hgnet needs 9 to 16.
SHAKES = 24
ROUND_S = 0.05
WITH_LABELS = ("ForCausalLM", "LMHeadModel", "ForConditionalGeneration", "ForMaskedLM", "MTModel")

# With Adam's usual eps an update is lr times the gradient's sign, which for gradients near zero is rounding's choice.
OPTIMIZERS: dict[str, Callable[..., torch.optim.Optimizer]] = {
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-3, weight_decay=0.01, eps=1e-3),
    "SGD": lambda p: torch.optim.SGD(p, lr=0.01, momentum=0.9, nesterov=True),
}


@dataclass(frozen=True)
class Row:
    """What became of one model in one way. `failure`: '' if every result is eager's. `error`: eager does not train.
    `deviation`: the largest error against float64 in parts of what the rule allows without the program's condition.
    `first_ms`: what the first step takes beyond one of eager's. `ratio`: eager's time over the compiled one's."""

    model: str
    way: str
    error: str = ""
    failure: str = ""
    graphs: int = 0
    stops: tuple[Stop, ...] = ()
    recompiles: tuple[str, ...] = ()
    deviation: float = 0.0
    first_ms: float = 0.0
    eager_ms: float = 0.0
    ours_ms: float = 0.0
    ratio: float = 0.0

    @property
    def name(self) -> str:
        return f"{self.model}.{self.way}"

    @property
    def slow(self) -> bool:
        return not self.failure and 0 < self.ratio < 0.95


def family(entry: Entry) -> str:
    build = entry.build.func if isinstance(entry.build, functools.partial) else entry.build
    return build.__module__.rpartition(".")[2]


# ---- one step --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Batch:
    """`weights` give each output its own influence on the loss; without them the model, or its class, has a loss."""

    inputs: dict[str, Any]
    target: torch.Tensor | None = None
    weights: tuple[torch.Tensor, ...] = ()

    def mapped(self, f: Callable[[Any], Any]) -> Batch:
        inputs, target, weights = f((self.inputs, self.target, self.weights))
        return Batch(inputs, target, weights)


def with_gradients(result: Any) -> list[torch.Tensor]:
    return [t for t in plain(result).values() if t.is_floating_point() and t.requires_grad]


def loss_of(model: Callable[..., Any], batch: Batch) -> torch.Tensor:
    result = model(**batch.inputs)
    if batch.target is not None:
        return F.cross_entropy(result, batch.target)
    if not batch.weights:
        return result.loss  # type: ignore[no-any-return]
    parts = [(t * w).mean() for t, w in zip(with_gradients(result), batch.weights, strict=True)]
    return torch.stack(parts).sum()


def step_of(model: Callable[..., Any], optimizer: torch.optim.Optimizer, batch: Batch) -> torch.Tensor:
    optimizer.zero_grad()
    loss = loss_of(model, batch)
    loss.backward()
    optimizer.step()
    return loss.detach()


def batches_of(entry: Entry, module: nn.Module, dtype: torch.dtype) -> Callable[[int], Batch]:
    """The batch of each step."""
    labels = type(module).__name__.endswith(WITH_LABELS) and "labels" in inspect.signature(module.forward).parameters
    is_image = family(entry) == "images"
    weights: dict[int, tuple[torch.Tensor, ...]] = {}

    def length_of(step: int) -> int:
        return entry.lengths[-1 if step >= OTHER_LENGTH_FROM else 0]

    def made(step: int) -> Batch:
        length = length_of(step)
        inputs = cast(entry.inputs(step, length), dtype)
        if is_image:  # statistics of two samples would make all that follows ill-conditioned
            parts = [entry.inputs(STEPS * k + step, length)["x"] for k in range(ROWS // 2)]
            inputs = {"x": torch.cat(parts).to(dtype)}
        if labels:
            return Batch({**inputs, "labels": inputs.get("decoder_input_ids", inputs.get("input_ids"))})
        if is_image:
            return Batch(inputs, torch.randint(0, 10, (ROWS,), generator=torch.Generator().manual_seed(step)))
        if length not in weights:
            outputs = with_gradients(copy.deepcopy(module)(**copies(inputs)))
            generator = torch.Generator().manual_seed(0)
            weights[length] = tuple(torch.randn(t.shape, generator=generator).to(t.dtype) for t in outputs)
        return Batch(inputs, None, weights[length])

    return made


def settle(module: nn.Module) -> None:
    """Forgets the history of what the module keeps between calls (a recurrent state): such tensors cannot be copied."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, torch.Tensor) and value.grad_fn is not None:
                setattr(part, name, value.detach())


def cast(value: Any, dtype: torch.dtype) -> Any:
    return pytree.tree_map(lambda t: t.to(dtype) if isinstance(t, torch.Tensor) and t.is_floating_point() else t, value)


def lively(module: nn.Module) -> nn.Module:
    """Dropout on in a model that was made without: what it draws is drawn in eager, too."""
    for part in module.modules():
        for name, value in list(vars(part).items()):
            if isinstance(value, float) and value == 0.0 and "drop" in name and "layerdrop" not in name:
                setattr(part, name, DROPOUT)
        if isinstance(part, nn.Dropout) and part.p == 0.0:
            part.p = DROPOUT
    return module.train()


@dataclass
class Trained:
    """A model and its optimizer."""

    module: nn.Module
    optimizer: torch.optim.Optimizer

    def tensors(self) -> dict[str, torch.Tensor]:
        """All that a step may change, by name."""
        parameters = dict(self.module.named_parameters())
        found = {f"gradient of {n}": p.grad for n, p in parameters.items() if p.grad is not None}
        found |= {f"parameter {n}": p.detach() for n, p in parameters.items()}
        found |= {f"buffer {n}": b.detach() for n, b in self.module.named_buffers()}
        for n, p in parameters.items():
            for key, value in self.optimizer.state.get(p, {}).items():
                if isinstance(value, torch.Tensor):
                    found[f"{key} of {n}"] = value
        return found

    def wide(self) -> Trained:
        """A copy in float64."""
        module, optimizer = copy.deepcopy((self.module, self.optimizer))
        module.double()
        for state in optimizer.state.values():
            for key, value in state.items():
                if isinstance(value, torch.Tensor) and value.is_floating_point():
                    state[key] = value.double()
        return Trained(module, optimizer)

    def shaken(self, seed: int, dtype: torch.dtype) -> Trained:
        """A copy in float64 whose numbers move by one ulp of `dtype`."""
        wide, generator = self.wide(), torch.Generator().manual_seed(seed)
        moved: list[torch.Tensor] = [*wide.module.parameters()]
        moved += [
            v for s in wide.optimizer.state.values() for k, v in s.items() if isinstance(v, torch.Tensor) and v.dim()
        ]
        with torch.no_grad():
            for t in moved:
                step = torch.randint(0, 2, t.shape, generator=generator, dtype=torch.float64) * 2 - 1
                t.mul_(1 + step * torch.finfo(dtype).eps)
        return wide

    def take(self, other: Trained) -> None:
        """Goes on from the numbers of the other."""
        ours, theirs = self.tensors(), other.tensors()
        with torch.no_grad():
            for name, t in theirs.items():
                if name in ours:
                    ours[name].copy_(t)


def comparable(t: torch.Tensor) -> torch.Tensor:
    """A copy without strides of dimensions with one element: in a weight's gradient, the number of threads decides
    them."""
    copied: torch.Tensor = copies([t.detach()])[0]
    if copied.layout != torch.strided or 1 not in copied.shape:
        return copied
    plain = torch.empty(copied.shape, device="meta").stride()
    strides = [p if n == 1 else s for n, s, p in zip(copied.shape, copied.stride(), plain, strict=True)]
    return copied.as_strided(copied.shape, strides)


def taken(step: Callable[..., Any], trained: Trained, batch: Batch, seed: int) -> tuple[dict[str, torch.Tensor], float]:
    """The tensors after a step as copies, and seconds."""
    torch.manual_seed(seed)
    start = time.perf_counter()
    loss = step(trained, batch)
    seconds = time.perf_counter() - start
    return {name: comparable(t) for name, t in {"loss": loss, **trained.tensors()}.items()}, seconds


def plain_step(trained: Trained, batch: Batch) -> torch.Tensor:
    return step_of(trained.module, trained.optimizer, batch)


def compiled_step(way: str, trained: Trained) -> Callable[[Trained, Batch], torch.Tensor]:
    import vesta

    options = {"only_if_faster": False, "deadline_ms": -1, "recompile_share": -1.0}  # each step runs compiled
    if way == "model":
        model = vesta.compile(trained.module, options=options)
        return lambda trained, batch: step_of(model, trained.optimizer, batch)
    whole = vesta.compile(step_of, options=options)
    return lambda trained, batch: whole(trained.module, trained.optimizer, batch)


# ---- judgement -------------------------------------------------------------------------------------------------------


def deviation(
    ours: dict[str, torch.Tensor], eager: dict[str, torch.Tensor], wide: dict[str, torch.Tensor] | None
) -> float:
    """The largest error in parts of twice eager's and four ulp."""
    worst = 0.0
    for name, r in (wide or {}).items():
        a, e = ours.get(name), eager.get(name)
        if a is None or e is None or not e.is_floating_point() or not e.numel() or r.shape != e.shape:
            continue
        error, theirs = (a.double() - r).abs(), (e.double() - r).abs()
        if bool(error.isfinite().all()) and bool(theirs.isfinite().all()):
            worst = max(worst, float((error / (2 * theirs.max() + K * ulp(r.abs(), e.dtype))).max()))
    return worst


def wrong(
    ours: dict[str, torch.Tensor],
    eager: dict[str, torch.Tensor],
    before: Trained,
    batch: Batch,
    seed: int,
    dtype: torch.dtype,
) -> tuple[str, float]:
    """'' if `ours` may stand for `eager`, and the deviation."""
    if list(ours) != list(eager):
        different = sorted(set(ours) ^ set(eager))
        return f"results differ in {different[:6]}; ours: {len(ours)}, eager's: {len(eager)}", 0.0

    def moved(direction: int | None) -> Any:
        trained = before.wide() if direction is None else before.shaken(direction, dtype)
        numbers = batch.mapped(widen)
        with widened(None if direction is None else shaking(dtype, direction)):
            return taken(plain_step, trained, numbers, seed)[0]

    def perturbed_run(direction: int) -> Any:
        try:
            return moved(direction)
        except Exception:  # numbers that decide (an index, a size) may not move
            return None

    reference = functools.cache(lambda: moved(None))
    perturbed = [functools.partial(perturbed_run, n) for n in range(SHAKES)]
    found = differences(ours, eager, reference, perturbed)
    names = list(eager)
    shown = [f"{names[int(d.where.split()[1])]}: {d.text}" if d.where[7:8].isdigit() else str(d) for d in found[:4]]
    text = f"{len(found)} of {len(names)} tensors differ\n" + "\n".join(shown) if found else ""
    return text, deviation(ours, eager, reference())


def seconds_of(step: Callable[..., Any], trained: Trained, batch: Batch, count: int) -> float:
    start = time.perf_counter()
    for _ in range(count):
        step(trained, batch)
    return (time.perf_counter() - start) / count


def timed(eager: Trained, ours: Trained, step: Callable[..., Any], batch: Batch, rounds: int) -> tuple[float, ...]:
    """Seconds of a step, eager's and ours, and their ratio: medians of rounds, in each of which both run."""
    once = min(seconds_of(plain_step, eager, batch, 1) for _ in range(2))
    seconds_of(step, ours, batch, 2)
    count = max(1, min(100, int(ROUND_S / once)))
    found = []
    for _ in range(rounds):
        found.append((seconds_of(plain_step, eager, batch, count), seconds_of(step, ours, batch, count)))
    theirs, mine = (statistics.median(f[side] for f in found) for side in (0, 1))
    return theirs, mine, statistics.median(a / b for a, b in found)


@dataclass(frozen=True)
class Task:
    model: str
    way: str
    optimizer: str
    dtype: str
    rounds: int


def run_row(task: Task, begin: Callable[[str], None] = lambda step: None) -> Row:
    """`begin` is told of each step: the time limit is for one."""
    import vesta

    entry, dtype = ZOO[task.model], getattr(torch, task.dtype)
    try:
        module = lively(entry.build()).to(dtype)
        batch_of = batches_of(entry, module, dtype)
        parameters = [p for p in module.parameters() if p.requires_grad]
        eager = Trained(module, OPTIMIZERS[task.optimizer](parameters))
        ours = Trained(*copy.deepcopy((eager.module, eager.optimizer)))
        taken(plain_step, Trained(*copy.deepcopy((eager.module, eager.optimizer))), batch_of(0).mapped(copies), 0)
    except Exception:
        return Row(task.model, task.way, error=traceback.format_exc(limit=-6))
    failure, first, worst, eager_s = "", 0.0, 0.0, list[float]()
    recompiles: tuple[str, ...] = ()
    theirs = mine = ratio = 0.0
    try:
        step = compiled_step(task.way, ours)
        for n in range(STEPS):
            begin(f"step {n + 1}")
            batch = batch_of(n)
            settle(eager.module)
            settle(ours.module)
            before = Trained(*copy.deepcopy((eager.module, eager.optimizer)))
            expected, seconds = taken(plain_step, eager, batch.mapped(copies), n)
            eager_s.append(seconds)
            result, took = taken(step, ours, batch.mapped(copies), n)
            first = first or took
            text, found = wrong(result, expected, before, batch, n, dtype)
            worst = max(worst, found)
            if text:
                failure = f"step {n + 1}: {text}"
                break
            ours.take(eager)
        recompiles = tuple(f"{r.guard} {r.was} {r.now}".strip() for r in vesta.explain().recompiles)
        if task.rounds and not failure:
            theirs, mine, ratio = timed(eager, ours, step, batch_of(0), task.rounds)
    except Exception:
        failure = "raises\n" + traceback.format_exc(limit=-8)
    seen = vesta.explain()
    return Row(
        task.model,
        task.way,
        failure=failure,
        graphs=sum(1 for g in seen.graphs if g.compiled),
        stops=stops_of(seen.captures),
        recompiles=recompiles,
        deviation=worst,
        first_ms=1e3 * max(0.0, first - statistics.median(eager_s or [0.0])),
        eager_ms=1e3 * theirs,
        ours_ms=1e3 * mine,
        ratio=ratio,
    )


def work(task: Task, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    emit(("begin", task.model))
    emit(("row", run_row(task, lambda step: emit(("begin", step)))))


# ---- the command -----------------------------------------------------------------------------------------------------


def run(tasks: list[Task], jobs: int, limit_s: float, threads: int) -> Iterator[Row]:
    lost: list[Row] = []

    def resume(task: Task, step: Any, reason: str) -> None:
        lost.append(Row(task.model, task.way, failure=f"{step}: {reason}"))

    preload = ("tests.programs.zoo", "rich.console", "transformers.modeling_utils", "timm", "vesta")
    for _, message in isolation.run(tasks, work, resume, jobs=jobs, limit_s=limit_s, threads=threads, preload=preload):
        while lost:
            yield lost.pop()
        yield message[1]
    yield from lost


def told(row: Row) -> str:
    word = verdict(row.error, row.failure, row.slow)
    return (
        f"{row.name:26s} {word} {row.graphs:3d} graphs {len(row.stops):3d} breaks {len(row.recompiles):3d} recompiles  "
        f"first +{row.first_ms:6.0f} ms  error {row.deviation:5.2f} of what is allowed  {row.eager_ms:7.2f} ms, "
        f"eager's time over ours {row.ratio:5.2f}"
    )


def chosen(patterns: list[str], only_family: str | None) -> list[str]:
    return [
        name
        for name, entry in ZOO.items()
        if entry.trains
        and (only_family is None or family(entry) == only_family)
        and (not patterns or any(fnmatch.fnmatch(name, p) for p in patterns))
    ]


def read(file: Path | None) -> dict[str, Row]:
    rows = {}
    for old in json.loads(file.read_text()) if file and file.exists() else []:
        stops = tuple(Stop(**s) for s in old.pop("stops"))
        row = Row(**{**old, "stops": stops, "recompiles": tuple(old["recompiles"])})
        rows[row.name] = row
    return rows


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.ecosystem.training",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("models", nargs="*", metavar="MODEL", help="names or shell patterns")
    parser.add_argument("--family", choices=FAMILIES)
    parser.add_argument("--ways", nargs="+", choices=WAYS, default=list(WAYS), metavar="WAY", help="model, step")
    parser.add_argument("--optimizer", choices=list(OPTIMIZERS), default="AdamW", help="(%(default)s)")
    parser.add_argument("--dtype", choices=("float32", "bfloat16", "float64"), default="float32", help="(%(default)s)")
    parser.add_argument("--list", action="store_true", help="lists the models and runs none")
    parser.add_argument("--after", default="", metavar="MODEL", help="only models that come later in the list")
    parser.add_argument("--rounds", type=int, default=5, help="of timed steps; 0: nothing is timed (%(default)s)")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time; times then mean little (%(default)s)")
    parser.add_argument("--limit", type=float, default=600.0, metavar="S", help="seconds for a step (%(default)s)")
    parser.add_argument("--threads", type=int, default=1, help="of torch, in each process (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="rows; those of models that do not run now are kept")
    options = parser.parse_args(argv)
    names = chosen(options.models, options.family)
    if options.after:
        if options.after not in names:
            parser.error(f"{options.after} is not among the models")
        names = names[names.index(options.after) + 1 :]
    if not names:
        parser.error("no model has such a name; --list names them")
    console = Console(soft_wrap=True, highlight=False)
    if options.list:
        console.print("\n".join(names))
        return 0
    made = functools.partial(Task, optimizer=options.optimizer, dtype=options.dtype, rounds=options.rounds)
    tasks = [made(name, way) for name in names for way in options.ways]
    rows, ran = read(options.json), list[Row]()
    columns = TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn()
    with Progress(*columns, console=console, transient=True) as progress:
        bar = progress.add_task("models", total=len(tasks))
        for row in run(tasks, options.jobs, options.limit, options.threads):
            ran.append(row)
            rows[row.name] = row
            progress.update(bar, advance=1, description=row.name)
            console.print(told(row))
            for line in (row.error or row.failure).splitlines():
                console.print("    " + line, markup=False)
            for stop in row.stops:
                console.print(f"    {stop.kind}: {stop.reason}  {stop.where}", markup=False)
            if options.json:
                found = [dataclasses.asdict(r) for r in rows.values()]
                options.json.write_text(json.dumps(found, indent=1) + "\n")
    errors, failed = [r.name for r in ran if r.error], [r.name for r in ran if r.failure]
    console.print(
        f"{len(ran)} programs, {len(failed)} wrong, {sum(bool(r.stops) for r in ran)} with breaks, "
        f"{sum(r.slow for r in ran)} slower than eager"
    )
    if errors:
        console.print(f"[red]do not train in eager: {', '.join(errors)}[/]")
        return 2
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
