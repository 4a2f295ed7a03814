"""How fast this machine is, for estimates: measured once, in under a second, and kept in the cache."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields

import torch

from vesta import _C
from vesta.compile import compile
from vesta.explain import explain

__all__ = ["Speed", "family_of", "measure_speed", "speed_of_machine"]

RUNS = 15
LARGE, SMALL = 64 << 20, 128 << 10  # bytes of the tensors that are copied: beyond all caches, and in the caches
DTYPES = (("f32", torch.float32), ("bf16", torch.bfloat16))
# The sizes of the products from which a family's two numbers are found.
LINEAR = ((1, 8), (128, 1024))  # rows, columns
CONVOLUTION = ((8, 4), (64, 28))  # channels, side of the image
ATTENTION = (1, 128)  # queries


@dataclass(frozen=True)
class Speed:
    """With the present number of threads.

    ``memory`` and ``cache``: bytes per microsecond, read and written, of large and small copies. ``products``: by
    family and dtype, such as "mkldnn::_linear_pointwise f32", the microseconds that a call begins with and its
    floating-point operations per microsecond. ``call_us``: microseconds of another small call into ATen. ``kernels``:
    by what the planner's estimates of kernels are to be multiplied. ``step_us``: what a run needs for a step beside the
    step itself. ``cache_bytes``: of the last cache. ``workspace``: bytes that libraries take once. ``overlaps``: a
    product reads its operands while it computes.
    """

    memory: float
    cache: float
    products: dict[str, tuple[float, float]]
    call_us: float
    kernels: float
    step_us: float = 0.2
    cache_bytes: int = 0
    workspace: int = 0
    overlaps: bool = False

    def product(self, op: str, dtype: str) -> tuple[float, float]:
        """The numbers of ``products`` for an operator."""
        known = (f"{family_of(op)} {dtype}", f"aten::linear {dtype}", f"{family_of(op)} f32", "aten::linear f32")
        return next(self.products[key] for key in known if key in self.products)


def family_of(op: str) -> str:
    """The operator that is measured in the place of ``op``."""
    if "conv" in op:
        return "mkldnn::_convolution_pointwise"
    if "scaled_dot_product" in op:
        return "attention"
    return "mkldnn::_linear_pointwise" if op.startswith("mkldnn::") else "aten::linear"


NUMBERS = tuple(field.name for field in fields(Speed))  # another version may keep others


def speed_of_machine() -> Speed:
    """The speed as the cache has it for this processor, PyTorch and number of threads, or else measured now."""
    return kept_speed(circumstances(), lambda: measure_speed())


def kept_speed(circumstances: tuple[object, ...], measure: Callable[[], Speed]) -> Speed:
    """The speed as the cache has it for these circumstances, or else measured now."""
    key = "speed_" + hashlib.sha256(repr((circumstances, NUMBERS)).encode()).hexdigest()[:32]
    found = _C.cache_find(key)
    if found is not None:
        return Speed(**json.loads(found))
    speed = measure()
    _C.cache_put(key, json.dumps(asdict(speed)))
    return speed


def circumstances() -> tuple[object, ...]:
    return torch.__version__, torch.get_num_threads(), sorted(_C.host_target().items(), key=str)


def measure_speed() -> Speed:
    """Copies, multiplies and runs a kernel for a few hundred milliseconds."""
    with torch.inference_mode():
        copies = {}
        for size in (LARGE, SMALL):
            a, b = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
            copies[size] = 2 * size / microseconds(lambda a=a, b=b: b.copy_(a))  # type: ignore[misc]
        products = {}
        for name, dtype in DTYPES:
            for family, small, large in families(dtype):
                (few, call), (many, large_call) = small, large
                start, whole = microseconds(call), microseconds(large_call)
                products[f"{family} {name}"] = start, (many - few) / max(whole - start, 1e-3)
        x, y = torch.ones(8), torch.empty(8)
        call_us = microseconds(lambda: torch.index_select(x, 0, ZERO, out=y[:1]))
        last_cache = _C.host_target()["caches"][-1]
        return Speed(copies[LARGE], copies[SMALL], products, call_us, kernel_factor(), cache_bytes=last_cache)


ZERO = torch.zeros(1, dtype=torch.int64)
Product = tuple[int, Callable[[], object]]  # floating-point operations, and a call that makes them


def families(dtype: torch.dtype) -> Iterator[tuple[str, Product, Product]]:
    """A small and a large product of each family."""
    few, many = ATTENTION
    yield "attention", attention(dtype, few), attention(dtype, many)
    few_sizes, many_sizes = LINEAR
    yield "aten::linear", linear(dtype, False, *few_sizes), linear(dtype, False, *many_sizes)
    if torch.backends.mkldnn.is_available():
        yield "mkldnn::_linear_pointwise", linear(dtype, True, *few_sizes), linear(dtype, True, *many_sizes)
        few_sizes, many_sizes = CONVOLUTION
        yield "mkldnn::_convolution_pointwise", convolution(dtype, *few_sizes), convolution(dtype, *many_sizes)


def linear(dtype: torch.dtype, with_mkldnn: bool, rows: int, columns: int) -> Product:
    x, w = torch.ones(rows, columns, dtype=dtype), torch.ones(columns, columns, dtype=dtype)
    flops = 2 * rows * columns**2
    if not with_mkldnn:
        return flops, lambda: torch.nn.functional.linear(x, w)
    return flops, lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")


def convolution(dtype: torch.dtype, channels: int, side: int) -> Product:
    x, w = torch.ones(1, channels, side, side, dtype=dtype), torch.ones(channels, channels, 3, 3, dtype=dtype)
    x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    w = torch.ops.mkldnn._reorder_convolution_weight(w, [1, 1], [1, 1], [1, 1], 1, list(x.shape))
    call = torch.ops.mkldnn._convolution_pointwise
    flops = 2 * 9 * channels**2 * side**2
    return flops, lambda: call(x, w, None, [1, 1], [1, 1], [1, 1], 1, "none", [], "")


def attention(dtype: torch.dtype, queries: int) -> Product:
    q = torch.ones(1, 8, queries, 64, dtype=dtype)
    flops = 4 * q.numel() * queries
    return flops, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)


def gated_softmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.sigmoid(x) * y, -1)


def kernel_factor() -> float:
    """The time of a kernel as measured, by its time as the planner estimates it."""
    compiled = compile(gated_softmax, options={"cache": False})
    x = torch.ones(64, 512)
    took = microseconds(lambda: compiled(x, x))
    reports = [v for v in explain(compiled).explanation.variants if v.kernels]
    estimated = sum(k.estimated_us for v in reports for k in v.kernels)
    return took / estimated if estimated else 1.0


def microseconds(call: Callable[[], object]) -> float:
    """The shortest of a few runs, which others on this machine disturb least. Brief calls are repeated in each run."""
    call()
    start = time.perf_counter()
    call()
    repeats = max(1, math.ceil(100e-6 / (time.perf_counter() - start)))
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        for _ in range(repeats):
            call()
        times.append((time.perf_counter() - start) / repeats)
    return min(times) * 1e6
