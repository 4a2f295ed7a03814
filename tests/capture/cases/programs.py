"""Longer functions in which several features meet, as in real programs."""

import collections
import contextlib
import dataclasses
import functools
import math
import typing

import torch
import torch.nn.functional as F

from tests.capture.case import Given, case, maker, t


class Cache:
    """Keys and values that grow, as for generation."""

    def __init__(self):
        self.keys, self.length = [], 0

    def update(self, k):
        self.keys.append(k)
        self.length += k.shape[0]
        return torch.cat(self.keys)


@case(lambda: (t(2, 4), Cache()), drive=lambda f, x, c: [f(x + i, c) for i in range(4)])
def growing_cache(x, cache):
    keys = cache.update(x)
    scores = (x @ keys.t()) / math.sqrt(x.shape[-1])
    return scores.softmax(-1) @ keys, cache.length


@dataclasses.dataclass
class Options:
    heads: int = 2
    dropout: float = 0.0
    bias: typing.Optional[torch.Tensor] = None


@case(lambda: (t(3, 4), Options()), lambda: (t(5, 4), Options(heads=4)), lambda: (t(3, 4), Options(bias=t(4))))
def attention_by_options(x, options):
    *lead, width = x.shape
    if width % options.heads != 0:
        raise ValueError(f"width {width} is not divisible by {options.heads}")
    q = x.view(*lead, options.heads, -1).transpose(0, 1)
    scores = q @ q.transpose(-1, -2) / width**0.5
    out = F.dropout(scores.softmax(-1), options.dropout, training=False) @ q
    out = out.transpose(0, 1).reshape(*lead, width)
    return out if options.bias is None else out + options.bias


ACTIVATIONS = {"relu": torch.relu, "gelu": functools.partial(F.gelu, approximate="tanh"), "id": lambda x: x}


class Layer:
    registry = {}

    def __init_subclass__(cls, **kw):
        super().__init_subclass__(**kw)
        Layer.registry[cls.__name__.lower()] = cls

    def __init__(self, **config):
        for k, v in config.items():
            setattr(self, k, v)

    def __call__(self, x):
        return self.forward(x)


class Scale(Layer):
    def forward(self, x):
        return x * self.by


class Act(Layer):
    def forward(self, x):
        return ACTIVATIONS[self.kind](x)


class Residual(Layer):
    def forward(self, x):
        y = x
        for layer in self.layers:
            y = layer(y)
        return x + y


def build(spec):
    layers = []
    for name, config in spec:
        if "layers" in config:
            config = {**config, "layers": build(config["layers"])}
        layers.append(Layer.registry[name](**config))
    return layers


SPEC = [
    ("scale", {"by": 2}),
    ("residual", {"layers": [("act", {"kind": "relu"}), ("scale", {"by": 3})]}),
    ("act", {"kind": "id"}),
]


@case(lambda: (t(3), SPEC), lambda: (t(3), SPEC[:1]), lambda: (t(3), [("nothing", {})]))
def model_from_specification(x, spec):
    for layer in build(spec):
        x = layer(x)
    return x


@case(lambda: (t(2, 3), [1, 2]), lambda: (t(2, 3), [0, 5]))
def validates_and_explains(x, rows):
    errors = []
    for i, row in enumerate(rows):
        try:
            if not 0 <= row < x.size(0):
                raise IndexError(f"row {row} of {x.size(0)}")
            x = x + x[row]
        except IndexError as error:
            errors.append((i, str(error)))
        else:
            errors.append((i, None))
    return x, {i: e for i, e in errors if e}


@maker(lambda: (t(2, 2),), lambda: (t(3, 2),))
def training_like_statistics():
    history = collections.defaultdict(list)
    best = {"loss": float("inf"), "step": -1}

    def f(x):
        for step in range(3):
            x = x * 0.5
            loss = float((x * x).sum())
            history["loss"].append(loss)
            if loss < best["loss"]:
                best.update(loss=loss, step=step)
        history["shape"].append(tuple(x.shape))
        return x, dict(best), history

    return f


@case(lambda: ({"a": t(2), "b": [t(3), {"c": t(1)}], "d": None, "e": (1, "s")},))
def tree_map(tree):
    def walk(node, path=()):
        match node:
            case torch.Tensor():
                return node * (len(path) + 1)
            case dict():
                return {k: walk(v, (*path, k)) for k, v in node.items()}
            case list() | tuple():
                return type(node)(walk(v, (*path, i)) for i, v in enumerate(node))
            case None:
                return "none at " + "/".join(map(str, path))
            case other:
                return other

    return walk(tree)


class Lazy:
    def __init__(self, make):
        self.make, self.runs = make, 0

    @functools.cached_property
    def value(self):
        self.runs += 1
        return self.make()

    def __getattr__(self, name):
        return getattr(self.value, name)

    def __add__(self, other):
        return self.value + other


@case(lambda: (t(3),))
def lazy_proxy(x):
    lazy = Lazy(lambda: x * 2)
    total = lazy + 1
    return total, lazy.shape, lazy.sum(), lazy.runs


class Schedule:
    def __init__(self, *steps):
        self.steps = steps

    def __iter__(self):
        for start, end, value in self.steps:
            yield from ((i, value) for i in range(start, end))


@case(lambda: (t(3), Schedule((0, 2, 0.5), (2, 3, 2.0))), lambda: (t(3), Schedule()))
def schedule(x, steps):
    seen = {}
    for i, value in steps:
        x = x * value + i
        seen.setdefault(value, []).append(i)
    return x, seen


@contextlib.contextmanager
def temporarily(obj, **values):
    before = {k: getattr(obj, k) for k in values}
    for k, v in values.items():
        setattr(obj, k, v)
    try:
        yield obj
    finally:
        for k, v in before.items():
            setattr(obj, k, v)


@case(lambda: (t(3), Scale(by=2)), lambda: (t(3), Scale(by="s")))
def temporary_attributes(x, layer):
    with temporarily(layer, by=10):
        y = layer(x)
    try:
        with temporarily(layer, by=None):
            layer(x)
    except TypeError as error:
        return y, layer(x), str(error)


@case(lambda: (t(4, 4), 0.5), lambda: (t(6, 6), 0.25))
def power_iteration(a, tolerance):
    v = torch.ones(a.shape[0])
    previous = None
    for step in range(20):
        v = a @ v
        v = v / v.abs().max().clamp(min=1)
        norm = v.abs().sum().item()
        if previous is not None and abs(norm - previous) < tolerance:
            return v, step
        previous = norm
    return v, None


@case(lambda: (t(6),), lambda: (t(3),))
def quicksort_of_values(x):
    def sort(items):
        if len(items) <= 1:
            return items
        pivot, *rest = items
        return sort([i for i in rest if i < pivot]) + [pivot] + sort([i for i in rest if i >= pivot])

    return torch.tensor(sort(x.tolist())) + 1


@case(
    lambda: (t(3), "scale:2,shift:3,relu"), lambda: (t(3), "shift:1"), lambda: (t(3), "scale:x"), lambda: (t(3), "nope")
)
def small_interpreter(x, program):
    operations = {"scale": lambda x, k: x * k, "shift": lambda x, k: x + k, "relu": lambda x: x.relu()}
    for step in program.split(","):
        name, _, text = step.partition(":")
        try:
            arguments = [int(text)] if text else []
            x = operations[name](x, *arguments)
        except KeyError as error:
            raise LookupError(f"unknown step {name!r}") from error
        except ValueError:
            print("bad number in", step)
            return x, "stopped"
    return x


class Event:
    def __init__(self):
        self.handlers = []

    def __iadd__(self, handler):
        self.handlers.append(handler)
        return self

    def __call__(self, *args):
        for handler in self.handlers:
            handler(*args)


@case(lambda: (t(3),))
def event_handlers(x):
    seen = []
    changed = Event()
    changed += seen.append
    changed += lambda y: seen.append(y * 2)
    for i in range(2):
        x = x + i
        changed(x)
    return x, seen


@case(
    lambda: Given([t(2), t(3)], reduction="sum"),
    lambda: Given([t(2)], reduction="mean"),
    lambda: Given([], reduction="sum"),
    lambda: Given([t(1)], reduction="other"),
)
def reduction_by_name(losses, *, reduction="mean", weights=None):
    weights = weights or [1.0] * len(losses)
    total = sum((w * l.pow(2).sum() for w, l in zip(weights, losses, strict=True)), start=torch.zeros(()))
    match reduction:
        case "sum":
            return total
        case "mean" if losses:
            return total / len(losses)
        case _:
            raise ValueError(f"reduction {reduction!r}")


class Metaclassed(type):
    def __getattr__(cls, name):
        return f"{cls.__name__}.{name}"

    @property
    def size(cls):
        return len(cls.__dict__.get("fields", ()))


class Model(metaclass=Metaclassed):
    fields = ("a", "b")

    def __getitem__(self, key):
        if isinstance(key, str):
            return getattr(self, key)
        return tuple(getattr(self, f) for f in self.fields)[key]

    def __len__(self):
        return len(self.fields)


@case(lambda: (t(3), Model()))
def output_like_class(x, m):
    m.a, m.b = x + 1, x * 2
    first, second = m[:2]
    return first + m["b"], second is m[1], Model.anything, Model.size, len(m), [v for v in m]


@case(lambda: (t(4, 2), 2), lambda: (t(6, 2), 4), lambda: (t(3, 2), 5))
def batched_generator(x, size):
    def batches():
        for start in range(0, len(x), size):
            batch = x[start : start + size]
            if len(batch) < size:
                print("last batch of", len(batch))
            yield batch

    results = [batch.sum(0) * len(batch) for batch in batches()]
    return torch.stack(results), len(results)


@case(lambda: (t(3),), drive=lambda f, x: [f(x) for _ in range(5)])
def memoised_by_shape(x, known={}):
    key = (x.shape, x.dtype)
    try:
        count, table = known[key]
    except KeyError:
        count, table = 0, torch.arange(x.numel()).to(x)
    known[key] = (count + 1, table)
    return x + table * count


@case(lambda: (t(2, 3), [[0, 1], [2]]), lambda: (t(2, 3), []))
def gather_groups(x, groups):
    out = {f"group{i}": x[:, g].sum(-1) for i, g in enumerate(groups)}
    if isinstance(total := sum(out.values()), int):
        return None
    return out, total


@case(lambda: (t(3), 3))
def deep_mix(x, n):
    log = []

    def steps():
        with contextlib.suppress(GeneratorExit):
            for i in range(10):
                try:
                    if i == n:
                        raise LookupError(i)
                    yield x * i
                except LookupError as error:
                    log.append(repr(error))
                    return
                finally:
                    log.append(i)

    total = functools.reduce(torch.add, steps())
    return total, log
