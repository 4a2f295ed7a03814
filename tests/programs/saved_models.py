"""Models saved here and run by a C++ program that has no compiler in it: equal results, and weights that are changed
after the load are seen.

    python -m tests.programs.saved_models --all
    python -m tests.programs.saved_models bert resnet18

Each model runs in a process of its own with a time limit.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from tests import isolation
from tests.programs.models import copies, plain
from tests.programs.zoo import ZOO

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("VESTA_BUILD", "build/release")
BREAKS = "is not one graph"
RUNNER = BUILD / "tests/unit/run_saved"


@dataclass
class Verdict:
    model: str
    failure: str = ""
    """Empty: equal. A program with breaks is none that can be saved: BREAKS."""
    note: str = ""
    seconds: float = 0.0


def given(inputs: dict[str, Any]) -> dict[str, Any]:
    """Arguments as plain containers, which C++ reads."""
    return {name: dict(x) if hasattr(x, "keys") else x for name, x in inputs.items()}


def judge(model: str, folder: Path) -> tuple[str, str]:
    """The failure, or '', and a summary of the saved program."""
    import vesta

    entry = ZOO[model]
    module = entry.build().eval()
    compiled = vesta.compile(module)
    lengths = entry.lengths[:2] if len(entry.lengths) > 1 else entry.lengths[:1]
    calls = [entry.inputs(i, length) for i, length in enumerate(lengths)]
    expected = []
    for scaled in (False, True):
        if scaled:
            saved = vesta.save(compiled, folder / "m.vesta")
            tied = {t.data_ptr(): t for t in (*module.parameters(), *module.buffers())}
            for tensor in tied.values():
                if tensor.is_floating_point():
                    tensor.mul_(0.9)
        expected += [list(plain(compiled(**copies(inputs))).values()) for inputs in calls]
    torch.save([given(inputs) for inputs in calls], folder / "inputs.pt")
    done = subprocess.run(
        [RUNNER, folder / "m.vesta", folder / "inputs.pt", folder / "results.pt"],
        capture_output=True,
        text=True,
        timeout=200,
    )
    note = f"{saved.variants} variants, {saved.bytes / 2**20:.1f} MiB"
    if done.returncode != 0:
        return f"run_saved exits with {done.returncode}: {done.stderr}", note
    found = torch.load(folder / "results.pt", weights_only=False)
    for k, (ours, wanted) in enumerate(zip(found, expected, strict=True)):
        where = f"call {k % len(calls) + 1}{' after the weights were changed' if k >= len(calls) else ''}"
        if len(ours) != len(wanted):
            return f"{where}: {len(ours)} results instead of {len(wanted)}", note
        for i, (a, b) in enumerate(zip(ours, wanted, strict=True)):
            # MKL's own products depend on where in memory their operands lie.
            if a.dtype != b.dtype or not torch.allclose(a, b, rtol=1e-5, atol=1e-6, equal_nan=True):
                return f"{where}: result {i} differs by {(a.double() - b.double()).abs().max():.3g}", note
    return "", note


def work(model: str, emit: Callable[[Any], None]) -> None:
    warnings.simplefilter("ignore")
    emit(("begin", model))
    start, note = time.perf_counter(), ""
    try:
        with torch.no_grad(), tempfile.TemporaryDirectory() as folder:
            failure, note = judge(model, Path(folder))
    except Exception as e:
        failure = (
            BREAKS if "it is not one graph" in str(e) else f"{type(e).__name__}: {e}\n" + traceback.format_exc(limit=-3)
        )
    emit(("verdict", failure, note, time.perf_counter() - start))


def run(models: list[str], jobs: int = 1, limit_s: float = 300.0) -> Iterator[Verdict]:
    lost: list[Verdict] = []
    preload = ("tests.programs.zoo", "rich.console", "transformers")
    for model, message in isolation.run(
        models,
        work,
        lambda model, _step, reason: lost.append(Verdict(model, reason)),
        jobs=jobs,
        limit_s=limit_s,
        threads=2,
        preload=preload,
    ):
        while lost:
            yield lost.pop()
        yield Verdict(model, *message[1:])
    yield from lost


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", metavar="MODEL", help=f"of {', '.join(ZOO)}")
    parser.add_argument("--all", action="store_true", help="every model; without names, the tested ones")
    parser.add_argument("--jobs", type=int, default=1)
    options = parser.parse_args(arguments)
    names = options.models or [n for n, e in ZOO.items() if options.all or e.tests]
    console, failed, broken = Console(), 0, 0
    for verdict in run(names, options.jobs):
        broke = verdict.failure == BREAKS
        broken += broke
        failed += bool(verdict.failure) and not broke
        said = BREAKS if broke else "FAILED" if verdict.failure else "equal"
        console.print(f"{verdict.model:<28} {said}  {verdict.note}", markup=False)
        if verdict.failure and not broke:
            console.print(verdict.failure, markup=False)
    console.print(f"{len(names) - failed - broken} of {len(names)} models are equal, {broken} are not one graph")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
