"""What `activation_memory` and checkpointing save, and what they cost: `python -m bench.activation_memory [model ...]`.

For each model, in a process of its own, and each setting: the bytes of distinct storages that autograd's nodes hold
between the forward and the backward pass, without parameters, inputs and outputs, as hooks on saved tensors see them;
the peak of resident memory in the fifth step, above the process before the first one; the least time of a step
(forward, loss, backward) among steps that take turns with those of the other settings.
"""

from __future__ import annotations

import argparse
import json
import os
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

Step = Callable[[], None]

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


def compiled(model: torch.nn.Module, setting: str) -> Callable[..., Any]:
    call = checkpointed(model) if setting.startswith("checkpoint") else model
    if "eager" in setting:
        return call
    options: dict[str, Any] = {"only_if_faster": False, "deadline_ms": -1}
    if setting[0] == "0":
        options["activation_memory"] = float(setting)
    return vesta.compile(call, options=options)


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


def measure(name: str, settings: list[str], seconds: float) -> dict[str, dict[str, float]]:
    declare_torchvision_operators()  # transformers imports torchvision
    found: dict[str, dict[str, float]] = {}
    steps: dict[str, Step] = {}
    for setting in settings:
        torch.manual_seed(0)
        model, inputs = MODELS[name]()
        call = compiled(model.train(), setting)
        before = resident("VmRSS")
        steps[setting] = lambda call=call, inputs=inputs: loss_of(call(*inputs)).backward()
        for _ in range(3):
            steps[setting]()
        vesta.wait()
        # What eager's checkpoints keep, other hooks do not see.
        held = -1 if setting == "checkpoint eager" else saved_bytes(model, call, inputs)
        breaks = 0 if "eager" in setting else len(vesta.explain(call).explanation.breaks)
        Path("/proc/self/clear_refs").write_text("5")  # the peak begins anew
        steps[setting]()
        found[setting] = {"saved": held, "peak": resident("VmHWM") - before, "breaks": breaks}
    times: dict[str, list[float]] = {setting: [] for setting in settings}
    end = time.perf_counter() + seconds * len(settings)
    while time.perf_counter() < end:
        for setting, step in steps.items():
            begin = time.perf_counter()
            step()
            times[setting].append(time.perf_counter() - begin)
    for setting, taken in times.items():
        found[setting]["ms"] = min(taken) * 1e3
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("models", nargs="*", metavar="model")
    parser.add_argument("--seconds", type=float, default=5.0, help="for each setting")
    parser.add_argument("--settings", nargs="*", default=SETTINGS)
    parser.add_argument("--one", metavar="MODEL", help="in this process; prints JSON")
    given = parser.parse_args()
    if given.one:
        print(json.dumps(measure(given.one, given.settings, given.seconds)))
        return
    table = Table("model", "setting", "saved MiB", "of eager's", "peak MiB", "ms", "to the default", "breaks")
    # Tensors go back to the system as soon as they are freed, so that the peak is that of the step.
    environment = {**os.environ, "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}
    for name in given.models or MODELS:
        run = [sys.executable, "-m", "bench.activation_memory", "--seconds", str(given.seconds), "--one", name]
        run += ["--settings", *given.settings]
        output = subprocess.run(run, check=True, stdout=subprocess.PIPE, text=True, env=environment).stdout
        rows = json.loads(output.splitlines()[-1])
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
