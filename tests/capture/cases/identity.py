"""Identity of objects: arguments, results, constants, and objects that escape."""

import weakref

import torch

from tests.capture.case import Given, case, maker, t

SENTINEL = object()
DEFAULTS = {"k": [1]}


@case(lambda: (t(3), t(3)))
def arguments_returned(x, y):
    return y, x, y, x + y


@case(lambda: _same_twice(), lambda: (t(3), t(3)), lambda: _same_twice())
def same_argument_twice(x, y):
    x.add_(1)
    return (x + y) if x is y else (x - y)


def _same_twice():
    x = t(3)
    return x, x


@case(lambda: (t(3), SENTINEL), lambda: (t(3), None), lambda: (t(3), 0))
def sentinel(x, value=SENTINEL):
    if value is SENTINEL:
        return x, value
    return x + 1, value is None


@case(lambda: (t(3), [1], [1]), lambda: _shared_list())
def is_and_equal(x, a, b):
    return x + (a is b), a == b, a is not b, b


def _shared_list():
    a = [1]
    return t(3), a, a


@case(lambda: (t(3),))
def tensor_identity(x):
    y = x
    z = x + 0
    w = x.view(-1)
    v = x.detach()
    return y is x, z is x, w is x, v is x, x in [x], [x].index(x), x.contiguous() is x, x.float() is x, x.to("cpu") is x


@case(lambda: (t(3),))
def noop_operators_return_themselves(x):
    return x.contiguous(), x.float(), x.to(torch.float32), x.cpu(), x.expand(3), x.requires_grad_(False)


@case(lambda: (t(2, 3),))
def views_of_argument(x):
    return x[0], x.t(), x.view(3, 2), x.reshape(-1), x[:, 1:], x.unsqueeze(0), x.detach()


@case(lambda: (t(2, 3),))
def views_of_fresh(x):
    y = x * 2
    return y, y[0], y.t(), y.view(-1)[2:]


@case(lambda: (t(3),))
def dictionary_keys_by_identity(x):
    d = {x: 1, SENTINEL: 2}
    y = x + 1
    d[y] = 3
    return d[x] + x, y in d, id(x) == id(x), len(d)


@case(lambda: (t(3),))
def global_returned(x):
    return DEFAULTS, DEFAULTS["k"], SENTINEL, x + DEFAULTS["k"][0]


@case(lambda: (t(3), {"a": [1, 2]}))
def parts_of_argument_in_new_object(x, d):
    new = {"inner": d["a"], "outer": d, "x": x, "y": [x, d]}
    new["inner"].append(3)
    return new


@case(lambda: ([t(2)] * 2,), lambda: ([t(2), t(2)],))
def repeated_elements(parts):
    parts[0].add_(1)
    return parts[0] + parts[1], parts[0] is parts[1]


@case(lambda: (t(3),))
def tuple_constant(x):
    return (1, (2, 3)), (1, (2, 3)), x + 1


@case(lambda: (t(3),))
def fresh_containers_every_call(x):
    return [], {}, [x], ((), []), set()


@case(lambda: (t(3),))
def cycles(x):
    a, b = {"n": x + 1}, {"n": x + 2}
    a["b"], b["a"] = b, a
    return a


class Pair:
    def __init__(self, a, b):
        self.a, self.b = a, b


@case(lambda: (t(3),))
def shared_inside_instances(x):
    y = x * 2
    p = Pair(y, [y])
    q = Pair(p, p.b)
    return p, q, q.a.b is q.b


@case(lambda: (Pair(t(3), t(3)),), lambda: (_pair_of_one(),))
def attributes_may_alias(p):
    p.a.mul_(2)
    return p.a + p.b, p.a is p.b


def _pair_of_one():
    x = t(3)
    return Pair(x, x)


@case(lambda: _overlapping(), lambda: (t(4), t(4)))
def overlapping_views(a, b):
    a.add_(1)
    b.mul_(2)
    return a + b


def _overlapping():
    base = t(6)
    return base[:4], base[2:]


@maker(lambda: (t(3),))
def same_object_from_closure():
    kept = [1, 2]

    def f(x):
        return kept, x + kept[0], kept is f.kept

    f.kept = kept
    return f


@case(lambda: Given(t(3), k={"a": 1}))
def keyword_dictionary_is_new(x, **kwargs):
    kwargs["extra"] = x + 1
    return kwargs, kwargs["k"]


@case(lambda: (t(3), (1, 2)), drive=lambda f, x, a: f(x, *a))
def args_tuple(x, *args):
    return args, args + (3,), x + args[0]


@case(lambda: (t(3),))
def in_place_returns_argument(x):
    y = x.add_(1)
    z = torch.relu_(y)
    return y is x, z, x + 1


@case(lambda: (t(3),))
def type_and_class_identity(x):
    return (
        type(x) is torch.Tensor,
        x.__class__,
        type(x + 1) is type(x),
        torch.float32 is x.dtype,
        type(None) is None.__class__,
    )


@case(lambda: (torch.nn.Parameter(t(3)),))
def parameter_argument(p):
    return p, p * 2, p.data, isinstance(p, torch.nn.Parameter), type(p + 1).__name__, p.detach()


@case(lambda: (t(3), t(3, seed=1)), drive=lambda f, x, y: [f(x, y), f(x, x), f(y, y), f(y, x)])
def equality_pattern_changes(x, y):
    if x is y:
        return x * 10
    return x - y


@case(lambda: (t(3),), drive=lambda f, x: f(f(f(x))))
def fed_to_itself(x):
    return x * 2 + 1


@case(lambda: (t(3),), drive=lambda f, x: [f(x) for _ in range(4)])
def results_kept(x):
    y = x + 1
    x.add_(1)
    return y, y * 2


@case(lambda: (t(3),), lambda: (t(4),))
def weak_references_to_what_goes(x):
    y = x * 2
    told = []
    by_break = weakref.ref(y, told.append)
    z = y + 1
    del y
    return z, len(told), by_break() is None
