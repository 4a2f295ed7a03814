"""torch.nn: containers, buffers, counters, lazy attributes, shared parts."""

from __future__ import annotations

import copy
import functools

import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.case import case, maker, t


def seeded(make):
    @functools.wraps(make)
    def made():
        torch.manual_seed(7)
        return make()

    return made


@maker(lambda: (t(2, 3),), lambda: (t(5, 3),))
@seeded
def sequential():
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2), nn.Softmax(dim=-1)).eval()


@maker(lambda: (t(2, 3),))
@seeded
def sequential_sliced_and_indexed():
    layers = nn.Sequential(nn.Linear(3, 3), nn.Tanh(), nn.Linear(3, 3), nn.ReLU())

    def f(x):
        y = layers[:2](x)
        return y, layers[-1](layers[2](y)), len(layers)

    return f


@maker(lambda: (t(2, 3),))
@seeded
def sequential_of_an_ordered_dict():
    from collections import OrderedDict

    net = nn.Sequential(OrderedDict(first=nn.Linear(3, 4), act=nn.GELU(), last=nn.Linear(4, 3)))
    return lambda x: net(x) + net.first(x).sum() + net.last.bias


class Stack(nn.Module):
    def __init__(self, depth=3):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(3, 3) for _ in range(depth))
        self.scales = nn.ParameterList([nn.Parameter(torch.full((3,), float(i + 1))) for i in range(depth)])

    def forward(self, x):
        for i, (layer, scale) in enumerate(zip(self.layers, self.scales, strict=True)):
            x = layer(x).tanh() * scale + i
        return x


@maker(lambda: (t(2, 3),), lambda: (t(4, 3),))
@seeded
def module_list_and_parameter_list():
    return Stack()


@maker(lambda: (t(2, 3),))
@seeded
def module_list_ways():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList([nn.Linear(3, 3), nn.ReLU()])
            self.layers.append(nn.Linear(3, 3))
            self.layers.extend([nn.Tanh()])
            self.layers.insert(1, nn.Identity())

        def forward(self, x):
            for layer in reversed(self.layers):
                if isinstance(layer, nn.Linear):
                    x = layer(x)
            for i in range(len(self.layers)):
                x = self.layers[i](x)
            for layer in self.layers[1:3]:
                x = layer(x)
            return x, self.layers[-1](x), len(self.layers), self.layers[0] in self.layers

    return Net()


@maker(lambda: (t(2, 3), "b"), lambda: (t(2, 3), "a"), lambda: (t(2, 3), "missing"))
@seeded
def module_dict():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.parts = nn.ModuleDict({"a": nn.Linear(3, 3), "b": nn.Tanh()})
            self.parts["c"] = nn.Sigmoid()

        def forward(self, x, name):
            total = self.parts[name](x)
            for key, part in self.parts.items():
                total = total + part(x) * len(key)
            return total, list(self.parts), "c" in self.parts, len(self.parts.values())

    return Net()


@maker(lambda: (t(3),))
def parameter_dict():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weights = nn.ParameterDict({"a": nn.Parameter(torch.ones(3)), "b": nn.Parameter(torch.arange(3.0))})

        def forward(self, x):
            for name in self.weights:
                x = x + self.weights[name]
            for name, weight in self.weights.items():
                x = x * weight.detach() + len(name)
            return x * self.weights.a, list(self.weights.keys())

    return Net()


@maker(lambda: (t(2, 3),))
def batch_norm_train():
    return nn.BatchNorm1d(3).train()


@maker(lambda: (t(4, 3, 5),))
@seeded
def norms():
    net = nn.ModuleList([nn.BatchNorm1d(3), nn.GroupNorm(3, 3), nn.InstanceNorm1d(3), nn.LayerNorm(5), nn.RMSNorm(5)])

    def f(x):
        return [layer(x) for layer in net]

    return f


@maker(lambda: (t(50),), lambda: (t(20),))
def dropout_train():
    return nn.Dropout(0.5).train()


@maker(lambda: (t(2, 3), True), lambda: (t(2, 3), False))
def dropout_functional():
    return lambda x, training: F.dropout(x, 0.3, training) + F.dropout1d(x, 0.5, training)


@maker(lambda: (t(3),))
def counter_on_self():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.calls = 0
            self.log = []
            self.register_buffer("steps", torch.zeros((), dtype=torch.long))
            self.register_buffer("none", None)

        def forward(self, x):
            self.calls += 1
            self.log.append(self.calls)
            self.steps += 1
            if self.none is None:
                x = x + 1
            return x * self.steps + self.calls

    return Net()


@maker(lambda: (t(3),), lambda: (t(5),))
def lazily_made_attribute():
    class Net(nn.Module):
        def forward(self, x):
            if not hasattr(self, "table") or self.table.shape[0] != x.shape[0]:
                self.table = torch.arange(x.shape[0], dtype=x.dtype)
                self.made = getattr(self, "made", 0) + 1
            return x + self.table

    return Net()


@maker(lambda: (t(3),))
def tensor_cached_in_a_dict():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.cache = {}

        def forward(self, x):
            key = (x.shape[-1], x.dtype)
            if key not in self.cache:
                self.cache[key] = torch.ones(x.shape[-1]).cumsum(0)
            return x * self.cache[key]

    return Net()


@maker(lambda: (t(2, 3),))
def buffer_replaced_in_forward():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("mean", torch.zeros(3))
            self.register_buffer("hidden", torch.ones(3), persistent=False)

        def forward(self, x):
            self.mean = self.mean * 0.9 + x.mean(0) * 0.1
            self.hidden.mul_(2)
            return x - self.mean, self.hidden

    return Net()


@maker(lambda: (t(2, 3),))
@seeded
def parameters_loop():
    net = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 2))

    def f(x):
        norm = sum(p.square().sum() for p in net.parameters())
        names = [name for name, _ in net.named_parameters()]
        return net(x) * norm, names, [type(m).__name__ for m in net.modules()], len(list(net.children()))

    return f


@maker(lambda: (t(2, 3),))
@seeded
def shared_submodule_and_parameter():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Linear(3, 3)
            self.again = self.first
            self.other = nn.Linear(3, 3)
            self.other.weight = self.first.weight

        def forward(self, x):
            return self.other(self.again(self.first(x))), self.first is self.again

    return Net()


@maker(lambda: (t(2, 3),))
@seeded
def functions_on_modules():
    def f(x):
        kinds = [isinstance(layer, (nn.Linear, nn.ReLU)) for layer in net]
        flags = [layer.training for layer in net]
        return net(x), kinds, flags, hasattr(net[0], "bias"), net[0].in_features, net[0].weight.shape

    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.LayerNorm(4))
    return f


@maker(lambda: (t(2, 3),))
def module_made_inside():
    def f(x):
        layer = nn.Linear(3, 2)
        with torch.no_grad():
            layer.weight.fill_(0.5)
            layer.bias.zero_()
        norm = nn.LayerNorm(2)
        return norm(layer(x)), nn.ReLU()(x)

    return f


@maker(lambda: (t(2, 3),))
@seeded
def state_dict_inside():
    net, second = nn.Linear(3, 3), nn.Linear(3, 3)

    def f(x):
        second.load_state_dict(net.state_dict())
        return second(x) - net(x), list(net.state_dict())

    return f


@maker(lambda: (t(2, 3),))
@seeded
def deepcopy_inside():
    net = nn.Linear(3, 3)

    def f(x):
        second = copy.deepcopy(net)
        with torch.no_grad():
            second.weight.zero_()
        return second(x), net(x)

    return f


@maker(lambda: (t(1, 3, 8, 8),))
@seeded
def small_convolutional():
    class Block(nn.Module):
        def __init__(self, inner, outer):
            super().__init__()
            self.conv = nn.Conv2d(inner, outer, 3, padding=1, bias=False)
            self.norm = nn.BatchNorm2d(outer)
            self.skip = nn.Conv2d(inner, outer, 1) if inner != outer else nn.Identity()

        def forward(self, x):
            return F.relu(self.norm(self.conv(x)) + self.skip(x))

    return nn.Sequential(Block(3, 4), Block(4, 4), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 2)).eval()


@maker(lambda: (t(2, 5, 4), t(1, 2, 6)), lambda: (t(3, 7, 4), t(1, 3, 6)))
@seeded
def gru():
    net = nn.GRU(4, 6, batch_first=True).eval()
    return lambda x, h: net(x, h)


@maker(lambda: (t(2, 5, 4),))
@seeded
def lstm_bidirectional():
    net = nn.LSTM(4, 3, num_layers=2, batch_first=True, bidirectional=True).eval()

    def f(x):
        out, (h, c) = net(x)
        return out, h, c.shape

    return f


@maker(lambda: (t(5, 4),))
@seeded
def lstm_cell_loop():
    cell = nn.LSTMCell(4, 3)

    def f(xs):
        h = c = torch.zeros(1, 3)
        outs = []
        for x in xs:
            h, c = cell(x[None], (h, c))
            outs.append(h)
        return torch.stack(outs), c

    return f


@maker(
    lambda: (torch.tensor([1, 2, 4, 5, 4, 3]), torch.tensor([0, 2, 4])),
    lambda: (torch.tensor([1, 2]), torch.tensor([0])),
)
@seeded
def embedding_bag():
    net = nn.EmbeddingBag(10, 3, mode="mean")
    table = nn.Embedding(10, 3, padding_idx=0)
    return lambda ids, offsets: (net(ids, offsets), table(ids), F.embedding(ids, table.weight))


@maker(lambda: (t(2, 5, 8),))
@seeded
def transformer_encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).train()


@maker(lambda: (t(2, 5, 8),))
@seeded
def multihead_attention():
    net = nn.MultiheadAttention(8, 2, batch_first=True).eval()

    def f(x):
        out, weights = net(x, x, x, need_weights=True)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        return out, weights, net(x, x, x, attn_mask=mask, is_causal=True, need_weights=False)[0]

    return f


@case(lambda: (t(2, 2, 5, 4), t(2, 2, 5, 4, seed=1), t(2, 2, 5, 4, seed=2)))
def attention(q, k, v):
    bias = torch.zeros(5, 5).masked_fill(torch.ones(5, 5, dtype=torch.bool).triu(1), float("-inf"))
    return (
        F.scaled_dot_product_attention(q, k, v),
        F.scaled_dot_product_attention(q, k, v, is_causal=True),
        F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=0.3),
    )


@maker(lambda: (t(2, 3),))
@seeded
def module_as_argument_of_a_function():
    net = nn.Linear(3, 3)

    def apply(module, x, times=1):
        for _ in range(times):
            x = module(x)
        return x

    return lambda x: apply(net, x, times=2) + apply(torch.tanh, x)


@maker(lambda: (t(2, 3),))
@seeded
def lazy_linear():
    net = nn.LazyLinear(4)

    def f(x):
        return net(x).shape, type(net).__name__

    return f


@maker(lambda: (t(2, 3),))
@seeded
def getattr_on_a_module():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            for i in range(3):
                setattr(self, f"layer{i}", nn.Linear(3, 3))

        def __getattr__(self, name):
            if name.startswith("alias_"):
                return super().__getattr__(name.removeprefix("alias_"))
            return super().__getattr__(name)

        def forward(self, x):
            for i in range(3):
                x = getattr(self, f"layer{i}")(x)
            return self.alias_layer0(x), getattr(self, "layer9", None)

    return Net()


@maker(lambda: (t(2, 3),))
def missing_attribute_of_a_module():
    class Net(nn.Module):
        def forward(self, x):
            return self.wieght * x

    return Net()


@maker(lambda: (t(2, 3),), lambda: (t(2, 4),))
@seeded
def wrong_shape():
    return nn.Linear(3, 3)


@maker(lambda: (t(2, 3),))
@seeded
def submodule_made_in_forward():
    class Net(nn.Module):
        def forward(self, x):
            if "head" not in self._modules:
                self.head = nn.Linear(3, 2, bias=False)
                nn.init.constant_(self.head.weight, 0.25)
            return self.head(x)

    return Net()


@maker(lambda: (t(2, 3),))
@seeded
def training_mode_toggled_inside():
    net = nn.Sequential(nn.Linear(3, 3), nn.Dropout(1.0))

    def f(x):
        net.eval()
        a = net(x)
        net.train()
        return a, net(x), net.training

    return f


@maker(lambda: (t(2, 3),))
@seeded
def module_with_slots_and_class_state():
    class Net(nn.Module):
        instances = 0
        scale = 2.0

        def __init__(self):
            super().__init__()
            type(self).instances += 1
            self.linear = nn.Linear(3, 3)

        @property
        def width(self):
            return self.linear.out_features

        @staticmethod
        def act(x):
            return x.relu()

        @classmethod
        def scaled(cls, x):
            return x * cls.scale

        def forward(self, x):
            return self.scaled(self.act(self.linear(x))) + self.width + self.instances

    return Net()


@maker(lambda: (t(2, 3),))
@seeded
def inherited_forward():
    class Base(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)

        def forward(self, x, *, scale=1.0):
            return self.linear(x) * scale

    class Mixin:
        def forward(self, x, **keywords):
            return super().forward(x, **keywords) + 1

    class Net(Mixin, Base):
        def forward(self, x):
            return super().forward(x, scale=2.0) * 3

    return Net()


@maker(lambda: (t(2, 3),))
def module_call_with_keywords():
    class Net(nn.Module):
        def forward(self, x, mask=None, *rest, flag=False, **keywords):
            return x * (2 if flag else 3), mask, rest, sorted(keywords)

    net = Net()
    return lambda x: (net(x), net(x, 1, 2, 3), net(x=x, flag=True, other=4), net(x, mask=x))
