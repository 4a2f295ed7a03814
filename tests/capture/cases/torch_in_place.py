"""In-place operators, views, aliases; results that are arguments."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import nn

from tests.capture.case import case, maker, t


def alias(make):
    """Arguments made of one tensor."""
    return lambda: make(t(4, 4))


@case(lambda: (t(3),))
def argument_changed(x):
    x.add_(1)
    y = x * 2
    x.mul_(3)
    return y


@case(lambda: (t(3),))
def argument_returned(x):
    return x, [x], {"x": x}


@case(lambda: (t(3),))
def changed_argument_returned(x):
    return x.add_(1)


@case(lambda: (t(4, 4),))
def views_returned(x):
    y = x * 2
    return x[0], x.T, x.view(-1), y, y[1], y.T, x.detach(), x.reshape(2, 8)


@case(lambda: (t(4, 4),))
def view_changed(x):
    row = x[1]
    row += 10
    x.T[2].zero_()
    flat = x.view(-1)
    flat[::3] = 7
    return row, flat


@case(lambda: (t(4),))
def own_tensor_changed_through_views(x):
    y = x.clone()
    halves = y.split(2)
    halves[0].fill_(1)
    halves[1].copy_(halves[0] * 3)
    y.unsqueeze(0).mul_(2)
    return y, halves


@case(alias(lambda x: (x, x)), lambda: (t(4, 4), t(4, 4)))
def same_twice(x, y):
    x += 1
    return x + y, x is y


@case(alias(lambda x: (x[0], x[0])), alias(lambda x: (x[0], x[1])), alias(lambda x: (x[:2].view(-1)[:4], x[0])))
def overlapping(x, y):
    x.mul_(2)
    y.add_(1)
    return x + y


@case(alias(lambda x: (x.view(-1)[:8], x.view(-1)[4:12])))
def partly_overlapping(x, y):
    x.fill_(1)
    y.mul_(3)
    return x.sum(), y


@case(alias(lambda x: (x, x.T)))
def with_its_transpose(x, y):
    y[0] = 5
    return x.sum(0), y


@case(alias(lambda x: (x, [x, x[0]], {"k": x})))
def in_containers(x, xs, table):
    xs[1].zero_()
    table["k"] = table["k"] * 2
    xs.append(table["k"])
    return x, xs


@case(lambda: (t(3),))
def augmented_assignment(x):
    y = x
    y += 1
    z = x
    z = z + 1
    x @= torch.eye(3)
    return y is x, y, z


@case(lambda: (t(3),))
def python_references(x):
    a = [x, x]
    b = a
    b[0] = b[0] + 1
    c = (a, a)
    return c, a[0] is b[0], a[1] is x


@case(lambda: (t(3),))
def same_result_twice(x):
    y = x * 2
    return y, y, [y, x], y


@case(lambda: (t(3),))
def in_place_functions(x):
    y = x.clone()
    F.relu(y, inplace=True)
    y.clamp_(0, 1).neg_()
    y.copy_(torch.ones(3))
    y.requires_grad_(False)
    y.uniform_(0, 0)
    return y.fill_(4).sub_(x).zero_().add_(1)


@case(lambda: (t(3),))
def swapped_data(x):
    y = torch.ones(3)
    x.data = y * 2
    return x + 1, x.data


@case(lambda: (t(3),))
def data_changed(x):
    x.data.add_(1)
    x.data[0] = 9
    return x * 2


@case(lambda: (t(3), t(5)))
def resized(x, y):
    x.resize_(2)
    y.unsqueeze_(0)
    x.set_(torch.ones(4))
    return x, y


@case(lambda: (t(3),))
def out_argument(x):
    y = torch.zeros(3)
    z = torch.mul(x, 2, out=y)
    torch.sin(x, out=x)
    return y, z is y


@case(lambda: (t(3), t(3)))
def out_is_an_argument(x, y):
    torch.add(x, 1, out=y)


@case(lambda: (t(3, grad=True),))
def leaf_in_place(x):
    x += 1
    return x


@case(lambda: (t(3, grad=True),))
def leaf_in_place_without_grad(x):
    with torch.no_grad():
        x += 1
    return x * 2


@case(lambda: (t(1, 3).expand(2, 3),))
def expanded_in_place(x):
    x += 1
    return x


@case(lambda: (t(3), t(4)))
def wrong_in_place_shape(x, y):
    x.mul_(2)
    x.add_(y)
    return x


@case(lambda: (t(3, dtype=torch.int64),))
def wrong_in_place_dtype(x):
    x += 1
    x += 0.5
    return x


@maker(lambda: (t(3),))
def buffer_of_a_closure():
    total = torch.zeros(3)

    def f(x):
        total.add_(x)
        return total * 2

    return f


@maker(lambda: (t(3),))
def state_handed_out():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(3))

        def forward(self, x):
            self.state += x
            return self.state, self.state[1:]

    return Net()


@maker(lambda: (t(2),))
def results_kept_in_a_list():
    kept = []

    def f(x):
        y = x + len(kept)
        kept.append(y)
        if len(kept) > 1:
            kept[0].add_(1)
        return y, kept[0]

    return f


@case(lambda: (t(4),), lambda: (t(6),))
def clone_and_detach(x):
    a, b, c = x.clone(), x.detach(), x.view_as(x)
    b.add_(1)
    return a, b, c, b is x, x.detach().clone()


@case(lambda: (t(2, 2),))
def list_of_views_changed_in_a_loop(x):
    for row in x:
        row *= 2
        for value in row:
            value += 1
    return x.sum()


@case(lambda: ([t(2), t(2)],))
def foreach(xs):
    torch._foreach_add_(xs, 1.0)
    return torch._foreach_mul(xs, 2), xs


@case(lambda: (t(3),))
def failing_after_a_change(x):
    x.add_(1)
    kept = [x]
    kept.append(x * 2)
    raise ValueError("after", kept)


@case(lambda: (t(3), []))
def change_then_break_then_change(x, log):
    x.add_(1)
    log.append("one")
    print("sum", x.sum().item())
    x.mul_(2)
    log.append(x)
    return x + 1


@case(lambda: (t(4, 6),), lambda: (t(6, 6),))
def composites_into_given_tensors(x):
    outs = [torch.empty(0) for _ in range(7)]
    torch.linalg.norm(x, 2.0, out=outs[0])
    torch.linalg.norm(x, 1, 0, True, out=outs[1])
    torch.linalg.matrix_norm(x, 1, out=outs[2])
    torch.norm(x, "nuc", out=outs[3])
    torch.matmul(x, x.T, out=outs[4])
    torch.tensordot(x, x, 2, out=outs[5])
    torch.linalg.multi_dot([x, x.T, x], out=outs[6])
    filled = torch.ones(4 if len(x) == 4 else 6, 6)
    torch.linalg.multi_dot([x, x.T, x], out=filled)
    return outs, filled
