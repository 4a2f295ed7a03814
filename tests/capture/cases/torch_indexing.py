"""Indexing: read and written."""

from __future__ import annotations

import torch

from tests.capture.case import case, t


@case(lambda: (t(4, 5),), lambda: (t(6, 5),))
def integers_and_slices(x):
    return (
        x[0],
        x[-1, 2],
        x[1:3],
        x[:, ::2],
        x[:-1, 1:],
        x[..., 0],
        x[None],
        x[:, None, 1],
        x[()],
        x[2:2],
        x[slice(None, 2)],
    )


@case(lambda: (t(4, 5), 1), lambda: (t(4, 5), 2), lambda: (t(4, 5), -1), lambda: (t(4, 5), 4))
def variable_index(x, i):
    return x[i], x[:i], x[i:], x[:, i], x[i - 1 : i + 1]


@case(lambda: (t(4, 5),))
def tensors_as_indices(x):
    at = torch.tensor([2, 0, 3])
    return (
        x[at],
        x[at, at],
        x[:, at],
        x[at[:, None], at],
        x[at, 1:3],
        x[at.int()],
        x[at[0]],
        x[[0, 2]],
        x[[0, 1], [1, 2]],
    )


@case(lambda: (t(4, 5),))
def masks(x):
    mask = x > 0
    rows = torch.tensor([True, False, True, False])
    return x[mask], x[rows], x[rows, 1], x[~rows][:, 0], x.masked_fill(mask, 0.0), torch.where(mask, x, 0.0)


@case(lambda: (t(4, 5),))
def booleans_and_none(x):
    return x[True], x[False], x[None, True], x[[True, False, True, False]], x[None, ..., None]


@case(lambda: (t(4, 5),), lambda: (t(3, 5),))
def written(x):
    y = x.clone()
    y[0] = 1
    y[:, 1] = torch.arange(y.shape[0])
    y[1:3, ::2] += 10
    y[y > 5] = -1
    y[torch.tensor([0, 2]), 3] = torch.tensor([7.0, 8.0])
    y[..., -1] *= 2
    y[None, 0, 0] = 5
    return y


@case(lambda: (t(4, 5),))
def argument_written(x):
    x[0, 0] = 100
    x[1] = x[2]
    x[:, 2].fill_(3)
    x[3][1:] += 1
    return x.sum()


@case(lambda: (t(4),))
def index_functions(x):
    at = torch.tensor([0, 2])
    y = torch.zeros(4).index_add(0, at, x[:2]).index_copy(0, at, x[2:]).index_fill(0, torch.tensor([1]), 9)
    z = torch.zeros(4).scatter(0, at, x[:2]).scatter_add(0, at, x[:2])
    return (
        y,
        z,
        x.gather(0, at),
        x.take(at),
        x.index_select(0, at),
        torch.zeros(4).put(at, x[:2]),
        x.take_along_dim(at, 0),
    )


@case(lambda: (t(3, 3),))
def nested_index_writes(x):
    rows = [x.clone() for _ in range(2)]
    rows[0][1] = rows[1][2] * 2
    rows[1][0][0] = 50
    table = {"x": x}
    table["x"][0] += 1
    table["x"] += 1
    return rows, table, x


@case(lambda: (t(3),), lambda: (t(2),))
def out_of_range(x):
    return x[2] + x[x.shape[0] - 2]


@case(lambda: (t(3),))
def wrong_index(x):
    return x["a"]


@case(lambda: (t(3),))
def deleted_item(x):
    del x[0]
    return x


@case(lambda: (t(6), torch.tensor(2)), lambda: (t(6), torch.tensor(3)))
def index_by_a_scalar_tensor(x, i):
    values = list(range(10))
    return x[i], x[:i], values[i], values[: i + 1], range(10)[i], "abcdef"[i]


@case(lambda: (t(2, 3, 4),))
def ellipsis_and_dots(x):
    key = (slice(None), ..., 0)
    return x[key], x[(..., slice(1, 3))], x[..., [0, 1]], x[0, ..., 1], x.__getitem__((0, 1))


@case(lambda: (t(5),))
def self_assignment_with_overlap(x):
    y = x.clone()
    y[1:] = y[:-1].clone()
    y[:2], y[2:4] = y[2:4].clone(), y[:2].clone()
    y[0], y[1] = y[1], y[0]
    return y
