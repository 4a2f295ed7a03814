"""State of modules."""

from __future__ import annotations

import copy

import torch
from torch import nn

from tests.capture.guard_rows import Runner, row

X = torch.linspace(-2.0, 3.0, 12).reshape(4, 3)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 4)
        self.second = nn.Linear(4, 3)
        self.register_buffer("shift", torch.arange(3.0))
        self.scale = 2.0
        self.layers = nn.ModuleList([nn.Tanh(), nn.ReLU()])

    def forward(self, x):
        x = self.second(torch.relu(self.first(x)))
        for layer in self.layers:
            x = layer(x)
        return x * self.scale + self.shift


def _net() -> Net:
    torch.manual_seed(3)
    return Net().eval()


@row
def training(runner: Runner) -> None:
    net = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Dropout(1.0))
    f = runner.compile(net)
    for mode in (True, False, True, False):
        net.train(mode)
        runner.call(f, X)
    runner.see(net[1].running_mean, net[1].num_batches_tracked)
    net.eval()
    net[1].train()
    runner.call(f, X)
    net[1].eval()
    net[2].training = True
    runner.call(f, X)
    net[2].training = False
    runner.hit(f, X)


@row
def parameter_changed_in_place(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    with torch.no_grad():
        net.first.weight.mul_(2)
    runner.hit(f, X)
    net.second.bias.data.fill_(5)
    runner.hit(f, X)
    net.first.weight.data = torch.ones(4, 3)
    runner.hit(f, X)


@row
def parameter_replaced(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.first.weight = nn.Parameter(torch.ones(4, 3))
    runner.call(f, X)
    net.first.weight = nn.Parameter(torch.ones(4, 3, dtype=torch.float64))
    runner.call(f, X)
    net.first.weight = nn.Parameter(torch.full((4, 3), 2.0), requires_grad=False)
    runner.call(f, X)
    net.first._parameters["weight"] = nn.Parameter(torch.full((4, 3), 3.0))
    runner.call(f, X)
    net.first.bias = None
    runner.call(f, X)
    del net.first.weight
    runner.call(f, X)


@row
def parameter_replaced_by_an_equal_one(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    with torch.no_grad():
        runner.call(f, X)
        for step in range(3):
            net.first.weight = nn.Parameter(torch.full((4, 3), float(step)))
            runner.call(f, X)


@row
def load_state_dict(runner: Runner) -> None:
    net, other = _net(), Net().eval()
    f = runner.compile(net)
    runner.call(f, X)
    net.load_state_dict(other.state_dict())
    runner.hit(f, X)
    net.load_state_dict({k: v * 2 for k, v in other.state_dict().items()}, assign=True)
    runner.call(f, X)


@row
def buffer(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.shift.add_(1)
    runner.hit(f, X)
    net.shift = torch.arange(3.0) * 2
    runner.call(f, X)
    net.shift = torch.arange(3)
    runner.call(f, X)
    net._buffers["shift"] = torch.arange(3.0) * 5
    runner.call(f, X)


@row
def attribute(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    for value in (3.0, torch.tensor(2.0), 4, 2.0):
        net.scale = value
        runner.call(f, X)
    net.unread = 3
    runner.hit(f, X)


@row
def submodule_replaced(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.layers[0] = nn.Sigmoid()
    runner.call(f, X)
    net.layers.append(nn.Tanh())
    runner.call(f, X)
    del net.layers[0]
    runner.call(f, X)
    net.first = nn.Linear(3, 4, bias=False)
    runner.call(f, X)
    net._modules["second"] = nn.Sequential(nn.Linear(4, 3), nn.ReLU())
    runner.call(f, X)
    net.layers = nn.ModuleList()
    runner.call(f, X)


@row
def hooks(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    seen = []
    runner.call(f, X)
    handle = net.first.register_forward_hook(lambda module, args, out: out * 2)
    runner.call(f, X)
    before = net.register_forward_pre_hook(lambda module, args: (args[0] + 1,))
    runner.call(f, X)
    handle.remove()
    runner.call(f, X)
    handle = net.second.register_forward_hook(lambda module, args, out: seen.append(out.shape))
    runner.call(f, X)
    runner.call(f, X)
    runner.see(seen)
    handle.remove()
    before.remove()
    runner.call(f, X)


@row
def global_hook(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    handle = nn.modules.module.register_module_forward_hook(lambda module, args, out: out + 1)
    runner.on_exit(handle.remove)
    runner.call(f, X)
    handle.remove()
    runner.call(f, X)


@row
def backward_hook(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    seen = []

    def step():
        x = X.clone().requires_grad_()
        f(x).sum().backward()
        runner.see(x.grad, seen)

    step()
    handle = net.second.register_full_backward_hook(lambda module, ins, outs: seen.append(len(ins)))
    step()
    handle.remove()
    step()


@row
def forward_replaced_on_the_instance(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.first.forward = lambda x: x.repeat(1, 2)[:, :4]
    runner.call(f, X)
    del net.first.forward
    runner.call(f, X)
    old = net.forward
    net.forward = lambda x: old(x) * 2
    runner.call(f, X)


@row
def forward_replaced_on_the_class(runner: Runner) -> None:
    class Inner(nn.Module):
        def forward(self, x):
            return x * 2

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner(x) + 1

    f = runner.compile(Outer())
    runner.call(f, X)
    Inner.forward = lambda self, x: x * 3
    runner.call(f, X)
    Outer.forward = lambda self, x: self.inner(x) - 1
    runner.call(f, X)
    Inner.__call__ = lambda self, x: x * 100
    runner.call(f, X)


@row
def requires_grad_of_a_parameter(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.requires_grad_(False)
    runner.call(f, X)
    net.first.bias.requires_grad_()
    runner.call(f, X)
    net.first.bias.requires_grad_(False)
    runner.hit(f, X)


@row
def dtype(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    net.to(torch.float64)
    runner.call(f, X.double())
    runner.call(f, X)
    net.float()
    runner.call(f, X)
    net.bfloat16()
    runner.call(f, X.bfloat16())
    net.to("meta")
    runner.call(f, X.bfloat16().to("meta"))


@row
def tied_weights(runner: Runner) -> None:
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Parameter(torch.ones(3)), nn.Parameter(torch.ones(3) * 2)

        def forward(self, x):
            with torch.no_grad():
                self.a.mul_(2)
            return x * self.b

    net = Tied()
    f = runner.compile(net)
    runner.call(f, X)
    net.b = net.a
    runner.call(f, X)
    runner.call(f, X)
    net.b = nn.Parameter(torch.ones(3))
    runner.call(f, X)


@row
def counter(runner: Runner) -> None:
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.register_buffer("steps", torch.zeros((), dtype=torch.int64))

        def forward(self, x):
            self.calls += 1
            self.steps += 1
            return x * self.steps

    net = Counting()
    f = runner.compile(net)
    for _ in range(5):
        runner.call(f, X)
        runner.see(net.calls, net.steps)
    net.calls = 50
    runner.call(f, X)
    runner.see(net.calls)


@row
def swap_of_adapters(runner: Runner) -> None:
    class Adapter(nn.Module):
        def __init__(self, rank):
            super().__init__()
            self.down, self.up = nn.Linear(3, rank, bias=False), nn.Linear(rank, 3, bias=False)

        def forward(self, x):
            return self.up(self.down(x))

    class Adapted(nn.Module):
        def __init__(self):
            super().__init__()
            self.base = nn.Linear(3, 3)
            self.adapters = nn.ModuleDict({"a": Adapter(2), "b": Adapter(2), "wide": Adapter(4)})
            self.active: list[str] = []

        def forward(self, x):
            out = self.base(x)
            for name in self.active:
                out = out + self.adapters[name](x)
            return out

    torch.manual_seed(5)
    net = Adapted()
    f = runner.compile(net)
    for active in ([], ["a"], ["b"], ["a", "wide"], ["wide"], []):
        net.active = active
        runner.call(f, X)
    net.active = ["a"]
    runner.call(f, X)
    for weight in net.adapters["a"].parameters():
        weight.data = torch.ones_like(weight) * 0.5
    runner.hit(f, X)


@row
def copies(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    runner.call(f, X)
    copied = copy.deepcopy(net)
    with torch.no_grad():
        copied.first.weight.mul_(3)
    g = runner.compile(copied)
    runner.call(g, X)
    runner.call(f, X)
    copied.scale = 7.0
    runner.call(g, X)
    runner.hit(f, X)


@row
def one_function_of_many_modules(runner: Runner) -> None:
    nets = [nn.Linear(3, 3), nn.Linear(3, 3, bias=False), nn.Linear(3, 5), nn.Sequential(nn.ReLU()), nn.Identity()]

    @runner.compile
    def f(net, x):
        return net(x) * 2

    for net in (*nets, *nets):
        runner.call(f, net, X)


@row
def spectral_norm_removed(runner: Runner) -> None:
    torch.manual_seed(1)
    net = nn.utils.parametrizations.weight_norm(nn.Linear(3, 3))
    f = runner.compile(net)
    runner.call(f, X)
    net.parametrizations.weight.original0.data.mul_(2)
    runner.call(f, X)
    nn.utils.parametrize.remove_parametrizations(net, "weight")
    runner.call(f, X)
    with torch.no_grad():
        net.weight.mul_(2)
    runner.call(f, X)


@row
def plain_list_of_modules(runner: Runner) -> None:
    class Holder(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(3, 3), nn.Linear(3, 3)]

        def forward(self, x):
            for layer in self.hidden:
                x = layer(x)
            return x

    torch.manual_seed(2)
    net = Holder()
    f = runner.compile(net)
    runner.call(f, X)
    net.hidden[0].bias.data.add_(1)
    runner.call(f, X)
    net.hidden.pop()
    runner.call(f, X)
    net.hidden[0] = nn.Tanh()
    runner.call(f, X)


@row
def tensor_on_self(runner: Runner) -> None:
    class Caching(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = None

        def forward(self, x):
            if self.cache is None or self.cache.shape != x.shape:
                self.cache = torch.ones_like(x) * 2
            else:
                self.cache = self.cache + 1
            return x * self.cache

    net = Caching()
    f = runner.compile(net)
    for x in (X, X, X, X[:2], X[:2], X):
        runner.call(f, x)
        runner.see(net.cache)
    net.cache = None
    runner.call(f, X)
    net.cache = torch.zeros_like(X)
    runner.call(f, X)


@row
def optimizer_steps(runner: Runner) -> None:
    net = _net()
    f = runner.compile(net)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    for _ in range(4):
        optimizer.zero_grad()
        loss = f(X).square().mean()
        loss.backward()
        optimizer.step()
        runner.see(loss, net.first.weight)
