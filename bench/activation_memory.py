"""What `activation_memory` and checkpointing save, and what they cost: `python -m bench.activation_memory [model ...]`.

For each model and setting, in a process of its own: the bytes of distinct storages that autograd's nodes hold between
the forward and the backward pass, without parameters, inputs and outputs, as hooks on saved tensors see them; the peak
of resident memory of one step, above the process before it; the median time of a step (forward, loss, backward).
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

import vesta
from bench.workloads import tokens, transformer, vision
from tests.programs.torchvision_operators import declare_torchvision_operators

Step = Callable[[], torch.Tensor]

SETTINGS = ("eager", "default", "0.5", "0.25", "checkpoint eager", "checkpoint")
BLOCKS = ("GPT2Block", "BertLayer", "LlamaDecoderLayer", "Block")


def language_model(name: str, config: str, length: int, batch: int = 4, **sizes: Any) -> tuple[torch.nn.Module, Any]:
    model = transformer(name, config, vocab_size=1000, **sizes)
    return model, (tokens(length).expand(batch, -1).contiguous(),)


def picture_model(name: str, batch: int) -> tuple[torch.nn.Module, Any]:
    model, (image,) = vision(name)()
    return model, (image.expand(batch, -1, -1, -1).contiguous(),)


MODELS: dict[str, Callable[[], tuple[torch.nn.Module, Any]]] = {
    "GPT-2": lambda: language_model("GPT2LMHeadModel", "GPT2Config", 128, n_embd=384, n_layer=6, n_head=6),
    "BERT": lambda: language_model(
        "BertModel",
        "BertConfig",
        128,
        hidden_size=384,
        num_hidden_layers=6,
        num_attention_heads=6,
        intermediate_size=1536,
    ),
    "Llama": lambda: language_model(
        "LlamaForCausalLM",
        "LlamaConfig",
        128,
        hidden_size=384,
        intermediate_size=1024,
        num_hidden_layers=6,
        num_attention_heads=6,
        num_key_value_heads=6,
    ),
    "ViT": lambda: picture_model("vit_tiny_patch16_224", 4),
    "ResNet": lambda: picture_model("resnet18", 4),
}


def checkpointed(model: torch.nn.Module) -> torch.nn.Module:
    """Each block of the model in a checkpoint."""
    for module in model.modules():
        if type(module).__name__ in BLOCKS:
            module.forward = around(module.forward)  # type: ignore[method-assign]
    return model


def around(forward: Callable[..., Any]) -> Callable[..., Any]:
    from torch.utils.checkpoint import checkpoint

    return lambda *args, **kwargs: checkpoint(forward, *args, use_reentrant=False, **kwargs)


def step_of(model: torch.nn.Module, inputs: tuple[Any, ...], setting: str) -> tuple[Callable[..., Any], Any]:
    call: Callable[..., Any] = checkpointed(model) if setting.startswith("checkpoint") else model
    options: dict[str, Any] = {"only_if_faster": False, "deadline_ms": -1}
    if "eager" not in setting:
        if setting[0] == "0":
            options["activation_memory"] = float(setting)
        call = vesta.compile(model, options=options)
    return call, inputs


def tensors_of(x: Any) -> Iterator[torch.Tensor]:
    if isinstance(x, torch.Tensor):
        yield x
    elif isinstance(x, dict):
        for item in x.values():
            yield from tensors_of(item)
    elif isinstance(x, tuple | list):
        for item in x:
            yield from tensors_of(item)


def loss_of(outputs: Any) -> torch.Tensor:
    return next(iter(tensors_of(outputs))).square().mean()


def saved_bytes(model: torch.nn.Module, call: Callable[..., Any], inputs: Any) -> int:
    saved: list[torch.Tensor] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        saved.append(t.detach())
        return t

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        outputs = call(*inputs)
    alive = {
        t.untyped_storage().data_ptr() for t in tensors_of([*model.parameters(), *model.buffers(), outputs, inputs])
    }
    held = {t.untyped_storage().data_ptr(): t.untyped_storage().nbytes() for t in saved}
    loss_of(outputs).backward()
    return sum(bytes for place, bytes in held.items() if place not in alive)


def resident(field: str) -> int:
    (line,) = [line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith(field)]
    return int(line.split()[1]) * 1024


def measure(name: str, setting: str, seconds: float) -> dict[str, float]:
    declare_torchvision_operators()  # transformers imports torchvision
    torch.manual_seed(0)
    model, inputs = MODELS[name]()
    model.train()
    call, inputs = step_of(model, inputs, setting)

    def step() -> float:
        begin = time.perf_counter()
        loss_of(call(*inputs)).backward()
        return time.perf_counter() - begin

    for _ in range(3):
        step()
    vesta.wait()
    # What eager's checkpoints keep, other hooks do not see.
    held = -1 if setting == "checkpoint eager" else saved_bytes(model, call, inputs)
    before = resident("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
    step()
    peak = resident("VmHWM") - before
    times: list[float] = []
    end = time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 5:
        times.append(step())
    found: dict[str, float] = {"saved": held, "peak": peak, "ms": statistics.median(times) * 1e3}
    found["breaks"] = 0
    if "eager" not in setting:
        report = vesta.explain(call).explanation
        found["breaks"] = len(report.breaks)
        found["estimate"] = sum(g.saved_bytes for g in report.graphs)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", default=[], choices=[*MODELS, []], metavar="model")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--settings", nargs="*", default=SETTINGS)
    parser.add_argument("--one", nargs=2, metavar=("MODEL", "SETTING"), help="in this process; prints JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(*given.one, given.seconds)))
        return
    table = Table("model", "setting", "saved MiB", "of eager's", "peak MiB", "ms", "to the default", "breaks")
    for name in given.models or MODELS:
        rows: dict[str, dict[str, float]] = {}
        for setting in given.settings:
            run = [
                sys.executable,
                "-m",
                "bench.activation_memory",
                "--seconds",
                str(given.seconds),
                "--one",
                name,
                setting,
            ]
            rows[setting] = json.loads(subprocess.run(run, check=True, capture_output=True, text=True).stdout)
        for setting, row in rows.items():
            eagers, default = rows.get("eager", row)["saved"], rows.get("default", row)["ms"]
            seen = row["saved"] >= 0
            table.add_row(
                name,
                setting,
                f"{row['saved'] / 2**20:.2f}" if seen else "",
                f"{row['saved'] / eagers:.2f}" if seen else "",
                f"{row['peak'] / 2**20:.1f}",
                f"{row['ms']:.1f}",
                f"{row['ms'] / default:.2f}",
                str(row["breaks"]),
            )
    Console(width=110).print(table)


if __name__ == "__main__":
    main()
