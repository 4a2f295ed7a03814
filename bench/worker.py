"""Runs one workload under one compiler. Reads commands from stdin and prints JSON lines.

first            calls once, all imports done; answers seconds and compile times
round SECONDS    calls for so long; answers the median of a call in seconds
save             saves what vesta.compile made; answers the bytes of such a file without weights
finish           compares with eager; answers the largest error, and the peak of the process and of a call's tensors
"""

from __future__ import annotations

import json
import os
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from bench.compilers import compiled, load
from bench.workloads import DTYPES, KERNELS, MODELS


def memory_mib(field: str) -> float:
    """VmHWM (the peak) or VmRSS of this process."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) / 1024
    return 0.0


def build(workload: str) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    kind, _, rest = workload.partition(":")
    if kind == "model":
        return MODELS[rest].build()
    name, _, dtype = rest.partition(":")
    kernel = KERNELS[name]
    return kernel.function, kernel.inputs(DTYPES[dtype])


def largest_error(ours: Any, eager: Any) -> float:
    from torch.utils import _pytree as pytree

    worst = 0.0
    for a, e in zip(pytree.tree_leaves(ours), pytree.tree_leaves(eager), strict=True):
        if isinstance(e, torch.Tensor) and e.numel():
            worst = max(worst, (a.double() - e.double()).abs().max().item())
    return worst


def as_numbers(result: Any) -> Any:
    return result.detach() if isinstance(result, torch.Tensor) else result


def peak_tensor_bytes(call: Callable[..., Any], arguments: tuple[Any, ...]) -> int:
    """The peak memory in bytes of the tensors that one call makes."""
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU], profile_memory=True) as profile:
        result = call(*arguments)
    events = profile.profiler.kineto_results.events()
    del result
    live = peak = 0
    for _, change in sorted((e.start_ns(), e.nbytes()) for e in events if e.name() == "[memory]"):
        live += change
        peak = max(peak, live)
    return peak


def compile_ms(compiler: str) -> float:
    """The compiler's part of the first call: without Dynamo and AOTAutograd, but with vesta.compile's capture."""
    if compiler == "inductor":
        from torch._dynamo.utils import compilation_time_metrics

        for name in ("compile_fx_inner", "inductor_compile", "backend_compile"):
            if compilation_time_metrics.get(name):
                return 1e3 * sum(compilation_time_metrics[name])
    if compiler in ("backend", "vesta"):
        import vesta

        return float(sum(variant.total_ms for variant in vesta.explain().variants))
    return 0.0


def trace_ms(compiler: str) -> float:
    """The time of vesta.compile's capture alone: bytecode to graphs and guards."""
    if compiler != "vesta":
        return 0.0
    import vesta

    return float(sum(graph.ms.get("trace", 0.0) for graph in vesta.explain().graphs))


def details(compiler: str) -> dict[str, Any]:
    if compiler not in ("backend", "vesta"):
        return {}
    import vesta

    report = vesta.explain()
    return {
        "packed_bytes": sum(v.packed_bytes for v in report.variants),
        # Each thread has one arena, which its programs share and which is kept between calls.
        "arena_bytes": max((v.arena_bytes for v in report.variants), default=0),
        "kernels": sum(len(v.kernels) for v in report.variants),
        "fallbacks": [f.reason for f in report.fallbacks],
        "breaks": [f"{b.where}: {b.reason}" for b in report.breaks],
        "stages": {s.name: s.ms for v in report.variants for s in v.stages},
    }


def save(compiled: Callable[..., Any]) -> int:
    """Writes the compiled program with its weights. Returns the size in bytes of a file without them, 0 if it cannot be
    saved: it writes to objects of the program."""
    import vesta

    path = os.environ["VESTA_BENCH_FILE"]
    try:
        without = vesta.save(compiled, path, weights=False).bytes
    except vesta.errors.UserError:
        return 0
    vesta.save(compiled, path)
    return without


def main() -> None:
    workload, compiler = sys.argv[1], sys.argv[2]
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # libraries print to stdout too: the parent reads answers only
    warnings.simplefilter("ignore")
    torch.set_num_threads(int(os.environ.get("VESTA_BENCH_THREADS", os.cpu_count() or 1)))
    if workload.startswith("model:"):
        from tests.programs.torchvision_operators import declare_torchvision_operators

        declare_torchvision_operators()
    function, arguments = build(workload)
    trains = workload.startswith("model:") and MODELS[workload.partition(":")[2]].trains
    parameters = list(function.parameters()) if trains and isinstance(function, torch.nn.Module) else []
    load(compiler)
    run: Callable[..., Any] = function

    def call(run: Callable[..., Any]) -> Any:
        for p in parameters:
            p.grad = None
        result = run(*arguments)
        if trains and result.requires_grad:
            result.backward()
        return result

    def answer(**values: Any) -> None:
        print(json.dumps(values), file=answers, flush=True)

    answer(ready=True, rss_mib=memory_mib("VmRSS"))
    with torch.set_grad_enabled(trains):
        for line in sys.stdin:
            command, *rest = line.split()
            if command == "first":
                start = time.perf_counter()
                run = compiled(compiler, function)
                call(run)
                seconds = time.perf_counter() - start
                answer(first_s=seconds, compile_ms=compile_ms(compiler), trace_ms=trace_ms(compiler))
            elif command == "round":
                times: list[float] = []
                end = time.perf_counter() + float(rest[0])
                while len(times) < 3 or time.perf_counter() < end:
                    start = time.perf_counter()
                    call(run)
                    times.append(time.perf_counter() - start)
                answer(median_s=statistics.median(times), best_s=min(times), calls=len(times))
            elif command == "save":
                answer(file_bytes=save(run))
            elif command == "finish":
                peak = memory_mib("VmHWM")
                # Before the profiler, under which a range of the program's own is a graph break.
                of_calls = details(compiler)
                tensors = peak_tensor_bytes(call, (run,))
                error = 0.0
                if compiler != "eager" and (parameters or not trains):  # a whole step changes what it computes with
                    ours = [as_numbers(call(run)), *(p.grad for p in parameters)]
                    error = largest_error(ours, [as_numbers(call(function)), *(p.grad for p in parameters)])
                answer(peak_mib=peak, tensor_bytes=tensors, error=error, **of_calls)
                break
    answers.flush()
    os._exit(0)


if __name__ == "__main__":
    main()
