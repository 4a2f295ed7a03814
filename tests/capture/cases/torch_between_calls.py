"""Changes of a model between the calls of its compiled form."""

from __future__ import annotations

import copy
import io
import pickle

import torch
from torch import nn

from tests.capture.case import case, maker, t


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.norm = nn.BatchNorm1d(3)
        self.scale = 2.0

    def forward(self, x):
        return torch.relu(self.norm(self.linear(x))) * self.scale


def net():
    torch.manual_seed(4)
    return Net().eval()


def loaded(f, x):
    before = f(x)
    f.load_state_dict({name: value + 1 for name, value in f.state_dict().items()})
    return before, f(x), list(f.state_dict())


maker(lambda: (t(2, 3),), drive=loaded)(net)


def with_drive(drive):
    def add(function):
        def make():
            return net()

        make.__name__ = function.__name__
        return maker(lambda: (t(2, 3),), drive=drive)(make)

    return add


def _weights_written(f, x):
    out = [f(x)]
    with torch.no_grad():
        f.linear.weight.mul_(2)
        out.append(f(x))
        f.linear.bias.data = torch.ones(3)
        out.append(f(x))
        f.norm.running_mean.fill_(1)
        out.append(f(x))
        for p in f.parameters():
            p.data.add_(0.5)
        out.append(f(x))
    return out


@with_drive(_weights_written)
def weights_written(): ...


def _dtype_changed(f, x):
    before = f(x)
    f.to(torch.float64)
    after = f(x.double())
    f.half().float()
    return before, after, f(x), next(f.parameters()).dtype


@with_drive(_dtype_changed)
def dtype_changed(): ...


def _trained_and_evaluated(f, x):
    out = [f(x), f.training]
    f.train()
    out += [f(x), f.training, f.norm.running_mean.clone()]
    f.eval()
    return [*out, f(x), f.norm.num_batches_tracked.clone()]


@with_drive(_trained_and_evaluated)
def trained_and_evaluated(): ...


def _attribute_written(f, x):
    out = [f(x)]
    f.scale = 3.0
    out += [f(x), f.scale]
    f.linear = nn.Identity()
    out.append(f(x))
    f.extra = "kept"
    return [*out, f.extra, hasattr(f, "nothing"), sorted(n for n, _ in f.named_children())]


@with_drive(_attribute_written)
def attribute_written(): ...


def _low_rank_swap(f, x):
    plain = f(x)
    kept = f.linear.weight.data
    a, b = torch.ones(3, 1), torch.arange(3.0)[None]
    f.linear.weight.data = kept + a @ b
    merged = f(x)
    f.linear.weight.data = kept
    return plain, merged, f(x)


@with_drive(_low_rank_swap)
def low_rank_swap(): ...


def _copied(f, x):
    second = copy.deepcopy(f)
    with torch.no_grad():
        second.linear.weight.zero_()
    return f(x), second(x), f(x), isinstance(second, Net)


@with_drive(_copied)
def copied(): ...


def _saved(f, x):
    file = io.BytesIO()
    torch.save(f.state_dict(), file)
    file.seek(0)
    f.load_state_dict(torch.load(file))
    return f(x), [p.shape for p in f.parameters()], isinstance(f, nn.Module), isinstance(f, Net)


@with_drive(_saved)
def saved(): ...


def _hooked(f, x):
    out = [f(x)]
    handle = f.register_forward_hook(lambda module, args, result: result + 1)
    out.append(f(x))
    inner = f.linear.register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    out.append(f(x))
    handle.remove()
    inner.remove()
    return [*out, f(x)]


@with_drive(_hooked)
def hooked(): ...


def _frozen(f, x):
    a = f(x)
    f.requires_grad_(False)
    b = f(x)
    f.linear.requires_grad_(True)
    c = f(x)
    return a.requires_grad, b.requires_grad, c.requires_grad, a, b, c


@with_drive(_frozen)
def frozen(): ...


def _applied(f, x):
    f.apply(lambda module: nn.init.constant_(module.weight, 0.1) if isinstance(module, nn.Linear) else None)
    f.zero_grad()
    return f(x), f.get_parameter("linear.weight").sum(), f.get_submodule("norm").training, str(f) == str(f)


@with_drive(_applied)
def applied(): ...


def _children(f, x):
    return f.linear(x), f.norm(f.linear(x)), f.forward(x), f(x)


@with_drive(_children)
def parts_called_alone(): ...


def _sizes(f, x):
    return [f(x.repeat(n, 1)).sum(0) for n in (1, 2, 3, 4, 1)], f(x.new_zeros(0, 3))


@with_drive(_sizes)
def many_batch_sizes(): ...


def _pickled(f, x):
    return f(x), pickle.loads(pickle.dumps(f.state_dict()))["linear.bias"]


@with_drive(_pickled)
def state_pickled(): ...


@case(lambda: (t(2, 3),), drive=lambda f, x: f(f(f(x))))
def fed_with_its_result(x):
    return x * 2 + 1


@case(lambda: (t(2, 3),), drive=lambda f, x: [f(x), f(x + 1), f(x + 2), f(x)])
def results_kept(x):
    return x * 2, x.sum()


@case(lambda: (t(2, 3),), drive=lambda f, x: (f(x).add_(1), f(x)))
def result_written(x):
    return x * 2 + torch.ones(3)


@case(
    lambda: (t(2, 3),),
    drive=lambda f, x: (f.__name__, f.__doc__, f.__wrapped__(x) if hasattr(f, "__wrapped__") else f(x)),
)
def with_a_docstring(x):
    """Said here."""
    return x + 1


@case(lambda: (2,), lambda: (3,), lambda: (4,), drive=lambda f, n: [f(t(2), k) for k in range(n)])
def many_integers(x, n):
    return x * n + n
