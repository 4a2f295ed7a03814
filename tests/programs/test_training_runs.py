"""Training for long, in threads, and with errors in the backward pass: memory comes back, numbers stay eager's."""

from __future__ import annotations

import copy
import gc
import threading
import weakref
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vesta
from tests.programs.test_training_loops import Compile, Run, compared, labels, net, normal

OPTIONS = {"only_if_faster": False, "deadline_ms": -1}


def resident() -> int:
    """Bytes of this process in memory."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096


def model_of(seed: int, width: int = 16) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(8, width), nn.LayerNorm(width), nn.GELU(), nn.Dropout(0.0), nn.Linear(width, 4))


def batch(seed: int, rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    g = torch.Generator().manual_seed(seed)
    return torch.randn(rows, 8, generator=g), torch.randint(0, 4, (rows,), generator=g)


Step = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def step_of_model(model: nn.Module, optimizer: torch.optim.Optimizer, compiles: bool) -> Step:
    called = vesta.compile(model, options=OPTIONS) if compiles else model

    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.cross_entropy(called(x), y)
        loss.backward()
        optimizer.step()
        return loss.detach()

    return step


def whole_step(model: nn.Module, optimizer: torch.optim.Optimizer, compiles: bool) -> Step:
    step = step_of_model(model, optimizer, False)
    return vesta.compile(step, options=OPTIONS) if compiles else step


WAYS = {"model": step_of_model, "step": whole_step}


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_memory_is_stable_over_ten_thousand_steps(way: str) -> None:
    """Batches of nine sizes, a schedule, gradients kept for a while, evaluation now and then."""
    model = model_of(0)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    schedule = torch.optim.lr_scheduler.CosineAnnealingWarmRestarts(optimizer, 100)
    step = WAYS[way](model, optimizer, True)
    kept: list[torch.Tensor] = []

    def steps(first: int, count: int) -> None:
        for n in range(first, first + count):
            kept.append(step(*batch(n % 97, 4 + n % 9)))
            schedule.step()
            if n % 50 == 0:
                kept.clear()
                with torch.no_grad():
                    model(batch(n)[0])

    steps(0, 2000)
    before = resident()
    steps(2000, 10_000)
    grown = resident() - before
    assert grown < 4 << 20, f"{grown / 2**20:.1f} MiB more after 10000 steps"
    assert all(p.isfinite().all() for p in model.parameters())


@pytest.mark.parametrize("way", WAYS)
def test_eight_threads_train_eight_models(way: str) -> None:
    """Each has the numbers that it has alone, in eager."""
    count, length = 8, 12
    models = [model_of(i, 8 + 2 * i) for i in range(count)]
    eager = copy.deepcopy(models)
    errors: list[BaseException] = []
    barrier = threading.Barrier(count)

    def train(i: int) -> None:
        try:
            step = WAYS[way](models[i], torch.optim.SGD(models[i].parameters(), 0.1, momentum=0.9), True)
            barrier.wait()
            for n in range(length):
                step(*batch(100 * i + n, 4 + n % 3))
        except BaseException as e:
            errors.append(e)

    threads = [threading.Thread(target=train, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not errors, errors
    for i, model in enumerate(eager):
        step = step_of_model(model, torch.optim.SGD(model.parameters(), 0.1, momentum=0.9), False)
        for n in range(length):
            step(*batch(100 * i + n, 4 + n % 3))
        for (name, a), (_, b) in zip(models[i].named_parameters(), model.named_parameters(), strict=True):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5, msg=lambda text, n=name, i=i: f"{i} {n}: {text}")


def test_threads_share_one_compiled_model() -> None:
    """Gradients of all threads accumulate in its parameters, as in eager."""
    model = model_of(0)
    compiled = vesta.compile(model, options=OPTIONS)

    def passes(call: Callable[..., torch.Tensor], i: int) -> None:
        for n in range(10):
            x, y = batch(100 * i + n, 4 + n % 2)
            torch.autograd.grad(F.cross_entropy(call(x), y), list(model.parameters()))
            F.cross_entropy(call(x), y).backward()

    threads = [threading.Thread(target=passes, args=(compiled, i)) for i in range(8)]
    compiled(batch(0)[0])
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    ours = [p.grad for p in model.parameters()]
    model.zero_grad()
    for i in range(8):
        passes(model, i)
    for a, p in zip(ours, model.parameters(), strict=True):
        torch.testing.assert_close(a, p.grad, rtol=1e-4, atol=1e-5)


class Raises(torch.autograd.Function):
    @staticmethod
    def forward(ctx: object, x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    @staticmethod
    def backward(ctx: object, g: torch.Tensor) -> torch.Tensor:
        raise MemoryError("no memory for this gradient")


@pytest.mark.parametrize("where", ["after", "before", "leaf"])
def test_an_error_in_the_backward_pass_returns_its_memory(where: str) -> None:
    """The error comes before our node runs, after it has run, or from a hook of a parameter."""
    width = 512
    first = nn.Linear(width, width)
    body = nn.Sequential(*(nn.Sequential(nn.Linear(width, width), nn.GELU()) for _ in range(6)))
    compiled = vesta.compile(body, options=OPTIONS)
    hook = None

    def fail(g: torch.Tensor) -> torch.Tensor:
        raise MemoryError("no memory for this gradient")

    def attempt(fails: bool) -> weakref.ref[torch.Tensor]:
        h = first(torch.randn(2048, width))
        if fails and where == "before":
            h = Raises.apply(h)
        y = compiled(h)
        if fails and where == "after":
            y = Raises.apply(y)
        loss = y.square().mean()
        if fails:
            with pytest.raises(MemoryError, match="no memory for this gradient"):
                loss.backward()
        else:
            loss.backward()
        return weakref.ref(y)

    for fails in (False, True, False):  # compiles, and what the allocator keeps
        if where == "leaf":
            hook = body[3][0].weight.register_hook(fail) if fails else hook
        attempt(fails)
        if hook is not None and fails:
            hook.remove()
        first.zero_grad()
        body.zero_grad()
    before, saved = resident(), 6 * 2 * 2048 * width * 4  # what one pass saves, about
    for _ in range(16):
        if where == "leaf":
            hook = body[3][0].weight.register_hook(fail)
        left = attempt(True)
        if hook is not None:
            hook.remove()
        gc.collect()
        assert left() is None
        first.zero_grad()
        body.zero_grad()
    grown = resident() - before
    assert grown < 2 * saved, f"{grown / 2**20:.1f} MiB are left of 16 passes, each of which saves {saved / 2**20:.0f}"
    # What follows is right.
    attempt(False)
    ours = [p.grad.clone() for p in body.parameters() if p.grad is not None]
    assert len(ours) == 12 and all(g.isfinite().all() for g in ours)


@pytest.mark.parametrize("whole", [False, True], ids=["model", "step"])
def test_scaled_gradients_in_autocast(whole: bool) -> None:
    """One step's loss overflows: no update, and the scale is halved, in eager and compiled."""

    def build(compile: Compile) -> Run:
        model = net()
        compiled = model if whole else compile(model)
        opt = torch.optim.SGD(model.parameters(), 0.05)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**8, growth_interval=3)

        def step(x: torch.Tensor, y: torch.Tensor, times: float) -> torch.Tensor:
            opt.zero_grad()
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.cross_entropy(compiled(x), y) * times
            scaler.scale(loss).backward()
            scaler.unscale_(opt)
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(opt)
            scaler.update()
            return loss.detach()

        stepped = compile(step) if whole else step
        return lambda n: (
            stepped(normal(n, 6, 8), labels(n), 1e38 if n == 4 else 1.0),
            scaler.get_scale(),
            {name: p for name, p in model.named_parameters()},
        )

    found = compared(build, rtol=0.02, atol=0.005)
    assert all(e.graphs for e in found)
