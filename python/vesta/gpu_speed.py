"""How fast a GPU is, for estimates: measured once, in under a second, and kept in the cache."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch

from vesta.machine_speed import Product, Speed, kept_speed

__all__ = ["measure_gpu", "speed_of_gpu"]

CALLS, RUNS = 20, 5  # calls in a graph, and launches of it
WARM_SECONDS = 0.1
LARGE, SMALL = 512 << 20, 4 << 20  # bytes of the tensors that are copied: beyond the second cache, and in it
DTYPES = (("f32", torch.float32), ("bf16", torch.bfloat16), ("f16", torch.float16))
# The sizes of the products from which a family's two numbers are found.
LINEAR = ((128, 1024), (4096, 4096))  # rows, columns
CONVOLUTION = ((1, 64, 28), (16, 256, 56))  # images, channels, side of the image
ATTENTION = (128, 2048)  # queries


def speed_of_gpu(device: torch.device) -> Speed:
    """The speed as the cache has it for this GPU and PyTorch, or else measured now."""
    about = torch.__version__, torch.version.cuda, str(torch.cuda.get_device_properties(device))
    return kept_speed(about, lambda: measure_gpu(device))


def measure_gpu(device: torch.device) -> Speed:
    """Measures copies, products and a small operator, each in a CUDA graph of twenty calls."""
    with torch.cuda.device(device), torch.inference_mode(), torch.device(device):
        stream = torch.cuda.Stream()

        def microseconds(call: Callable[[], object]) -> float:
            return time_on(stream, call)

        before = torch.cuda.memory_allocated()
        with torch.cuda.stream(stream):
            raise_clocks()
        workspace = torch.cuda.memory_allocated() - before  # the stream keeps it
        copies = {}
        for size in (LARGE, SMALL):
            a, b = torch.ones(size // 4), torch.empty(size // 4)
            copies[size] = 2 * size / microseconds(lambda a=a, b=b: torch.add(a, 1, out=b))  # type: ignore[misc]
        del a, b
        products = {}
        for name, dtype in DTYPES:
            for family, (few, call), (many, large_call) in families(dtype):
                start, whole = microseconds(call), microseconds(large_call)
                products[f"{family} {name}"] = start, (many - few) / max(whole - start, 1e-3)
        x, y = torch.ones(8), torch.empty(8)
        call_us = microseconds(lambda: torch.sub(x, x, out=y))
        cache = torch.cuda.get_device_properties(device).L2_cache_size
        return Speed(
            copies[LARGE],
            copies[SMALL],
            products,
            call_us,
            1.0,  # the planner's estimates are those of this GPU
            1.0,
            step_us=0.0,
            cache_bytes=cache,
            workspace=workspace,
            overlaps=True,
        )


def families(dtype: torch.dtype) -> Iterator[tuple[str, Product, Product]]:
    """A small and a large product of each family."""
    yield "attention", attention(dtype, ATTENTION[0]), attention(dtype, ATTENTION[1])
    yield "aten::linear", linear(dtype, *LINEAR[0]), linear(dtype, *LINEAR[1])
    yield "aten::convolution", convolution(dtype, *CONVOLUTION[0]), convolution(dtype, *CONVOLUTION[1])


def linear(dtype: torch.dtype, rows: int, columns: int) -> Product:
    x, w = torch.ones(rows, columns, dtype=dtype), torch.ones(columns, columns, dtype=dtype)
    return 2 * rows * columns**2, lambda: torch.nn.functional.linear(x, w)


def convolution(dtype: torch.dtype, images: int, channels: int, side: int) -> Product:
    x, w = torch.ones(images, channels, side, side, dtype=dtype), torch.ones(channels, channels, 3, 3, dtype=dtype)
    x, w = (t.to(memory_format=torch.channels_last) for t in (x, w))
    return 2 * 9 * images * channels**2 * side**2, lambda: torch.nn.functional.conv2d(x, w, padding=1)


def attention(dtype: torch.dtype, queries: int) -> Product:
    q = torch.ones(1, 16, queries, 64, dtype=dtype)
    return 4 * q.numel() * queries, lambda: torch.nn.functional.scaled_dot_product_attention(q, q, q)


def raise_clocks() -> None:
    """An idle GPU computes slowly at first."""
    x = torch.ones(4096, 4096)
    start = time.perf_counter()
    while time.perf_counter() - start < WARM_SECONDS:
        x @ x
        torch.cuda.synchronize()


def time_on(stream: torch.cuda.Stream, call: Callable[[], object]) -> float:
    """Microseconds: the shortest of a few launches of a CUDA graph of twenty calls, for one of them."""
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        for _ in range(CALLS):
            call()
    times: list[float] = []
    for _ in range(RUNS + 1):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(1e3 * begin.elapsed_time(end) / CALLS)
    return min(times[1:])
