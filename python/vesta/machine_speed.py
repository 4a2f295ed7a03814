"""Measures how fast this machine is, for estimates. This takes about a second; the cache keeps the result."""

from __future__ import annotations

import hashlib
import json
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, fields, replace

import torch

from vesta import _C
from vesta.compile import compile
from vesta.explain import explain
from vesta.warming import check_of_guards, run_of_compiled

__all__ = ["Speed", "family_of", "measure_speed", "speed_of_machine"]

RUNS = 15
PASSES = 3  # of all measurements: other programs disturb one of them for its whole length
LARGE, SMALL = 64 << 20, 128 << 10  # bytes of the tensors that are copied: beyond all caches, and in the caches
OTHERS = 4 << 20  # bytes that other calls move between two calls of one kind
DTYPES = (("f32", torch.float32), ("bf16", torch.bfloat16))
# The sizes of the products from which a family's two numbers are found.
LINEAR = ((1, 8), (128, 1024))  # rows, columns
CONVOLUTION = ((64, 7), (64, 28))  # channels, side of the image; the small one is depthwise
ATTENTION = (16, 128)  # queries
RECURRENT = ((8, 16), (64, 128))  # steps, which is the number of rows, and width
ENCODER = ((8, 16), (64, 128))  # rows, width
OUTPUTS = (1, 17)  # how many tensors the smaller and the larger measured program return
# The sizes of the products by which the planner's estimates of kernels are corrected.
PRODUCT_KERNELS = ((16, 64, 64), (32, 512, 512), (128, 256, 1024))  # rows, inner, columns


@dataclass(frozen=True)
class Speed:
    """With the present number of threads.

    ``memory`` and ``cache``: bytes per microsecond, read and written, of large and small copies. ``products``: by
    family and dtype, such as "mkldnn::_linear_pointwise f32", the microseconds that a call begins with and its
    floating-point operations per microsecond. ``call_us``: microseconds of another small call into ATen.
    ``kernels`` and ``product_kernels``: by what the planner's estimates of kernels are to be multiplied, of those
    without and with matrix products. ``entry_us``: a call of a compiled module that computes next to nothing,
    without its outputs. ``check_us``: a check of that module's guards. ``run_us``: a run of its graph with one output,
    guards included. ``output_us``: what each tensor that a call returns adds. ``step_us``: what a run needs for a step
    beside the step itself. ``cache_bytes``: of the last cache. ``workspace``: bytes that libraries take once.
    ``overlaps``: a product reads its operands while it computes.
    """

    memory: float
    cache: float
    products: dict[str, tuple[float, float]]
    call_us: float
    kernels: float
    product_kernels: float
    entry_us: float = 0.0
    check_us: float = 0.0
    run_us: float = 0.0
    output_us: float = 0.0
    step_us: float = 0.2
    cache_bytes: int = 0
    workspace: int = 0
    overlaps: bool = False

    @property
    def leave_us(self) -> float:
        """What a call takes beside the run of its graph; may be negative."""
        return self.entry_us + self.output_us - self.run_us

    def product(self, op: str, dtype: str) -> tuple[float, float]:
        """The numbers of ``products`` for an operator."""
        family = family_of(op)
        known = (f"{family} {dtype}", f"aten::linear {dtype}", f"{family} f32", "aten::linear f32")
        return next(self.products[key] for key in known if key in self.products)


def family_of(op: str) -> str:
    """The operator that is measured in the place of ``op``."""
    if "conv" in op:
        return "mkldnn::_convolution_pointwise" if op.startswith("mkldnn::") else "aten::convolution"
    if "scaled_dot_product" in op:
        return "attention"
    if "rnn" in op or op.startswith(("aten::lstm", "aten::gru")):
        return "recurrent"
    if op in ("aten::_transformer_encoder_layer_fwd", "aten::_native_multi_head_attention"):
        return "encoder layer"
    return "mkldnn::_linear_pointwise" if op.startswith("mkldnn::") else "aten::linear"


NUMBERS = tuple(field.name for field in fields(Speed))  # another version may keep others


def speed_of_machine() -> Speed:
    """The speed as the cache has it for this processor, PyTorch and number of threads, or else measured now."""
    return kept_speed(circumstances(), lambda: measure_speed())


def kept_speed(circumstances: tuple[object, ...], measure: Callable[[], Speed]) -> Speed:
    """The speed as the cache has it for these circumstances, or else measured now. No random number is drawn."""
    key = "speed_" + hashlib.sha256(repr((circumstances, NUMBERS)).encode()).hexdigest()[:32]
    found = _C.cache_find(key)
    if found is not None:
        return Speed(**json.loads(found))
    with torch.random.fork_rng(devices=[]):
        speed = measure()
    _C.cache_put(key, json.dumps(asdict(speed)))
    return speed


def circumstances() -> tuple[object, ...]:
    return torch.__version__, torch.get_num_threads(), sorted(_C.host_target().items(), key=str)


def measure_speed() -> Speed:
    """Copies, multiplies and runs kernels for about a second: the best number of each kind in a few passes."""
    passes = [measure_once() for _ in range(PASSES)]

    def best(of: Callable[[Speed], float]) -> float:
        return min(map(of, passes))

    products = {}
    for key in passes[0].products:
        starts, rates = zip(*(s.products[key] for s in passes), strict=True)
        products[key] = min(starts), max(rates)
    return replace(
        passes[0],
        memory=-best(lambda s: -s.memory),
        cache=-best(lambda s: -s.cache),
        products=products,
        call_us=best(lambda s: s.call_us),
        kernels=best(lambda s: s.kernels),
        product_kernels=best(lambda s: s.product_kernels),
        entry_us=best(lambda s: s.entry_us),
        check_us=best(lambda s: s.check_us),
        run_us=best(lambda s: s.run_us),
        output_us=best(lambda s: s.output_us),
    )


def measure_once() -> Speed:
    with torch.inference_mode():
        copies = {}
        for size in (LARGE, SMALL):
            a, b = torch.ones(size, dtype=torch.uint8), torch.empty(size, dtype=torch.uint8)
            copies[size] = 2 * size / microseconds(lambda a=a, b=b: b.copy_(a))  # type: ignore[misc]
        products = {}
        for name, dtype in DTYPES:
            for family, small, large in families(dtype):
                (few, call), (many, large_call) = small, large
                start, whole = microseconds_among_others(call), microseconds(large_call)
                products[f"{family} {name}"] = start, (many - few) / max(whole - start, 1e-3)
        x, y = torch.ones(8), torch.empty(8)
        call_us = microseconds_among_others(lambda: torch.index_select(x, 0, ZERO, out=y[:1]))
        last_cache = _C.host_target()["caches"][-1]
    with torch.no_grad():  # the weights of an inference tensor are not laid out once: nothing tells of writes to it
        entry_us, check_us, run_us, output_us = microseconds_of_entry()
        kernels, product_kernels = kernel_factors(entry_us + output_us)
    return Speed(
        copies[LARGE],
        copies[SMALL],
        products,
        call_us,
        kernels,
        product_kernels,
        entry_us,
        check_us,
        run_us,
        output_us,
        cache_bytes=last_cache,
    )


ZERO = torch.zeros(1, dtype=torch.int64)
ONE_ROW = torch.ones(1, 8)
Product = tuple[int, Callable[[], object]]  # floating-point operations, and a call that makes them


def families(dtype: torch.dtype) -> Iterator[tuple[str, Product, Product]]:
    """A small and a large product of each family."""
    few, many = ATTENTION
    yield "attention", attention(dtype, few), attention(dtype, many)
    few_sizes, many_sizes = LINEAR
    yield "aten::linear", linear(dtype, False, *few_sizes), linear(dtype, False, *many_sizes)
    if has_onednn(dtype):
        yield "mkldnn::_linear_pointwise", linear(dtype, True, *few_sizes), linear(dtype, True, *many_sizes)
        few_sizes, many_sizes = CONVOLUTION
        small = convolution(dtype, *few_sizes, groups=few_sizes[0])
        yield "mkldnn::_convolution_pointwise", small, convolution(dtype, *many_sizes)
    if dtype is torch.float32:
        few_sizes, many_sizes = RECURRENT
        yield "recurrent", recurrent(*few_sizes), recurrent(*many_sizes)
        few_sizes, many_sizes = ENCODER
        yield "encoder layer", encoder_layer(*few_sizes), encoder_layer(*many_sizes)
    few_sizes, many_sizes = CONVOLUTION
    yield "aten::convolution", plain_convolution(dtype, *few_sizes), plain_convolution(dtype, *many_sizes)


def has_onednn(dtype: torch.dtype) -> bool:
    """Whether oneDNN's operators take this dtype. They take bfloat16 on processors with AVX-512 only."""
    if not torch.backends.mkldnn.is_available():
        return False
    return dtype is torch.float32 or bool(torch.ops.mkldnn._is_mkldnn_bf16_supported())


def linear(dtype: torch.dtype, with_mkldnn: bool, rows: int, columns: int) -> Product:
    x, w = torch.ones(rows, columns, dtype=dtype), torch.ones(columns, columns, dtype=dtype)
    flops = 2 * rows * columns**2
    if not with_mkldnn:
        return flops, lambda: torch.nn.functional.linear(x, w)
    return flops, lambda: torch.ops.mkldnn._linear_pointwise(x, w, None, "none", [], "")


def convolution(dtype: torch.dtype, channels: int, side: int, groups: int = 1) -> Product:
    x, w = torch.ones(1, channels, side, side, dtype=dtype), torch.ones(channels, channels // groups, 3, 3, dtype=dtype)
    x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    w = torch.ops.mkldnn._reorder_convolution_weight(w, [1, 1], [1, 1], [1, 1], groups, list(x.shape))
    call = torch.ops.mkldnn._convolution_pointwise
    flops = 2 * 9 * channels**2 // groups * side**2
    return flops, lambda: call(x, w, None, [1, 1], [1, 1], [1, 1], groups, "none", [], "")


def plain_convolution(dtype: torch.dtype, channels: int, side: int) -> Product:
    """With the weights in the program's order."""
    x, w = torch.ones(1, channels, side, side, dtype=dtype), torch.ones(channels, channels, 3, 3, dtype=dtype)
    return 2 * 9 * channels**2 * side**2, lambda: torch.conv2d(x, w, padding=1)


def attention(dtype: torch.dtype, queries: int) -> Product:
    q = torch.ones(1, 8, queries, 64, dtype=dtype)
    flops = 4 * q.numel() * queries
    return flops, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)


def recurrent(steps: int, width: int) -> Product:
    layer, x = torch.nn.LSTM(width, width).eval(), torch.ones(steps, 1, width)
    return 2 * steps * matrix_elements(layer), lambda: layer(x)


def encoder_layer(rows: int, width: int) -> Product:
    layer = torch.nn.TransformerEncoderLayer(width, 4, 4 * width, batch_first=True).eval()
    x = torch.ones(1, rows, width)
    return 2 * rows * matrix_elements(layer), lambda: layer(x)


def matrix_elements(module: torch.nn.Module) -> int:
    return sum(p.numel() for p in module.parameters() if p.dim() == 2)


def gated_softmax(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.softmax(torch.sigmoid(x) * y, -1)


def normed(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.layer_norm(x + y, x.shape[-1:])


def padded(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.pad(torch.relu(x) * y, [1, 1, 1, 1])


class Copies(torch.nn.Module):
    """Returns ``outputs`` new tensors."""

    def __init__(self, outputs: int) -> None:
        super().__init__()
        self.outputs = outputs

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return [x + i for i in range(self.outputs)]


def microseconds_of_entry() -> tuple[float, float, float, float]:
    """The time of a call of a compiled module that computes next to nothing, that of a check of its guards, that of a
    run of its graph with one output, and the time that each output adds."""
    few, many = OUTPUTS
    small, large = (compile(Copies(n), options={"cache": False, "only_if_faster": False}) for n in OUTPUTS)
    took, took_large = microseconds(lambda: small(ONE_ROW)), microseconds(lambda: large(ONE_ROW))
    check_us = microseconds(check_of_guards(small, ONE_ROW))
    run_us = microseconds(run_of_compiled(small, ONE_ROW))
    output_us = max(0.0, took_large - took) / (many - few)
    return max(0.0, took - few * output_us), check_us, run_us, output_us


def kernel_factors(entry_us: float) -> tuple[float, float]:
    """The time of kernels as measured, by their time as the planner estimates it: of those without products, and of
    those with. The geometric mean of a few of each."""
    x = torch.ones(64, 512)
    rows = [factor(f, entry_us, x, x) for f in (gated_softmax, normed, padded)]
    tiny = compile(torch.nn.Linear(8, 8), options={"cache": False})
    entry_us = microseconds(lambda: tiny(ONE_ROW))
    products = []
    for count, inner, columns in PRODUCT_KERNELS:
        layer = torch.nn.Linear(inner, columns)
        products.append(factor(layer, entry_us, torch.ones(count, inner)))
    return geometric_mean(rows), geometric_mean(products)


def geometric_mean(of: list[float]) -> float:
    return math.exp(sum(map(math.log, of)) / len(of))


def factor(function: Callable[..., object], entry_us: float, *args: torch.Tensor) -> float:
    compiled = compile(function, options={"cache": False})
    took = max(0.1, microseconds(lambda: compiled(*args)) - entry_us)
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


def microseconds_among_others(call: Callable[[], object]) -> float:
    """The same of a call between others, which leave nothing of it in the caches next to the cores."""
    others = torch.ones(OTHERS, dtype=torch.uint8), torch.empty(OTHERS, dtype=torch.uint8)
    call()
    times = []
    for _ in range(RUNS):
        others[1].copy_(others[0])
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times) * 1e6
