"""Random Python functions, plain and compiled.

    python -m tests.capture.random_functions --seeds 0:2000 --jobs 2
    python -m tests.capture.random_functions --show 17             prints the function of a seed
    python -m tests.capture.random_functions --seeds 17:18         runs it; a failure is shrunk and printed
    python -m tests.capture.random_functions --plain --seeds 0:100 the harness against itself

Functions with tensors, numbers, lists, dicts and objects, branches on values of both, loops, exceptions, `with`,
closures, generators, comprehensions, classes and side effects, called four times with two sets of arguments; compared
in everything that tests/capture/semantics.py sees. Functions run in child processes: a crash or a hang is one failure.
"""

from __future__ import annotations

import argparse
import gc
import itertools
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from tests import isolation
from tests.capture.random_statements import Program, generate
from tests.capture.semantics import check_case, resolve
from tests.capture.statements import count, smaller

_numbers = itertools.count()


@dataclass(frozen=True)
class Failure:
    program: Program
    kind: str  # crash, hang, outcome, wrong
    detail: str

    def __str__(self) -> str:
        text = self.program.text().partition("# seed")[2]
        return f"seed {self.program.seed}: {self.kind}\n{self.detail}\n\n# seed{text}"


@dataclass(frozen=True)
class Batch:
    programs: tuple[Program | int, ...]  # an int is a seed: the child generates it
    compile: str
    start: int = 0
    stop_at: str = ""  # end at the first failure of this kind

    def program(self, at: int) -> Program:
        item = self.programs[at]
        return item if isinstance(item, Program) else generate(item)


def kind_of(text: str) -> str:
    for word in ("crash", "hang", "exit with code", "the harness"):
        if text.startswith(word):
            return word
    return "outcome" if ": outcome:" in text else "wrong"


def difference(program: Program, compile: Callable[[Any], Any], folder: Path) -> str:
    path = folder / f"random_{program.seed}_{next(_numbers)}.py"  # the code of a path is read once
    path.write_text(program.text())
    try:
        return "\n".join(check_case(path, "program", compile)[:4])
    except Exception as error:
        return f"the harness: {type(error).__name__}: {error}"


def work(batch: Batch, emit: Callable[[Any], None]) -> None:
    compile = resolve(batch.compile)
    with tempfile.TemporaryDirectory(prefix="vesta-tests-") as folder:
        for at in range(batch.start, len(batch.programs)):
            emit(("begin", at))
            found = difference(batch.program(at), compile, Path(folder))
            emit(("outcome", at, found))
            if found and batch.stop_at == kind_of(found):
                return
            gc.collect(1)


def run(batches: list[Batch], *, jobs: int = 1, limit_s: float = 30.0) -> Iterator[tuple[Batch, int, str]]:
    """(batch, number of the program, difference or "")."""
    lost: list[tuple[Batch, int, str]] = []

    def resume(batch: Batch, step: Any, reason: str) -> Batch | None:
        at = batch.start if step is None else step
        lost.append((batch, at, reason))
        ended = at + 1 >= len(batch.programs) or batch.stop_at == kind_of(reason)
        return None if ended else replace(batch, start=at + 1)

    modules = {batch.compile.partition(":")[0] for batch in batches} - {"plain"}
    preload = ("tests.capture.semantics", "tests.capture.random_statements", *sorted(modules))
    for batch, message in isolation.run(batches, work, resume, jobs=jobs, limit_s=limit_s, preload=preload):
        while lost:
            yield lost.pop(0)
        yield batch, message[1], message[2]
    yield from lost


def shrink(failure: Failure, compile: str, limit_s: float, rounds: int = 60) -> Failure:
    """The smallest program found that fails in the same way."""
    for _ in range(rounds):
        candidates = [replace(failure.program, body=body) for body in smaller(failure.program.body)]
        candidates = [c for c in candidates if count(c.body) < count(failure.program.body) and _compiles(c)]
        batch = Batch(tuple(candidates), compile, stop_at=failure.kind)
        for _, at, found in run([batch], limit_s=limit_s) if candidates else ():
            if found and kind_of(found) == failure.kind:
                failure = Failure(candidates[at], failure.kind, found)
                break
        else:
            break
    return failure


def _compiles(program: Program) -> bool:
    try:
        compile(program.text(), "<random>", "exec", dont_inherit=True)
    except SyntaxError:
        return False
    return True


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tests.capture.random_functions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--seeds", default="0:200", metavar="A:B", help="seeds to run (%(default)s)")
    parser.add_argument("--show", type=int, metavar="SEED", help="prints a seed's function and runs nothing")
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time (%(default)s)")
    parser.add_argument("--limit", type=float, default=30.0, metavar="S", help="seconds for one function (%(default)s)")
    parser.add_argument("--plain", action="store_true", help="compiles nothing: compares plain Python with itself")
    parser.add_argument("--compile", default="vesta:compile", metavar="MODULE:NAME", help="what compiles (%(default)s)")
    parser.add_argument("--no-shrink", action="store_true", help="prints failures as they are")
    parser.add_argument("--most", type=int, default=10, metavar="N", help="ends after N failures (%(default)s)")
    options = parser.parse_args(argv)
    if options.show is not None:
        print(generate(options.show).text())
        return 0

    spec = "plain" if options.plain else options.compile
    begin, end = map(int, options.seeds.split(":"))
    seeds = list(range(begin, end))
    batches = [Batch(tuple(seeds[at : at + 50]), spec) for at in range(0, len(seeds), 50)]
    failures: list[Failure] = []
    done = 0
    results = run(batches, jobs=options.jobs, limit_s=options.limit)
    for batch, at, found in results:
        done += 1
        if found:
            failures.append(Failure(batch.program(at), kind_of(found), found))
            print(f"seed {failures[-1].program.seed}: {found.splitlines()[0][:200]}", flush=True)
            if len(failures) >= options.most:
                break
    results.close()
    for failure in failures:
        shrunk = failure if options.no_shrink else shrink(failure, spec, options.limit)
        print(f"\n{shrunk}", flush=True)
    kinds = ", ".join(f"{kind} {number}" for kind, number in Counter(f.kind for f in failures).items())
    print(f"{done} functions, {len(failures)} different{': ' + kinds if kinds else ''}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
