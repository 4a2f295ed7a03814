"""Measures capture: first calls, a hit, guards, a graph break, and programs that are not compiled."""

from __future__ import annotations

import statistics
import sys
import tempfile
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import Any

from rich.table import Table

from bench.processes import COMPILERS, TITLES, Run, Worker

FIRST_CALLS = {"tiny": 30.0, "llama": 400.0, "resnet50": 400.0}  # milliseconds aimed at
PROBES = (
    "hit",
    "no layers",
    "300 parameters",
    "300 sizes",
    "decoder",
    "nothing",
    "before break",
    "after break",
    "C function",
    "with break",
)


@dataclass
class Row:
    """One figure for every compiler. `aim`: upper bound for vesta.compile; 0: none."""

    name: str
    unit: str
    aim: float = 0.0
    values: dict[str, float] = field(default_factory=dict)


def first_calls(
    compilers: list[str], limit_s: float, known: dict[str, dict[str, Run]], say: Callable[[str], None]
) -> list[Row]:
    rows = []
    trace = Row("llama: the capture alone", "ms", 60.0)
    for name, aim in FIRST_CALLS.items():
        row = Row(f"{name}: first call", "ms", aim)
        for compiler in compilers:
            say(f"first call of {name}, {TITLES[compiler]}")
            run = known.get(name, {}).get(compiler) or first_call(name, compiler, limit_s)
            if not run.failure:
                row.values[compiler] = 1e3 * run.first_s
                if name == "llama" and compiler == "vesta":
                    trace.values[compiler] = run.trace_ms
        rows.append(row)
    return [*rows, trace]


def first_call(name: str, compiler: str, limit_s: float) -> Run:
    with tempfile.TemporaryDirectory(prefix="vesta-bench-") as cache:
        worker = Worker("bench.worker", [f"model:{name}", compiler], cache, limit_s)
        got = worker.ask("first")
        worker.close()
    worker.run.first_s, worker.run.trace_ms = got.get("first_s", 0.0), got.get("trace_ms", 0.0)
    return worker.run


def calls(
    compilers: list[str], rounds: int, seconds: float, limit_s: float, say: Callable[[str], None]
) -> tuple[list[Row], list[str]]:
    """The rows, and the failures."""
    us: dict[str, dict[str, list[float]]] = {c: {p: [] for p in PROBES} for c in compilers}
    plain: dict[str, dict[str, list[float]]] = {c: {"before": [], "after": []} for c in compilers}
    failures = []
    with ExitStack() as stack:
        cache = stack.enter_context(tempfile.TemporaryDirectory(prefix="vesta-bench-"))
        workers = {c: Worker("bench.calls", [c], cache, limit_s) for c in compilers}
        for worker in workers.values():
            stack.callback(worker.close)

        def program(when: str) -> None:
            for _ in range(10 * rounds):
                for c in compilers:
                    if t := workers[c].ask("plain").get("seconds"):
                        plain[c][when].append(t)

        say("a program that is not compiled")
        program("before")
        for c in compilers:
            say(f"small functions, {TITLES[c]}")
            breaks = workers[c].ask("first").get("breaks")
            if breaks == 0 and c != "eager":
                failures.append(f"calls with {c}: there is no graph break where one is measured")
        for _ in range(rounds):
            for probe in PROBES:
                for c in compilers:
                    if t := workers[c].ask(f"round {probe} {seconds}").get("us"):
                        us[c][probe].append(t)
        say("a program that is not compiled, after something was")
        program("after")
        failures += [f"calls with {c}: {w.run.failure}" for c, w in workers.items() if w.run.failure]

    rows = [
        Row("tiny: a call", "µs", 8.0),
        Row("guards of 300 parameters", "µs", 1.0 if sys.version_info >= (3, 12) else 5.0),
        Row("300 parameters and their sizes", "µs"),
        Row("288 weights and 64 written caches: a call", "µs"),
        Row("a graph break", "µs", 1.0),
        Row("a program that is not compiled, slower by", "%", 2.0),
    ]
    for c in compilers:
        if not all(us[c].values()):
            continue
        m = {probe: statistics.median(times) for probe, times in us[c].items()}
        parts = m["before break"] + m["after break"] - m["nothing"] + m["C function"]
        slower = min(plain[c]["after"]) / min(plain[c]["before"]) - 1
        found = (
            m["hit"],
            m["300 parameters"] - m["no layers"],
            m["300 sizes"] - m["no layers"],
            m["decoder"],
            m["with break"] - parts,
            100 * slower,
        )
        for row, value in zip(rows, found, strict=True):
            # For eager, the difference is the cost of reading the value, and a break costs nothing.
            if c != "eager" or row.name != "a graph break":
                row.values[c] = value
    return rows, failures


def table(rows: list[Row]) -> Table:
    made = Table(title="Capture: fresh processes, imports done, caches empty")
    made.add_column("")
    for compiler in COMPILERS:
        made.add_column(TITLES[compiler], justify="right")
    made.add_column("aim", justify="right")
    made.caption = (
        "guards: a call of a module that reads 300 parameters less a call of one that has none; a graph break: a call "
        "with a C function between two operators less its parts compiled apart"
    )
    for row in rows:
        texts = [shown(row, c) for c in COMPILERS]
        made.add_row(row.name, *texts, f"{row.aim:g} {row.unit}" if row.aim else "-")
    return made


def shown(row: Row, compiler: str) -> str:
    value = row.values.get(compiler)
    if value is None:
        return "-"
    text = f"{value:.3g} {row.unit}" if abs(value) < 1000 else f"{value:.0f} {row.unit}"
    if compiler != "vesta" or not row.aim:
        return text
    return f"[{'green' if value <= row.aim else 'red'}]{text}[/]"


def as_data(rows: list[Row]) -> list[dict[str, Any]]:
    return [{"name": r.name, "unit": r.unit, "aim": r.aim, "values": r.values} for r in rows]
