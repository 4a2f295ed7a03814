"""``vesta.events``: what happens in the process, event by event, and as a trace for Perfetto or Chrome."""

from __future__ import annotations

import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, overload

from vesta import _C
from vesta.errors import UserError

__all__ = ["Event", "Events", "events", "read_events"]

# What threads do to compile. Everything else belongs to calls.
COMPILES = frozenset({"capture", "stage", "kernel", "entry", "break", "recompile"})


@dataclass(frozen=True)
class Event:
    """One event. ``type`` says what happened, ``name`` to what.

    - ``call``: the outermost compiled call of a thread. ``frame``: a function's frame that runs through its segments.
    - ``run``: a variant's graph ran, because its guards held.
    - ``capture``: from a frame to a new variant. ``stage``: a stage of a compile, on the thread that runs it.
    - ``kernel``: ``detail`` says whether it was compiled, found in the process or in the store, or loaded.
    - ``entry``: an entry of the store; ``detail`` says whether it was found, missed or written.
    - ``break``: a trace ended at a graph break. ``recompile``: a guard failed, and a new variant was made.
    - ``tier``: calls of a variant, whose compile is or was in the background, may run in another tier from now on:
      ``detail`` is "1: calls into ATen" or "2: machine code".
    - ``eager``: a call, or the rest of one, runs eager; ``detail`` has the reason.

    The ids join events: what a call does has its ``call``; ``frame``, ``segment`` and ``variant`` are the same number
    in all events of one frame, segment or variant; 0 is none. ``kernel`` is a kernel's symbol, ``entry`` the key of an
    entry of the store. ``start_us`` are microseconds of the system's monotonic clock (``time.monotonic()``), ``us`` is
    the duration: 0 for what takes no time.
    """

    type: str
    name: str
    call: int
    frame: int
    segment: int
    variant: int
    kernel: str
    entry: str
    detail: str
    start_us: float
    us: float
    process: int
    thread: int
    thread_name: str


class Events(Sequence[Event]):
    """Events in the order in which they ended. ``dropped``: how many older ones made room for them.

    The result of ``vesta.events(True)`` is a context: recording ends with it. Until then it has the events so far.
    """

    def __init__(self, recorded: Iterable[Event] | None = None, dropped: int = 0) -> None:
        self._recorded = None if recorded is None else tuple(recorded)
        self._dropped = dropped

    def _take(self) -> tuple[tuple[Event, ...], int]:
        if self._recorded is not None:
            return self._recorded, self._dropped
        lines, dropped = _C.recorded_events()
        return tuple(Event(**json.loads(line)) for line in lines), dropped

    def __enter__(self) -> Events:
        return self

    def __exit__(self, *_: object) -> None:
        _C.stop_events()
        self._recorded, self._dropped = self._take()

    @overload
    def __getitem__(self, index: int) -> Event: ...
    @overload
    def __getitem__(self, index: slice) -> tuple[Event, ...]: ...
    def __getitem__(self, index: int | slice) -> Event | tuple[Event, ...]:
        return self._take()[0][index]

    def __len__(self) -> int:
        return len(self._take()[0])

    @property
    def dropped(self) -> int:
        return self._take()[1]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes a file: JSON lines if ``path`` ends with ``.jsonl``, otherwise a trace in Chrome's format
        (``.json``), which https://ui.perfetto.dev and chrome://tracing open.

        The trace has two groups of tracks for each process, a track for each thread: the calls with the runs of
        compiled segments, and the compiles with their stages and kernels, those in the background included.
        """
        recorded, _ = self._take()
        match Path(path).suffix:
            case ".jsonl":
                text = "".join(json.dumps(asdict(e)) + "\n" for e in recorded)
            case ".json":
                text = json.dumps({"traceEvents": _trace_events(recorded), "displayTimeUnit": "ns"})
            case _:
                raise UserError(f"events are saved as .jsonl (JSON lines) or .json (a trace), not as {str(path)!r}")
        Path(path).write_text(text)

    def __str__(self) -> str:
        recorded, dropped = self._take()
        counts, us = Counter(e.type for e in recorded), defaultdict[str, float](float)
        for e in recorded:
            us[e.type] += e.us
        lines = [f"{len(recorded)} events" + (f"; {dropped} older ones were dropped" if dropped else "")]
        lines += [f"  {kind:<10} {n:>8} {us[kind] / 1e3:>12.3f} ms" for kind, n in sorted(counts.items())]
        return "\n".join(lines)

    __repr__ = __str__


def events(record: bool | None = None) -> Events:
    """The events that were recorded. ``events(True)`` begins to record, ``events(False)`` ends that.

    Example::

        with vesta.events(True) as recorded:
            model(x)
        recorded.save("trace.json")

    Nothing is recorded unless asked for; a call then reads one word for it. The last 65,536 events are kept.
    ``VESTA_EVENTS=file.jsonl`` in the environment appends each event of the process to a file as it ends;
    ``vesta events file.jsonl trace.json`` makes a trace of it.
    """
    if record is None:
        return Events(*Events()._take())
    if record:
        if not _C.start_events():
            raise UserError("events are recorded already; vesta.events(False) ends that")
        return Events()
    _C.stop_events()
    return Events(*Events()._take())


def read_events(path: str | os.PathLike[str]) -> Events:
    """The events of a file that ``VESTA_EVENTS`` or :meth:`Events.save` wrote."""
    try:
        lines = Path(path).read_text().splitlines()
        return Events(Event(**json.loads(line)) for line in lines)
    except (OSError, ValueError, TypeError) as error:
        raise UserError(f"{path} has no events that can be read: {error}") from None


def _trace_events(recorded: Sequence[Event]) -> list[dict[str, Any]]:
    """https://docs.google.com/document/d/1CvAClvFfyA5R-PhYUmn5OOQtYMH4h6I0nSsKchNAySU"""
    origin = min((e.start_us for e in recorded), default=0.0)
    # Viewers show a group of tracks for each process, so the two groups of a process are two processes to them.
    groups: dict[tuple[int, bool], int] = {}
    threads: dict[tuple[int, int], str] = {}
    out: list[dict[str, Any]] = []
    for e in sorted(recorded, key=lambda e: (e.start_us, -e.us)):
        group = groups.setdefault((e.process, e.type in COMPILES), len(groups) + 1)
        threads[group, e.thread] = e.thread_name
        joined = {
            k: v for k in ("call", "frame", "segment", "variant", "kernel", "entry", "detail") if (v := getattr(e, k))
        }
        one = {"name": e.name, "cat": e.type, "pid": group, "tid": e.thread, "ts": e.start_us - origin, "args": joined}
        out.append(one | ({"ph": "X", "dur": e.us} if e.us else {"ph": "i", "s": "t"}))
    for (process, compiles), group in groups.items():
        name = f"{'compiles' if compiles else 'calls'} of process {process}"
        out.append({"name": "process_name", "ph": "M", "pid": group, "args": {"name": name}})
    for (group, thread), name in threads.items():
        out.append({"name": "thread_name", "ph": "M", "pid": group, "tid": thread, "args": {"name": name}})
    return out
