"""Training in two processes: DistributedDataParallel and fully_shard around compiled models.

``run_pair()`` starts two processes of this file, which train with gloo and compare with eager training, and returns
what the first one found, by scenario.
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import vesta

OPTIONS = {"only_if_faster": False}
LIMIT_S = 150


class Deep(nn.Module):
    """Six layers with residual connections: each has its own buckets if these are small."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(6))

    def forward(self, x: torch.Tensor, turn: int = 0) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x)) + x
        return x


class Branches(nn.Module):
    """One of two branches is used in turn; a batch norm, a tied weight, a frozen layer, a result of several parts."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(32, 32)
        self.norm = nn.BatchNorm1d(32)
        self.a = nn.Linear(32, 32)
        self.b = nn.Linear(32, 32)
        self.tied = nn.Linear(32, 32, bias=False)
        self.tied.weight = self.first.weight
        self.frozen = nn.Linear(32, 32).requires_grad_(False)

    def forward(self, x: torch.Tensor, turn: int = 0) -> dict[str, Any]:
        x = self.norm(self.first(x)).relu()
        y = self.a(x) if turn % 2 == 0 else self.b(x)
        return {"y": self.tied(self.frozen(y)), "more": (x.sum(), 3)}


def loss_of(out: Any, both: bool = True) -> torch.Tensor:
    if isinstance(out, torch.Tensor):
        return out.square().mean()
    loss: torch.Tensor = out["y"].square().mean()
    return loss + out["more"][0] * 0.01 if both else loss


def batches(n: int = 4) -> list[torch.Tensor]:
    generator = torch.Generator().manual_seed(dist.get_rank() + 1)
    return [torch.randn(8, 32, generator=generator) for _ in range(n)]


def full(t: torch.Tensor) -> torch.Tensor:
    return (t.full_tensor() if hasattr(t, "full_tensor") else t).detach().clone()


def train(
    call: Callable[..., Any],
    model: nn.Module,
    *,
    accumulates: bool = False,
    both: bool = True,
    turns: bool = True,
    whole: bool = False,
) -> list[list[torch.Tensor | None]]:
    """Gradients and buffers after each step. ``whole``: the backward pass is in a compiled function, too."""

    def pass_of(x: torch.Tensor, turn: int) -> None:
        loss_of(call(x, turn), both).backward()

    run = vesta.compile(pass_of, options=OPTIONS) if whole else pass_of
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    found = []
    for i, x in enumerate(batches()):
        syncs = i % 2 == 1 or not accumulates
        with contextlib.nullcontext() if syncs else model.no_sync():
            run(x, i if turns else 0)
        found.append([None if p.grad is None else full(p.grad) for p in model.parameters()])
        found[-1].extend(full(b) for b in model.buffers())
        if syncs:
            optimizer.step()
            optimizer.zero_grad()
    return found


def difference(ours: Any, eager: Any) -> str:
    """ "": they are equal up to rounding."""
    for step, (mine, theirs) in enumerate(zip(ours, eager, strict=True)):
        for i, (a, b) in enumerate(zip(mine, theirs, strict=True)):
            if (a is None) != (b is None):
                return f"step {step}, tensor {i}: {a} and {b}"
            if a is not None and not torch.allclose(a, b, rtol=1e-4, atol=1e-6):
                return f"step {step}, tensor {i}: they differ by {float((a - b).abs().max())}"
    return ""


def new(cls: type[nn.Module]) -> nn.Module:
    torch.manual_seed(0)
    return cls()


DDP_ROWS: dict[str, tuple[type[nn.Module], dict[str, Any], dict[str, Any]]] = {
    "plain": (Deep, {}, {}),
    "small buckets": (Deep, {"bucket_cap_mb": 0.004}, {}),
    "accumulated": (Deep, {"bucket_cap_mb": 0.004}, {"accumulates": True}),
    "nothing unused": (Deep, {"find_unused_parameters": True, "bucket_cap_mb": 0.004}, {"accumulates": True}),
    "branches": (Branches, {"find_unused_parameters": True}, {}),
    "branches, one result": (Branches, {"find_unused_parameters": True, "bucket_cap_mb": 0.004}, {"both": False}),
    "views of buckets": (
        Branches,
        {"find_unused_parameters": True, "gradient_as_bucket_view": True, "bucket_cap_mb": 0.004},
        {"accumulates": True},
    ),
    "static graph": (Branches, {"static_graph": True, "bucket_cap_mb": 0.004}, {"turns": False}),
}


def wrapped(kind: str, cls: type[nn.Module], settings: dict[str, Any]) -> tuple[Callable[..., Any], nn.Module]:
    """What is called, and the module whose gradients are compared."""
    model = new(cls)
    if kind == "inside":
        ddp = DistributedDataParallel(vesta.compile(model, options=OPTIONS), **settings)
        return ddp, ddp
    ddp = DistributedDataParallel(model, **settings)
    return (vesta.compile(ddp, options=OPTIONS) if kind == "outside" else ddp), ddp


def ddp() -> dict[str, str]:
    found = {}
    for name, (cls, settings, how) in DDP_ROWS.items():
        eager = train(*wrapped("eager", cls, settings), **how)
        for kind in ("inside", "outside"):
            found[f"{name}, compiled {kind}"] = difference(train(*wrapped(kind, cls, settings), **how), eager)
        ours = train(*wrapped("eager", cls, settings), **how, whole=True)
        found[f"{name}, in a compiled step"] = difference(ours, eager)
    return found


def overlap() -> dict[str, Any]:
    """The nodes of the backward pass that run after the first bucket has been sent."""
    found: dict[str, Any] = {}
    for kind in ("eager", "inside", "outside"):
        call, model = wrapped(kind, Deep, {"bucket_cap_mb": 0.004})

        def send(state: Any, bucket: dist.GradBucket) -> Any:
            with torch.profiler.record_function("bucket"):
                work = dist.all_reduce(bucket.buffer().div_(2), async_op=True)
            return work.get_future().then(lambda f: f.value()[0])

        send.__annotations__ = {"bucket": dist.GradBucket}  # torch compares it, and takes no text
        model.register_comm_hook(None, send)
        for i, x in enumerate(batches(4)):
            loss = loss_of(call(x, i))
            with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
                loss.backward()
        events = sorted(profile.events(), key=lambda e: e.time_range.start)
        names = [e.name for e in events if e.name == "bucket" or e.name.startswith("autograd::engine::evaluate")]
        later = [n for n in names[names.index("bucket") :] if n != "bucket" and "AccumulateGrad" not in n]
        found[kind] = {"buckets": names.count("bucket"), "later nodes": [n.split()[-1] for n in later]}
    return found


def sharded() -> dict[str, str]:
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    mesh = init_device_mesh("cpu", (2,))

    def make(kind: str, reshards: bool) -> tuple[Callable[..., Any], nn.Module]:
        model: Any = new(Deep)
        for i, layer in enumerate(model.layers):
            if kind == "compiled layers":
                model.layers[i] = vesta.compile(layer, options=OPTIONS)
            fully_shard(model.layers[i], mesh=mesh, reshard_after_forward=reshards)
            if kind == "layers compiled later":
                model.layers[i] = vesta.compile(layer, options=OPTIONS)
        fully_shard(model, mesh=mesh, reshard_after_forward=reshards)
        return (vesta.compile(model, options=OPTIONS) if kind == "outside" else model), model

    found = {}
    for reshards in (True, False):
        eager = train(*make("eager", reshards))
        for kind in ("compiled layers", "layers compiled later", "outside"):
            name = f"{kind}, {'sharded again' if reshards else 'whole'} after the forward pass"
            found[name] = difference(train(*make(kind, reshards)), eager)
    return found


SCENARIOS: dict[str, Callable[[], dict[str, Any]]] = {"ddp": ddp, "overlap": overlap, "sharded": sharded}


def run_pair() -> dict[str, dict[str, Any]]:
    """What the first process found. Both end within LIMIT_S seconds."""
    with tempfile.TemporaryDirectory(prefix="vesta-tests-") as folder:
        store, answer = Path(folder) / "store", Path(folder) / "answer"
        command = [sys.executable, "-m", __name__, str(store), str(answer)]
        pair = [
            subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
            for rank in range(2)
        ]
        watch = threading.Timer(LIMIT_S, lambda: [p.kill() for p in pair])
        watch.start()
        try:
            texts = [p.communicate()[0] for p in pair]
        finally:
            watch.cancel()
        for p, text in zip(pair, texts, strict=True):
            assert p.returncode == 0, (p.returncode, text[-4000:])
        found: dict[str, dict[str, Any]] = json.loads(answer.read_text())
        return found


def main(store: str, answer: str, rank: str) -> None:
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=int(rank), world_size=2)
    found = {scenario.__name__: scenario() for scenario in (ddp, overlap, sharded)}
    if rank == "0":
        Path(answer).write_text(json.dumps(found))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
