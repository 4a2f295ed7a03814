"""The tables and plots of a comparison."""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from bench.peers.engines import TITLES
from bench.peers.products import ROWS
from bench.peers.results import (
    LEAST_OVER_BETTER,
    LEAST_READ,
    MOST_DIFFERENCE,
    MOST_FIRST_S,
    PRODUCTS,
    Cell,
    Product,
    Results,
    Run,
    geometric_mean,
)

COLOURS = {"vesta": "#b3122d", "openvino": "#3b6fb5", "onnxruntime": "#4f9a6d"}
WORST = 12  # products of the table
MOST_LOAD = 0.5  # of other programs, before the first measurement
MOST_NOTE = 200  # letters; all of them are in the JSON file


def coloured(text: str, good: bool) -> str:
    return f"[{'green' if good else 'red'}]{text}[/]"


def ratio_text(run: Run | None) -> str:
    if run is None:
        return "-"
    if run.failure:
        return "[red]fails[/]"
    if not run.is_right:
        return f"[red]{run.ratio:.2f}, differs[/]"
    return f"{run.ratio:.2f} ({min(run.ratios):.2f}..{max(run.ratios):.2f})"


def each(runs: dict[str, Run], engines: list[str], show: Callable[[Run], str]) -> str:
    return " / ".join("-" if e not in runs else "fails" if runs[e].failure else show(runs[e]) for e in engines)


def engines_of(groups: list[dict[str, Run]]) -> list[str]:
    return [e for e in TITLES if any(e in runs for runs in groups)]


def columns(table: Table, *names: str) -> None:
    for name in names:
        table.add_column(name, justify="left" if name in ("model", "better", "engine", "M x N x K") else "right")


def model_table(cells: list[Cell]) -> Table:
    engines = engines_of([c.runs for c in cells])
    titles = " / ".join(TITLES[e] for e in engines)
    table = Table(title="Models: eager's time over the engine's (median, range of rounds), each beside its own eager")
    columns(table, "model", "batch", "eager ms", *(TITLES[e] for e in engines), "better", "Vesta / better")
    columns(table, "first call s", "peak MiB")
    table.caption = (
        f"first call, peak: {titles}. first call: conversion, compile and one run, everything imported; peak: the "
        f"process, which runs eager, too. A result is eager's if it differs by at most {MOST_DIFFERENCE:g} of the "
        "largest number"
    )
    for cell in cells:
        over, vesta = cell.over_better, cell.runs.get("vesta")
        eager = [run.eager_s for run in cell.runs.values() if run.pairs]
        first = each(cell.runs, engines, lambda r: f"{r.first_s:.2f}")
        if vesta and not vesta.failure:
            first = coloured(first, vesta.first_s <= MOST_FIRST_S)
        table.add_row(
            cell.name,
            str(cell.batch),
            f"{1e3 * statistics.median(eager):.1f}" if eager else "-",
            *(ratio_text(cell.runs.get(e)) for e in engines),
            TITLES[cell.better] if cell.better else "-",
            "-" if over is None else coloured(f"{over:.2f}", over >= LEAST_OVER_BETTER),
            first,
            each(cell.runs, engines, lambda r: f"{r.peak_mib:.0f}"),
        )
    return table


def share(product: Product, which: int, peak: float) -> str:
    return f"{product.gflops(which):.1f} ({product.gflops(which) * 1e9 / peak:.0%})"


def product_tables(products: list[Product], peak: float, peak_is: str) -> Iterator[Table]:
    """`peak` in operations a second."""
    right = [p for p in products if p.is_right]
    if not right:
        return
    rows = Table(title=f"Products on one core: GFLOP/s (share of {peak / 1e9:.1f}, {peak_is}), geometric means")
    columns(rows, "rows", "cells", *PRODUCTS, "Vesta / better", "worst")
    groups: list[tuple[str, list[Product]]] = [(str(m), [p for p in right if p.m == m]) for m in ROWS]
    for label, some in [*((label, some) for label, some in groups if some), ("all", right)]:
        means = [geometric_mean(p.gflops(i) for p in some) for i in range(len(PRODUCTS))]
        over, worst = geometric_mean(p.over_better for p in some), min(p.over_better for p in some)
        rows.add_row(
            label,
            str(len(some)),
            *(f"{mean:.1f} ({mean * 1e9 / peak:.0%})" for mean in means),
            coloured(f"{over:.2f}", over >= 1),
            coloured(f"{worst:.2f}", worst >= 1),
        )
    yield rows
    cells = Table(title=f"The {min(WORST, len(right))} worst products: GFLOP/s (share of the peak)")
    columns(cells, "M x N x K", *PRODUCTS, "Vesta / better", "kernels")
    for p in sorted(right, key=lambda p: p.over_better)[:WORST]:
        cells.add_row(
            f"{p.m} x {p.n} x {p.k}",
            *(share(p, i, peak) for i in range(len(PRODUCTS))),
            coloured(f"{p.over_better:.2f}", p.over_better >= 1),
            str(p.kernels),
        )
    cells.caption = "kernels: that Vesta generated; 0: its program calls a library"
    yield cells


def decode_table(runs: dict[str, Run]) -> Table:
    table = Table(title="One token of a decoder of 100 million parameters, with a cache")
    columns(table, "engine", "eager ms", "ms", "over eager", "weights GB/s", "read GB/s", "share", "eager's share")
    columns(table, "first call s")
    table.caption = (
        "weights: their bytes over the time of a call; read: a sum over 400 MB by PyTorch, before each round; Vesta "
        "and its eager write a cache of 256 tokens in place, the other programs are given 128 tokens and return none"
    )
    for engine, run in runs.items():
        if run.failure:
            table.add_row(TITLES[engine], "[red]fails[/]")
            continue
        part = statistics.median(run.read_shares())
        table.add_row(
            TITLES[engine],
            f"{1e3 * run.eager_s:.1f}",
            f"{1e3 * run.engine_s:.1f}",
            ratio_text(run),
            f"{run.weight_bytes / run.engine_s / 1e9:.1f}",
            f"{statistics.median(run.read_bytes_per_s) / 1e9:.1f}",
            coloured(f"{part:.0%}", part >= LEAST_READ),
            f"{statistics.median(run.read_shares(of_eager=True)):.0%}",
            f"{run.first_s:.2f}",
        )
    return table


def peak_of(results: Results) -> tuple[float, str]:
    """A core's operations per second, and what it is."""
    if peak := results.machine.get("fma_operations_per_s"):
        return peak, "measured multiply-adds"
    best = [p.gflops(i) for p in results.products if p.is_right for i in range(len(PRODUCTS))]
    return 1e9 * max(best, default=math.nan), "the best result, because the build has no program that measures the peak"


def conditions(machine: dict[str, Any]) -> str:
    """Under which the results were measured. Other programs that run at the time change them."""
    text = f"{machine['cpu']}, {machine['cores']} cores, {machine['threads']} threads; "
    text += ", ".join(f"{name} {version}" for name, version in machine["versions"].items())
    if machine["load"] > MOST_LOAD:
        text += f"; the machine was busy with other programs (load {machine['load']:.1f}): times are disturbed"
    return text


def print_report(console: Console, results: Results) -> None:
    summary = results.summary()
    console.print(conditions(results.machine), highlight=False, markup=False, soft_wrap=True)
    if results.peers:
        console.print(model_table(results.peers))
    for table in product_tables(results.products, *peak_of(results)):
        console.print(table)
    if results.decode:
        console.print(decode_table(results.decode))
    if found := summary.get("peers"):
        console.print(
            f"Vesta over the better engine: geometric mean {found['mean']:.2f}; "
            f"{found['fast']} of {found['cells']} at least {LEAST_OVER_BETTER:g}",
            highlight=False,
        )
    if found := summary.get("first calls"):
        console.print(f"{found['early']} of {found['cells']} first calls at most {MOST_FIRST_S:g} s", highlight=False)
    if found := summary.get("products"):
        console.print(
            f"Vesta over the better library: geometric mean {found['mean']:.2f}; {found['generated']} of "
            f"{found['cells']} products are generated code",
            highlight=False,
        )
    for engine, text in results.notes():
        console.print(f"{escape(TITLES[engine])}, {escape(text[:MOST_NOTE])}", soft_wrap=True, highlight=False)
    for engine, text in results.failures():
        console.print(f"{escape(TITLES[engine])}, {escape(text)}", style="red", soft_wrap=True, highlight=False)


# ---- plots -----------------------------------------------------------------------------------------------------------


def draw_models(cells: list[Cell], path: Path) -> None:
    """First calls, and steady state against eager: a row for each model and batch size."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    engines = engines_of([c.runs for c in cells])
    figure, (first, steady) = plt.subplots(1, 2, figsize=(12, 0.5 * len(cells) + 2), sharey=True)
    height = 0.8 / max(len(engines), 1)
    for i, engine in enumerate(engines):
        rows = [(at, c.runs[engine]) for at, c in enumerate(cells) if engine in c.runs and c.runs[engine].is_right]
        places = [at + (i - (len(engines) - 1) / 2) * height for at, _ in rows]
        seconds = [run.first_s for _, run in rows]
        first.barh(places, seconds, height, color=COLOURS[engine], label=TITLES[engine])
        ratios = [run.ratio for _, run in rows]
        low = [run.ratio - min(run.ratios) for _, run in rows]
        high = [max(run.ratios) - run.ratio for _, run in rows]
        steady.barh(places, ratios, height, xerr=(low, high), color=COLOURS[engine], ecolor="#00000066")
        for place, s, ratio in zip(places, seconds, ratios, strict=True):
            first.text(s * 1.05, place, f"{s:.2g}", va="center", fontsize=6)
            steady.text(0.02, place, f"{ratio:.2f}", va="center", fontsize=6, color="white")
    first.set_xscale("log")
    first.axvline(MOST_FIRST_S, color="#8a8f98", linewidth=1)
    first.set_xlabel("first call with conversion, seconds (log; imports done)")
    first.set_yticks(range(len(cells)), [f"{c.name}, {c.batch}" for c in cells])
    first.invert_yaxis()
    steady.axvline(1.0, color="#8a8f98", linewidth=1)
    steady.set_xlabel("steady state: times faster than eager")
    # Below the rows, where there are no bars and labels.
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=max(len(labels), 1), fontsize=8, frameon=False)
    for axis in (first, steady):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)


def draw_products(products: list[Product], peak: float, peak_is: str, path: Path) -> None:
    """GFLOP/s of each product by its operations, and the peak."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    right = sorted((p for p in products if p.is_right), key=lambda p: p.operations)
    figure, axis = plt.subplots(figsize=(8, 4.5))
    for i, (name, colour) in enumerate(zip(PRODUCTS, COLOURS.values(), strict=True)):
        axis.plot(
            [p.operations for p in right],
            [p.gflops(i) for p in right],
            "o",
            markersize=4,
            color=colour,
            label=name,
            alpha=0.8,
        )
    axis.axhline(peak / 1e9, color="#8a8f98", linewidth=1, label=peak_is)
    axis.set_xscale("log")
    axis.set_xlabel("operations of the product (log)")
    axis.set_ylabel("GFLOP/s on one core")
    axis.legend(fontsize=8, frameon=False)
    axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    figure.savefig(path, dpi=150)
    plt.close(figure)
