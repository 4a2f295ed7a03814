"""The option activation_memory: what is saved for the backward pass, measured, and what explain() says about it."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import vesta
from tests.programs.saved_bytes import gradients, saved_bytes


def numbers(*sizes: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1)).requires_grad_(grad)


def compiled(f: Any, bound: float | int | None) -> Any:
    return vesta.compile(f, fullgraph=True, options={"activation_memory": bound, "only_if_faster": False})


class Attention(nn.Module):
    def __init__(self, width: int, dropout: float) -> None:
        super().__init__()
        self.qkv, self.out, self.dropout = nn.Linear(width, 3 * width), nn.Linear(width, width), dropout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = (t.unflatten(-1, (4, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout if self.training else 0)
        return self.out(y.transpose(1, 2).flatten(2))


class Transformer(nn.Module):
    def __init__(self, layers: int = 4, width: int = 64, dropout: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.dropout = nn.Dropout(dropout)
        self.attention = nn.ModuleList(Attention(width, dropout) for _ in range(layers))
        self.norms = nn.ModuleList(nn.LayerNorm(width) for _ in range(2 * layers))
        self.up = nn.ModuleList(nn.Linear(width, 4 * width) for _ in range(layers))
        self.down = nn.ModuleList(nn.Linear(4 * width, width) for _ in range(layers))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for i, attention in enumerate(self.attention):
            x = x + self.dropout(attention(self.norms[2 * i](x)))
            x = x + self.dropout(self.down[i](F.gelu(self.up[i](self.norms[2 * i + 1](x)))))
        return x


def trained(call: Any, model: nn.Module, x: torch.Tensor) -> list[torch.Tensor]:
    torch.manual_seed(5)
    y = call(x)
    torch.rand(7)  # the generator goes on between the passes
    return [y.detach(), *gradients(y.square().mean(), model)]


@pytest.mark.parametrize("dropout", [0.0, 0.2])
@pytest.mark.parametrize("bound", [0.75, 0.5, 0.3])
def test_saved_bytes_are_at_most_the_fraction_of_eagers(bound: float, dropout: float) -> None:
    model, x = Transformer(dropout=dropout), numbers(4, 32, 64)
    alive = [x, *model.parameters()]
    eager = saved_bytes(lambda: model(x), alive)
    call = compiled(model, bound)
    torch.testing.assert_close(trained(call, model, x), trained(model, model, x), rtol=1e-4, atol=1e-5)
    measured = saved_bytes(lambda: call(x), alive)
    assert 0 < measured <= bound * eager
    (graph,) = vesta.explain(call).explanation.graphs
    assert measured == graph.saved_bytes and graph.activations.is_reached
    assert graph.eager_saved_bytes <= eager and graph.activations.limit == int(bound * graph.eager_saved_bytes)


def test_bytes() -> None:
    model, x = Transformer(dropout=0), numbers(4, 32, 64)
    bound = 300_000
    call = compiled(model, bound)
    torch.testing.assert_close(trained(call, model, x), trained(model, model, x), rtol=1e-4, atol=1e-5)
    assert 0 < saved_bytes(lambda: call(x), [x, *model.parameters()]) <= bound


def test_masks_are_saved_and_never_drawn_again() -> None:
    """Nothing may be saved, but what is drawn is. The gradient of x shows the mask of the backward pass."""

    def f(x: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
        return F.dropout((x @ w).exp(), 0.5, training=True)

    x, w = numbers(64, 16, grad=True), torch.eye(16)
    call = compiled(f, 0)
    y = call(x, w)
    torch.rand(100)
    (found,) = gradients(y.sum(), x)
    assert found is not None and torch.equal(found != 0, y != 0)
    assert saved_bytes(lambda: call(x, w), [x, w]) == 64 * 16  # booleans
    (graph,) = vesta.explain(call).explanation.graphs
    assert not graph.activations.is_reached
    assert [s.why for s in graph.activations.saved] == ["refused: random"]
    assert "activation_memory allows 0 B: not reached" in str(vesta.explain(call))


def test_masks_take_one_byte_without_a_bound() -> None:
    x = numbers(64, 1 << 14, grad=True)  # beyond the cache, where four bytes take longer to load than one
    call = compiled(lambda x: F.dropout(x, 0.25, training=True), None)
    assert saved_bytes(lambda: call(x), [x]) == x.numel()
    torch.manual_seed(2)
    y = call(x)
    torch.manual_seed(2)
    torch.testing.assert_close(y, F.dropout(x, 0.25, training=True))


def test_explain_names_what_is_saved_and_computed_again() -> None:
    weights = [numbers(64, 64, grad=True) * 0.1 for _ in range(4)]

    def f(x: torch.Tensor) -> torch.Tensor:
        for w in weights:
            x = (x @ w).tanh()
        return x.sum()

    x = numbers(256, 64, grad=True)
    call = compiled(f, 0.5)
    call(x).backward()
    (graph,) = vesta.explain(call).explanation.graphs
    activations = graph.activations
    assert activations.eager_saved_bytes == 4 * x.nbytes and activations.saved_bytes == 2 * x.nbytes
    assert [s.bytes for s in activations.saved] == [x.nbytes] * 2
    assert {s.op for s in activations.saved} <= {"aten::tanh", "aten::mm"}
    assert {"aten::mm", "aten::tanh"} == {again.op for again in activations.again}
    assert all("test_activation_memory.py" in again.source for again in activations.again)
    assert activations.again_us > 0 < activations.load_us
    text = str(vesta.explain(call))
    assert "activation_memory allows 128.0 KiB" in text and "not reached" not in text
    assert "computed again: aten::" in text and "ms to compute again" in text and "saved: aten::" in text


def test_nothing_is_computed_again_without_need() -> None:
    w = numbers(64, 64, grad=True)
    call = compiled(lambda x: (x @ w).tanh().sum(), None)
    call(numbers(256, 64))
    (graph,) = vesta.explain(call).explanation.graphs
    assert graph.activations.limit is None and "aten::mm" not in {again.op for again in graph.activations.again}


@pytest.mark.parametrize("wrong", [-1, -0.5, 1.5, True, "half", float("nan")])
def test_wrong_bounds(wrong: Any) -> None:
    with pytest.raises(vesta.errors.UserError, match='"activation_memory" takes'):
        vesta.compile(torch.sin, options={"activation_memory": wrong})


ROWS, CLASSES = 512, 8001  # more than caches hold: otherwise a copy gains nothing


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_loss_in_a_wider_type_than_that_of_returned_logits(dtype: torch.dtype) -> None:
    """Eager saves the float32 log-softmax. The logits in half precision take half as much, but the program may write to
    what it returns before the backward pass."""

    class Model(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            torch.manual_seed(0)
            self.head = nn.Linear(32, CLASSES, bias=False, dtype=dtype)

        def forward(self, x: torch.Tensor, labels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            logits = self.head(x)
            return F.cross_entropy(logits.float(), labels), logits

    model = Model()
    fast = compiled(model, None)
    x, labels = numbers(ROWS, 32).to(dtype), torch.randint(0, CLASSES, (ROWS,))
    labels[5] = -100
    found = []
    for call in (model, fast):
        loss, logits = call(x, labels)
        before = logits.detach().clone()
        logits.detach().mul_(3)
        found.append((loss.detach(), before, *gradients(loss, model)))
    torch.testing.assert_close(found[1], found[0])

    def saved(call: Any) -> int:
        returned = []

        def loss() -> torch.Tensor:
            result, logits = call(x, labels)
            returned.append(logits)
            return result

        return saved_bytes(loss, [x, labels, *model.parameters()])

    assert ROWS * CLASSES * 2 < saved(fast) < saved(model) * 0.6
