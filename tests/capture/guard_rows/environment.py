"""State of torch: modes, defaults, flags."""

from __future__ import annotations

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.capture.guard_rows import Door, row

X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)


@row
def grad_mode(door: Door) -> None:
    weight = nn.Parameter(torch.ones(3))
    f = door.compile(lambda x: (x * weight, torch.is_grad_enabled()))
    door.call(f, X)
    with torch.no_grad():
        door.call(f, X)
        with torch.enable_grad():
            door.hit(f, X)
        door.hit(f, X)
    with torch.inference_mode():
        door.call(f, X)
    torch.set_grad_enabled(False)
    door.call(f, X)
    torch.set_grad_enabled(True)
    door.call(f, X)


@row
def inference_mode(door: Door) -> None:
    f = door.compile(lambda x: (x * 2, torch.is_inference_mode_enabled()))
    door.call(f, X)
    with torch.inference_mode():
        door.call(f, X)
    door.hit(f, X)


@row
def autocast(door: Door) -> None:
    f = door.compile(lambda x: x @ x.T)
    door.call(f, X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        door.call(f, X)
        with torch.autocast("cpu", enabled=False):
            door.call(f, X)
    with torch.autocast("cpu", dtype=torch.float16):
        door.call(f, X)
    door.hit(f, X)


@row
def default_dtype(door: Door) -> None:
    f = door.compile(lambda x: (torch.ones(3) + x, torch.tensor(1.5), torch.get_default_dtype()))
    door.call(f, X)
    torch.set_default_dtype(torch.float64)
    door.call(f, X)
    torch.set_default_dtype(torch.float32)
    door.hit(f, X)


@row
def default_device(door: Door) -> None:
    f = door.compile(lambda x: (torch.ones(3), torch.zeros_like(x)))
    door.call(f, X)
    with torch.device("meta"):
        door.call(f, X)
    torch.set_default_device("meta")
    door.on_exit(lambda: torch.set_default_device(None))
    door.call(f, X)
    torch.set_default_device(None)
    door.call(f, X)


@row
def deterministic_algorithms(door: Door) -> None:
    f = door.compile(lambda x: (x * 2, torch.are_deterministic_algorithms_enabled()))
    door.call(f, X)
    torch.use_deterministic_algorithms(True)
    door.call(f, X)
    torch.use_deterministic_algorithms(True, warn_only=True)
    door.call(f, X)
    torch.use_deterministic_algorithms(False)
    door.call(f, X)


@row
def number_of_threads(door: Door) -> None:
    f = door.compile(lambda x: (x.sum(), torch.get_num_threads()))
    for threads in (1, 2, 1):
        torch.set_num_threads(threads)
        door.call(f, X)


@row
def matmul_precision(door: Door) -> None:
    door.on_exit(lambda: torch.set_float32_matmul_precision("highest"))
    f = door.compile(lambda x: (x @ x.T, torch.get_float32_matmul_precision()))
    for precision in ("highest", "high", "medium", "highest"):
        torch.set_float32_matmul_precision(precision)
        door.call(f, X)


@row
def seeds(door: Door) -> None:
    f = door.compile(lambda x: x + torch.rand(3))
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        door.call(f, X)
        door.call(f, X)
    torch.manual_seed(1)
    door.hit(f, X)
    state = torch.get_rng_state()
    door.hit(f, X)
    torch.set_rng_state(state)
    door.hit(f, X)


@row
def generator(door: Door) -> None:
    generator = torch.Generator().manual_seed(4)

    @door.compile
    def f(x, g):
        return x + torch.randn(3, generator=g)

    door.call(f, X, generator)
    door.call(f, X, generator)
    generator.manual_seed(4)
    door.call(f, X, generator)
    door.call(f, X, torch.Generator().manual_seed(5))
    door.call(f, X, None)


@row
def function_mode(door: Door) -> None:
    class AddOne(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            return out + 1 if function is torch.sin else out

    f = door.compile(lambda x: torch.sin(x) * 2)
    door.call(f, X)
    with AddOne():
        door.call(f, X)
        with AddOne():
            door.call(f, X)
    door.hit(f, X)


@row
def dispatch_mode(door: Door) -> None:
    seen = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    f = door.compile(lambda x: torch.sin(x) * 2)
    door.call(f, X)
    with Record():
        door.call(f, X)
    door.see(seen)
    door.call(f, X)
    door.see(seen)


@row
def saved_tensor_hooks(door: Door) -> None:
    seen = []
    weight = nn.Parameter(torch.ones(3))
    f = door.compile(lambda x: (x * weight).sin())

    def step():
        f(X).sum().backward()
        door.see(weight.grad, bool(seen))

    step()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        step()
    step()


@row
def vmap_and_grad(door: Door) -> None:
    f = door.compile(lambda x: (x * x).sum())
    door.call(f, X)
    door.call(torch.vmap(f), X)
    door.call(torch.func.grad(f), X)
    door.call(f, X)


@row
def anomaly_mode(door: Door) -> None:
    weight = nn.Parameter(torch.ones(3))
    f = door.compile(lambda x: (x * weight, torch.is_anomaly_enabled()))
    door.call(f, X)
    with torch.autograd.set_detect_anomaly(True):
        door.call(f, X)
    door.call(f, X)


@row
def printing_of_a_flag(door: Door) -> None:
    door.on_exit(lambda: torch.backends.mkldnn.set_flags(True))
    f = door.compile(lambda x: (x * 2, torch.backends.mkldnn.enabled))
    door.call(f, X)
    torch.backends.mkldnn.set_flags(False)
    door.call(f, X)


@row
def attention_backends(door: Door) -> None:
    q = X.reshape(1, 1, 2, 3)
    f = door.compile(
        lambda q: (nn.functional.scaled_dot_product_attention(q, q, q), torch.backends.cuda.math_sdp_enabled())
    )
    door.call(f, q)
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.FLASH_ATTENTION]):
        door.call(f, q)
    door.call(f, q)


@row
def stance(door: Door) -> None:
    f = door.compile(lambda x: x * SCALE)
    door.call(f, X)
    with torch.compiler.set_stance("force_eager"):
        globals()["SCALE"] = 3.0
        door.call(f, X)
    globals()["SCALE"] = 2.0
    door.hit(f, X)


SCALE = 2.0
