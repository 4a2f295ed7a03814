"""Hooks and parametrizations of modules."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn.utils import parametrize

from tests.capture.case import maker, t


def linear() -> nn.Linear:
    torch.manual_seed(11)
    return nn.Linear(3, 3)


@maker(lambda: (t(2, 3),))
def forward_hook():
    net = linear()
    net.register_forward_hook(lambda module, args, out: out * 2 + args[0])
    return net


@maker(lambda: (t(2, 3),))
def forward_hook_with_side_effect():
    net = nn.Sequential(linear(), nn.ReLU())
    seen = []
    for layer in net:
        layer.register_forward_hook(lambda module, args, out: seen.append((type(module).__name__, out)))

    def f(x):
        return net(x), len(seen)

    return f


@maker(lambda: (t(2, 3),))
def forward_pre_hook():
    net = linear()
    net.register_forward_pre_hook(lambda module, args: args[0] + 1)
    net.register_forward_pre_hook(lambda module, args: (args[0] * 2,), prepend=True)
    return net


@maker(lambda: (t(2, 3),))
def hooks_with_keywords():
    class Net(nn.Module):
        def forward(self, x, scale=1.0):
            return x * scale

    def before(module, args, keywords):
        return args, {**keywords, "scale": keywords.get("scale", 1.0) + 1}

    net = Net()
    net.register_forward_pre_hook(before, with_kwargs=True)
    net.register_forward_hook(lambda module, args, keywords, out: out + keywords["scale"], with_kwargs=True)
    return lambda x: (net(x), net(x, scale=3.0))


@maker(lambda: (t(2, 3),))
def always_called_hook():
    class Net(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    net = Net()
    seen = []
    net.register_forward_hook(lambda module, args, out: seen.append(out), always_call=True)

    def f(x):
        try:
            return net(x)
        except ValueError as error:
            return str(error), list(seen)

    return f


@maker(lambda: (t(2, 3),))
def hook_registered_and_removed_inside():
    net = linear()

    def f(x):
        kept = {}
        handle = net.register_forward_hook(lambda module, args, out: kept.update(out=out))
        try:
            y = net(x)
        finally:
            handle.remove()
        return y, kept, len(net._forward_hooks)

    return f


@maker(lambda: (t(2, 3),))
def hook_that_raises():
    net = linear()

    def hook(module, args, out):
        raise RuntimeError("from the hook")

    net.register_forward_hook(hook)
    return net


@maker(lambda: (t(2, 3),), drive=lambda f, x: (f(x).sum().backward(), f.weight.grad.clone(), f.zero_grad())[1])
def full_backward_hook():
    net = linear()
    net.seen = []
    net.register_full_backward_hook(lambda module, ins, outs: net.seen.append((len(ins), outs[0].shape)))
    return net


@maker(lambda: (t(2, 3),))
def weight_norm():
    return nn.utils.parametrizations.weight_norm(linear())


@maker(lambda: (t(2, 3),))
def old_weight_norm():
    return nn.utils.weight_norm(linear())


@maker(lambda: (t(2, 3),))
def spectral_norm_train():
    return nn.utils.parametrizations.spectral_norm(linear()).train()


@maker(lambda: (t(2, 3),))
def spectral_norm_eval():
    return nn.utils.parametrizations.spectral_norm(linear()).eval()


@maker(lambda: (t(2, 3),))
def old_spectral_norm():
    return nn.utils.spectral_norm(linear()).train()


@maker(lambda: (t(2, 3),))
def orthogonal():
    return nn.utils.parametrizations.orthogonal(linear())


@maker(lambda: (t(2, 3),))
def own_parametrization():
    class Symmetric(nn.Module):
        def forward(self, w):
            return w.triu() + w.triu(1).T

    class Scaled(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.tensor(2.0))

        def forward(self, w):
            return w * self.scale

    net = linear()
    parametrize.register_parametrization(net, "weight", Symmetric())
    parametrize.register_parametrization(net, "weight", Scaled())
    return net


@maker(lambda: (t(2, 3),))
def parametrization_cached():
    class Counted(nn.Module):
        calls = 0

        def forward(self, w):
            Counted.calls += 1
            return w * 2

    net = linear()
    parametrize.register_parametrization(net, "weight", Counted())

    def f(x):
        before = Counted.calls
        with parametrize.cached():
            y = net(net(x))
        return y, net(x), Counted.calls - before

    return f


@maker(lambda: (t(2, 3),))
def pruned():
    from torch.nn.utils import prune

    net = linear()
    prune.custom_from_mask(net, "weight", torch.eye(3))
    return net


@maker(lambda: (t(2, 3),))
def tensor_hook():
    weight = torch.ones(3, requires_grad=True)

    def f(x):
        y = x * weight
        seen = []
        y.register_hook(lambda gradient: gradient * 2)
        z = y.sum()
        z.backward()
        gradient = weight.grad
        weight.grad = None
        return z, gradient, seen

    return f


@maker(lambda: (t(2, 3),))
def state_dict_hooks():
    net = linear()
    net._register_state_dict_hook(lambda module, state, prefix, meta: state.update(extra=torch.ones(1)))

    def f(x):
        return net(x), list(net.state_dict())

    return f


@maker(lambda: (t(2, 3),))
def functional_call():
    net = linear()

    def f(x):
        weights = {name: value * 2 for name, value in net.named_parameters()}
        return torch.func.functional_call(net, weights, (x,)), net(x)

    return f
