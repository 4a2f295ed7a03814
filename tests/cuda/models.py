"""Models of the zoo and random programs on a GPU, each called often enough to be recorded into CUDA graphs."""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import torch
from torch.utils import _pytree as pytree

from tests.cuda.programs import Program, check

NOT_RUN = "eager does not run here: "
# Reasons for which parts of a model run eager.
EAGER = {"transformer": "a nested tensor"}
CALLS = 4  # step by step, recorded, and with other addresses


def names_of_models(count: int) -> list[str]:
    """The models that are tested on the CPU, and more of the whole list."""
    from tests.programs.zoo import ZOO

    tested = [name for name, entry in ZOO.items() if entry.tests]
    others = [name for name in ZOO if name not in tested]
    more = max(0, count - len(tested))
    return [*tested[:count], *others[:: max(1, len(others) // more)][:more]] if more else tested[:count]


def check_model(name: str) -> str:
    from tests.programs.models import Case, infer, judge, moved
    from tests.programs.zoo import ZOO

    try:
        module = ZOO[name].build().cuda().eval()
        infer(module, module, moved(ZOO[name].inputs(0, ZOO[name].lengths[0]), "cuda"))
    except Exception as e:
        return f"{NOT_RUN}{type(e).__name__}: {e}"
    modes = ["inference"]
    # Convolutions of half types run in another memory order.
    if any(isinstance(m, torch.nn.Conv2d) for m in module.modules()):
        modes.append("bfloat16")
    for mode in modes:
        found = judge(Case(name, mode, "capture", "cuda", CALLS))[0]
        expected = EAGER.get(name)
        if found and not (expected and found == f"1 reasons to run eager: {expected}"):
            return f"{mode}: {found}"
    return ""


def check_random(seed: int) -> str:
    from tests.programs.generate import generate

    made = generate(seed)
    make_inputs, function = made.load()
    with torch.device("cuda"):
        program = Program(
            str(seed),
            function,
            lambda: tuple(pytree.tree_map(lambda t: t.to("cuda"), make_inputs(seed))),
            kernels=0,
            breaks=True,
        )
        try:
            function(*program.arguments())
        except Exception:
            return ""  # so does eager
        found = check(program)
    return f"{found}\n{made.text()}" if found else ""


def work_on(kind: str, items: list[str]) -> None:
    """Prints a result a line."""
    warnings.simplefilter("ignore")
    for item in items:
        print("item " + item, flush=True)
        try:
            found = check_model(item) if kind == "models" else check_random(int(item))
        except torch.OutOfMemoryError as e:
            found = f"memory: {e}"
        except Exception as e:
            found = f"{type(e).__name__}: {e}"
        print("result " + json.dumps([item, found]), flush=True)
        if "CUDA error" in found:
            return  # the device is lost to this process
    print("end", flush=True)


def run(kind: str, items: list[str], jobs: int, limit_s: float) -> tuple[int, list[str], list[str]]:
    """How many were compared, what failed, and what eager itself does not run here.

    Processes that live long: to import takes longer than to test.
    """
    not_run = []

    def one(part: int) -> Iterator[str]:
        left = items[part::jobs]
        while left:
            command = [sys.executable, "-m", "tests.cuda.models", kind, *left]
            try:
                done = subprocess.run(command, capture_output=True, text=True, timeout=limit_s)
                out, last = done.stdout, (done.stderr.strip().splitlines() or [f"exit {done.returncode}"])[-1]
            except subprocess.TimeoutExpired as e:
                out, last = (e.stdout or b"").decode(), f"no end after {limit_s:g} s"
            lines = out.splitlines()
            for line in lines:
                if line.startswith("result "):
                    item, found = json.loads(line[7:])
                    if found.startswith(NOT_RUN):
                        not_run.append(f"{item}: {found.splitlines()[0]}")
                    elif found:
                        yield f"{kind} {item}: {found}"
            if lines and lines[-1] == "end":
                return
            begun = [line[5:] for line in lines if line.startswith("item ")]
            if not begun:
                yield f"{kind}: no process began: {last}"
                return
            if not lines[-1].startswith("result "):
                yield f"{kind} {begun[-1]}: the process died: {last}"
            left = left[left.index(begun[-1]) + 1 :]

    with ThreadPoolExecutor(jobs) as pool:
        failures = [f for part in pool.map(lambda part: list(one(part)), range(jobs)) for f in part]
    return len(items) - len(not_run), failures, not_run


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("models", "random"))
    parser.add_argument("items", nargs="+")
    given = parser.parse_args()
    work_on(given.kind, given.items)
