"""Modes of torch as context managers and decorators."""

from __future__ import annotations

import contextlib

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.capture.case import case, maker, t

weight = torch.ones(3, requires_grad=True)


@case(lambda: (t(3, grad=True),), lambda: (t(3),))
def no_grad(x):
    with torch.no_grad():
        y = x * weight
        inside = torch.is_grad_enabled()
    return y, y.requires_grad, inside, torch.is_grad_enabled(), x * weight


@case(lambda: (t(3, grad=True),))
def enable_grad_inside_no_grad(x):
    with torch.no_grad():
        with torch.enable_grad():
            y = x * 2
        z = x * 3
    return y, z, y.requires_grad, z.requires_grad


@case(lambda: (t(3, grad=True), True), lambda: (t(3, grad=True), False))
def set_grad_enabled(x, on):
    with torch.set_grad_enabled(on):
        y = x * 2
    return y, y.requires_grad


@case(lambda: (t(3),))
def set_grad_enabled_left_off(x):
    torch.set_grad_enabled(False)
    y = x * weight
    return y, y.requires_grad


@case(lambda: (t(3, grad=True),))
def grad_mode_raises_inside(x):
    try:
        with torch.no_grad():
            x = x * 2
            raise ValueError(torch.is_grad_enabled())
    except ValueError as error:
        return x, error.args, torch.is_grad_enabled()


@case(lambda: (t(3),))
def returned_from_inside_with(x):
    with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
        return x * weight, torch.is_grad_enabled()


@torch.no_grad()
def decorated(x):
    return x * weight, torch.is_grad_enabled()


case(lambda: (t(3),))(decorated)


@case(lambda: (t(3),))
def calls_a_decorated_function(x):
    y, inside = decorated(x)
    return y, inside, x * weight


@torch.inference_mode()
@case(lambda: (t(3),))
def inside_inference_mode_decorator(x):
    return x * 2


@case(lambda: (t(3),))
def inference_mode(x):
    with torch.inference_mode():
        y = x * 2
        inside = torch.is_inference_mode_enabled()
    return y.is_inference(), inside, y + 1


@case(lambda: (t(3),))
def inference_tensor_written_outside(x):
    with torch.inference_mode():
        y = x * 2
    try:
        y.add_(1)
    except RuntimeError as error:
        return type(error).__name__, y
    return y


@case(lambda: (t(3),), lambda: (t(3, grad=True),), lambda: (t(3),))
@torch.no_grad()
def flags_without_gradients(x):
    y = x * 2
    return x.requires_grad, x.is_leaf, y.requires_grad, y


class _Hundred(TorchFunctionMode):
    def __torch_function__(self, function, types, args=(), kwargs=None):
        out = function(*args, **(kwargs or {}))
        return out + 100 if function is torch.sin else out


@case(lambda: (t(3),))
def function_mode_over_a_break(x):
    with _Hundred():
        y = torch.sin(x)
        total = y.sum().item()
        z = torch.sin(y)
    return z, total, torch.sin(x)


@case(lambda: (t(3, 3),))
def autocast(x):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        y = x @ x
        with torch.autocast("cpu", enabled=False):
            z = x @ x
        w = y.float() @ x
    return y, z, w, x @ x


@maker(lambda: (t(2, 3),))
def autocast_of_a_module():
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Softmax(-1))

    @torch.autocast("cpu", dtype=torch.bfloat16)
    def f(x):
        return net(x), torch.is_autocast_enabled("cpu")

    return f


@case(lambda: (t(3),))
def default_dtype(x):
    old = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    try:
        y = torch.ones(3) + x
    finally:
        torch.set_default_dtype(old)
    return y, torch.ones(3)


@case(lambda: (t(3),))
def default_dtype_left_changed(x):
    torch.set_default_dtype(torch.float64)
    return torch.zeros(3) + x


@case(lambda: (t(3),))
def device_context(x):
    with torch.device("meta"):
        y = torch.ones(3)
    with torch.device("cpu"):
        z = torch.ones(3)
    return y.device, z + x


@case(lambda: (t(3),))
def function_mode_inside(x):
    class Doubled(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            return out * 2 if function is torch.sin else out

    with Doubled():
        y = torch.sin(x)
    return y, torch.sin(x)


@case(lambda: (t(3),))
def function_mode_that_records(x):
    names = []

    class Record(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            names.append(getattr(function, "__name__", "?"))
            return function(*args, **(kwargs or {}))

    with Record():
        y = (torch.sin(x) + x.shape[0]).relu()
    return y, names


@case(lambda: (t(3),))
def dispatch_mode_inside(x):
    names = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            names.append(str(function))
            return function(*args, **(kwargs or {}))

    with Record():
        y = x.sin() + 1
    return y, names


@case(lambda: (t(3), 0), lambda: (t(3), 1), lambda: (t(3), 2))
def exit_stack(x, depth):
    with contextlib.ExitStack() as stack:
        for _ in range(depth):
            stack.enter_context(torch.no_grad())
        stack.callback(print, "left", depth)
        y = x * weight
    return y, y.requires_grad


@contextlib.contextmanager
def scaled(values, by):
    values.append(by)
    try:
        yield by * 2
    finally:
        values.pop()


@case(lambda: (t(3),))
def own_context_manager(x):
    values = []
    with scaled(values, 3) as twice:
        x = x * twice + len(values)
    return x, values


@case(lambda: (t(3),), lambda: (t(3), True))
def conditional_context(x, use=False):
    with torch.no_grad() if use else contextlib.nullcontext():
        return x * weight


@case(lambda: (t(3),))
def context_object_made_before_and_used_twice(x):
    mode = torch.no_grad()
    with mode:
        y = x * weight
    z = x * weight
    with mode:
        w = x * weight
    return y.requires_grad, z.requires_grad, w.requires_grad


@case(lambda: (t(3),))
def profiler_ranges(x):
    with torch.profiler.record_function("part"):
        y = x * 2
    with torch.autograd.profiler.record_function("other"):
        return y + 1


@case(lambda: (t(3),))
def forked_generator(x):
    with torch.random.fork_rng():
        torch.manual_seed(5)
        a = torch.rand(3)
    return x + a, torch.rand(3)


@case(lambda: (t(3),))
def disabled_torch_function(x):
    with torch._C.DisableTorchFunctionSubclass():
        return x * 2, torch._C._is_torch_function_enabled()


@case(lambda: (t(3, grad=True),))
def saved_tensors_hooks(x):
    packed = []
    with torch.autograd.graph.saved_tensors_hooks(lambda v: packed.append(v.shape) or v, lambda v: v):
        y = (x * x).sum()
    y.backward()
    return x.grad, packed


@case(lambda: (t(3),))
def is_compiling_is_no_secret(x):
    """Either answer gives the same numbers."""
    return x * 2 if torch.compiler.is_compiling() else x + x


@case(lambda: (t(3),))
def a_disabled_function_inside(x):
    @torch.compiler.disable
    def g(x):
        return x * 2 if float(x.sum()) > 0 else x * 3

    return g(x + 1) + 1


@case(lambda: (t(3, 4),))
def sdpa_kernel(x):
    q = x[None, None]
    with nn.attention.sdpa_kernel(nn.attention.SDPBackend.MATH):
        return nn.functional.scaled_dot_product_attention(q, q, q)
