"""Programs into whose compiles and runs faults are injected: most have side effects. A maker takes a number that tells
kernels of one instance from those of another, so that each is compiled."""

from __future__ import annotations

import io
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.utils import _pytree as pytree

import vesta
from tests.programs.generate import generate
from tests.programs.hostile import HOSTILE


@dataclass
class Instance:
    """A program with a state of its own. ``run(compiled, n)`` makes the n-th call; ``state`` is what calls change."""

    program: Any
    run: Callable[[Any, int], Any]
    state: Any = None
    has_number: bool = True  # its kernels differ from those of instances with another number
    # For a program whose results lose many digits: the arguments of a call, for the rule of docs/numerics.md.
    given: Callable[[int], list[torch.Tensor]] | None = None


MAKERS: dict[str, Callable[[float], Instance]] = {}


def maker(function: Callable[[float], Instance]) -> Callable[[float], Instance]:
    MAKERS[function.__name__] = function
    return function


def on_device(make: Callable[[], Any]) -> Any:
    """Arguments that are made on the CPU, on PyTorch's default device, where those that programs make are."""
    with torch.device("cpu"):
        given = make()
    to = torch.get_default_device()
    return pytree.tree_map(lambda x: x.to(to) if isinstance(x, torch.Tensor) else x, given)


def matrix(n: int, rows: int = 4, columns: int = 8) -> torch.Tensor:
    return on_device(lambda: torch.randn(rows, columns, generator=torch.Generator().manual_seed(n)))


@maker
def one_kernel(factor: float) -> Instance:
    return Instance(lambda x: (x * factor).sin() + 1, lambda f, n: f(matrix(n)))


@maker
def writes_between_breaks(factor: float) -> Instance:
    log: list[Any] = []
    table: dict[str, Any] = {}
    out = io.StringIO()

    def program(x: torch.Tensor) -> torch.Tensor:
        log.append(len(log))
        x = (x + factor).tanh()
        print("once", file=out)
        table[f"key {len(log)}"] = len(table)
        x = x.exp() * factor
        out.write("twice")
        log.append("end")
        return x.softmax(-1)

    return Instance(program, lambda f, n: f(matrix(n)), (log, table, out))


@maker
def writes_an_argument(factor: float) -> Instance:
    given = [matrix(7), matrix(8)]

    def program(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        a.mul_(0.5).add_(b, alpha=factor)
        b[0] = a[1].sin()
        return (a + b).sum(0)

    return Instance(program, lambda f, _: f(*given), given)


@maker
def branches_on_a_value(factor: float) -> Instance:
    seen: list[float] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        y = (x * factor).cos()
        if float(y.sum()) > 0:
            seen.append(1.0)
            y = y * 2
        else:
            seen.append(-1.0)
        return y.abs().sqrt()

    return Instance(program, lambda f, n: f(matrix(n)), seen)


@maker
def catches_every_error(factor: float) -> Instance:
    caught: list[str] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        try:
            y = (x * factor).sigmoid() @ x.t()
        except Exception as error:
            caught.append(type(error).__name__)
            y = x
        try:
            y = y.view(-1, 7)
        except RuntimeError:
            caught.append("expected")
            y = y + 1
        return y.relu()

    return Instance(program, lambda f, n: f(matrix(n)), caught)


@maker
def raises_at_its_end(factor: float) -> Instance:
    log: list[int] = []

    def program(x: torch.Tensor, n: int) -> torch.Tensor:
        y = (x - factor).exp()
        log.append(n)
        if n % 2:
            raise ValueError(n)
        return y.log1p()

    return Instance(program, lambda f, n: f(matrix(n), n), log)


@maker
def consumes_an_iterator(factor: float) -> Instance:
    numbers = iter(range(100))

    def program(x: torch.Tensor) -> torch.Tensor:
        for _ in range(3):
            x = x * factor + next(numbers)
        return x.sum(-1)

    return Instance(program, lambda f, n: f(matrix(n)), numbers)


@maker
def draws_random_numbers(factor: float) -> Instance:
    def program(x: torch.Tensor) -> torch.Tensor:
        x = nn.functional.dropout(x * factor, 0.5)
        return x + torch.rand_like(x) * random.random()

    return Instance(program, lambda f, n: f(matrix(n)))


class Counting(nn.Module):
    """Writes an attribute, a buffer and the running statistics of a batch norm."""

    calls: torch.Tensor

    def __init__(self, factor: float) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first = nn.Conv2d(2, 4, 3)
        self.norm = nn.BatchNorm2d(4)
        self.last = nn.Linear(4, 3)
        self.register_buffer("calls", torch.zeros(()))
        self.count, self.factor = 0, factor

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.count += 1
        self.calls += 1
        y = self.norm(self.first(x * self.factor)).relu()
        return self.last(y.mean((2, 3)))


@maker
def a_module_with_buffers(factor: float) -> Instance:
    module = Counting(factor)
    return Instance(module, lambda f, n: f(matrix(n, 8, 64).view(4, 2, 8, 8)), module)


@maker
def a_module_for_inference(factor: float) -> Instance:
    module = Counting(factor).eval()
    return Instance(module, lambda f, n: f(matrix(n, 8, 64).view(4, 2, 8, 8)), module)


@maker
def training(factor: float) -> Instance:
    module = Counting(factor)
    optimizer = torch.optim.SGD(module.parameters(), lr=0.01, momentum=0.9)

    def step(f: Any, n: int) -> torch.Tensor:
        with torch.enable_grad():
            loss = f(matrix(n, 8, 64).view(4, 2, 8, 8)).square().mean()
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return Instance(module, step, module)


@maker
def attention(factor: float) -> Instance:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 2, 32, dropout=0.0, batch_first=True).eval()

    def program(x: torch.Tensor) -> torch.Tensor:
        return layer(x * factor)

    return Instance(program, lambda f, n: f(matrix(n, 6, 32).view(2, 6, 16)))


@maker
def new_shapes(factor: float) -> Instance:
    seen: list[int] = []

    def program(x: torch.Tensor) -> torch.Tensor:
        seen.append(x.shape[0])
        return (x * factor).softmax(0) + x.shape[0]

    return Instance(program, lambda f, n: f(matrix(n, 2 + n)), seen)


@maker
def a_compiled_call_inside(factor: float) -> Instance:
    log: list[int] = []

    def inner(x: torch.Tensor) -> torch.Tensor:
        log.append(1)
        return (x + factor).sin()

    compiled = vesta.compile(inner, options={"cache": False})

    def program(x: torch.Tensor) -> torch.Tensor:
        log.append(2)
        y = compiled(x) * 2
        print(end="")
        return compiled(y).cos()

    return Instance(program, lambda f, n: f(matrix(n)), log)


def hostile(name: str) -> Instance:
    row = HOSTILE[name]

    def run(f: Any, n: int) -> Any:
        random.seed(n)
        return f(*on_device(lambda: row.arguments(n)))

    return Instance(row.program, run, has_number=False)


def generated(seed: int) -> Instance:
    with torch.device("cpu"):
        inputs, program = generate(seed).load()
    given: list[Any] = []

    def run(f: Any, n: int) -> Any:
        given[:] = on_device(lambda: inputs(seed + n))
        return f(*given)

    return Instance(program, run, given, has_number=False, given=lambda n: on_device(lambda: inputs(seed + n)))


def zoo(name: str) -> Instance:
    from tests.programs.zoo import ZOO

    torch.manual_seed(0)
    row = ZOO[name]
    with torch.device("cpu"):
        module = row.build()
    module.to(torch.get_default_device())
    return Instance(
        module, lambda f, n: f(**on_device(lambda: row.inputs(n, row.lengths[0]))), module, has_number=False
    )
