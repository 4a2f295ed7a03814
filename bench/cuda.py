"""On a GPU: eager, modes of torch.compile and Vesta, in one run.

    python -m bench.cuda                            the named kernels and the small models
    python -m bench.cuda --sections grid --models --compilers copy default vesta
                                                    every kind of kernel over rows, columns and dtypes
    python -m bench.cuda --models llama-32 decode-32
    python -m bench.cuda --sections --models gpt2-train-8 resnet50-train-8
                                                    forward and backward passes (bench/cuda_training.py)
    python -m bench.cuda --compilers eager vesta

A process for each compiler and section, and for each model. Kernels: microseconds on the GPU, without the CPU's part
(the calls are captured in a CUDA graph), on arguments that rotate through more memory than the second cache holds.
"copy" is not a compiler: it copies as many bytes as the kernel has to move. Models: seconds of the first call,
milliseconds of a steady one, microseconds that the CPU is busy with it (in a queue of ten, and after the CPU has waited
for the GPU, which leaves its caches cold), GiB at most.
Medians. Writes build/bench/cuda.json.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.table import Table

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("eager", "default", "reduce-overhead", "max-autotune-no-cudagraphs", "vesta", "vesta-packed", "copy")
SECTIONS = ("named", "grid", "products")
TITLES = {"default": "torch.compile", "vesta-packed": "vesta, packed_weights", "copy": "copy of as many bytes"}
ROTATED_BYTES = 200 << 20  # of one set of arguments after another
CALLS = 16  # in a graph, at least
ROUNDS = 7


def compiled(compiler: str, function: Callable[..., Any]) -> Callable[..., Any]:
    if compiler in ("eager", "copy"):
        return function
    if compiler.startswith("vesta"):
        import vesta

        return vesta.compile(function, options={} if compiler == "vesta" else {"packed_weights": True})
    return torch.compile(function, mode=compiler)


# ---- In a process of its own ----------------------------------------------------------------------------------------


def microseconds(function: Callable[..., Any], sets: list[tuple[Any, ...]]) -> float:
    """Time of one call on the GPU. The graph has many calls, because its launch takes as long as a small kernel."""
    calls = sets * -(-CALLS // len(sets))
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        for arguments in sets[:3]:
            function(*arguments)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for arguments in calls:
            function(*arguments)
    times = []
    for _ in range(ROUNDS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1000 * begin.elapsed_time(end) / len(calls))
    return statistics.median(times[1:])


def bytes_of(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.nbytes
    return sum(map(bytes_of, value)) if isinstance(value, (list, tuple)) else 0


def work_on_kernels(compiler: str, section: str) -> Iterator[dict[str, Any]]:
    from bench import cuda_workloads

    for kernel in getattr(cuda_workloads, section)():
        torch._dynamo.reset()
        one = kernel.arguments()
        moved = bytes_of(one) + bytes_of(kernel.function(*one))
        function, arguments = kernel.function, kernel.arguments
        if compiler == "copy":
            function = torch.clone

            def arguments(size: int = moved // 2) -> tuple[Any, ...]:
                return (torch.empty(max(1, size), device="cuda", dtype=torch.uint8),)

            one = arguments()
        sets = [one] + [arguments() for _ in range(min(63, ROTATED_BYTES // max(1, moved)))]
        try:
            start = time.perf_counter()
            function = compiled(compiler, function)
            with torch.no_grad():
                function(*one)
                torch.cuda.synchronize()
                first = time.perf_counter() - start
                us = microseconds(function, sets)
        except Exception as e:
            yield {"name": kernel.name, "failure": f"{type(e).__name__}: {e}".splitlines()[0]}
            continue
        yield {"name": kernel.name, "us": us, "first_s": first, "bytes": moved, "target_us": kernel.target_us}
        del sets, one
        torch.cuda.empty_cache()


def work_on_model(compiler: str, name: str) -> Iterator[dict[str, Any]]:
    from bench import cuda_training, cuda_workloads

    trains = name in cuda_training.MODELS
    with torch.set_grad_enabled(trains):
        model, (call,) = (cuda_training if trains else cuda_workloads).MODELS[name]()
        if compiler.startswith("vesta"):
            __import__("vesta")
        elif compiler != "eager":
            __import__("torch._inductor.compile_fx")
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        function = compiled(compiler, model)
        start = time.perf_counter()
        call(function)
        torch.cuda.synchronize()
        first = time.perf_counter() - start
        for _ in range(5):
            call(function)
        torch.cuda.synchronize()
        steady, queued, alone = [], [], []
        for _ in range(ROUNDS):
            start = time.perf_counter()
            for _ in range(10):
                begin = time.perf_counter()
                call(function)
                queued.append(time.perf_counter() - begin)
            torch.cuda.synchronize()
            steady.append((time.perf_counter() - start) / 10)
            start = time.perf_counter()
            call(function)
            alone.append(time.perf_counter() - start)
            torch.cuda.synchronize()
    yield {
        "name": name,
        "first_s": first,
        "ms": 1e3 * statistics.median(steady),
        "cpu_us": 1e6 * statistics.median(alone),
        "queued_us": 1e6 * statistics.median(queued),
        "gib": torch.cuda.max_memory_allocated() / 2**30,
    }


# ---- Here -----------------------------------------------------------------------------------------------------------


def run(compiler: str, section: str, limit_s: float) -> list[dict[str, Any]]:
    command = [sys.executable, "-m", "bench.cuda", "--work", compiler, section]
    try:
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=limit_s, check=False)
        text, problem = done.stdout, done.stderr.strip().splitlines()[-1:] if done.returncode else []
    except subprocess.TimeoutExpired as e:
        text, problem = (e.stdout or b"").decode(), [f"no end after {limit_s:g} s"]
    found = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
    if problem:
        found.append({"name": section, "failure": problem[0]})
    return found


def cell(result: dict[str, Any] | None) -> str:
    if result is None:
        return ""
    if "failure" in result:
        return "fails"
    if "us" in result:
        return f"{result['us']:.1f}"
    cpu = f"{result['queued_us']:.0f} to {result['cpu_us']:.0f} us"
    return f"{result['first_s']:.2f} s, {result['ms']:.2f} ms, {cpu}, {result['gib']:.2f} GiB"


def show(console: Console, section: str, results: dict[str, list[dict[str, Any]]]) -> None:
    table = Table(title=section)
    table.add_column("")
    for compiler in results:
        table.add_column(TITLES.get(compiler, compiler), justify="right")
    table.add_column("asked", justify="right")
    by_name = {compiler: {r["name"]: r for r in rows} for compiler, rows in results.items()}
    names = list(dict.fromkeys(r["name"] for rows in results.values() for r in rows))
    for name in names:
        asked = max((by_name[c].get(name, {}).get("target_us", 0) for c in results), default=0)
        table.add_row(name, *(cell(by_name[c].get(name)) for c in results), f"{asked:g}" if asked else "")
    console.print(table)
    for compiler, rows in results.items():
        for r in rows:
            if "failure" in r:
                console.print(f"{compiler}, {r['name']}: {r['failure']}", markup=False, highlight=False)
    for line in short_of_goals({c: {r["name"]: r["us"] for r in rows if "us" in r} for c, rows in results.items()}):
        console.print(line, markup=False, highlight=False)


def short_of_goals(us: dict[str, dict[str, float]]) -> list[str]:
    """Kernels of Vesta that reach less than 0.8 of torch.compile's best speed, or 0.85 of a copy's.

    `us`: microseconds by compiler and kernel.
    """
    lines = []
    for name, own in us.get("vesta", {}).items():
        others = [times[name] for c, times in us.items() if c not in ("eager", "copy", "vesta") and name in times]
        if others and min(others) < 0.8 * own:
            lines.append(f"{name}: {min(others) / own:.2f} of torch.compile's speed")
        copy = us.get("copy", {}).get(name, own)
        if copy < 0.85 * own:
            lines.append(f"{name}: {copy / own:.2f} of a copy's speed")
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m bench.cuda", description=__doc__)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.add_argument("--sections", nargs="*", default=["named"], choices=SECTIONS, help="kernels to measure")
    parser.add_argument("--models", nargs="*", default=["encoder", "llama-2", "decode-2"])
    parser.add_argument("--compilers", nargs="+", default=["eager", "default", "vesta"], choices=COMPILERS)
    parser.add_argument("--limit", type=float, default=500.0, metavar="S", help="seconds to wait for a process")
    parser.add_argument("--work", nargs=2, help=argparse.SUPPRESS)  # in a process: compiler, section
    given = parser.parse_args()
    if not torch.cuda.is_available():
        print("bench.cuda: there is no GPU that PyTorch can use", file=sys.stderr)
        return 2
    if given.work:
        compiler, section = given.work
        work = work_on_kernels if section in SECTIONS else work_on_model
        for result in work(compiler, section):
            print(json.dumps(result), flush=True)
        return 0
    console = Console(width=160)
    console.print(f"{torch.cuda.get_device_name()}, torch {torch.__version__}")
    everything = {}
    for section in [*given.sections, *given.models]:
        compilers = [c for c in given.compilers if c != "copy" or section in ("named", "grid")]
        results = {compiler: run(compiler, section, given.limit) for compiler in compilers}
        show(console, section, results)
        everything[section] = results
    out = ROOT / "build/bench/cuda.json"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(everything, indent=1))
    console.print(f"written: {out}")
    return 1 if any("failure" in r for s in everything.values() for rows in s.values() for r in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
