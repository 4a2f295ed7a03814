"""Random tensor programs, compiled and compared with eager.

    python -m tests.programs.random_programs --count 5000 --seed 1 --jobs 2
    python -m tests.programs.random_programs --show 17          print the program of seed 17
    python -m tests.programs.random_programs --seed 17 --count 1
    python -m tests.programs.random_programs --threads 2 --scale 40        kernels that are split over threads

Results, mutated arguments, strides and which result shares memory with which argument must be eager's, on two calls
with different numbers. A program that fails is shrunk and printed as Python. Programs run in processes of their own.
With several threads, programs of kernels alone must give the same bits again on one.
"""

from __future__ import annotations

import argparse
import re
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from rich.console import Console
from rich.progress import Progress

from tests import isolation
from tests.numerics.compare import differences
from tests.numerics.wide_runs import copies, perturbed_runs, reference_run
from tests.programs.generate import Program, generate, renamed


@dataclass(frozen=True)
class Failure:
    program: Program
    kind: str  # wrong, crash, hang
    detail: str

    def __str__(self) -> str:
        return f"seed {self.program.seed}: {self.kind}\n{self.detail}\n\n{self.program.text()}"


@dataclass(frozen=True)
class Setting:
    backend: str = "direct"
    limit_s: float = 60.0
    threads: int = 1
    scale: int = 1  # of the number of elements


@dataclass(frozen=True)
class Batch:
    programs: tuple[Program | int, ...]  # an int is a seed: the child generates it
    setting: Setting
    start: int = 0

    def program(self, i: int) -> Program:
        item = self.programs[i]
        return item if isinstance(item, Program) else generate(item, scale=self.setting.scale)


def compiler(backend: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    if backend == "direct":
        import vesta

        return vesta.trace_and_compile
    if backend == "none":
        return lambda function: function

    def through_dynamo(function: Callable[..., Any]) -> Callable[..., Any]:
        torch._dynamo.reset()
        return torch.compile(function, backend=backend, dynamic=False, fullgraph=False)

    return through_dynamo


def memory(results: list[Any], inputs: list[torch.Tensor]) -> list[tuple[int, int]]:
    """For each result, the argument or result it shares storage with, and how many bytes behind that one it begins."""
    places: dict[int, tuple[int, int]] = {}
    found = []
    for i, t in enumerate([*inputs, *results]):
        start = t.storage_offset() * t.element_size()
        owner, first = places.setdefault(t.untyped_storage()._cdata, (i, start))
        found.append((owner, start - first))
    return found[len(inputs) :]


def trial(program: Program, backend: str) -> str:
    """'' or what is wrong."""
    make_inputs, function = program.load()
    compiled = compiler(backend)(function)
    for call in range(2):
        # Both calls are of one shape; the second has other numbers, save for indices, which stay in range.
        given = make_inputs(program.seed + 1000003 * call)
        eager_inputs, our_inputs = copies(given), copies(given)
        eager_error = our_error = eager = ours = None
        try:
            eager = function(*eager_inputs)
        except Exception as error:
            eager_error = error
        try:
            ours = compiled(*our_inputs)
        except Exception as error:
            our_error = error
        if eager_error or our_error:
            if type(eager_error) is not type(our_error):
                return f"call {call + 1} raises {our_error!r}, eager {eager_error!r}"
            continue
        assert eager is not None and ours is not None
        ours = list(ours)

        def both(*tensors: torch.Tensor) -> Any:
            return function(*tensors), list(tensors)

        found = differences(
            (ours, our_inputs), (eager, eager_inputs), reference_run(both, *given), perturbed_runs(both, *given)
        )
        if found:
            return f"call {call + 1}:\n" + "\n".join(map(str, found))
        if memory(ours, our_inputs) != memory(eager, eager_inputs):
            return (
                f"call {call + 1}: results share memory as {memory(ours, our_inputs)}, eager's as "
                f"{memory(eager, eager_inputs)} (argument or result, bytes)"
            )
        if torch.get_num_threads() > 1 and only_kernels(compiled):
            text = differences_on_one_thread(compiled, given, (ours, our_inputs))
            if text:
                return f"call {call + 1}, on one thread against {torch.get_num_threads()}:\n{text}"
    return ""


def only_kernels(compiled: Any) -> bool:
    """Whether Vesta computes everything itself: libraries may sum in another order when there are more threads."""
    report = compiled.report() if hasattr(compiled, "report") else None
    return bool(report and report.variants and not any(v.externs for v in report.variants))


def differences_on_one_thread(compiled: Callable[..., Any], given: list[torch.Tensor], before: Any) -> str:
    threads = torch.get_num_threads()
    inputs = copies(given)
    torch.set_num_threads(1)
    try:
        results = list(compiled(*inputs))
    finally:
        torch.set_num_threads(threads)
    return "\n".join(map(str, differences((results, inputs), before)))


def work(batch: Batch, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    for i in range(batch.start, len(batch.programs)):
        emit(("begin", i))
        with torch.no_grad():
            text = trial(batch.program(i), batch.setting.backend)
        emit(("result", i, text))


def run(batches: list[Batch], jobs: int) -> Iterator[Failure | None]:
    """A Failure or None for each program. The batches have one setting."""
    lost: list[Failure] = []
    setting = batches[0].setting if batches else Setting()

    def resume(batch: Batch, step: int | None, reason: str) -> Batch | None:
        if step is None:
            raise RuntimeError(f"a test process failed before it began: {reason}")
        kind = "hang" if reason.startswith("hang") else "crash"
        lost.append(Failure(batch.program(step), kind, reason))
        return replace(batch, start=step + 1) if step + 1 < len(batch.programs) else None

    preload = (
        "tests.programs.generate",
        "tests.programs.steps",
        "tests.numerics.compare",
        "rich.progress",
        "vesta" if setting.backend == "direct" else "torch",
    )
    for batch, message in isolation.run(
        batches, work, resume, jobs=jobs, limit_s=setting.limit_s, threads=setting.threads, preload=preload
    ):
        while lost:
            yield lost.pop()
        yield Failure(batch.program(message[1]), "wrong", message[2]) if message[2] else None
    yield from lost


# ---- shrinking -------------------------------------------------------------------------------------------------------


def smaller(program: Program) -> Iterator[Program]:
    """Programs a little simpler than this one, the boldest first."""
    if len(program.outputs) > 1:
        for output in program.outputs:
            yield replace(program, outputs=(output,))
        for i in range(len(program.outputs)):
            yield replace(program, outputs=program.outputs[:i] + program.outputs[i + 1 :])
    used = program.uses()
    dead = tuple(s for s in program.steps if not s.target or s.target in used)
    if len(dead) < len(program.steps):
        yield replace(program, steps=dead)
    for i in reversed(range(len(program.steps))):
        step = program.steps[i]
        if not step.target or step.target not in used:
            yield replace(program, steps=program.steps[:i] + program.steps[i + 1 :])
            continue
        for operand in dict.fromkeys(re.findall(r"\b[av]\d+\b", step.code)):
            yield renamed(program, step.target, operand)
    for i, argument in enumerate(program.inputs):
        if argument.kind != "contiguous":
            plain = replace(argument, kind="contiguous")
            yield replace(program, inputs=(*program.inputs[:i], plain, *program.inputs[i + 1 :]))
        if argument.dtype in ("bfloat16", "float16", "float64"):
            plain = replace(argument, dtype="float32")
            yield replace(program, inputs=(*program.inputs[:i], plain, *program.inputs[i + 1 :]))


def _runs(program: Program) -> bool:
    try:
        make_inputs, function = program.load()
        with torch.no_grad(), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = function(*make_inputs(program.seed))
        return all(isinstance(r, torch.Tensor) for r in result)
    except Exception:
        return False


def shrink(failure: Failure, setting: Setting, budget: int = 300) -> Failure:
    """The simplest program found that fails in the same way."""
    best, changed = failure, True
    while changed and budget > 0:
        changed = False
        for candidate in smaller(best.program):
            candidate = candidate.pruned()
            if budget <= 0 or not _runs(candidate):
                continue
            budget -= 1
            again = next((f for f in run([Batch((candidate,), setting)], 1) if f), None)
            if again and again.kind == failure.kind:
                best, changed = again, True
                break
    return best


def batches(first: int, count: int, setting: Setting, size: int = 25) -> list[Batch]:
    seeds = range(first, first + count)
    return [Batch(tuple(seeds[i : i + size]), setting) for i in range(0, count, size)]


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=1, help="the first program's seed; the others follow")
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument(
        "--backend",
        default="direct",
        help="direct (Vesta without Dynamo), none (the harness alone), or a backend of torch.compile: vesta, ...",
    )
    parser.add_argument("--limit", type=float, default=60.0, metavar="S", help="seconds one program may take")
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--scale", type=int, default=1, help="how many times as many elements")
    parser.add_argument("--failures", type=int, default=10, help="stop after so many")
    parser.add_argument("--no-shrink", action="store_true")
    parser.add_argument("--show", type=int, metavar="SEED", help="print a program and end")
    options = parser.parse_args(arguments)
    console = Console()
    if options.show is not None:
        print(generate(options.show, scale=options.scale).text())
        return 0
    setting = Setting(options.backend, options.limit, options.threads, options.scale)
    failures: list[Failure] = []
    done = 0
    with Progress(console=console, transient=True) as progress:
        bar = progress.add_task("programs", total=options.count)
        for result in run(batches(options.seed, options.count, setting), options.jobs):
            done += 1
            progress.update(bar, advance=1)
            if result is None:
                continue
            if not options.no_shrink:
                result = shrink(result, setting)
            failures.append(result)
            progress.console.print(f"{'-' * 80}\n{result}", markup=False, highlight=False, soft_wrap=True)
            if len(failures) >= options.failures:
                break
    kinds = ", ".join(f"{n} {kind}" for kind, n in Counter(f.kind for f in failures).items()) or "none fail"
    console.print(f"{done} programs from seed {options.seed} on {options.backend}: {kinds}", highlight=False)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
