"""Compiles of one architecture with few and with many layers: `python -m bench.layers`.

Each compile is a first one: nothing of it is in a cache, and no kernel is in the process. Models take turns. Shown are,
for each number of layers, the least milliseconds of each stage in all rounds, because other programs of the machine can
only add to a time. Layers that are alike share kernels, so that the stages after the trace take little more time for
many layers than for few.
"""

from __future__ import annotations

import argparse
import gc
import json

import torch
from rich.console import Console
from rich.table import Table

import vesta
from bench.workloads import tokens, transformer
from tests.programs.torchvision_operators import declare_torchvision_operators

LAYERS = (2, 8, 32, 80, 160)
AFTER_THE_TRACE = ("passes", "plan", "codegen", "assemble")
AIM = 1.3  # of 80 layers to 2, in the stages after the trace


def llama(layers: int) -> torch.nn.Module:
    return transformer(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=64,
        intermediate_size=176,
        num_hidden_layers=layers,
        num_attention_heads=4,
        num_key_value_heads=4,
        vocab_size=1000,
        max_position_embeddings=128,
    )


def stages_of(model: torch.nn.Module, ids: torch.Tensor) -> dict[str, float]:
    """The milliseconds of each stage of a compile, and the number of kernels that it generates."""
    compiled = vesta.compile(model, options={"cache": False, "deadline_ms": 60_000})
    with torch.no_grad():
        compiled(ids)
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert graph.compiled is not None
    found = {**graph.stages, "kernels": float(graph.compiled.distinct_kernels)}
    del compiled, graph
    gc.collect()  # a kernel that no program has is compiled again
    return found


def measure(layers: tuple[int, ...], rounds: int) -> dict[int, dict[str, float]]:
    """The least milliseconds of each stage, by number of layers. "after the trace" is the sum of AFTER_THE_TRACE."""
    declare_torchvision_operators()  # transformers imports torchvision
    models = {n: llama(n) for n in layers}
    ids = tokens(32)
    least: dict[int, dict[str, float]] = {}
    for _ in range(rounds):
        for n, model in models.items():
            for stage, ms in stages_of(model, ids).items():
                known = least.setdefault(n, {})
                known[stage] = min(ms, known.get(stage, ms))
    for stages in least.values():
        stages["after the trace"] = sum(stages[stage] for stage in AFTER_THE_TRACE)
    return least


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, nargs="+", default=list(LAYERS))
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--json", action="store_true", help="print JSON instead of a table")
    args = parser.parse_args()
    found = measure(tuple(args.layers), args.rounds)
    if args.json:
        print(json.dumps(found))
        return
    few = min(found)
    table = Table("layers", *map(str, found), title=f"ms of a compile; {few} layers are the measure of the last row")
    for row in ("trace", *AFTER_THE_TRACE, "after the trace", "load", "kernels"):
        table.add_row(row, *(f"{stages[row]:.2f}" for stages in found.values()))
    table.add_row(
        f"after the trace, to {few} layers",
        *(f"{stages['after the trace'] / found[few]['after the trace']:.2f}" for stages in found.values()),
    )
    Console().print(table)


if __name__ == "__main__":
    main()
