"""Where a graph has to end: values read from tensors, numpy, unknown C functions; in loops and in callees."""

import array
import ctypes
import hashlib
import struct
import time

import numpy as np
import torch

from tests.capture.case import case, maker, t


@case(lambda: (t(3),), lambda: (t(3, seed=2),))
def item_then_more(x):
    n = (x + 1).sum().item()
    return x * n + 1


@case(lambda: (t(2, 2),))
def tolist(x):
    rows = (x * 2).tolist()
    return x + rows[0][1], rows


@case(lambda: (t(3),))
def numpy_round_trip(x):
    a = (x + 1).numpy()
    b = np.clip(a, -1, 1) * 2
    return torch.from_numpy(b) + x, b.sum()


@case(lambda: (t(3),))
def numpy_shares_memory(x):
    y = x + 1
    y.numpy()[0] = 100
    return y * 2


@case(lambda: (t(3),), lambda: (t(3, seed=5),))
def branch_on_value(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@case(lambda: (t(3),), lambda: (t(3, seed=5),))
def conditional_expression_on_value(x):
    y = x * 2 if (x > 0).all() else x * 3
    z = (x[0] > 0) and y.sum() or y
    return y, z, not x[1]


@case(lambda: (t(4),), lambda: (t(4, seed=3),))
def nested_branches(x):
    if x[0] > 0:
        if x[1] > 0:
            y = x + 1
        else:
            y = x + 2
    elif x.sum() < 0:
        y = x * 5
    else:
        y = x - 1
    return y * 2


@case(lambda: (t(3), 4), lambda: (t(3), 6))
def item_in_loop(x, n):
    values = []
    for i in range(n):
        x = x + i
        values.append(x[0].item())
    return x, values


@case(lambda: (t(4),))
def while_value(x):
    n = 0
    while (x < 8).any():
        x = x + 3
        n += 1
    return x, n


def _norm(x):
    total = x.abs().sum().item()
    return x / total if total > 4 else x


@case(lambda: (t(3),), lambda: (t(8),))
def item_in_callee(x):
    y = _norm(x + 1)
    return _norm(y * 2) + 1


def _deeper(x, n):
    if n == 0:
        return x + bool(x.sum() > 0)
    return _deeper(x * 2, n - 1) + n


@case(lambda: (t(3), 3), lambda: (t(3), 1))
def branch_deep_in_callees(x, n):
    y = x + 1
    z = _deeper(y, n)
    return z - y


@case(lambda: (t(6),), lambda: (t(6, seed=2),))
def data_dependent_shape(x):
    positive = x[x > 0]
    where = torch.nonzero(x)
    return positive * 2, where.shape[0], torch.unique(x)


@case(lambda: (t(6), 2), lambda: (t(6), 3))
def index_by_item(x, n):
    i = int(x.argmax())
    return x[i], x[:i] + n, [1, 2, 3, 4, 5, 6][i]


@case(lambda: (t(3),))
def unknown_c_function(x):
    y = x + 1
    digest = hashlib.md5(struct.pack("<i", y.shape[0])).hexdigest()
    time.sleep(0)
    return y * 2, digest, ctypes.sizeof(ctypes.c_int)


@case(lambda: (t(3),))
def data_pointer(x):
    y = x + 1
    return y.data_ptr() == y.view(-1).data_ptr(), y.data_ptr() == x.data_ptr(), y * 2


@case(lambda: (t(3),), lambda: (t(3, seed=1),))
def float_of_tensor(x):
    a, b, c = float(x[0]), int(x[1]), bool(x[2])
    return x * a + b, c, f"{x[0]:.2f}", round(float(x[0]), 1)


@case(lambda: (t(3),))
def tensor_as_index(x):
    i = torch.tensor(2)
    return [10, 20, 30][i], range(5)[i], x[i], "abc"[i]


@case(lambda: (t(2, 3),))
def tensor_made_from_values(x):
    y = torch.tensor([x[0, 0].item(), 2.0, x.shape[0]])
    return y * x[0], torch.tensor(x.tolist()) + 1, torch.as_tensor(np.ones(3)) * 2


@case(lambda: (t(3),))
def break_in_every_line(x):
    print("a")
    x = x + 1
    print("b", x[0].item())
    x = x * 2
    print("c")
    return x


@case(lambda: (t(3), 3))
def operands_on_the_stack(x, n):
    return (x * n) + (x + 1) * float((x - 1).sum()) - n * x.sum().item()


@case(lambda: (t(3),))
def break_inside_call_arguments(x):
    return torch.add(x + 1, x * 2, alpha=int((x * 4)[0].item())), dict(a=x, b=print("in arguments"), c=x + 1)


@case(lambda: (t(3),))
def break_inside_display(x):
    return [x + 1, x.sum().item(), x * 2], {"a": x + 1, "b": bool(x[0] > 0), "c": x}, (x, *x.tolist())


@case(lambda: (t(3),), lambda: (t(3, seed=1),))
def break_in_comprehension(x):
    return [v * 2 for v in x.tolist()], [y.item() for y in x + 1], {i: (x * i)[0].item() for i in range(3)}


@case(lambda: (t(3),))
def break_in_try(x):
    try:
        y = x + 1
        n = y.sum().item()
        z = y * n
        raise ValueError("v")
    except ValueError:
        w = z + float(x[0])
    finally:
        print("finally")
    return w * 2


@maker(lambda: (t(3),))
def break_with_cells():
    log = []

    def f(x):
        total = 0

        def add(n):
            nonlocal total
            total += n
            log.append(total)

        add(1)
        add(x.sum().item())
        y = x * total
        add(2)
        return y + total

    return f


@case(lambda: (t(3), [0.5, 1.0]), lambda: (t(3), [100.0]))
def break_out_of_loop_on_value(x, limits):
    for limit in limits:
        x = x * 2
        if x.max() > limit:
            break
    else:
        x = x - 1
    return x + 1


class Tracker:
    def __init__(self):
        self.values = []
        self.best = None

    def update(self, x):
        value = x.mean().item()
        self.values.append(value)
        if self.best is None or value > self.best:
            self.best = value
        return self.best


@case(lambda: (t(4), Tracker()), lambda: (t(8), Tracker()))
def method_reads_value(x, tracker):
    for i in range(3):
        x = x + i
        tracker.update(x)
    return x * tracker.best


@case(lambda: (t(3),))
def sorted_by_tensor(x):
    parts = [x * 3, x, x * 2]
    ordered = sorted(parts, key=lambda p: p[0])
    return ordered, max(parts, key=lambda p: float(p[1])), min(x), max(x.tolist())


@case(lambda: (t(3), t(3)), lambda: (t(3), t(3, seed=1)))
def torch_equal(x, y):
    if torch.equal(x, y):
        return x + 1
    return x + y, torch.allclose(x, y)


@case(lambda: (t(3),))
def numpy_of_results_and_arguments(x):
    a = np.asarray(x)
    return x + a.shape[0], np.add(x, 1), x.__array__().dtype.name


@case(lambda: (np.arange(3.0), 2), lambda: (np.arange(4.0), 3))
def numpy_argument(a, n):
    b = a * n
    b[0] = 7
    return b, torch.from_numpy(b) + n, a.shape


@case(lambda: (t(3), np.float32(2.0)), lambda: (t(3), np.int64(3)))
def numpy_scalar_argument(x, k):
    return x * k, k + 1, type(k).__name__


@case(lambda: (t(4),))
def chunked_sum_with_assert(x):
    total = 0.0
    for part in x.split(2):
        assert part.numel() == 2
        total += part.sum().item()
        if total > 1000:
            return None
    return x / (abs(total) + 1), total


@case(lambda: (t(2, 4),))
def beam_like_search(x):
    best = []
    scores = x
    for step in range(3):
        value, index = scores.max(dim=-1)
        best.append(index.tolist())
        if value.min().item() > 10:
            break
        scores = scores.scatter(-1, index[:, None], -100.0)
    return scores, best


def _arguments(*args):
    return args


@case(lambda: (t(3), array.array("i", [1, 2])), lambda: (t(3), array.array("i", [5, 6])))
def tuple_of_what_came_before_a_break(x, numbers):
    made = (*numbers,)
    return x * made[0], made, len(made), _arguments(0, *numbers)


@case(lambda: (t(3),), lambda: (t(4),))
def asked_for(x):
    y = x * 2
    torch._dynamo.graph_break()
    for _ in range(2):
        y = y + 1
        torch._dynamo.graph_break("in a loop")
    return y * y


def _scaled_by_its_sum(x):
    return x * x.sum().item()


@case(lambda: (t(3), {"a": 2, "b": 3}), lambda: (t(3), {"a": 3}), lambda: (t(3), {}))
def in_a_call_at_the_last_item_of_a_dict(x, d):
    for n in d.values():
        x = _scaled_by_its_sum(x) if n == 3 else x + n
    for name, n in d.items():
        x = _scaled_by_its_sum(x) if n == 3 else x + len(name)
    for name in d:
        x = _scaled_by_its_sum(x) if d[name] == 3 else x - 1
    return x


@case(lambda: (t(3), {"a": 2, "b": 3}), lambda: (t(3), {"a": 3}))
def dict_that_grows_after_a_call_at_its_last_item(x, d):
    try:
        for n in d.values():
            if n == 3:
                x = _scaled_by_its_sum(x)
                d["more"] = 1
    except RuntimeError as error:
        return x, str(error)
    return x


@case(lambda: (t(3), {"a": 2, "b": 3}))
def dict_that_grew_before_a_call_at_its_last_item(x, d):
    try:
        for n in d.values():
            if n == 3:
                d["more"] = 1
                x = _scaled_by_its_sum(x)
    except RuntimeError as error:
        return x, str(error)
    return x
