"""Subclasses of Tensor and torch function."""

from __future__ import annotations

import torch
from torch import nn

from tests.capture.case import case, maker, t


class Plain(torch.Tensor):
    pass


@case(lambda: (t(3).as_subclass(Plain),))
def without_own_functions(x):
    y = x * 2
    return y, type(y).__name__, isinstance(y, torch.Tensor), y.sum(), torch.cat([y, x]), type(x[0]).__name__


class Logged(torch.Tensor):
    log: list[str] = []  # noqa: RUF012

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        cls.log.append(function.__name__)
        return super().__torch_function__(function, types, args, kwargs or {})


@case(lambda: (t(3).as_subclass(Logged), t(3)))
def logged(x, y):
    z = torch.add(x, y).relu() * 2
    return z, list(Logged.log), x.shape


class Doubling(torch.Tensor):
    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs or {})
        return out * 2 if function is torch.Tensor.sin else out


@case(lambda: (t(3).as_subclass(Doubling),), lambda: (t(3),))
def function_replaced(x):
    return x.sin(), x.cos()


class Tagged(torch.Tensor):
    """Counts the operations that led to it."""

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        out = super().__torch_function__(function, types, args, kwargs or {})
        if type(out) is cls:
            out.count = 1 + max(getattr(a, "count", 0) for a in args if isinstance(a, torch.Tensor))
        return out


@case(lambda: (t(3).as_subclass(Tagged),), lambda: (t(4).as_subclass(Plain),))
def tensors_of_a_subclass_are_made(x):
    y = (x * 2).relu() + x
    z = torch.zeros_like(y).as_subclass(type(x))
    x.mul_(2)
    pair = [y, {"z": z, "same": y}]
    return (
        pair,
        getattr(y, "count", None),
        type(y[:1]).__name__,
        pair[1]["same"] is y,
        y.sum().as_subclass(torch.Tensor),
    )


@case(lambda: (t(3, grad=True).as_subclass(Tagged),), lambda: (t(3, grad=True).as_subclass(Plain),))
def gradients_of_a_subclass(x):
    (x.sin() * 2).sum().backward()
    y = x.detach() * 3
    return x, y, y.requires_grad, (x * 2).requires_grad


class Wrapper:
    """Not a tensor: only its functions are."""

    def __init__(self, value):
        self.value = value

    @classmethod
    def __torch_function__(cls, function, types, args=(), kwargs=None):
        def plain(v):
            return v.value if isinstance(v, Wrapper) else v

        out = function(*map(plain, args), **{k: plain(v) for k, v in (kwargs or {}).items()})
        return Wrapper(out) if isinstance(out, torch.Tensor) else out


@case(lambda: (Wrapper(t(3)), t(3)))
def tensor_like(x, y):
    z = torch.add(x, y)
    return torch.nn.functional.relu(z), torch.mul(y, z), torch.is_tensor(x), z.value


class WithData(torch.Tensor):
    @staticmethod
    def __new__(cls, value, note):
        made = torch.Tensor._make_subclass(cls, value)
        made.note = note
        return made

    @property
    def loud(self):
        return self.note.upper()


@case(lambda: (WithData(t(3), "a"),))
def with_data(x):
    return x.note, x.loud, x + 1, WithData(t(2), "b").note


class Dispatching(torch.Tensor):
    @staticmethod
    def __new__(cls, inner):
        return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype, strides=inner.stride())

    def __init__(self, inner):
        self.inner = inner

    def __repr__(self):
        return f"Dispatching({self.inner})"

    @classmethod
    def __torch_dispatch__(cls, function, types, args=(), kwargs=None):
        args = torch.utils._pytree.tree_map_only(cls, lambda v: v.inner, args)
        out = function(*args, **(kwargs or {}))
        return cls(out) if isinstance(out, torch.Tensor) else out


@case(lambda: (t(3),), drive=lambda f, x: f(Dispatching(x)).inner)
def dispatching(x):
    return (x * 2).sin() + 1


@case(lambda: (t(3),))
def dispatching_made_inside(x):
    return (Dispatching(x) + 1).inner, x * 2


@maker(lambda: (t(2, 3),))
def parameter_of_a_subclass():
    class Scaled(nn.Parameter):
        pass

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = Scaled(torch.ones(3) * 2)

        def forward(self, x):
            return x * self.weight, type(self.weight).__name__, isinstance(self.weight, nn.Parameter)

    return Net()


class Operators(torch.Tensor):
    def __add__(self, other):
        return torch.Tensor.__add__(self, other) * 100

    def __getattr__(self, name):
        if name == "anything":
            return 5
        raise AttributeError(name)


@case(lambda: (t(3).as_subclass(Operators),))
def operators_of_a_subclass(x):
    return x + 1, 1 + x, x.anything, hasattr(x, "nothing")


@torch.library.custom_op("vesta_cases::scaled", mutates_args=())
def _scaled(x: torch.Tensor, by: float) -> torch.Tensor:
    return x * by


@_scaled.register_fake
def _(x, by):
    return torch.empty_like(x)


@case(lambda: (t(3), 2.0), lambda: (t(4), 3.0))
def custom_operator(x, by):
    return _scaled(x, by) + torch.ops.vesta_cases.scaled(x, by), torch.ops.aten.sin(x), torch.ops.aten.add.Tensor(x, x)
