"""Ten steps of loops as training programs write them, compiled and eager from the same start.

In float64 ten steps differ by rounding alone. `breaks`: how many graph breaks a loop has, each known.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint

import vesta

OPTIONS = {"only_if_faster": False, "deadline_ms": -1, "recompile_share": -1.0}
STEPS = 10
Compile = Callable[[Any], Any]
Run = Callable[[int], Any]  # the step with this number; what it returns is compared


@dataclass(frozen=True)
class Loop:
    build: Callable[[Compile], Run]
    breaks: int


LOOPS: dict[str, Loop] = {}


def loop(breaks: int = 0) -> Callable[[Callable[[Compile], Run]], Callable[[Compile], Run]]:
    def note(build: Callable[[Compile], Run]) -> Callable[[Compile], Run]:
        LOOPS[build.__name__] = Loop(build, breaks)
        return build

    return note


def normal(seed: int, *size: int) -> torch.Tensor:
    return torch.randn(size, generator=torch.Generator().manual_seed(seed))


def labels(seed: int, rows: int = 6) -> torch.Tensor:
    return torch.randint(0, 4, (rows,), generator=torch.Generator().manual_seed(seed))


def net(inputs: int = 8, outputs: int = 4, act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    return nn.Sequential(nn.Linear(inputs, 16), act(), nn.Linear(16, outputs))


def state(*parts: Any) -> dict[str, Any]:
    """What is compared after each step: parameters, gradients, buffers, states of optimizers."""
    found: dict[str, Any] = {}
    for i, part in enumerate(parts):
        if isinstance(part, torch.optim.Optimizer):
            for k, values in enumerate(part.state.values()):
                found |= {f"{i}.{k}.{name}": v for name, v in values.items() if isinstance(v, torch.Tensor)}
            continue
        for name, p in part.named_parameters():
            found |= {f"{i}.{name}": p, f"{i}.{name}.grad": p.grad}
        found |= {f"{i}.{name}": b for name, b in part.named_buffers()}
    return found


# ---- adversaries, penalties, derivatives of gradients ----------------------------------------------------------------


@loop()
def gan_of_compiled_models(compile: Compile) -> Run:
    g, d = net(4, 8), net(8, 1)
    make, judge = compile(g), compile(d)
    og = torch.optim.Adam(g.parameters(), 1e-3, betas=(0.5, 0.9))
    od = torch.optim.Adam(d.parameters(), 1e-3)

    def run(n: int) -> Any:
        z, real = normal(n, 6, 4), normal(n + 100, 6, 8)
        d.requires_grad_(True)
        od.zero_grad()
        with torch.no_grad():
            fake = make(z)
        ld = F.softplus(-judge(real)).mean() + F.softplus(judge(fake)).mean()
        ld.backward()
        od.step()
        d.requires_grad_(False)
        og.zero_grad()
        lg = F.softplus(-judge(make(z))).mean()
        lg.backward()
        og.step()
        return ld, lg, state(g, d, og, od)

    return run


@loop()
def critic_with_gradient_penalty(compile: Compile) -> Run:
    g, d = net(4, 8, nn.Tanh), net(8, 1, nn.Tanh)
    og, od = torch.optim.Adam(g.parameters(), 1e-3), torch.optim.Adam(d.parameters(), 1e-3)

    @compile
    def judge(z: torch.Tensor, real: torch.Tensor, share: torch.Tensor) -> torch.Tensor:
        od.zero_grad()
        fake = g(z).detach()
        mixed = (share * real + (1 - share) * fake).requires_grad_(True)
        scores = d(mixed)
        (slope,) = torch.autograd.grad(scores, mixed, torch.ones_like(scores), create_graph=True)
        loss = d(fake).mean() - d(real).mean() + 10 * ((slope.norm(2, dim=1) - 1) ** 2).mean()
        loss.backward()
        od.step()
        return loss.detach()

    @compile
    def make(z: torch.Tensor) -> torch.Tensor:
        og.zero_grad()
        loss = -d(g(z)).mean()
        loss.backward()
        og.step()
        return loss.detach()

    def run(n: int) -> Any:
        critics = [judge(normal(n + k, 6, 4), normal(n + 100, 6, 8), normal(n + k, 6, 1).sigmoid()) for k in range(2)]
        return critics, make(normal(n, 6, 4)), state(g, d, og, od)

    return run


@loop()
def maml(compile: Compile) -> Run:
    model = net(act=nn.Tanh)
    opt = torch.optim.Adam(model.parameters(), 1e-2)

    @compile
    def step(xs: torch.Tensor, ys: torch.Tensor, xq: torch.Tensor, yq: torch.Tensor) -> torch.Tensor:
        weights = dict(model.named_parameters())
        for _ in range(2):
            loss = F.mse_loss(torch.func.functional_call(model, weights, (xs,)), ys)
            slopes = torch.autograd.grad(loss, tuple(weights.values()), create_graph=True)
            weights = {k: p - 0.1 * g for (k, p), g in zip(weights.items(), slopes, strict=True)}
        loss = F.mse_loss(torch.func.functional_call(model, weights, (xq,)), yq)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (
        step(normal(n, 6, 8), normal(n + 1, 6, 4), normal(n + 2, 6, 8), normal(n + 3, 6, 4)),
        state(model, opt),
    )


@loop()
def second_derivatives_of_a_compiled_model(compile: Compile) -> Run:
    model = net(act=nn.Tanh)
    compiled = compile(model)

    def run(n: int) -> Any:
        loss = F.cross_entropy(compiled(normal(n, 6, 8)), labels(n))
        slopes = torch.autograd.grad(loss, list(model.parameters()), create_graph=True)
        model.zero_grad()
        sum(s.pow(2).sum() for s in slopes).backward()  # type: ignore[union-attr]
        return loss, slopes, state(model)

    return run


@loop()
def physics_informed(compile: Compile) -> Run:
    model = nn.Sequential(nn.Linear(2, 16), nn.Tanh(), nn.Linear(16, 1))
    opt = torch.optim.Adam(model.parameters(), 1e-3)

    def slope(u: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(u, x, torch.ones_like(u), create_graph=True)[0]

    @compile
    def step(points: torch.Tensor) -> torch.Tensor:
        x, t = (points[:, i : i + 1].clone().requires_grad_(True) for i in range(2))
        u = model(torch.cat([x, t], 1))
        ux = slope(u, x)
        loss = (slope(u, t) + u * ux - 0.01 * slope(ux, x)).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 12, 2)), state(model, opt))


# ---- averages, teachers, adapters ------------------------------------------------------------------------------------


@loop()
def moving_average_of_a_state_dict(compile: Compile) -> Run:
    model = nn.Sequential(nn.Linear(8, 16, bias=False), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 4))
    average = copy.deepcopy(model)
    opt = torch.optim.SGD(model.parameters(), 0.05)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        with torch.no_grad():
            new = model.state_dict()
            for name, old in average.state_dict().items():
                if old.dtype.is_floating_point:
                    old.lerp_(new[name], 0.1)
                else:
                    old.copy_(new[name])
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, average, opt))


@loop()
def weights_average(compile: Compile) -> Run:
    model = net()
    compiled = compile(model)
    average = torch.optim.swa_utils.AveragedModel(model)
    opt = torch.optim.SGD(model.parameters(), 0.05)
    schedule = torch.optim.swa_utils.SWALR(opt, swa_lr=0.01)

    def run(n: int) -> Any:
        opt.zero_grad()
        loss = F.cross_entropy(compiled(normal(n, 6, 8)), labels(n))
        loss.backward()
        opt.step()
        average.update_parameters(model)
        schedule.step()
        return loss, state(model, average, opt)

    return run


@loop()
def distillation(compile: Compile) -> Run:
    teacher, model = net().eval(), net()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        with torch.no_grad():
            said = teacher(x)
        scores = model(x)
        soft = F.kl_div(F.log_softmax(scores / 2, -1), F.softmax(said / 2, -1), reduction="batchmean")
        loss = 0.5 * F.cross_entropy(scores, y, label_smoothing=0.1) + 2 * soft
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(teacher, model, opt))


class LowRank(nn.Module):
    def __init__(self, base: nn.Linear) -> None:
        super().__init__()
        self.base = base.requires_grad_(False)
        self.a = nn.Parameter(normal(5, 2, base.in_features) * 0.1)
        self.b = nn.Parameter(torch.zeros(base.out_features, 2))
        self.dropout = nn.Dropout(0.1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.base(x) + 2 * (self.dropout(x) @ self.a.t() @ self.b.t())


@loop()
def low_rank_adapters(compile: Compile) -> Run:
    model = net()
    for i in (0, 2):
        model[i] = LowRank(model[i])  # type: ignore[arg-type]
    trained = [p for p in model.parameters() if p.requires_grad]
    opt = torch.optim.AdamW(trained, 1e-2)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        nn.utils.clip_grad_norm_(trained, 1.0)
        opt.step()
        opt.zero_grad()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, opt))


# ---- several passes and losses ---------------------------------------------------------------------------------------


@loop()
def two_losses_of_one_trunk(compile: Compile) -> Run:
    class Heads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.trunk, self.policy, self.value = net(8, 16), nn.Linear(16, 4), nn.Linear(16, 1)

        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            h = self.trunk(x)
            return self.policy(h), self.value(h)

    model = Heads()
    compiled = compile(model)
    first = torch.optim.Adam([*model.trunk.parameters(), *model.policy.parameters()], 1e-3)
    second = torch.optim.SGD(model.value.parameters(), 0.1)

    def run(n: int) -> Any:
        scores, value = compiled(normal(n, 6, 8))
        losses = F.cross_entropy(scores, labels(n)), value.pow(2).mean()
        first.zero_grad()
        second.zero_grad()
        losses[0].backward(retain_graph=True)
        losses[1].backward()
        first.step()
        second.step()
        return losses, state(model, first, second)

    return run


@loop()
def losses_that_use_some_results(compile: Compile) -> Run:
    class Parts(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.a, self.b = net(), net()

        def forward(self, x: torch.Tensor) -> Any:
            h = self.a(x)
            return h[:, None].expand(-1, 3, -1), self.b(x).t(), {"columns": self.a(x + 1)[:, ::2]}

    model = Parts()
    compiled = compile(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-2)

    def run(n: int) -> Any:
        wide, turned, more = compiled(normal(n, 6, 8))
        parts = (wide * normal(1, 6, 3, 4), turned * normal(2, 4, 6), more["columns"] * normal(3, 6, 2))
        loss = parts[n % 3].sum() if n < 6 else torch.cat([p.flatten() for p in parts]).pow(2).mean()
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss, state(model, opt)

    return run


@loop()
def conflicting_gradients(compile: Compile) -> Run:
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        scores = model(x)
        losses = [F.cross_entropy(scores, y), scores.pow(2).mean()]
        a, b = (torch.autograd.grad(loss, list(model.parameters()), retain_graph=True) for loss in losses)
        along = sum((p * q).sum() for p, q in zip(a, b, strict=True)) / sum((q * q).sum() for q in b)
        for parameter, p, q in zip(model.parameters(), a, b, strict=True):
            parameter.grad = p - torch.clamp(along, max=0) * q + q
        opt.step()
        return torch.stack(losses).detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, opt))


@loop()
def sharpness_aware(compile: Compile) -> Run:
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.1, momentum=0.9)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        with torch.no_grad():
            length = torch.stack([p.grad.norm() for p in model.parameters()]).norm()
            moves = [p.grad * (0.05 / (length + 1e-12)) for p in model.parameters()]
            for p, move in zip(model.parameters(), moves, strict=True):
                p.add_(move)
        opt.zero_grad()
        F.cross_entropy(model(x), y).backward()
        with torch.no_grad():
            for p, move in zip(model.parameters(), moves, strict=True):
                p.sub_(move)
        opt.step()
        opt.zero_grad()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, opt))


@loop()
def accumulated_in_a_compiled_model(compile: Compile) -> Run:
    model = net()
    compiled = compile(model)
    opt = torch.optim.SGD(model.parameters(), 0.05)

    def run(n: int) -> Any:
        for k in range(3):
            (F.cross_entropy(compiled(normal(n + k, 6, 8)), labels(n)) / 3).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        opt.zero_grad(set_to_none=n % 2 == 0)
        return state(model, opt)

    return run


@loop()
def truncated_through_time(compile: Compile) -> Run:
    cell, head = nn.GRUCell(4, 8), nn.Linear(8, 4)
    both = nn.ModuleList([cell, head])
    opt = torch.optim.Adam(both.parameters(), 1e-2)

    @compile
    def step(xs: torch.Tensor, h: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        opt.zero_grad()
        loss = torch.zeros(())
        for t in range(xs.shape[0] - 1):
            h = cell(xs[t], h)
            loss = loss + F.mse_loss(head(h), xs[t + 1])
        loss.backward()
        nn.utils.clip_grad_norm_(both.parameters(), 0.5)
        opt.step()
        return loss.detach(), h.detach()

    kept = [torch.zeros(3, 8)]

    def run(n: int) -> Any:
        loss, kept[0] = step(normal(n, 5, 3, 4), kept[0])
        return loss, kept[0], state(both, opt)

    return run


# ---- random numbers --------------------------------------------------------------------------------------------------


@loop()
def diffusion(compile: Compile) -> Run:
    model = net(9, 8, nn.SiLU)
    opt = torch.optim.AdamW(model.parameters(), 1e-3)
    left = torch.cumprod(1 - torch.linspace(1e-4, 0.02, 100), 0)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        t = torch.randint(0, 100, (x.shape[0],))
        noise = torch.randn_like(x)
        share = left[t][:, None]
        noisy = share.sqrt() * x + (1 - share).sqrt() * noise
        loss = F.mse_loss(model(torch.cat([noisy, t[:, None] / 100], 1)), noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8)), state(model, opt))


@loop()
def variational_autoencoder(compile: Compile) -> Run:
    both = nn.ModuleList([net(8, 8), net(4, 8)])
    opt = torch.optim.Adam(both.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        mean, log_variance = both[0](x).chunk(2, -1)
        z = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
        apart = -0.5 * (1 + log_variance - mean**2 - log_variance.exp()).sum()
        loss = F.mse_loss(both[1](z), x, reduction="sum") + apart
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8)), state(both, opt))


@loop()
def language_model(compile: Compile) -> Run:
    """Tied weights, dropout, a causal mask."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embed = nn.Embedding(20, 16)
            self.layer = nn.TransformerEncoderLayer(16, 2, 32, 0.1, batch_first=True, norm_first=True)
            self.head = nn.Linear(16, 20, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
            return self.head(self.layer(self.embed(x), src_mask=mask, is_causal=True))

    model = Model()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    @compile
    def step(x: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x[:, :-1]).flatten(0, 1), x[:, 1:].flatten(), ignore_index=0)
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 3, 7).mul(5).abs().long() % 20), state(model, opt))


@loop()
def quantized_codes(compile: Compile) -> Run:
    """A codebook with straight-through gradients."""
    encoder, decoder, codes = net(8, 4), net(4, 8), nn.Embedding(16, 4)
    both = nn.ModuleList([encoder, decoder, codes])
    opt = torch.optim.Adam(both.parameters(), 1e-3)

    @compile
    def step(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        z = encoder(x)
        chosen = torch.cdist(z, codes.weight).argmin(1)
        q = codes(chosen)
        loss = F.mse_loss(q, z.detach()) + 0.25 * F.mse_loss(z, q.detach())
        loss = loss + F.mse_loss(decoder(z + (q - z).detach()), x)
        opt.zero_grad()
        loss.backward()
        opt.step()
        return loss.detach(), chosen

    return lambda n: (step(normal(n, 6, 8)), state(both, opt))


# ---- what changes between steps --------------------------------------------------------------------------------------


@loop()
def layers_unfrozen(compile: Compile) -> Run:
    model = net()
    model[0].requires_grad_(False)
    opt = torch.optim.AdamW(model[2].parameters(), 1e-2)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        opt.zero_grad()
        return loss.detach()

    def run(n: int) -> Any:
        if n == 4:
            model[0].requires_grad_(True)
            opt.add_param_group({"params": list(model[0].parameters()), "lr": 1e-3})
        return step(normal(n, 6, 8), labels(n)), state(model, opt)

    return run


@loop()
def states_loaded_again(compile: Compile) -> Run:
    model = net()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)
    kept: list[Any] = []

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def run(n: int) -> Any:
        if n == 3:
            kept[:] = copy.deepcopy([model.state_dict(), opt.state_dict()])
        if n == 6:
            model.load_state_dict(kept[0])
            opt.load_state_dict(kept[1])
        return step(normal(n, 6, 8), labels(n)), state(model, opt)

    return run


@loop()
def another_head(compile: Compile) -> Run:
    model = net()
    compiled = compile(model)
    opts = [torch.optim.AdamW(model.parameters(), 1e-2)]

    def run(n: int) -> Any:
        if n == 4:
            model[2] = nn.Linear(16, 4)
            opts[0] = torch.optim.AdamW(model.parameters(), 1e-2)
        if n == 7:
            weight = model.get_parameter("0.weight")
            weight.data = weight.data * 0.5
        opts[0].zero_grad()
        loss = F.cross_entropy(compiled(normal(n, 6, 8)), labels(n))
        loss.backward()
        opts[0].step()
        return loss, state(model, opts[0])

    return run


@loop()
def last_batch_is_smaller(compile: Compile) -> Run:
    model = net()
    opt = torch.optim.AdamW(model.parameters(), 1e-2)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    def run(n: int) -> Any:
        rows = 6 if n % 3 else n + 1
        return step(normal(n, rows, 8), labels(n, rows)), state(model, opt)

    return run


@loop()
def evaluated_between_steps(compile: Compile) -> Run:
    model = nn.Sequential(nn.Conv2d(3, 8, 3, bias=False), nn.BatchNorm2d(8), nn.ReLU(inplace=True), nn.Flatten())
    model.append(nn.Linear(288, 4))
    compiled = compile(model)
    opt = torch.optim.SGD(model.parameters(), 0.05, momentum=0.9, nesterov=True, weight_decay=1e-4)

    def run(n: int) -> Any:
        model.train()
        opt.zero_grad()
        loss = F.cross_entropy(compiled(normal(n, 6, 3, 8, 8)), labels(n))
        loss.backward()
        opt.step()
        model.eval()
        with torch.no_grad():
            return loss, F.cross_entropy(compiled(normal(n + 1, 6, 3, 8, 8)), labels(n + 1)), state(model, opt)

    return run


@loop()
def normalized_weights(compile: Compile) -> Run:
    p = nn.utils.parametrizations
    model = nn.Sequential(p.spectral_norm(nn.Linear(8, 16)), nn.ReLU(), p.weight_norm(nn.Linear(16, 4)))
    opt = torch.optim.SGD(model.parameters(), 0.05)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, opt))


@loop()
def checkpointed_blocks(compile: Compile) -> Run:
    class Blocks(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.blocks = nn.ModuleList([nn.Sequential(net(8, 8), nn.Dropout(0.3)) for _ in range(3)])

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            for block in self.blocks:
                x = x + checkpoint(block, x, use_reentrant=False)
            return x

    model = Blocks()
    compiled = compile(model)
    opt = torch.optim.AdamW(model.parameters(), 1e-2)

    def run(n: int) -> Any:
        opt.zero_grad()
        loss = F.mse_loss(compiled(normal(n, 6, 8)), normal(n + 1, 6, 8))
        loss.backward()
        opt.step()
        return loss, state(model, opt)

    return run


@loop()
def hooks_on_parameters(compile: Compile) -> Run:
    """Gradients are clipped by hooks, and each parameter is updated as soon as its gradient is there."""
    model = net()
    compiled = compile(model)
    opts = {p: torch.optim.SGD([p], 0.1) for p in model.parameters()}

    def update(p: torch.Tensor) -> None:
        opts[p].step()  # type: ignore[index]
        opts[p].zero_grad()  # type: ignore[index]

    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))
        p.register_post_accumulate_grad_hook(update)

    def run(n: int) -> Any:
        loss = F.cross_entropy(compiled(normal(n, 6, 8)), labels(n))
        loss.backward()
        return loss, state(model)

    return run


@loop()
def hooks_on_parameters_of_a_step(compile: Compile) -> Run:
    """The pass calls the hooks, which are traced."""
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.1)
    for p in model.parameters():
        p.register_hook(lambda g: g.clamp(-0.01, 0.01))

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8), labels(n)), state(model, opt))


@loop(breaks=2)
def losses_that_are_not_finite(compile: Compile) -> Run:
    """The value decides whether there is a step: one break; the pass then begins at a tensor of the graph before."""
    model = net()
    opt = torch.optim.SGD(model.parameters(), 0.1)

    @compile
    def step(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        opt.zero_grad()
        loss = F.cross_entropy(model(x), y)
        if not torch.isfinite(loss):
            return loss.detach()
        loss.backward()
        opt.step()
        return loss.detach()

    return lambda n: (step(normal(n, 6, 8) * (float("inf") if n == 3 else 1), labels(n)), state(model, opt))


# ---- the tests -------------------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def _double() -> Iterator[None]:
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def steps_of(build: Callable[[Compile], Run], compile: Compile) -> list[Any]:
    torch.manual_seed(0)
    run = build(compile)
    found = []
    for n in range(STEPS):
        torch.manual_seed(n)
        found.append(copies(run(n)))
    return found


def copies(x: Any) -> Any:
    return torch.utils._pytree.tree_map(lambda t: t.detach().clone() if isinstance(t, torch.Tensor) else t, x)


def compared(build: Callable[[Compile], Run], rtol: float, atol: float) -> list[Any]:
    """What was captured of each compiled function."""
    compiled: list[Any] = []

    def compile(f: Any) -> Any:
        compiled.append(vesta.compile(f, options=OPTIONS))
        return compiled[-1]

    eager, ours = steps_of(build, lambda f: f), steps_of(build, compile)
    for n, (a, b) in enumerate(zip(ours, eager, strict=True)):
        try:
            torch.testing.assert_close(a, b, equal_nan=True, rtol=rtol, atol=atol)
        except AssertionError as e:
            raise AssertionError(f"step {n + 1}: {e}") from None
    return [vesta.explain(c).explanation for c in compiled]


@pytest.mark.parametrize("name", LOOPS)
def test_loop(name: str) -> None:
    found = compared(LOOPS[name].build, rtol=1e-8, atol=1e-10)
    breaks = {(b.name, b.where.file, b.where.line) for e in found for b in e.breaks}
    assert len(breaks) == LOOPS[name].breaks, breaks
    assert [f for e in found for f in e.fallbacks] == []
    assert all(e.graphs for e in found)
