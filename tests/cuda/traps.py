"""Situations in which compiling for GPUs may go wrong, each in a process of its own: `traps()` by name."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import torch
import torch.nn.functional as F

ALLOCATORS = {
    "PyTorch's allocator": "",
    "expandable segments": "expandable_segments:True",
    "cudaMallocAsync": "backend:cudaMallocAsync",
}
# It ends the process when the device is lost, as it does in eager programs.
NOT_WITH = {(name, "cudaMallocAsync") for name in ("an index out of range", "an addition out of range")}
TRAPS: dict[str, Callable[[], None]] = {}
NEEDS: dict[str, tuple[Callable[[], bool], str]] = {}  # of these: whether this machine has what they need, and its name


def trap(function: Callable[[], None]) -> Callable[[], None]:
    TRAPS[function.__name__.replace("_", " ")] = function
    return function


ALONE: set[str] = set()  # of these: traps that measure time, and need the GPU for themselves


def alone(function: Callable[[], None]) -> Callable[[], None]:
    ALONE.add(function.__name__.replace("_", " "))
    return function


def needs(has: Callable[[], bool], what: str) -> Callable[[Callable[[], None]], Callable[[], None]]:
    """Of a trap: on a machine without this, the report says that the trap did not run."""

    def note(function: Callable[[], None]) -> Callable[[], None]:
        NEEDS[function.__name__.replace("_", " ")] = has, what
        return function

    return note


def _model() -> torch.nn.Module:
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(64, 128),
        torch.nn.GELU(),
        torch.nn.LayerNorm(128),
        torch.nn.Linear(128, 64),
        torch.nn.Softmax(-1),
    ).cuda()


def _equal(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)


def _no_worse(ours: torch.Tensor, eagers: torch.Tensor, exact: torch.Tensor) -> None:
    """Narrow floats: kernels do not round what they keep to themselves, so that they are nearer to the exact result."""
    error, allowed = (ours.double() - exact).abs().max().item(), (eagers.double() - exact).abs().max().item()
    assert error <= 1.5 * allowed + 1e-6 * exact.abs().max().item(), f"{error} off the exact result, eager {allowed}"


def _compiled(model: Any) -> Any:
    import vesta

    return vesta.compile(model)


def _in_threads(count: int, work: Callable[[int], None]) -> None:
    """Runs work(0), work(1), ... at once. Raises what the first of them that failed raised."""
    with ThreadPoolExecutor(count) as pool:
        for future in [pool.submit(work, i) for i in range(count)]:
            future.result()


@trap
def a_model_runs() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(7, 64, device="cuda")
            _equal(compiled(x), model(x))


@trap
def the_callers_capture() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        x = torch.randn(7, 64, device="cuda")
        for _ in range(2):
            compiled(x)
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(7, 64, device="cuda"))
            graph.replay()
            _equal(y, model(x))


@trap
def capture_as_the_first_call() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        x = torch.randn(7, 64, device="cuda")
        model(x)  # cuBLAS makes its handle
        torch.cuda.synchronize()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x)
        x.copy_(torch.randn(7, 64, device="cuda"))
        graph.replay()
        _equal(y, model(x))


@trap
def kept_results_stay() -> None:
    function = lambda x: torch.tanh(x) * 2  # noqa: E731
    compiled = _compiled(function)
    inputs = [torch.randn(1000, device="cuda") for _ in range(8)]
    kept = [compiled(x) for x in inputs]
    for x, y in zip(inputs, kept, strict=True):
        _equal(y, function(x))
    _equal(compiled(compiled(inputs[0])), function(function(inputs[0])))


@trap
def misaligned_slices() -> None:
    function = lambda x, y: torch.tanh(x) + y  # noqa: E731
    compiled = _compiled(function)
    memory = torch.randn(2, 4097, device="cuda")
    aligned = torch.randn(4096, device="cuda")
    for first in (0, 1, 2, 3, 0, 1):
        x = memory[0, first : first + 4093]
        y = aligned[:4093]
        _equal(compiled(x, y), function(x, y))
    half = torch.randn(4097, device="cuda").half()
    _equal(_compiled(torch.tanh)(half[1:]), torch.tanh(half[1:]))


@trap
def two_streams_and_four_threads() -> None:
    model = _model()
    compiled = _compiled(model)

    def work(seed: int) -> None:
        stream = torch.cuda.Stream()
        with torch.no_grad(), torch.cuda.stream(stream):
            for k in range(50):
                x = torch.full((7 + seed % 2, 64), float(k + seed), device="cuda") / 60
                _equal(compiled(x), model(x))

    _in_threads(4, work)


@trap
def an_emptied_cache() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        for _ in range(5):
            x = torch.randn(7, 64, device="cuda")
            _equal(compiled(x), model(x))
            torch.cuda.empty_cache()
            torch._C._cuda_clearCublasWorkspaces()


@trap
def memory_is_no_more_than_eagers() -> None:
    function = lambda x: F.softmax(torch.tanh(x) * 3 + x, -1)  # noqa: E731
    compiled = _compiled(function)
    x = torch.randn(4096, 4096, device="cuda")
    peaks = []
    for run in (function, compiled):
        run(x)
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        run(x)
        peaks.append(torch.cuda.max_memory_allocated())
    assert peaks[1] <= peaks[0], peaks


@trap
def an_index_out_of_range() -> None:
    compiled = _compiled(lambda w, i: F.embedding(i, w) * 2)
    w, i = torch.randn(64, 100, device="cuda"), torch.arange(9, device="cuda")
    compiled(w, i)
    i[3] = 64
    try:
        compiled(w, i)
        torch.cuda.synchronize()
    except RuntimeError as e:
        assert "assert" in str(e), e
    else:
        raise AssertionError("no error")


@trap
def an_addition_out_of_range() -> None:
    compiled = _compiled(lambda x, i, y: x.index_add(0, i, y) * 2)
    x, i, y = torch.zeros(64, 100, device="cuda"), torch.arange(9, device="cuda"), torch.ones(9, 100, device="cuda")
    compiled(x, i, y)
    i[3] = -1
    try:
        compiled(x, i, y)
        torch.cuda.synchronize()
    except RuntimeError as e:
        assert "assert" in str(e), e
    else:
        raise AssertionError("no error")


@trap
def deterministic_algorithms() -> None:
    """Sums at places have one order then, that of eager; each mode has its variant."""
    import vesta

    torch.manual_seed(0)
    x, y = torch.zeros(7, 100, device="cuda"), torch.randn(9999, 100, device="cuda")
    i = torch.randint(0, 7, (9999,), device="cuda")
    function = lambda x, i, y: x.index_add(0, i, y) * 2  # noqa: E731
    compiled = _compiled(function)
    torch.testing.assert_close(compiled(x, i, y), function(x, i, y), rtol=1e-4, atol=1e-3)
    torch.use_deterministic_algorithms(True)
    try:
        want = function(x, i, y)
        for _ in range(4):
            assert torch.equal(compiled(x, i, y), want)
        report = vesta.explain(lambda x, i, y: x.index_add(0, i, y) * 2)(x, i, y)
        calls = [call.op for graph in report.graphs if graph.compiled for call in graph.compiled.externs]
        assert "aten::index_add" in calls, report
    finally:
        torch.use_deterministic_algorithms(False)
    torch.testing.assert_close(compiled(x, i, y), function(x, i, y), rtol=1e-4, atol=1e-3)


@trap
def embedding_gradients() -> None:
    for dtype in (torch.float32, torch.bfloat16):
        w = torch.randn(50, 96, device="cuda", dtype=dtype)
        i = torch.randint(0, 50, (4, 300), device="cuda")
        grads = []
        for compiled in (False, True, None):
            weight = (w.double() if compiled is None else w.clone()).requires_grad_()
            run = lambda i, w: F.embedding(i, w, padding_idx=3).tanh()  # noqa: E731
            run = _compiled(run) if compiled else run
            for _ in range(3):
                run(i, weight).sum().backward()
            grads.append(weight.grad)
        _no_worse(grads[1], grads[0], grads[2])
        assert not grads[1][3].any()


@trap
def the_default_device() -> None:
    function = lambda x: x * 2 + torch.ones(5, device="cuda")  # noqa: E731
    compiled = _compiled(function)
    with torch.device("cuda"):
        _equal(compiled(torch.ones(5)), function(torch.ones(5)))


@trap
def a_saved_graph_is_found_again() -> None:
    """The second compile of an equal program generates no code."""
    import vesta

    for _ in range(2):
        function = lambda x: torch.tanh(x) * 5 + 1  # noqa: E731
        x = torch.randn(100, device="cuda")
        _equal(vesta.compile(function)(x), function(x))


@trap
def training() -> None:
    losses = []
    for compiled in (False, True):
        model = _model()
        run = _compiled(model) if compiled else model
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        torch.manual_seed(1)
        for _ in range(4):
            x = torch.randn(16, 64, device="cuda")
            loss = F.mse_loss(run(x), x.softmax(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    _equal(losses[1], losses[0])


@trap
def a_child_of_fork() -> None:
    """Importing Vesta and compiling for the CPU leaves GPUs to the children of a process."""
    _equal(_compiled(torch.tanh)(torch.ones(3)), torch.tanh(torch.ones(3)))
    child = os.fork()
    if child == 0:
        status = 1
        try:
            a_model_runs()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


def run(name: str) -> None:
    """In a process of its own, which it may end."""
    TRAPS[name]()
    if "out of range" in name:
        os._exit(0)  # the device is lost, and an allocator may abort over it
    torch.cuda.synchronize()


def environment(allocator: str) -> dict[str, str]:
    return {**os.environ, "PYTORCH_ALLOC_CONF": ALLOCATORS[allocator], "PYTORCH_CUDA_ALLOC_CONF": ALLOCATORS[allocator]}
