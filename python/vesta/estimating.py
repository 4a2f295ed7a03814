"""``vesta.estimate``: memory and time of a compiled model's call, without a call of it."""

from __future__ import annotations

import copy
import mmap
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from vesta import _C
from vesta.byte_text import byte_text
from vesta.compile import arguments_like, compile
from vesta.eager import innermost
from vesta.errors import UserError
from vesta.explain import explain
from vesta.explain_capture import Break, Graph, several
from vesta.gpu_speed import speed_of_gpu
from vesta.machine_speed import Speed, microseconds, speed_of_machine
from vesta.measured_call import calls_known_operators, measured_call
from vesta.warming import arguments_of, check_of_guards, run_of_compiled, warm

__all__ = ["Estimate", "estimate"]

MAP_NORESERVE = 0x4000  # of Linux; mmap does not name it
SMALL = 128 << 10  # bytes; smaller tensors lie side by side, as the program's do

# What is measured: graphs that need at most so many bytes, and at most this share of the memory that is free, and of
# which a call takes at most so long by the computed time.
MEASURED_BYTES, MEASURED_SHARE, MEASURED_US = 2 << 30, 0.5, 1e6


@dataclass(frozen=True)
class Estimate:
    """The result of :func:`vesta.estimate`; ``print`` shows it. Bytes and microseconds are those of one call.

    - ``parameter_bytes``, ``input_bytes``, ``output_bytes``: of the parameters and buffers, of the arguments and of the
      results.
    - ``arena_bytes``: memory for intermediates that the thread keeps. ``packed_bytes``: weights kept in another form.
    - ``peak_bytes``: all of these and the results of calls into ATen, where most are in use at one time.
    - ``kernels``, ``calls``: launches of kernels and calls into ATen. ``bytes_moved``: read and written by them.
      ``flops``: floating-point operations of products, convolutions and attention.
    - ``call_us``: time of a call. ``measured``: True if ``call_us`` and ``peak_bytes`` were measured, by runs of the
      compiled code on random numbers; False if they were computed from the plan. ``compile_ms``: time of the compile,
      whose result is in the cache.
    - ``cold``: graph breaks, behind which nothing is counted. ``eager``: why nothing is compiled, or empty.
    """

    parameter_bytes: int
    input_bytes: int
    output_bytes: int = 0
    arena_bytes: int = 0
    packed_bytes: int = 0
    peak_bytes: int = 0
    kernels: int = 0
    calls: int = 0
    bytes_moved: int = 0
    flops: int = 0
    call_us: float = 0.0
    compile_ms: float = 0.0
    measured: bool = False
    cold: tuple[Break, ...] = ()
    eager: str = ""

    def __str__(self) -> str:
        if self.eager:
            return f"no estimate: the call runs eager: {self.eager}"
        rows = [
            ("peak memory", byte_text(self.peak_bytes)),
            ("  parameters", byte_text(self.parameter_bytes)),
            ("  arguments", byte_text(self.input_bytes)),
            ("  results", byte_text(self.output_bytes)),
            ("  arena", byte_text(self.arena_bytes)),
            ("  packed weights", byte_text(self.packed_bytes)),
            ("a call", f"{self.call_us / 1e3:.3f} ms, {'measured' if self.measured else 'computed from the plan'}"),
            ("  steps", f"{several(self.kernels, 'kernel')}, {several(self.calls, 'call')} into ATen"),
            ("  moved", byte_text(self.bytes_moved)),
            ("  computed", f"{self.flops / 1e9:.3f} GFLOP in products"),
            ("compile", f"{self.compile_ms:.0f} ms"),
        ]
        lines = [f"{name:<18}{value}" for name, value in rows]
        return "\n".join([*lines, *(f"without what follows {b.where}, which {b.reason}" for b in self.cold)])


def estimate(model: Any, inputs: Any, *, device: str | None = None, measure: bool = True) -> Estimate:
    """What a call of the compiled model would take, found without running it.

    The model is compiled for tensors that have sizes and no memory, so it may be on the meta device and larger than the
    memory of this machine. Nothing of its Python code runs, and none of its tensors is read.

    Memory and time are first computed from the plan and from the speed of this machine, which is measured once, in
    about a second. If a call runs on a CPU, needs at most 2 GiB, half of the memory that is free, and a second, and
    calls no operators of other libraries (but for the experts of transformers), its compiled code is then run on random
    numbers and measured.
    For a GPU the time is that of a call which is recorded as a CUDA graph and waits for the GPU; the memory includes
    the workspace of the libraries.

    Args:
        model: A module, or a result of :func:`vesta.compile` for one, whose settings are used then. It is not changed.
        inputs: The arguments of a call, as for :func:`vesta.warm`: a tuple of positional arguments, a dict of keyword
            arguments, or one argument. Tensors on the meta device will do.
        device: ``"cpu"`` or ``"cuda"``, for a model on another device, as if it were there. None: that of the model;
            what is on the meta device counts as on the CPU, or on the GPU of the model's other tensors.
        measure: If False, nothing is measured: memory and time are computed from the plan.

    Raises:
        vesta.errors.UserError: ``model`` is no module, or this machine has no such device.

    Example::

        with torch.device("meta"):
            model = Model()
        print(vesta.estimate(model, torch.zeros(1, 128, dtype=torch.int64, device="meta")))
    """
    module = innermost(model)
    if not isinstance(module, torch.nn.Module):
        raise UserError(f"vesta.estimate takes a module, not {type(module).__name__}")
    args, keywords = arguments_of(inputs)
    tensors = {id(t): t for t in (*module.parameters(), *module.buffers())}
    given = [t for t in pytree.tree_leaves((args, keywords)) if isinstance(t, torch.Tensor)]
    where = Places(device, [*tensors.values(), *given])
    arguments = arguments_like(model)
    arguments["options"] = {**arguments.get("options", {}), "deadline_ms": -1, "background": False}
    with torch.no_grad():
        compiled = compile(copy.deepcopy(module, hollow_tensors(module, where)), **arguments)
        example, named = pytree.tree_map_only(torch.Tensor, where.without_memory, (args, keywords))
        start = time.perf_counter()
        call = named if keywords else example
        (warmed,) = warm(compiled, [call]).calls
        compile_ms = (time.perf_counter() - start) * 1e3
        check_us = microseconds(check_of_guards(compiled, call)) if warmed.ready else 0.0
    storages = {t.untyped_storage()._cdata: t.untyped_storage().nbytes() for t in tensors.values()}
    parameters, arguments_ = sum(storages.values()), sum(t.numel() * t.element_size() for t in given)
    if not warmed.ready:
        return Estimate(parameters, arguments_, compile_ms=compile_ms, eager=warmed.eager)
    (graph,) = explain(compiled).explanation.graphs
    cold = () if warmed.stop is None else (warmed.stop,)
    speed = where.speed()
    entry_us = speed.entry_us + max(0.0, check_us - speed.check_us) + graph.outputs * speed.output_us
    e = estimate_of(graph, parameters, arguments_, speed, entry_us, compile_ms, cold)
    if not measure or graph.compiled is None or e.call_us > MEASURED_US or e.peak_bytes > where.bytes_to_measure():
        return e
    if not calls_known_operators(graph.compiled):
        return e
    given = [t for t in pytree.tree_leaves(call) if isinstance(t, torch.Tensor)]
    with torch.no_grad():
        run = measured_call(run_of_compiled(compiled, call), all_tensors(innermost(compiled)), given)
    if run is None:
        return e
    peak_bytes = parameters + arguments_ + run.bytes
    return replace(e, call_us=run.us + speed.leave_us, peak_bytes=peak_bytes, measured=True)


def estimate_of(
    graph: Graph,
    parameters: int,
    arguments: int,
    speed: Speed,
    entry_us: float,
    compile_ms: float,
    cold: tuple[Break, ...],
) -> Estimate:
    """``entry_us``: the time of a call beside the run of its graph: the guards, and the tensors that it returns."""
    c, steps = graph.compiled, graph.steps
    if c is None:  # nothing is left of the call
        return Estimate(parameters, arguments, peak_bytes=parameters + arguments, compile_ms=compile_ms, cold=cold)
    peak = parameters + arguments + c.packed_bytes + max((s.held_bytes for s in steps), default=0)
    # A call of a larger model finds none of its weights in the caches.
    bytes_per_us = speed.cache if peak < speed.cache_bytes else speed.memory
    if any(not s.is_kernel for s in steps):
        peak += speed.workspace
    return Estimate(
        parameters,
        arguments,
        graph.output_bytes,
        c.arena_bytes + c.early_arena_bytes,
        c.packed_bytes,
        peak,
        sum(s.is_kernel for s in steps),
        sum(not s.is_kernel for s in steps),
        sum(s.bytes for s in steps),
        sum(s.flops for s in steps),
        entry_us + sum(time_of(s, speed, bytes_per_us) for s in steps),
        compile_ms,
        cold=cold,
    )


def time_of(s: _C.StepInfo, speed: Speed, bytes_per_us: float) -> float:
    """Microseconds of a step: a kernel's as the planner estimates them, a call's by what it reads, writes and computes.
    On a CPU a product waits for its operands at its beginning, so the two times add up; a GPU does both at once."""
    if s.is_kernel:
        return speed.step_us + s.estimated_us * (speed.product_kernels if s.flops else speed.kernels)
    moving = s.bytes / bytes_per_us
    if not s.flops:
        return speed.step_us + speed.call_us + moving
    start, rate = speed.product(s.name, s.dtype)
    computing = s.flops / rate
    return speed.step_us + start + (max(moving, computing) if speed.overlaps else moving + computing)


class Places:
    """Where each tensor of an estimate is taken to be."""

    def __init__(self, device: str | None, tensors: list[torch.Tensor]) -> None:
        known = {t.device for t in tensors if t.device.type not in ("cpu", "meta")}
        if device is not None:
            known = {torch.device(device)}
        self.forced = device is not None
        unknown = {d.type for d in known} - {"cpu", "cuda"}
        if unknown or len(known) > 1:
            names = ", ".join(sorted(map(str, known)))
            raise UserError(f'vesta.estimate knows "cpu" and one GPU, "cuda", not {names}')
        self.device = known.pop() if known else torch.device("cpu")
        if self.device.type == "cuda":
            if not torch.cuda.is_available():
                raise UserError("vesta.estimate finds no GPU here, whose speed it would measure")
            self.device = torch.device(
                "cuda", torch.cuda.current_device() if self.device.index is None else self.device.index
            )

    def of(self, t: torch.Tensor) -> torch.device:
        return self.device if self.forced or t.is_meta else t.device

    def speed(self) -> Speed:
        return speed_of_gpu(self.device) if self.device.type == "cuda" else speed_of_machine()

    def bytes_to_measure(self) -> int:
        """The most bytes that a graph may need to be measured; on a GPU, where a wrong index is fatal, none is."""
        if self.device.type != "cpu":
            return 0
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        return min(MEASURED_BYTES, int(MEASURED_SHARE * free))

    def without_memory(self, t: torch.Tensor) -> torch.Tensor:
        """A tensor with the sizes, strides and dtype of ``t``, whose memory nothing may touch."""
        device = self.of(t)
        if device.type == "cuda":
            return _C.hollow_tensor(list(t.shape), list(t.stride()), t.dtype, device)
        return on_unused_pages(t)


def hollow_tensors(module: torch.nn.Module, where: Places) -> dict[int, Any]:
    """For copy.deepcopy: a tensor without memory in the place of each of the module's."""
    return {id(t): hollow(t, where) for t in all_tensors(module)}


def all_tensors(module: torch.nn.Module) -> Iterator[torch.Tensor]:
    for part in module.modules():
        for value in (*part._parameters.values(), *part._buffers.values(), *vars(part).values()):
            if isinstance(value, torch.Tensor):
                yield value


def hollow(t: torch.Tensor, where: Places) -> torch.Tensor:
    made = where.without_memory(t)
    return torch.nn.Parameter(made, t.requires_grad) if isinstance(t, torch.nn.Parameter) else made


def on_unused_pages(t: torch.Tensor) -> torch.Tensor:
    """On the CPU, in pages that take memory only when they are touched."""
    last = sum((n - 1) * stride for n, stride in zip(t.shape, t.stride(), strict=True))
    if t.numel() == 0:
        return torch.empty_strided(t.shape, t.stride(), dtype=t.dtype)
    size = (last + 1) * t.element_size()
    if size < SMALL:
        memory = torch.zeros(size, dtype=torch.uint8).untyped_storage()
    else:
        pages = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | MAP_NORESERVE)
        memory = torch.frombuffer(pages, dtype=torch.uint8).untyped_storage()
    return torch.empty(0, dtype=t.dtype).set_(memory, 0, t.shape, t.stride())
