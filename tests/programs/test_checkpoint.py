"""torch.utils.checkpoint inside of compiled functions: gradients and random numbers are eager's, less is saved."""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

import vesta
from tests.programs.saved_bytes import gradients, saved_bytes
from tests.programs.torchvision_operators import declare_torchvision_operators

Program = Callable[..., Any]
both = pytest.mark.parametrize("reentrant", [False, True])


class Block(nn.Module):
    def __init__(self, width: int = 32, dropout: float = 0.1) -> None:
        super().__init__()
        self.norm, self.dropout = nn.LayerNorm(width), nn.Dropout(dropout)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x))))) * scale


class Model(nn.Module):
    def __init__(self, around: Program, layers: int = 4, dropout: float = 0.1) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.around = around
        self.blocks = nn.ModuleList(Block(dropout=dropout) for _ in range(layers))
        self.first, self.head = nn.Linear(8, 32), nn.Linear(32, 4)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.first(x)
        for block in self.blocks:
            x = self.around(block, x)
        return self.head(x)


def plainly(f: Program, *args: Any, **kwargs: Any) -> Any:
    return f(*args, **kwargs)


def numbers(*sizes: int, grad: bool = False) -> torch.Tensor:
    return torch.randn(*sizes, generator=torch.Generator().manual_seed(1)).requires_grad_(grad)


def run(call: Program, *of: Any) -> tuple[torch.Tensor, list[torch.Tensor | None], torch.Tensor]:
    """The result, the gradients, and what the generator gives after the backward pass."""
    torch.manual_seed(3)
    y = call()
    return y.detach(), gradients(y.square().sum(), *of), torch.rand(2)


def break_names(compiled: Program) -> set[str]:
    return {b.name for b in vesta.explain(compiled).explanation.breaks}


def same_as_eager(f: Program, *inputs: Any, of: tuple[Any, ...] = (), breaks: tuple[str, ...] = ()) -> Program:
    """Outputs, gradients and random numbers of two compiled calls; the names of the graph breaks."""
    compiled = vesta.compile(f, fullgraph=not breaks, options={"only_if_faster": False})
    expected = run(lambda: f(*inputs), *of)
    for _ in range(2):
        found = run(lambda: compiled(*inputs), *of)
        torch.testing.assert_close(found[0], expected[0])
        assert len(found[1]) == len(expected[1])
        for ours, eagers in zip(found[1], expected[1], strict=True):
            assert (ours is None) == (eagers is None)
            if ours is not None:
                torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-4)
        assert torch.equal(found[2], expected[2])
    # The eager call of checkpoint() has parts that are compiled, with breaks of their own.
    assert break_names(compiled) >= set(breaks) if breaks else not break_names(compiled)
    assert not vesta.explain(compiled).explanation.fallbacks
    return compiled


@both
@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_blocks_in_a_loop(reentrant: bool, dropout: float) -> None:
    x = numbers(64, 8)
    checkpointed = Model(functools.partial(checkpoint, use_reentrant=reentrant), dropout=dropout)
    plain = Model(plainly, dropout=dropout)
    compiled = same_as_eager(checkpointed, x, of=(checkpointed,))
    without = same_as_eager(plain, x, of=(plain,))
    with_it, all_of_it = (
        saved_bytes(lambda call=call: call(x), [x, *m.parameters()])
        for call, m in ((compiled, checkpointed), (without, plain))
    )
    # Of each block its input, 32 wide, and the mask of the dropout; the head's input once more.
    inputs = 64 * 32 * 4 * 5
    masks = 64 * 32 * 4 if dropout else 0
    assert with_it <= inputs + masks
    assert with_it < all_of_it / 3


def test_the_mask_of_a_dropout_is_the_forward_passes() -> None:
    """The gradient shows the mask: a second draw would show another one."""
    x = torch.ones(256, 64, requires_grad=True)

    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(lambda t: F.dropout(t.sin(), 0.5, training=True) * 2, x, use_reentrant=False)

    compiled = vesta.compile(f, fullgraph=True)
    y = compiled(x)
    torch.rand(100)  # the generator goes on between the passes
    (found,) = gradients(y.sum(), x)
    assert found is not None and torch.equal(found != 0, y != 0)
    assert 0.4 < (y != 0).float().mean() < 0.6


@both
def test_parameters_inside(reentrant: bool) -> None:
    block = Block()
    f = lambda x: checkpoint(block, x.sin(), use_reentrant=reentrant).cos()  # noqa: E731
    x = numbers(6, 32, grad=True)
    same_as_eager(f, x, of=(block, x))


@both
def test_a_block_that_is_called_twice(reentrant: bool) -> None:
    block = Block()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = checkpoint(block, x, use_reentrant=reentrant)
        return checkpoint(block, y, use_reentrant=reentrant) * y

    x = numbers(6, 32, grad=True)
    same_as_eager(f, x, of=(block, x))


def test_a_second_backward_pass() -> None:
    x = numbers(6, 32, grad=True)
    block = Block(dropout=0)
    f = lambda x: checkpoint(block, x, use_reentrant=False).square()  # noqa: E731
    compiled = vesta.compile(f, fullgraph=True)
    for call in (f, compiled):
        y = call(x).sum()
        y.backward(retain_graph=True)
        y.backward()
    torch.testing.assert_close(x.grad, 4 * torch.autograd.grad(f(x).sum(), x)[0])
    again = torch.autograd.grad(compiled(x).sum(), x, create_graph=True)[0]
    expected = torch.autograd.grad(f(x).sum(), x, create_graph=True)[0]
    torch.testing.assert_close(
        torch.autograd.grad(again.sum(), x)[0], torch.autograd.grad(expected.sum(), x)[0], rtol=1e-4, atol=1e-5
    )


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("outer", [False, True])
def test_nested(inner: bool, outer: bool) -> None:
    first, second = Block(), Block()

    def both_blocks(x: torch.Tensor) -> torch.Tensor:
        return second(checkpoint(first, x, use_reentrant=inner))

    x = numbers(64, 32, grad=True)
    f = lambda x: checkpoint(both_blocks, x.sin(), use_reentrant=outer) * 2  # noqa: E731
    compiled = same_as_eager(f, x, of=(first, second, x))
    held = saved_bytes(lambda: compiled(x), [x, *first.parameters(), *second.parameters()])
    assert held <= 64 * 32 * (2 + 4)  # two masks, and the input of the outer one


def test_keyword_arguments() -> None:
    block = Block()

    def f(x: torch.Tensor) -> torch.Tensor:
        y = checkpoint(
            block, x, scale=0.5, use_reentrant=False, determinism_check="none", preserve_rng_state=True, debug=False
        )
        return checkpoint(functools.partial(block, scale=2.0), y, use_reentrant=False)

    x = numbers(6, 32, grad=True)
    same_as_eager(f, x, of=(block, x))


@both
def test_sequential(reentrant: bool) -> None:
    layers = nn.Sequential(*(Block() for _ in range(6)))
    x = numbers(6, 32, grad=True)
    same_as_eager(lambda x: checkpoint_sequential(layers, 3, x, use_reentrant=reentrant), x, of=(layers, x))


def test_several_results_and_structures() -> None:
    def inner(x: torch.Tensor, pair: dict[str, torch.Tensor]) -> dict[str, Any]:
        return {"a": x.sin() * pair["b"], "list": [x.cos(), 3], "none": None}

    def f(x: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        found = checkpoint(inner, x, {"b": b}, use_reentrant=False)
        assert found["none"] is None
        return found["a"] + found["list"][0] * found["list"][1]

    x, b = numbers(6, 32, grad=True), numbers(6, 32, grad=True)
    same_as_eager(f, x, b, of=(x, b))


def test_reentrant_returns_a_tuple() -> None:
    def inner(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return x * y, (x > 0)

    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        product, positive = checkpoint(inner, x.sin(), y, use_reentrant=True)
        return product * positive

    x, y = numbers(6, 32, grad=True), numbers(6, 32)
    same_as_eager(f, x, y, of=(x,))


@pytest.mark.parametrize(
    "returned",
    [lambda x: [x.sin()], lambda x: (x.sin(), x.detach() * 2), lambda x: x],
    ids=["list", "detached", "same"],
)
def test_what_reentrant_returns_otherwise_is_eagers(returned: Program) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        out = checkpoint(returned, x * 2, use_reentrant=True)
        return out[0] * 3 if isinstance(out, list | tuple) else out * 3

    x = numbers(3, 4, grad=True)
    expected, found = f(x), vesta.compile(f)(x)
    torch.testing.assert_close(found, expected)
    assert found.requires_grad == expected.requires_grad


def test_reentrant_without_an_input_that_requires_a_gradient() -> None:
    """Eager warns, and the result requires none, whatever the parameters say."""
    block = Block(dropout=0)
    f = lambda x: checkpoint(block, x, use_reentrant=True) * 2  # noqa: E731
    compiled = vesta.compile(f)
    with pytest.warns(UserWarning, match="None of the inputs have requires_grad=True"):
        y = compiled(numbers(3, 32))
    assert not y.requires_grad
    torch.testing.assert_close(y, f(numbers(3, 32)))


@both
@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_without_gradients(reentrant: bool, mode: Program) -> None:
    model = Model(functools.partial(checkpoint, use_reentrant=reentrant), dropout=0)
    compiled = vesta.compile(model, fullgraph=not reentrant)
    with mode(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = compiled(numbers(5, 8))
        torch.testing.assert_close(y, model(numbers(5, 8)))
    assert not y.requires_grad
    if not reentrant:
        assert not any(graph.trains for graph in vesta.explain(compiled).explanation.graphs)


def test_without_use_reentrant_it_warns() -> None:
    f = lambda x: checkpoint(torch.sin, x) * 2  # noqa: E731
    x = numbers(3, 4, grad=True)
    with pytest.warns(UserWarning, match="use_reentrant"):
        same_as_eager(f, x, of=(x,))
    compiled = vesta.compile(f, fullgraph=True)
    for _ in range(2):  # the second call runs the variant of the first
        with pytest.warns(UserWarning, match="use_reentrant"):
            compiled(x)


def test_what_a_function_writes_is_written_as_often_as_in_eager() -> None:
    class Counting(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear, self.calls = nn.Linear(4, 4), 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            return self.linear(x).sin()

    def steps(compile: Program) -> tuple[int, int]:
        torch.manual_seed(0)
        counting, norm = Counting(), nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
        for module in (counting, norm):
            call = compile(lambda x, module=module: checkpoint(module, x.sin(), use_reentrant=False) * 2)
            for _ in range(2):
                call(numbers(6, 4, grad=True)).square().sum().backward()
            if compile is vesta.compile:
                assert "checkpoint" in break_names(call)
        return counting.calls, int(norm[1].num_batches_tracked)

    assert steps(vesta.compile) == steps(lambda f: f) == (4, 4)


def test_random_numbers_without_their_state() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        kept = checkpoint(torch.sin, x, use_reentrant=False, preserve_rng_state=False)
        drawn = checkpoint(F.dropout, kept, use_reentrant=False, preserve_rng_state=False)
        return drawn * 2

    same_as_eager(f, numbers(6, 32, grad=True), breaks=("checkpoint",))


def test_contexts_are_a_break() -> None:
    contexts = functools.partial(create_selective_checkpoint_contexts, [torch.ops.aten.mm.default])
    layer = nn.Linear(4, 4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return checkpoint(layer, x.sin(), use_reentrant=False, context_fn=contexts) * 2

    x = numbers(3, 4, grad=True)
    compiled = vesta.compile(f)
    torch.testing.assert_close(gradients(compiled(x).sum(), x, layer), gradients(f(x).sum(), x, layer))
    assert "checkpoint" in break_names(compiled)
    assert any("with a context_fn" in b.reason for b in vesta.explain(compiled).explanation.breaks)


def test_errors_are_eagers() -> None:
    x = numbers(3, 4, grad=True)
    for options, error in (
        ({"use_reentrant": True, "scale": 2}, "Unexpected keyword arguments"),
        ({"use_reentrant": False, "determinism_check": "all"}, "determinism_check should be one of"),
    ):
        f = lambda x, options=options: checkpoint(torch.sin, x, **options) * 2  # noqa: E731
        for call in (f, vesta.compile(f)):
            with pytest.raises(ValueError, match=error):
                call(x)

    def failing(x: torch.Tensor) -> torch.Tensor:
        raise KeyError("inside")

    def caught(x: torch.Tensor) -> torch.Tensor:
        try:
            checkpoint(failing, x, use_reentrant=False)
        except KeyError:
            x = x.sin()
        return x.exp() * 2

    same_as_eager(caught, x, of=(x,))


def test_sizes_may_change() -> None:
    model = Model(functools.partial(checkpoint, use_reentrant=False), layers=2)
    compiled = vesta.compile(model, fullgraph=True, options={"dynamic": True})
    for size in (5, 9, 12):
        x = numbers(size, 8)
        ours, eagers = run(lambda x=x: compiled(x), model), run(lambda x=x: model(x), model)
        torch.testing.assert_close(ours[:2], eagers[:2])
    assert len(vesta.explain(compiled).explanation.graphs) == 1


@pytest.mark.parametrize("name", ["GPT2", "Llama"])
def test_transformers(name: str) -> None:
    declare_torchvision_operators()  # transformers imports torchvision
    transformers = pytest.importorskip("transformers")
    sizes: dict[str, Any] = {
        "GPT2": {"n_embd": 32, "n_layer": 2, "n_head": 2},
        "Llama": {
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 2,
        },
    }[name]
    torch.manual_seed(0)
    config = getattr(transformers, f"{name}Config")(vocab_size=100, use_cache=False, **sizes)
    model = getattr(transformers, f"{name}LMHeadModel" if name == "GPT2" else f"{name}ForCausalLM")(config).train()
    ids = torch.randint(0, 100, (2, 16), generator=torch.Generator().manual_seed(1))
    held = {}
    for on in (False, True):
        if on:
            model.gradient_checkpointing_enable({"use_reentrant": False})
        compiled = same_as_eager(lambda ids: model(ids).logits, ids, of=(model,))
        held[on] = saved_bytes(lambda call=compiled: call(ids), [ids, *model.parameters(), *model.buffers()])
    assert held[True] < 0.6 * held[False]
