"""What was measured, and what follows from it. A report is made of this data, or of the JSON file that has it."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any

LEAST_OVER_BETTER = 1.05  # aimed at: Vesta's speed over the better engine's
MOST_FIRST_S = 0.3
LEAST_READ = 0.9  # of the measured bandwidth, in a decode step
MOST_DIFFERENCE = 1e-3  # of the largest number of a tensor


@dataclass
class Run:
    """One workload in eager and in one engine. A `pair` has the seconds of a call of each, from one round."""

    first_s: float = 0.0
    parts: dict[str, float] = field(default_factory=dict)
    pairs: list[list[float]] = field(default_factory=list)
    start_mib: float = 0.0
    peak_mib: float = 0.0
    difference: float = 0.0
    notes: list[str] = field(default_factory=list)
    failure: str = ""
    # Of a decode step: the bandwidth measured beside each pair, and the bytes of weights that a call reads.
    read_bytes_per_s: list[float] = field(default_factory=list)
    weight_bytes: int = 0

    @property
    def ratios(self) -> list[float]:
        return [eager / engine for eager, engine in self.pairs]

    @property
    def ratio(self) -> float:
        """Eager's time over the engine's: the median over rounds."""
        return statistics.median(self.ratios) if self.pairs else math.nan

    @property
    def eager_s(self) -> float:
        return statistics.median(p[0] for p in self.pairs) if self.pairs else math.nan

    @property
    def engine_s(self) -> float:
        return statistics.median(p[1] for p in self.pairs) if self.pairs else math.nan

    @property
    def is_right(self) -> bool:
        """Its results are eager's. What computes something else is not compared."""
        return not self.failure and bool(self.pairs) and self.difference <= MOST_DIFFERENCE

    def read_shares(self, of_eager: bool = False) -> list[float]:
        """The bytes of weights per second as a part of the bandwidth, round by round."""
        return [
            self.weight_bytes / (pair[0] if of_eager else pair[1]) / bandwidth
            for pair, bandwidth in zip(self.pairs, self.read_bytes_per_s, strict=True)
        ]


@dataclass
class Cell:
    """One workload at one batch size in all engines."""

    name: str
    batch: int
    runs: dict[str, Run] = field(default_factory=dict)

    @property
    def better(self) -> str | None:
        """The faster of Vesta's peers."""
        peers = {engine: run.engine_s for engine, run in self.runs.items() if engine != "vesta" and run.is_right}
        return min(peers, key=lambda engine: peers[engine]) if peers else None

    @property
    def over_better(self) -> float | None:
        """The better engine's time over Vesta's in the same round: the median over rounds."""
        vesta, better = self.runs.get("vesta"), self.better
        if vesta is None or not vesta.is_right or better is None:
            return None
        rounds = zip(self.runs[better].pairs, vesta.pairs, strict=True)
        return statistics.median(theirs / ours for (_, theirs), (_, ours) in rounds)


@dataclass
class Product:
    """x @ w.T on one core, x of M x K and w of N x K. `rounds`: the seconds of a call of each of `PRODUCTS`."""

    m: int
    n: int
    k: int
    rounds: list[list[float]] = field(default_factory=list)
    kernels: int = 0  # that Vesta generated; 0: its program calls a library
    difference: float = 0.0
    failure: str = ""

    @property
    def operations(self) -> int:
        return 2 * self.m * self.n * self.k

    def gflops(self, which: int) -> float:
        return self.operations / statistics.median(r[which] for r in self.rounds) / 1e9

    @property
    def over_better(self) -> float:
        """The time of the faster library over Vesta's: the median over rounds."""
        return statistics.median(min(r[1:]) / r[0] for r in self.rounds)

    @property
    def is_right(self) -> bool:
        return not self.failure and bool(self.rounds) and self.difference <= MOST_DIFFERENCE


PRODUCTS = ("Vesta", "MKL", "oneDNN")


def geometric_mean(numbers: Iterable[float]) -> float:
    some = list(numbers)
    return math.exp(statistics.fmean(math.log(n) for n in some)) if some else math.nan


@dataclass
class Results:
    machine: dict[str, Any] = field(default_factory=dict)
    peers: list[Cell] = field(default_factory=list)
    products: list[Product] = field(default_factory=list)
    decode: dict[str, Run] = field(default_factory=dict)

    def as_data(self) -> dict[str, Any]:
        return {**asdict(self), "summary": self.summary()}

    @staticmethod
    def of_data(data: dict[str, Any]) -> Results:
        return Results(
            data["machine"],
            [Cell(c["name"], c["batch"], {e: Run(**r) for e, r in c["runs"].items()}) for c in data["peers"]],
            [Product(**p) for p in data["products"]],
            {engine: Run(**r) for engine, r in data["decode"].items()},
        )

    def summary(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        over = [o for c in self.peers if (o := c.over_better) is not None]
        first = [r.first_s for c in self.peers if (r := c.runs.get("vesta")) and not r.failure]
        if over:
            found["peers"] = {
                "cells": len(over),
                "mean": geometric_mean(over),
                "fast": sum(o >= LEAST_OVER_BETTER for o in over),
            }
        if first:
            found["first calls"] = {"cells": len(first), "early": sum(s <= MOST_FIRST_S for s in first)}
        right = [p for p in self.products if p.is_right]
        if right:
            worst = min(right, key=lambda p: p.over_better)
            found["products"] = {
                "cells": len(right),
                "mean": geometric_mean(p.over_better for p in right),
                "worst": [worst.m, worst.n, worst.k, worst.over_better],
                "generated": sum(p.kernels > 0 for p in right),
                **{name: geometric_mean(p.gflops(i) for p in right) for i, name in enumerate(PRODUCTS)},
            }
        if self.decode:
            found["decode"] = {
                engine: statistics.median(run.read_shares()) for engine, run in self.decode.items() if run.is_right
            }
        return found

    def failures(self) -> list[tuple[str, str]]:
        """What to say about each run that failed or differs: the engine, and a sentence."""
        found = []
        for label, engine, run in self._runs():
            if run.failure:
                found.append((engine, f"{label}: {run.failure}"))
            elif not run.is_right:
                found.append((engine, f"{label}: differs from eager by {run.difference:.1e} of the largest number"))
        for p in self.products:
            label = f"product {p.m} x {p.n} x {p.k}"
            if p.failure:
                found.append(("vesta", f"{label}: {p.failure}"))
            elif not p.is_right:
                found.append(("vesta", f"{label}: differs from MKL's by {p.difference:.1e} of the largest number"))
        return found

    def notes(self) -> list[tuple[str, str]]:
        """What the engines note about their programs: graph breaks, another way to convert."""
        return [(engine, f"{label}: {note}") for label, engine, run in self._runs() for note in run.notes]

    def _runs(self) -> list[tuple[str, str, Run]]:
        cells = [(f"{c.name}, batch {c.batch}", engine, run) for c in self.peers for engine, run in c.runs.items()]
        return cells + [("decode", engine, run) for engine, run in self.decode.items()]
