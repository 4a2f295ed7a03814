"""Values that objects written in C hold (weak references, context variables, proxies), and cells after a break."""

import _random
import contextvars
import gc
import re
import types
import weakref

import numpy as np
import torch

from tests.capture.case import case, maker, t

LEVEL = contextvars.ContextVar("LEVEL", default=2)
UNSET = contextvars.ContextVar("UNSET")
KINDS = {int, float, torch.nn.Linear}
SETTINGS = {"scale": 3}
SHOWN = types.MappingProxyType(SETTINGS)


@case(lambda: (t(3), []))
def appended_by_inner_function_after_break(x, out):
    n = x.sum().item()

    def keep(y):
        out.append(y + n)

    for i in range(2):
        keep(x * i)
    return n


@case(lambda: ([t(3), t(2)],))
def flattened_by_recursion_with_break(tree):
    def walk(node, leaves):
        if isinstance(node, torch.Tensor):
            leaves.append(node)
            return node.sum().item()
        return sum([walk(child, leaves) for child in node])

    leaves = []
    total = walk(tree, leaves)
    return leaves, total


@case(lambda: (t(3),), lambda: (-t(3),))
def branch_on_item_in_callee(x):
    def sign(y):
        return 1 if y.sum().item() > 0 else -1

    return x * sign(x) + sign(x + 1)


@case(lambda: (t(2),))
def context_variable_set_and_reset(x):
    token = LEVEL.set(5)
    try:
        inside = x * LEVEL.get()
    finally:
        LEVEL.reset(token)
    return inside, x * LEVEL.get(), UNSET.get(7)


@case(lambda: (t(2),))
def context_variable_left_set(x):
    LEVEL.set(LEVEL.get() + 1)
    return x * LEVEL.get()


@maker(lambda: (t(2),))
def weak_reference():
    class Scale:
        value = 2

    held = [Scale()]
    reference = weakref.ref(held[0])

    def scaled(x):
        scale = reference()
        if scale is None:
            return x
        if len(held) == 1 and scale.value > 2:
            del held[0]
        scale.value += 1
        return x * scale.value

    return scaled


@case(lambda: (t(2),), lambda: (t(2),))
def mapping_proxy(x):
    y = x * SHOWN["scale"] + len(SHOWN) + sum(SHOWN.values())
    SETTINGS["scale"] += 1
    return y, sorted(SHOWN)


@case(lambda: (t(2), int), lambda: (t(2), str))
def set_of_classes(x, kind):
    return x + 1 if kind in KINDS else x - 1


@case(lambda: (t(2, 3), np.float64(0.5)), lambda: (t(2, 3), np.float64(0.25)))
def numbers_of_numpy(x, factor):
    return x * np.sqrt(4) + factor * float(np.float32(0.5)) + np.prod(x.shape)


class Power(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.save_for_backward(x)
        ctx.n = n
        return x**n

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * ctx.n * x ** (ctx.n - 1), None


@case(lambda: (t(3),))
def autograd_function_without_gradients(x):
    with torch.no_grad():
        return Power.apply(x, 2) + 1


@case(lambda: (t(2, 4),))
def results_with_names(x):
    top = torch.topk(x, 2)
    values, places = torch.sort(x, dim=1)
    return top.values + values[:, :2], top.indices, places


class Handed:
    """Gives out the one iterator that it holds."""

    of_all = iter(range(100))

    def __init__(self, items, shared):
        self.items = iter(items)
        self.shared = shared

    def __iter__(self):
        return Handed.of_all if self.shared else self.items


@maker(lambda: (t(3), False), lambda: (t(3), False), lambda: (t(3), True), lambda: (t(3), True))
def iterator_held_by_an_object_or_class():
    Handed.of_all = iter(range(3))
    held = Handed(range(2), False), Handed((), True)

    def f(x, shared):
        n = list(held[shared])
        return x * 2, n

    return f


@case(lambda: (t(3), "layer.3"), lambda: (t(3), "layer.4"), lambda: (t(3), "head"))
def match_object_escapes(x, name):
    m = re.match(r"layer\.(\d+)", name)
    y = x + 1
    x.sum().item()
    return y, m and int(m.group(1)), m


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def state_of_a_class_made_in_c(x, seed):
    generator = _random.Random(seed)
    first = generator.random()
    x.sum().item()
    return x * first, generator.random()


class Watched:
    pass


@case(lambda: (t(3),))
def weak_references_to_new_objects(x):
    def inner():
        return x

    objects = [Watched() for _ in range(3)]
    table = weakref.WeakValueDictionary()
    for i, o in enumerate(objects):
        table[i] = o
    full = len(table)
    function = weakref.ref(inner)
    print("break")
    del objects, o, inner
    return x * 2, full, len(table), function() is None


@case(lambda: (t(3),))
def told_when_it_goes(x):
    told = []
    o = Watched()
    weakref.finalize(o, told.append, 1)
    print("break")
    del o
    first = list(told)
    module = types.ModuleType("made_here")
    seen = weakref.ref(module)
    there = seen() is module
    del module
    gc.collect()
    return x * 2, first, there, seen() is None
