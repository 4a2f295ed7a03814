"""Runs a call once and measures its parts: events of the process, and ranges of PyTorch's profiler."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch._C._autograd import DeviceType
from torch._C._autograd import _profiler_enabled as profiler_is_on

from vesta import _C
from vesta.events import COMPILES, Event, Events

__all__ = ["MeasuredCall", "Range", "measure"]


@dataclass(frozen=True)
class Range:
    """A part of a call: a compiled segment, a kernel, or a call into ATen. ``start_us``: from the first range on."""

    name: str
    start_us: float
    us: float
    inner: tuple[Range, ...] = ()


@dataclass(frozen=True)
class MeasuredCall:
    """One call. ``us`` is its time in microseconds, which includes the profiler's own, about 1 us for each range.

    ``ranges``: the outermost ones, in order; none if another profiler was on. ``events``: of the process, in the call.
    ``compiles_before``: events of compiles in calls that were measured before.
    """

    us: float
    ranges: tuple[Range, ...]
    events: tuple[Event, ...]
    compiles_before: tuple[Event, ...] = ()

    @property
    def compile_events(self) -> tuple[Event, ...]:
        """What was compiled, in this call and in those before."""
        return (*self.compiles_before, *(e for e in self.events if e.type in COMPILES))

    def runs_of(self, variant: int) -> list[Range]:
        """The ranges of the runs of a variant. The runs of one segment have one name, in events and in ranges, and one
        order."""
        runs = sorted((e for e in self.events if e.type == "run"), key=lambda e: e.start_us)
        found: list[Range] = []
        for name in {e.name for e in runs if e.variant == variant}:
            ranges = [r for r in self.ranges if r.name == name]
            found += [
                r for e, r in zip((e for e in runs if e.name == name), ranges, strict=False) if e.variant == variant
            ]
        return found

    @property
    def compiled(self) -> bool:
        """Whether the call compiled anything. Its ranges include those of the trace then."""
        return any(e.type == "capture" for e in self.events)


def measure(call: Callable[[], Any], before: MeasuredCall | None = None) -> tuple[Any, MeasuredCall]:
    """The result of ``call()``, which runs once, and its parts. Errors of the call pass through. ``before``: the call
    that was measured before this one."""
    began = _C.start_events()  # False: they are recorded already, and go on afterwards
    profiled = not profiler_is_on()
    start_us = time.monotonic() * 1e6
    try:
        if profiled:
            with torch.autograd.profiler.profile() as profile:
                start = time.perf_counter()
                result = call()
                us = (time.perf_counter() - start) * 1e6
            ranges = ranges_of(profile.function_events)
        else:
            start = time.perf_counter()
            result = call()
            us = (time.perf_counter() - start) * 1e6
            ranges = ()
        events = tuple(e for e in Events()[:] if e.start_us >= start_us)
    finally:
        if began:
            _C.stop_events()
    return result, MeasuredCall(us, ranges, events, before.compile_events if before else ())


def ranges_of(events: Any) -> tuple[Range, ...]:
    """The outermost ranges of PyTorch's ``FunctionEvent``s of the CPU, with those inside of them."""
    own = [e for e in events if e.device_type == DeviceType.CPU and not e.is_async]
    origin = min((e.time_range.start for e in own), default=0.0)

    def made(e: Any) -> Range:
        children: Sequence[Any] = sorted(e.cpu_children, key=lambda c: c.time_range.start)
        return Range(e.name, e.time_range.start - origin, e.time_range.elapsed_us(), tuple(map(made, children)))

    outermost = [e for e in own if e.cpu_parent is None]
    return tuple(made(e) for e in sorted(outermost, key=lambda e: e.time_range.start))
