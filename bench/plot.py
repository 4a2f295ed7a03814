"""The two pictures of a benchmark: first calls, and steady state against eager."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench.processes import TITLES

COLOURS = {"eager": "#8a8f98", "inductor": "#d9822b", "backend": "#d98b98", "vesta": "#b3122d"}


def draw(models: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    names = list(models)
    figure, (first, steady) = plt.subplots(1, 2, figsize=(12, 0.6 * len(names) + 2), sharey=True)
    height = 0.2
    for i, compiler in enumerate(COLOURS):
        rows = [n for n in names if compiler in models[n] and not models[n][compiler]["failure"]]
        if not rows:
            continue
        places = [names.index(n) + (i - 1.5) * height for n in rows]
        seconds = [models[n][compiler]["first_s"] for n in rows]
        first.barh(places, seconds, height, color=COLOURS[compiler], label=TITLES[compiler])
        for place, value in zip(places, seconds, strict=True):
            first.text(value * 1.05, place, f"{value:.2g}", va="center", fontsize=6)
        ratios = [statistics.median(models[n][compiler]["ratios"] or [float("nan")]) for n in rows]
        if compiler != "eager":
            spread = [models[n][compiler]["ratios"] or [0.0] for n in rows]
            low = [max(m - min(s), 0) for m, s in zip(ratios, spread, strict=True)]
            high = [max(max(s) - m, 0) for m, s in zip(ratios, spread, strict=True)]
            steady.barh(places, ratios, height, xerr=(low, high), color=COLOURS[compiler], ecolor="#00000066")
            for place, value in zip(places, ratios, strict=True):
                steady.text(0.02, place, f"{value:.2f}", va="center", fontsize=6, color="white")
    first.set_xscale("log")
    first.set_xlabel("first call, seconds (log; caches empty, imports done)")
    first.set_yticks(range(len(names)), names)
    first.invert_yaxis()
    steady.axvline(1.0, color=COLOURS["eager"], linewidth=1)
    steady.set_xlabel("steady state: times faster than eager")
    # Below the rows, where there are no bars and labels.
    handles, labels = first.get_legend_handles_labels()
    figure.legend(handles, labels, loc="lower center", ncols=len(labels), fontsize=8, frameon=False)
    for axis in (first, steady):
        axis.spines[["top", "right"]].set_visible(False)
    figure.tight_layout(rect=(0, 0.05, 1, 1))
    figure.savefig(path, dpi=150)
    plt.close(figure)
