"""Arguments that change between calls: values, types, shapes, layouts, structure."""

import torch

from tests.capture.case import Given, case, t


@case(*[lambda n=n: (t(3), n) for n in (1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12)])
def integer_takes_many_values(x, n):
    return x * n + n // 2


@case(*[lambda n=n: (t(n), 2) for n in (3, 4, 5, 1, 0, 7, 3)])
def size_takes_many_values(x, k):
    return x * k + x.shape[0], x.sum()


@case(*[lambda a=a: (t(3), a) for a in (0.5, 1.5, -2.5, 0.0, float("inf"), 1.0)])
def float_takes_many_values(x, a):
    return x + a, a * 2, a > 1


@case(*[lambda s=s: (t(3), s) for s in ("a", "b", "c", "a", "")])
def string_takes_many_values(x, s):
    return x * (len(s) + 1), s + "!"


@case(*[lambda v=v: (t(3), v) for v in (None, 1, None, 2.0, True, "s", (1,), [1])])
def anything(x, v):
    if v is None:
        return x
    if isinstance(v, (int, float)):
        return x * v
    return x, v


@case(lambda: (t(2, 3),), lambda: (t(6),), lambda: (t(1, 2, 3),), lambda: (t(),), lambda: (t(0, 3),))
def rank_changes(x):
    return x * 2 + x.dim(), x.sum(), x.shape


@case(
    lambda: (t(4, 3),),
    lambda: (t(3, 4).t(),),
    lambda: (t(8, 3)[::2],),
    lambda: (t(1, 3).expand(4, 3),),
    lambda: (t(4, 6)[:, 1:4],),
)
def strides_change(x):
    return x + 1, x.is_contiguous(), x.stride(), (x * 2).t()


@case(lambda: (t(3),), lambda: (t(3, dtype=torch.float64),), lambda: (t(3, dtype=torch.int32),), lambda: (t(3).bool(),))
def dtype_changes(x):
    return x + 1, x.dtype, x * 2.0


@case(lambda: (t(3),), lambda: (t(3, grad=True),), lambda: (t(3),))
def requires_grad_changes(x):
    y = x * 2
    return y, y.requires_grad, x.requires_grad


@case(lambda: (t(3),), lambda: (torch.nn.Parameter(t(3)),), lambda: (torch.nn.Parameter(t(3), requires_grad=False),))
def parameter_or_tensor(x):
    return x * 2, type(x).__name__


@case(lambda: ([t(2)],), lambda: ((t(2),),), lambda: ({"a": t(2)},), lambda: ([t(2), t(2)],), lambda: ([],))
def container_kind_changes(parts):
    items = parts.values() if isinstance(parts, dict) else parts
    return [p + 1 for p in items], type(parts).__name__


@case(lambda: Given(t(3), a=1, b=2), lambda: Given(t(3), b=2, a=1), lambda: Given(t(3), b=2), lambda: Given(t(3), c=9))
def keywords_change(x, **kwargs):
    for name, value in kwargs.items():
        x = x * value + len(name)
    return x, kwargs


@case(lambda: (t(3),), lambda: (t(3), 1), lambda: (t(3), 1, 2), lambda: (t(3), t(3)), lambda: (t(3), t(3), t(3)))
def count_changes(x, *more):
    return sum(more, x), len(more)


class A:
    k = 2


class B:
    k = 3


@case(lambda: (t(3), A()), lambda: (t(3), B()), lambda: (t(3), A))
def class_of_argument_changes(x, o):
    return x * o.k, isinstance(o, A), o.__class__.__name__


@case(
    lambda: (t(3), {"n": 1, "deep": {"k": [1, 2]}}),
    lambda: (t(3), {"n": 1, "deep": {"k": [1, 3]}}),
    lambda: (t(3), {"n": 2, "deep": {}}),
)
def nested_values_change(x, d):
    return x * d["n"] + d["deep"].get("k", [0, 0])[1]


@case(lambda: (t(3), True), lambda: (t(3), False), lambda: (t(3), 1), lambda: (t(3), 0), lambda: (t(3), []))
def flag_changes(x, flag):
    return x + 1 if flag else x - 1


@case(lambda: (t(4), 0), lambda: (t(4), 1), lambda: (t(4), -1), lambda: (t(4), 9))
def index_changes(x, i):
    return x[i] * 2


@case(lambda: (t(2, 6), 2), lambda: (t(2, 6), 3), lambda: (t(2, 6), 4))
def reshape_by_argument(x, n):
    return x.view(-1, n).sum(0)


@case(
    lambda: (t(2, 3), t(3)),
    lambda: (t(4, 3), t(3)),
    lambda: (t(4, 3), t(4, 1)),
    lambda: (t(3), t(3)),
    lambda: (t(3), t()),
)
def broadcast_changes(x, y):
    return x + y, x.shape == y.shape


@case(lambda: (t(0),), lambda: (t(0, 5),), lambda: (t(1),), lambda: (t(),))
def empty_and_scalar(x):
    return x.sum(), x * 2, x.numel(), x.reshape(-1), torch.cat([x.reshape(-1), torch.ones(1)])


@case(lambda: (torch.relu,), lambda: (torch.sin,), lambda: (lambda x: x + 5,), lambda: (A,))
def callable_changes(f):
    return f(torch.ones(2)) if f is not A else f().k


@case(
    lambda: (t(3), slice(0, 2)),
    lambda: (t(3), slice(1, 3)),
    lambda: (t(3), 1),
    lambda: (t(3), None),
    lambda: (t(3), ...),
)
def index_kind_changes(x, i):
    return x[i] + 1


@case(lambda: (t(3), torch.float64), lambda: (t(3), torch.int32), lambda: (t(3), torch.float32))
def dtype_argument(x, dtype):
    return x.to(dtype), torch.zeros(2, dtype=dtype) + 1, dtype.is_floating_point


@case(lambda: (t(3), "cpu"), lambda: (t(3), torch.device("cpu")), lambda: (t(2), "meta"))
def device_argument(x, device):
    return torch.ones(2, device=device).shape, x.device.type, torch.device(device) == x.device


@case(
    lambda: (t(2, 3), (3, 2)), lambda: (t(2, 3), [6]), lambda: (t(2, 3), torch.Size([1, 6])), lambda: (t(2, 3), (4, 2))
)
def shape_argument(x, shape):
    return x.reshape(shape) * 2, torch.zeros(shape).dim()


@case(lambda: (2**70, 1), lambda: (2**63, 2), lambda: (-(2**63), 3))
def very_large_integers(n, k):
    return n + k, torch.ones(2) * float(n), n // k


@case(lambda: (t(2), 3), lambda: (t(2), 4), drive=lambda f, x, n: [f(x, m) for m in range(n, n + 6)])
def six_values_in_a_row(x, n):
    if n % 2:
        return x + n
    return x * n
