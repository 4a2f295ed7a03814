"""Changes that the guard cache could miss: each comes after calls that repeated a successful check."""

from __future__ import annotations

import collections
import copy

import torch
from torch import nn

from tests.capture.guard_rows import Runner, row

X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)


def _repeat(runner: Runner, f, *arguments) -> None:
    runner.call(f, *arguments)
    for _ in range(3):
        runner.hit(f, *arguments)


class Layer:
    """Like a layer of a key-value cache: no module, in a list of an object that is an argument."""

    def __init__(self, scale: float) -> None:
        self.scale = scale
        self.keys = torch.zeros(4, 3)
        self.values = torch.zeros(4, 3)

    def update(self, x):
        self.keys.index_copy_(0, torch.tensor([1]), x[:1])
        self.values.index_copy_(0, torch.tensor([2]), x[:1])
        return self.keys.sum() * self.scale + self.values.sum()


class Cache:
    def __init__(self) -> None:
        self.layers = [Layer(i + 1.0) for i in range(6)]


def _cached(runner: Runner):
    @runner.compile
    def f(x, *parts, **named):
        for layer in named["cache"].layers:
            x = x + layer.update(x)
        return x

    return f


@row
def cache_in_keywords(runner: Runner) -> None:
    f, cache = _cached(runner), Cache()
    runner.call(f, X, cache=cache)
    for _ in range(3):
        runner.hit(f, X, cache=cache)
    for layer in cache.layers:
        runner.see(layer.keys, layer.values)
    cache.layers[3].scale = 7.0
    runner.call(f, X, cache=cache)
    cache.layers[4] = Layer(5.0)
    runner.hit(f, X, cache=cache)
    runner.see(cache.layers[4].keys)
    del cache.layers[5]
    runner.call(f, X, cache=cache)
    cache.layers.append(Layer(9.0))
    runner.call(f, X, cache=cache)
    cache.layers[0], cache.layers[1] = cache.layers[1], cache.layers[0]
    runner.call(f, X, cache=cache)
    cache.layers = [Layer(i + 2.0) for i in range(3)]
    runner.call(f, X, cache=cache)
    runner.call(f, X, cache=copy.deepcopy(cache))


@row
def caches_that_come_to_overlap(runner: Runner) -> None:
    f, cache = _cached(runner), Cache()
    runner.call(f, X, cache=cache)
    for _ in range(3):
        runner.hit(f, X, cache=cache)
    cache.layers[2].keys = cache.layers[1].keys  # one tensor for two
    runner.call(f, X, cache=cache)
    cache.layers[2].keys = cache.layers[1].keys.view(4, 3)  # one memory
    runner.call(f, X, cache=cache)
    cache.layers[2].keys = torch.zeros(4, 3)
    runner.call(f, X, cache=cache)
    both = torch.zeros(8, 3)
    cache.layers[0].keys.set_(both.untyped_storage(), 0, (4, 3), (3, 1))
    cache.layers[0].values.set_(both.untyped_storage(), 12, (4, 3), (3, 1))  # next to it
    runner.call(f, X, cache=cache)
    runner.hit(f, X, cache=cache)
    cache.layers[0].values.set_(both.untyped_storage(), 9, (4, 3), (3, 1))  # a row of both
    runner.call(f, X, cache=cache)
    runner.see(both)
    runner.call(f, cache.layers[3].keys[:2], cache=cache)  # what is read is what is written
    runner.see(cache.layers[3].keys)
    for layer in cache.layers:
        layer.keys.data = layer.values.detach()
    runner.call(f, X, cache=cache)


class Weight(nn.Parameter):
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        result = super().__torch_function__(func, types, args, kwargs or {})
        return result * 2 if func is torch.mul else result


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(3.0))
        self.factor = 2.0

    def forward(self, x):
        return torch.mul(x, self.weight) * self.factor


def _deep() -> nn.Sequential:
    return nn.Sequential(*[nn.Sequential(Scaled(), nn.Tanh()) for _ in range(4)])


@row
def class_of_a_parameter(runner: Runner) -> None:
    net = _deep()
    f = runner.compile(net)
    with torch.no_grad():
        _repeat(runner, f, X)
        net[2][0].weight.__class__ = Weight
        runner.call(f, X)
        net[2][0].weight.__class__ = nn.Parameter
        runner.call(f, X)


@row
def class_of_a_module(runner: Runner) -> None:
    class Other(Scaled):
        def forward(self, x):
            return super().forward(x) - 1

    net = _deep()
    f = runner.compile(net)
    _repeat(runner, f, X)
    net[3][0].__class__ = Other
    runner.call(f, X)
    net[3][0].__class__ = Scaled
    runner.call(f, X)


@row
def parts_of_a_deep_module(runner: Runner) -> None:
    net = _deep()
    f = runner.compile(net)
    with torch.no_grad():
        _repeat(runner, f, X)
        net[1][0].factor = 3.0
        runner.call(f, X)
        net[1][0].weight = nn.Parameter(torch.ones(3, dtype=torch.float64))
        runner.call(f, X)
        net[1][0].weight.data = torch.ones(1)
        runner.call(f, X)
        net[1][0].weight.requires_grad_(False)
        runner.call(f, X)
    runner.call(f, X)
    net[2][0].weight.requires_grad_(False)
    runner.call(f, X)
    hook = net[2][1].register_forward_hook(lambda module, args, out: out + 1)
    runner.call(f, X)
    hook.remove()
    runner.call(f, X)
    before = net[0].register_forward_pre_hook(lambda module, args: (args[0] * 2,))
    runner.call(f, X)
    before.remove()
    net[3][0].forward = lambda x: x
    runner.call(f, X)
    del net[3][0].forward
    net.append(nn.ReLU())
    runner.call(f, X)


class Switched(Scaled):
    def forward(self, x):
        return x + super().forward(x) / (4 if self.training else 8)


@row
def one_weight_of_many(runner: Runner) -> None:
    net = nn.Sequential(*[nn.Sequential(Switched(), nn.Identity()) for _ in range(16)]).eval()
    f, one = runner.compile(net), net[9][0]
    with torch.no_grad():
        _repeat(runner, f, X)
        one.weight.data = torch.full((3,), 2.0)
        runner.hit(f, X)
        one.weight = nn.Parameter(torch.full((3,), 0.5))
        runner.hit(f, X)
        _repeat(runner, f, X + 1)
        one.weight.set_(torch.full((3,), 0.75))
        runner.hit(f, X)
        one.weight.set_(torch.arange(8.0)[2:].untyped_storage(), 2, (3,), (2,))
        runner.call(f, X)
        one.weight = nn.Parameter(torch.full((3,), 1.0), requires_grad=False)
        _repeat(runner, f, X)
        one.weight.resize_(1)
        runner.call(f, X)
        one.weight.resize_(3).fill_(0.25)
        runner.hit(f, X)
        one.weight.set_(torch.full((3,), 1.25))
        _repeat(runner, f, X)
        one._parameters["weight"] = nn.Parameter(torch.full((3,), 1.5))
        runner.hit(f, X)
        one._parameters = {"weight": nn.Parameter(torch.full((3,), 1.75))}
        runner.call(f, X)
        _repeat(runner, f, X)
        one.__dict__ = dict(one.__dict__, factor=3.0)
        runner.call(f, X)
        _repeat(runner, f, X)
        net.train()
        runner.call(f, X)
        net.eval()
        runner.hit(f, X)
        net[12][1].register_forward_hook(lambda module, args, out: out * 2)
        runner.call(f, X)
        net[14] = nn.Identity()
        runner.call(f, X)
    _repeat(runner, f, X)
    one.weight.requires_grad_(False)
    runner.call(f, X)


class WithWeakReferences:
    __slots__ = ("__weakref__",)


class WithDictAlone(WithWeakReferences):
    """Its class has the interpreter's other definition of `__dict__`: the one without weak references."""

    def __init__(self, scale: float) -> None:
        self.scale = scale


class WithBoth:
    def __init__(self, scale: float) -> None:
        self.scale = scale


class Negative(WithBoth):
    @property
    def sign(self) -> float:
        return -1.0


class NegativeDictAlone(WithDictAlone):
    @property
    def sign(self) -> float:
        return -1.0


WithBoth.sign = WithDictAlone.sign = 1.0


@row
def classes_and_dicts_of_parts(runner: Runner) -> None:
    """The function reads so many dicts that Vesta has CPython watch them. It then compares the classes and dicts of
    objects only after some object got another class or dict."""
    parts = {f"p{i}": (WithBoth if i % 2 else WithDictAlone)(1.0 + i / 8) for i in range(40)}

    @runner.compile
    def f(x):
        for part in parts.values():
            x = x + part.scale * part.sign
        return x

    _repeat(runner, f, X)
    WithBoth(1.0).__dict__ = {}  # objects of others
    WithBoth(1.0).__class__ = Negative
    _repeat(runner, f, X)
    for name, negative in (("p7", Negative), ("p8", NegativeDictAlone)):
        part, kind = parts[name], type(parts[name])
        held = part.__dict__
        part.__dict__ = {"scale": 9.0}
        runner.call(f, X)
        _repeat(runner, f, X)
        held["scale"] = 10.0
        runner.hit(f, X)
        part.__dict__ = held
        runner.call(f, X)
        _repeat(runner, f, X)
        part.__class__ = negative
        runner.call(f, X)
        _repeat(runner, f, X)
        object.__setattr__(part, "__class__", kind)
        runner.call(f, X)
        kind.__dict__["__dict__"].__set__(part, {"scale": 2.0})
        runner.call(f, X)
        del part.__dict__
        part.scale = 3.0
        runner.call(f, X)


@row
def order_of_an_ordered_dict(runner: Runner) -> None:
    class Holder:
        def __init__(self) -> None:
            self.steps = collections.OrderedDict(a=1.0, b=2.0, c=3.0)
            self.others = collections.OrderedDict()

    @runner.compile
    def f(x, holder):
        for name, step in holder.steps.items():
            x = x * step + (1 if name == "a" else 2)
        return x + len(holder.others)

    holder = Holder()
    _repeat(runner, f, X, holder)
    holder.steps.move_to_end("a")
    runner.call(f, X, holder)
    holder.steps["b"] = 5.0
    runner.call(f, X, holder)
    holder.others["a"] = 1
    runner.call(f, X, holder)
    holder.others.clear()
    runner.call(f, X, holder)


@row
def parts_of_functions(runner: Runner) -> None:
    def make(scale):
        def inner(x, shift=1.0, *, power=2):
            return x * scale + shift**power

        return inner

    class Holder:
        __slots__ = ("__weakref__", "function", "number")

        def __init__(self) -> None:
            self.function, self.number = make(2.0), 3.0

    holder = Holder()

    @runner.compile
    def f(x):
        return holder.function(x) * holder.number

    _repeat(runner, f, X)
    holder.number = 4.0
    runner.call(f, X)
    holder.function.__closure__[0].cell_contents = 5.0
    runner.call(f, X)
    holder.function.__defaults__ = (6.0,)
    runner.call(f, X)
    holder.function.__kwdefaults__["power"] = 3
    runner.call(f, X)
    holder.function.__kwdefaults__ = {"power": 1}
    runner.call(f, X)
    holder.function.__code__ = make(1.0).__code__.replace(co_name="other")
    runner.call(f, X)
    for scale in (1000, 2000, 3000):  # perhaps where the last one was
        holder.function = None
        holder.function = make(scale)
        runner.call(f, X)
    holder = Holder()
    holder.number = 11.0
    runner.call(f, X)


@row
def another_tensor_in_each_call(runner: Runner) -> None:
    net = _deep()

    @runner.compile
    def f(x):
        return net(x.view(3, 2).t().contiguous())

    for n in range(4):
        runner.call(f, X + n)
    for n in range(4):
        runner.hit(f, X - n)
    mine = X.clone()
    mine.view = lambda *sizes: torch.ones(3, 2)
    runner.call(f, mine)
    net[0][0].factor = 3.0
    runner.call(f, X)


@row
def an_argument_that_becomes_the_written_list(runner: Runner) -> None:
    """The check is remembered, and each call passes another list; then the list that the program writes."""

    class Holder:
        def __init__(self) -> None:
            self.a, self.b, self.c, self.d, self.items = 2.0, 3.0, 4.0, 5.0, [1.0]

    holder = Holder()

    @runner.compile
    def f(x, other, third):
        holder.items[0] = 2.0
        return x * holder.a + holder.b * holder.c + holder.d + other[0], third[0]

    def call(other: list[float] | None, third: list[float] | None) -> None:
        holder.items[0] = 1.0
        runner.call(f, X, holder.items if other is None else other, holder.items if third is None else third)

    for _ in range(3):
        for _ in range(4):
            call([1.0], [1.0])
        call(None, [1.0])
        for _ in range(4):
            call([1.0], [1.0])
        call([1.0], None)
        for _ in range(4):
            call([1.0], [1.0])
        holder.items = moved = [1.0]
        call(moved, [1.0])
    holder.items[0] = 1.0
    runner.hit(f, X, [1.0], [1.0])
