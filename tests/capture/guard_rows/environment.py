"""State of torch: modes, defaults, flags."""

from __future__ import annotations

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from tests.capture.guard_rows import Runner, row

X = torch.linspace(-2.0, 3.0, 6).reshape(2, 3)


@row
def grad_mode(runner: Runner) -> None:
    weight = nn.Parameter(torch.ones(3))
    f = runner.compile(lambda x: (x * weight, torch.is_grad_enabled()))
    runner.call(f, X)
    with torch.no_grad():
        runner.call(f, X)
        with torch.enable_grad():
            runner.hit(f, X)
        runner.hit(f, X)
    with torch.inference_mode():
        runner.call(f, X)
    torch.set_grad_enabled(False)
    runner.call(f, X)
    torch.set_grad_enabled(True)
    runner.call(f, X)


@row
def inference_mode(runner: Runner) -> None:
    f = runner.compile(lambda x: (x * 2, torch.is_inference_mode_enabled()))
    runner.call(f, X)
    with torch.inference_mode():
        runner.call(f, X)
    runner.hit(f, X)


@row
def autocast(runner: Runner) -> None:
    f = runner.compile(lambda x: x @ x.T)
    runner.call(f, X)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        runner.call(f, X)
        with torch.autocast("cpu", enabled=False):
            runner.call(f, X)
    with torch.autocast("cpu", dtype=torch.float16):
        runner.call(f, X)
    runner.hit(f, X)


@row
def default_dtype(runner: Runner) -> None:
    f = runner.compile(lambda x: (torch.ones(3) + x, torch.tensor(1.5), torch.get_default_dtype()))
    runner.call(f, X)
    torch.set_default_dtype(torch.float64)
    runner.call(f, X)
    torch.set_default_dtype(torch.float32)
    runner.hit(f, X)


@row
def default_device(runner: Runner) -> None:
    f = runner.compile(lambda x: (torch.ones(3), torch.zeros_like(x)))
    runner.call(f, X)
    with torch.device("meta"):
        runner.call(f, X)
    torch.set_default_device("meta")
    runner.on_exit(lambda: torch.set_default_device(None))
    runner.call(f, X)
    torch.set_default_device(None)
    runner.call(f, X)


@row
def deterministic_algorithms(runner: Runner) -> None:
    f = runner.compile(lambda x: (x * 2, torch.are_deterministic_algorithms_enabled()))
    runner.call(f, X)
    torch.use_deterministic_algorithms(True)
    runner.call(f, X)
    torch.use_deterministic_algorithms(True, warn_only=True)
    runner.call(f, X)
    torch.use_deterministic_algorithms(False)
    runner.call(f, X)


@row
def number_of_threads(runner: Runner) -> None:
    f = runner.compile(lambda x: (x.sum(), torch.get_num_threads()))
    for threads in (1, 2, 1):
        torch.set_num_threads(threads)
        runner.call(f, X)


@row
def matmul_precision(runner: Runner) -> None:
    runner.on_exit(lambda: torch.set_float32_matmul_precision("highest"))
    f = runner.compile(lambda x: (x @ x.T, torch.get_float32_matmul_precision()))
    for precision in ("highest", "high", "medium", "highest"):
        torch.set_float32_matmul_precision(precision)
        runner.call(f, X)


@row
def seeds(runner: Runner) -> None:
    f = runner.compile(lambda x: x + torch.rand(3))
    for seed in (1, 2, 1):
        torch.manual_seed(seed)
        runner.call(f, X)
        runner.call(f, X)
    torch.manual_seed(1)
    runner.hit(f, X)
    state = torch.get_rng_state()
    runner.hit(f, X)
    torch.set_rng_state(state)
    runner.hit(f, X)


@row
def generator(runner: Runner) -> None:
    generator = torch.Generator().manual_seed(4)

    @runner.compile
    def f(x, g):
        return x + torch.randn(3, generator=g)

    runner.call(f, X, generator)
    runner.call(f, X, generator)
    generator.manual_seed(4)
    runner.call(f, X, generator)
    runner.call(f, X, torch.Generator().manual_seed(5))
    runner.call(f, X, None)


@row
def function_mode(runner: Runner) -> None:
    class AddOne(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            out = function(*args, **(kwargs or {}))
            return out + 1 if function is torch.sin else out

    f = runner.compile(lambda x: torch.sin(x) * 2)
    runner.call(f, X)
    with AddOne():
        runner.call(f, X)
        with AddOne():
            runner.call(f, X)
    runner.hit(f, X)


@row
def dispatch_mode(runner: Runner) -> None:
    seen = []

    class Record(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            seen.append(str(function))
            return function(*args, **(kwargs or {}))

    f = runner.compile(lambda x: torch.sin(x) * 2)
    runner.call(f, X)
    with Record():
        runner.call(f, X)
    runner.see(seen)
    runner.call(f, X)
    runner.see(seen)


@row
def saved_tensor_hooks(runner: Runner) -> None:
    seen = []
    weight = nn.Parameter(torch.ones(3))
    f = runner.compile(lambda x: (x * weight).sin())

    def step():
        f(X).sum().backward()
        runner.see(weight.grad, bool(seen))

    step()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: seen.append(1) or t, lambda t: t):
        step()
    step()


@row
def vmap_and_grad(runner: Runner) -> None:
    f = runner.compile(lambda x: (x * x).sum())
    runner.call(f, X)
    runner.call(torch.vmap(f), X)
    runner.call(torch.func.grad(f), X)
    runner.call(f, X)


@row
def anomaly_mode(runner: Runner) -> None:
    weight = nn.Parameter(torch.ones(3))
    f = runner.compile(lambda x: (x * weight, torch.is_anomaly_enabled()))
    runner.call(f, X)
    with torch.autograd.set_detect_anomaly(True):
        runner.call(f, X)
    runner.call(f, X)


@row
def printing_of_a_flag(runner: Runner) -> None:
    runner.on_exit(lambda: torch.backends.mkldnn.set_flags(True))
    f = runner.compile(lambda x: (x * 2, torch.backends.mkldnn.enabled))
    runner.call(f, X)
    torch.backends.mkldnn.set_flags(False)
    runner.call(f, X)


@row
def attention_backends(runner: Runner) -> None:
    q = X.reshape(1, 1, 2, 3)
    f = runner.compile(
        lambda q: (nn.functional.scaled_dot_product_attention(q, q, q), torch.backends.cuda.math_sdp_enabled())
    )
    runner.call(f, q)
    with nn.attention.sdpa_kernel([nn.attention.SDPBackend.FLASH_ATTENTION]):
        runner.call(f, q)
    runner.call(f, q)


@row
def stance(runner: Runner) -> None:
    f = runner.compile(lambda x: x * SCALE)
    runner.call(f, X)
    with torch.compiler.set_stance("force_eager"):
        globals()["SCALE"] = 3.0
        runner.call(f, X)
    globals()["SCALE"] = 2.0
    runner.hit(f, X)


SCALE = 2.0
