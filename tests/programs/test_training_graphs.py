"""Programs with gradients: outputs, gradients, written inputs and aliases are eager's."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
import torch.utils.checkpoint
from torch import nn

import vesta
from tests.numerics.compare import check
from tests.numerics.wide_runs import widened
from tests.programs.models import Case, run

Program = Callable[..., Any]
PROGRAMS: dict[str, tuple[Program, list[Callable[[], Any]]]] = {}


def program(*inputs: Callable[[], Any]) -> Callable[[Program], Program]:
    def note(function: Program) -> Program:
        PROGRAMS[function.__name__] = (function, list(inputs))
        return function

    return note


def numbers(*sizes: int, seed: int = 0, grad: bool = True, dtype: torch.dtype = torch.float32) -> Callable[[], Any]:
    def make() -> torch.Tensor:
        return torch.randn(*sizes, generator=torch.Generator().manual_seed(seed)).to(dtype).requires_grad_(grad)

    return make


def grown(*sizes: int, seed: int = 0) -> Callable[[], Any]:
    """Not a leaf; `leaf` is where its gradient goes."""

    def make() -> torch.Tensor:
        leaf = numbers(*sizes, seed=seed)()
        x = leaf * 1.5
        x.leaf = leaf
        return x

    return make


def indices(end: int, *sizes: int) -> Callable[[], Any]:
    return lambda: torch.randint(0, end, sizes, generator=torch.Generator().manual_seed(7))


def strictly(function: Program, **options: Any) -> Program:
    """What cannot be compiled whole is an error."""
    return vesta.compile(function, fullgraph=True, options={"strict": True}, **options)


def module(make: Callable[[], nn.Module]) -> Callable[[], nn.Module]:
    def build() -> nn.Module:
        torch.manual_seed(11)
        return make()

    return build


# ---- gradient mode and history --------------------------------------------------------------------------------------


@program(numbers(3, 4), numbers(3, 4, seed=1))
def several_outputs(x, y):
    z = (x * y).tanh()
    return z, z.sum(), z.detach(), (x > y), z.argmax(1)


@program(numbers(3, 4), numbers(3, 4, seed=1, grad=False))
def an_input_without_gradient(x, y):
    return (x * y).sum(), y * 2


@program(numbers(3, 4))
def no_grad_region(x):
    with torch.no_grad():
        scale = x.abs().max()
    return x / scale, scale


@program(numbers(3, 4))
def enable_grad_inside_no_grad(x):
    with torch.no_grad():
        a = x * 2
        with torch.enable_grad():
            b = x * 3
        c = b * a
    return a, b, c, b * a


@program(numbers(3, 4))
def set_grad_enabled_in_the_middle(x):
    a = x.sin()
    torch.set_grad_enabled(False)
    b = a * 2
    torch.set_grad_enabled(True)
    return a + b


@program(numbers(3, 4))
def detached_twice(x):
    return (x * x.detach()).sum() + (x.detach() * 2).sum(), x.detach()


@program(numbers(3, 4))
def asks_for_requires_grad(x):
    y = x.detach()
    z = x * 2 if x.requires_grad and not y.requires_grad else x * 3
    with torch.no_grad():
        w = z + 1
    return z if not w.requires_grad else z * 5


@program(numbers(3, 4))
def asks_for_leaves(x):
    y = x * 2
    return y * 3 if x.is_leaf and not y.is_leaf and y.grad_fn is not None else y * 5


@program(numbers(3, 4))
def an_output_used_twice(x):
    y = x.exp()
    return y, y * y, y


@program(numbers(3, 4))
def the_input_itself(x):
    return x, x * 2


@program(numbers(3, 4))
def a_view_of_the_input(x):
    return x.t(), x[1], (x * 2).view(-1)


@program(grown(3, 4))
def an_input_with_history(x):
    return x.relu() * 2, x[0]


@program(numbers(3, 4))
def nothing_requires_grad(x):
    with torch.no_grad():
        return x * 2, x.sum()


@program(numbers(5))
def straight_through(x):
    return x + (x.round() - x).detach()


# ---- writes ---------------------------------------------------------------------------------------------------------


@program(numbers(3, 4))
def written_in_place(x):
    y = x * 2
    y.mul_(x).add_(1)
    y[1] = 0
    return y


@program(numbers(3, 4), numbers(4, seed=2))
def written_through_a_view(x, row):
    y = x.clone()
    y[1:].select(1, 2).mul_(3)
    y[0] = row
    y.t()[1] += row[:3]
    return y, y[0]


@program(numbers(3, 4))
def a_buffer_filled_by_rows(x):
    out = torch.empty(3, 4)
    for i in range(3):
        out[i] = x[i] * (i + 1)
    return out.sum(0)


@program(numbers(3, 4), numbers(3, 4, seed=1, grad=False))
def an_input_written(x, y):
    y.mul_(2)
    return x * y


@program(numbers(3, 4), numbers(3, 4, seed=1, grad=False))
def an_input_written_with_history(x, y):
    y.add_(x.detach())
    z = y * x
    return z, y


@program(grown(3, 4))
def an_input_with_history_written(x):
    x.mul_(2)
    return x.sum()


@program(numbers(3, 4))
def a_leaf_written_without_gradients(x):
    y = x * 2
    with torch.no_grad():
        x.add_(1)
    return y, x * 3


@program(numbers(3, 4))
def data_of_a_leaf_written(x):
    x.data.clamp_(-1, 1)
    return x * 3


@program(numbers(3, 4))
def accumulated_under_no_grad(x):
    total = torch.zeros(4)
    with torch.no_grad():
        total += x.sum(0)
    return x * total


@program(numbers(6))
def relu_in_place(x):
    return F.relu_(x * 1) + F.leaky_relu(x * 2, 0.1, inplace=True)


@program(numbers(3, 4), indices(3, 5))
def index_put(x, i):
    y = torch.zeros(3, 4)
    y.index_put_((i,), x[i], accumulate=True)
    return y, y.index_add(0, i, x[i]), x.index_select(0, i).scatter(1, i[:, None] % 4, 0.0)


@program(numbers(3, 4))
def constants_of_the_program(x):
    c = torch.tensor([1.0, 2.0, 3.0, 4.0])
    c.add_(1)
    y = x + c
    c.mul_(2)
    y[0] = 5
    return y, c


# ---- random numbers -------------------------------------------------------------------------------------------------


@program(numbers(30, 40))
def dropouts(x):
    y = F.dropout(x, 0.3)
    z = F.dropout1d(y[None], 0.4)[0]
    return y, z, torch.rand_like(x) * x, x.detach().bernoulli(0.5) * x, F.alpha_dropout(x, 0.2)


@program(numbers(30, 40))
def noise_in_the_middle(x):
    with torch.no_grad():
        noise = torch.randn(30, 40)
    return F.rrelu(x, training=True) + noise, F.gumbel_softmax(x)


# ---- operators ------------------------------------------------------------------------------------------------------


@program(indices(10, 2, 6), module(lambda: nn.Embedding(10, 8, padding_idx=3)))
def embedding_with_padding(i, m):
    return m(i)


@program(numbers(4, 3, 6, 6), module(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU())))
def batch_norm_in_training(x, m):
    return m(x)


@program(
    numbers(4, 3, 6, 6), module(lambda: nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8, momentum=None)).eval())
)
def batch_norm_in_evaluation(x, m):
    return m(x)


@program(numbers(4, 8, 6), module(lambda: nn.ModuleList([nn.GroupNorm(2, 8), nn.InstanceNorm1d(8), nn.LayerNorm(6)])))
def other_norms(x, m):
    return [n(x) for n in m]


@program(numbers(2, 2, 5, 8), numbers(2, 2, 5, 8, seed=1), numbers(2, 2, 5, 8, seed=2))
def attention(q, k, v):
    return (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, torch.ones(5, 5).tril().log()),
        F.scaled_dot_product_attention(q, k, v, dropout_p=0.5),
    )


@program(numbers(2, 2, 5, 8), numbers(5, 5, seed=3))
def attention_with_a_learned_mask(q, mask):
    return F.scaled_dot_product_attention(q, q, q, mask)


@program(numbers(5, 2, 8), module(lambda: nn.LSTM(8, 6, num_layers=2, bidirectional=True, dropout=0.0)))
def lstm(x, m):
    out, (h, c) = m(x)
    return out, h, c


@program(numbers(5, 2, 8), module(lambda: nn.GRU(8, 6)))
def gru(x, m):
    return m(x)


@program(numbers(5, 2, 8), module(lambda: nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1)))
def transformer_layer(x, m):
    return m(x)


@program(numbers(5, 2, 8), module(lambda: nn.MultiheadAttention(8, 2)))
def multihead_attention(x, m):
    return m(x, x, x)


@program(numbers(2, 3, 8, 8))
def pooling(x):
    y, i = F.max_pool2d(x, 2, return_indices=True)
    return y, i, F.avg_pool2d(x, 2), F.adaptive_max_pool2d(x, 3), F.max_pool1d(x[0], 2), F.interpolate(x, 16)


@program(numbers(6, 5), indices(5, 6))
def losses(x, target):
    return (
        F.cross_entropy(x, target),
        F.cross_entropy(x, target, label_smoothing=0.1, reduction="none"),
        F.nll_loss(x.log_softmax(1), target, ignore_index=1),
        F.binary_cross_entropy_with_logits(x[:, 0], (target > 2).float()),
        F.one_hot(target, 5) * x,
        F.huber_loss(x, x.detach() * 0.5),
    )


@program(numbers(4, 4))
def linear_algebra(x):
    a = x @ x.t() + 4 * torch.eye(4)
    eigenvalues, singular = torch.linalg.eigvalsh(a), torch.linalg.svdvals(x)
    return torch.linalg.cholesky(a), singular, eigenvalues, torch.linalg.solve(a, x), a.logdet()


@program(numbers(6, 5))
def sorting(x):
    values, order = x.sort(1)
    top, _ = x.topk(2)
    return values, order, top, x.max(1).values, x.median(), x.cummax(0).values, x.kthvalue(2).values


@program(numbers(6, 5))
def several_views(x):
    a, b, c = x.split([1, 3, 2])
    return torch.cat([c, b * 2, a]), torch.stack(x.unbind(1)), x.chunk(2)[1], torch.einsum("ij,kj->ik", x, x)


@program(numbers(6, 5))
def derivatives_that_are_zero(x):
    return x.sgn(), x.sgn() * x, torch.linalg.vector_norm(x, 0), x.round() + x.sign()


@program(numbers(6, 5), numbers(6, 5, seed=4))
def complex_numbers(x, y):
    z = torch.complex(x, y)
    w = (z.conj() * z + torch.fft.fft(z)).abs()
    return w, torch.view_as_real(z.conj().resolve_conj()), torch.fft.rfft(x).imag


@program(numbers(6, 5, dtype=torch.float64), numbers(5, 3, seed=1, dtype=torch.float64))
def doubles(x, y):
    return (x @ y).softmax(-1), x.to(torch.float32) * 2


@program(numbers(6, 5))
def under_autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x.t()
        z = torch.einsum("ij,jk->ik", y, y)
        with torch.autocast("cpu", enabled=False):
            w = x @ x.t()
        return y, z, F.layer_norm(z, (6,)), w.sum()


@program(numbers(6, 5), module(lambda: nn.utils.parametrizations.weight_norm(nn.Linear(5, 4))))
def parametrized(x, m):
    return m(x)


@program(numbers(6, 5), module(lambda: nn.Sequential(nn.Linear(5, 5), nn.Linear(5, 5))))
def tied_weights(x, m):
    m[1].weight = m[0].weight
    return m(x)


# Programs of which a part runs eager.
NOT_WHOLE = ("asks_for_leaves", "tied_weights")


# ---- the comparison -------------------------------------------------------------------------------------------------


def leaves_of(inputs: list[Any]) -> list[torch.Tensor]:
    found: list[torch.Tensor] = []
    for x in inputs:
        if isinstance(x, nn.Module):
            found += x.parameters()
        elif x.requires_grad:
            found.append(x if x.is_leaf else x.leaf)
    return found


def state_of(inputs: list[Any]) -> list[torch.Tensor]:
    found = []
    for x in inputs:
        found += [*x.buffers(), *x.parameters()] if isinstance(x, nn.Module) else [x]
    return found


def loss_of(outputs: list[torch.Tensor]) -> torch.Tensor:
    total = torch.zeros((), dtype=torch.get_default_dtype())
    for i, t in enumerate(outputs):
        if t.requires_grad:
            weights = torch.randn(t.shape, generator=torch.Generator().manual_seed(i))
            total = total + (torch.view_as_real(t).sum(-1) if t.is_complex() else t).mul(weights).sum()
    return total


def step(call: Program, inputs: list[Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Numbers; and facts."""
    torch.manual_seed(5)
    leaves = leaves_of(inputs)
    result = call(*inputs)
    outputs = list(result) if isinstance(result, list | tuple) else [result]
    loss = loss_of(outputs)
    if loss.requires_grad:
        loss.backward()
    known = state_of(inputs) + outputs
    found = {
        "outputs": [t.detach().clone() for t in outputs],
        "gradients": [x.grad for x in leaves if x.grad is not None],
        "state": [t.detach().clone() for t in state_of(inputs)],
    }
    facts = {
        "have a gradient": [x.grad is not None for x in leaves],
        "strides": [t.stride() for t in outputs],
        "history": [(t.requires_grad, t.is_leaf) for t in outputs],
        "memory": [[same_memory(t, x) for x in known] for t in outputs],
        "objects": [[t is x for x in known] for t in outputs],
        "next number": torch.rand(1).item(),
    }
    return found, facts


def same_memory(a: torch.Tensor, b: torch.Tensor) -> bool:
    return bool(a.numel()) and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def wide(x: Any) -> Any:
    if isinstance(x, nn.Module):
        return copy.deepcopy(x).double()
    if not x.is_floating_point():
        return x
    y = x.detach().double().requires_grad_(x.requires_grad)
    if x.is_leaf:
        return y
    z = y * 1
    z.leaf = y
    return z


@pytest.mark.parametrize("name", PROGRAMS)
def test_program(name: str):
    function, makes = PROGRAMS[name]
    fixed = [x if isinstance(x, nn.Module) else None for x in (make() for make in makes)]
    plains = copy.deepcopy(fixed)
    compiled = vesta.compile(function) if name in NOT_WHOLE else strictly(function)
    for _ in range(2):
        inputs = [m or make() for m, make in zip(plains, makes, strict=True)]
        wide_inputs = [wide(x) for x in inputs]
        eager, eager_facts = step(function, inputs)
        ours, facts = step(compiled, [m or make() for m, make in zip(fixed, makes, strict=True)])
        assert facts == eager_facts

        def reference(wide_inputs: list[Any] = wide_inputs) -> Any:
            with widened():
                return step(function, wide_inputs)[0]

        check(ours, eager, reference, strides=False)
        for m, plain in zip(fixed, plains, strict=True):
            if m is not None:
                m.load_state_dict(plain.state_dict())
                m.zero_grad(set_to_none=True)
                plain.zero_grad(set_to_none=True)


# ---- what runs eager ------------------------------------------------------------------------------------------------


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 5


def hooked(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.register_hook(lambda g: g * 3)
    return y.sin()


def retained(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    z = y.sin()
    y.retain_grad()
    return z


def leaf_inside(x: torch.Tensor) -> torch.Tensor:
    y = torch.zeros(3, 4, requires_grad=True)
    return x * y


def backward_inside(x: torch.Tensor) -> torch.Tensor:
    y = (x * x).sum()
    return torch.autograd.grad(y, x)[0]


def checkpointed(x: torch.Tensor) -> torch.Tensor:
    return torch.utils.checkpoint.checkpoint(lambda t: t.sin().sin(), x, use_reentrant=False)


def inference_inside(x: torch.Tensor) -> torch.Tensor:
    with torch.inference_mode():
        return x * 2


def outcome(function: Program) -> Any:
    """What a call gives, its gradient, and what it leaves; or the error that eager raises."""
    torch.manual_seed(5)
    x = numbers(3, 4)()
    try:
        y = function(x)
        if y.requires_grad:
            y.sum().backward()
    except RuntimeError as error:
        return [str(error)[:60]], [x.grad, x.detach()]
    return [], [y.detach(), x.grad, x.detach()]


@pytest.mark.parametrize(
    "function",
    [
        lambda x: Doubled.apply(x) * 3,
        hooked,
        retained,
        leaf_inside,
        backward_inside,
        checkpointed,
        inference_inside,
        lambda x: x.add_(1),
        lambda x: x.bernoulli(0.5) * x,
        lambda x: F.multilabel_margin_loss(x, torch.tensor([[1, -1, 0, 2]] * 3)),
    ],
)
def test_what_may_run_eager_is_eagers(function: Program):
    compiled = vesta.compile(function)
    for _ in range(2):
        (error, found), (eagers_error, expected) = outcome(compiled), outcome(function)
        assert error == eagers_error
        torch.testing.assert_close(found, expected)


def test_an_input_of_the_second_graph_that_goes():
    """The print is the only break."""

    def function(x):
        y = x * 2
        print(end="")
        y += x.sum()  # an input of the second program
        y = y.exp()
        return y

    compiled = vesta.compile(function)
    x = numbers(3, 4)()
    for _ in range(2):
        torch.testing.assert_close(compiled(x), function(x))
    (captured,) = vesta.explain(compiled).explanation.captures
    assert [b.name for b in captured.breaks] == ["print"]


def test_a_custom_function_without_gradients_is_no_matter():
    x = numbers(3, 4)()

    def f(x: torch.Tensor) -> torch.Tensor:
        return Doubled.apply(x.detach()) + x

    torch.testing.assert_close(strictly(f)(x), f(x))


def test_a_buffer_that_begins_to_require_a_gradient():
    found = []
    for through in (vesta.compile, lambda f: f):
        buffer, x = torch.zeros(3, 4), numbers(3, 4)()
        through(lambda x, buffer=buffer: buffer.add_(x.sin()))(x)
        buffer.sum().backward()
        found.append((buffer.detach(), x.grad))
    torch.testing.assert_close(*found)


# ---- how people train -----------------------------------------------------------------------------------------------


def test_training_loop():
    def make() -> nn.Module:
        torch.manual_seed(1)
        return nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Dropout(0.2), nn.ReLU(), nn.Linear(16, 3))

    x, target = numbers(10, 8, grad=False)(), indices(3, 10)()
    losses = []
    for compiled in (False, True):
        model = make()
        call = strictly(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.05)
        torch.manual_seed(2)
        history = []
        for _ in range(6):
            optimizer.zero_grad()
            loss = F.cross_entropy(call(x), target)
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        losses.append(history)
    torch.testing.assert_close(losses[0], losses[1])


def test_a_graph_kept_for_a_second_backward():
    x, plain = numbers(3, 4)(), numbers(3, 4)()
    for t, f in ((x, strictly(torch.exp)), (plain, torch.exp)):
        y = f(t)
        y.sum().backward(retain_graph=True)
        (y * y).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)


def test_results_on_one_memory_are_written():
    """Eager decides which result is a view of the other, and autograd refuses some writes to views."""

    def view_first(x):
        y = x * 2
        return y.view(-1), y

    def detached_first(x):
        y = x * 2
        return y.detach(), y

    for f in (view_first, detached_first):
        compiled = strictly(f)
        for written in (0, 1):
            seen = []
            for g in (f, compiled, compiled):
                x = torch.arange(4.0, requires_grad=True)
                results = g(x)
                results[written].mul_(3)
                results[1].square().sum().backward()
                seen.append((*(r.tolist() for r in results), x.grad.tolist()))
            assert seen[0] == seen[1] == seen[2]


def test_one_tensor_given_twice():
    x, plain = numbers(3, 4)(), numbers(3, 4)()
    compiled = strictly(lambda a, b: (a * b.sin(), b))
    y, same = compiled(x, x)
    assert same is x
    y.sum().backward()
    (plain * plain.sin()).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)
    (compiled(x, x)[0]).sum().backward()
    torch.testing.assert_close(x.grad, 2 * plain.grad)


def test_symbolic_sizes():
    layer = nn.Linear(8, 6)

    def f(x: torch.Tensor, y: torch.Tensor, n: int) -> tuple[torch.Tensor, int, torch.Tensor]:
        z = torch.cat([layer(x), y[:, :6]])
        return z.view(-1, 2, 3).sum(0) * z.shape[0], z.shape[0] + n, F.softmax(z[:n], -1)

    compiled = strictly(f, dynamic=True)
    for a, b, n in ((4, 5, 3), (7, 5, 2), (9, 9, 4), (4, 5, 3), (30, 6, 5)):
        inputs = [numbers(a, 8)(), numbers(b, 8, seed=1)()]
        plains = [numbers(a, 8)(), numbers(b, 8, seed=1)()]
        results = []
        for call, tensors in ((compiled, inputs), (f, plains)):
            layer.zero_grad()
            out, rows, parts = call(*tensors, n)
            ((out.sum() + (parts * parts).sum()) / rows).backward()
            results.append([out, parts, *(t.grad for t in tensors), layer.weight.grad])
            assert rows == a + b + n
        torch.testing.assert_close(*results)
    (captured,) = vesta.explain(compiled).explanation.captures
    assert len(captured.graphs) == 2  # an int is a constant until it changes


def test_called_under_autocast():
    def f(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        with torch.autocast("cpu", enabled=False):
            exact = x @ x.t()
        return exact, x @ x.t()

    results = []
    for call in (strictly(f), f):
        x = numbers(3, 4)()
        with torch.autocast("cpu", dtype=torch.bfloat16):
            exact, rounded = call(x)
        (exact.sum() + rounded.float().sum()).backward()
        results.append([exact, rounded, x.grad])
    torch.testing.assert_close(*results)


def test_hooks_of_parameters_fire():
    layer = nn.Linear(4, 4)
    seen = []
    layer.weight.register_hook(lambda g: seen.append(g.clone()))
    strictly(layer)(numbers(3, 4)()).sum().backward()
    torch.testing.assert_close(seen, [layer.weight.grad])


MODELS = (
    "resnet_small mobilenetv3_small convnext_small llama gpt2 bert vit lstm cells transformer unet denoiser graph_net"
)


@pytest.mark.parametrize("name", MODELS.split())
def test_model(name: str):
    for verdict in run([Case(name, "training", "capture")]):
        assert not verdict.failure, verdict.failure


@pytest.mark.parametrize("mode", ["steps", "autocast"])
def test_a_models_modes(mode: str):
    for verdict in run([Case("denoiser", mode, "capture")]):
        assert not verdict.failure, verdict.failure


def test_hooks_on_what_is_saved_get_the_compiled_programs():
    seen: list[torch.Size] = []

    def pack(t: torch.Tensor) -> torch.Tensor:
        seen.append(t.shape)
        return t * 1

    def f(x: torch.Tensor) -> torch.Tensor:
        return (x.sin() * x.cos()).exp()

    compiled = strictly(f)
    x, plain = numbers(3, 4)(), numbers(3, 4)()
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda t: t):
        y = compiled(x)
    assert seen and all(type(shape) is torch.Size for shape in seen)
    y.sum().backward()
    f(plain).sum().backward()
    torch.testing.assert_close(x.grad, plain.grad)


def test_explain_shows_the_backward_half():
    model = nn.Sequential(nn.Linear(8, 32), nn.GELU(), nn.Dropout(0.5), nn.Linear(32, 4))
    compiled = vesta.compile(model)
    loss = compiled(numbers(6, 8)()).square().mean()
    assert "backward: has not run yet; saves" in str(vesta.explain(compiled))
    loss.backward()
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert graph.trains and len(graph.backward) == 1 and 0 < graph.saved_bytes <= graph.eager_saved_bytes
    assert "into ATen; saves" in str(vesta.explain(compiled))
