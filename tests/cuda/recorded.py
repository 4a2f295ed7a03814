"""Uses that break naive CUDA graphs: further traps.TRAPS. Each tells whether its calls were recorded."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from tests.cuda.traps import _compiled, _equal, _in_threads, _model, trap


def _graphs() -> list[Any]:
    """One report for each compiled graph of the process."""
    import vesta

    captured = [g.compiled for c in vesta.explain().captures for g in c.graphs if g.compiled]
    return [report.graphs for report in captured if report.graphs]


def _recorded() -> Any:
    """The one report, of a program that was recorded, all of it."""
    (report,) = _graphs()
    assert report.kept > 0, f"not recorded: {report}"
    assert not report.direct, report
    return report


@trap
def fresh_inputs_are_patched() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        kept = []
        for _ in range(12):
            x = torch.randn(7, 64, device="cuda")
            kept.append((x, compiled(x)))
        for x, y in kept:
            _equal(y, model(x))
    assert _recorded().recorded <= 3  # for two addresses, then with copies


def _freed_while_read(compiled: Callable[..., torch.Tensor], x: torch.Tensor) -> tuple[torch.cuda.Stream, torch.Tensor]:
    """Frees a result that another stream, which is busy for a while, still has to copy. Returns that stream and the
    copy."""
    other = torch.cuda.Stream()
    y = compiled(x)
    other.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(other):
        torch.cuda._sleep(20_000_000)  # cycles: the copy begins after the calls that follow
        copied = y.clone()
    y.record_stream(other)
    return other, copied


@trap
def results_of_recorded_calls_are_the_callers() -> None:
    function = lambda x: torch.tanh(x @ x).softmax(-1) + 1  # noqa: E731
    compiled = _compiled(function)
    x = torch.randn(64, 64, device="cuda")
    for _ in range(3):
        compiled(x)
    kept = [compiled(x + i) for i in range(6)]
    for i, y in enumerate(kept):
        _equal(y, function(x + i))
    kept[0].add_(5)
    _equal(compiled(x), function(x))
    _equal(kept[0], function(x) + 5)
    _equal(compiled(compiled(x)), function(function(x)))
    other, copied = _freed_while_read(compiled, x)
    for i in range(4):
        compiled(x * i)
    torch.cuda.current_stream().wait_stream(other)
    _equal(copied, function(x))
    _recorded()


@trap
def a_librarys_workspace_is_there_once() -> None:
    """The first call, the recording and eager calls after them use the same one."""
    x, w = torch.randn(256, 256, device="cuda"), torch.randn(256, 256, device="cuda")
    function = lambda x: (x @ w).relu() @ w + 1  # noqa: E731
    compiled = _compiled(function)
    before = torch.cuda.memory_allocated()
    for _ in range(4):
        compiled(x)
    assert _recorded().kept == 1
    eager = function(x)
    taken = torch.cuda.memory_allocated() - before
    with torch.cuda.stream(torch.cuda.Stream()):
        function(x)
    workspace = torch.cuda.memory_allocated() - before - taken
    assert 0 < workspace <= taken < 1.5 * workspace, (taken, workspace)
    torch._C._cuda_clearCublasWorkspaces()
    for _ in range(3):
        x.normal_()
        eager = function(x)
        _equal(compiled(x), eager)


@trap
def a_large_result_of_the_last_product() -> None:
    """The product after the graph is a graph for each address of its result: those that come again, up to four."""

    class Head(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.body = nn.Sequential(nn.Linear(256, 256), nn.GELU(), nn.LayerNorm(256))
            self.head = nn.Linear(256, 4096, bias=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.body(x))

    torch.manual_seed(0)
    model = Head().cuda()
    compiled = _compiled(model)
    inputs = [torch.randn(128, 256, device="cuda") for _ in range(24)]
    with torch.no_grad():
        want = [model(x) for x in inputs]
        near = lambda a, b: torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-4)  # noqa: E731
        for held in (24, 1, 3):  # results that live at once: with all of them, no address comes again
            kept: list[Any] = [None] * held
            for i in range(24):
                kept[i % held] = compiled(inputs[i])
                if held < 24:
                    near(kept[i % held], want[i])
            for i in range(24 - held, 24):
                near(kept[i % held], want[i])
        _recorded()
        # Another stream that still reads a freed result; a weight of another address; memory that was given back.
        other, copied = _freed_while_read(compiled, inputs[0])
        for i in range(1, 5):
            near(compiled(inputs[i]), want[i])
        torch.cuda.current_stream().wait_stream(other)
        near(copied, want[0])
        model.head.weight.data = model.head.weight.data * 2
        for i in range(8):
            near(compiled(inputs[i]), want[i] * 2)
            torch.cuda.empty_cache()
            torch._C._cuda_clearCublasWorkspaces()
        graph = torch.cuda.CUDAGraph()
        torch.cuda.synchronize()
        with torch.cuda.graph(graph):
            y = compiled(inputs[0])
        inputs[0].copy_(inputs[1])
        graph.replay()
        near(y, want[1] * 2)

    def work(seed: int) -> None:
        with torch.no_grad(), torch.cuda.stream(torch.cuda.Stream()):
            for i in range(40):
                near(compiled(inputs[1 + (seed + i) % 23]), want[1 + (seed + i) % 23] * 2)

    torch.cuda.synchronize()
    _in_threads(4, work)


@trap
def a_large_input_of_a_library_call() -> None:
    """Too large to be copied: recorded for four addresses, then run beside the graph."""
    function = lambda x, w: torch.tanh(x @ w) * 2 + 1 - x.sum()  # noqa: E731
    compiled = _compiled(function)
    w = torch.randn(1024, 1024, device="cuda")
    inputs = [torch.randn(1024, 1024, device="cuda") for _ in range(7)]
    for _ in range(3):
        for x in inputs:
            torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-3, atol=1e-3)
    _graphs()


@trap
def inputs_that_are_written() -> None:
    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.q = nn.Linear(64, 64, bias=False)

        def forward(self, x: torch.Tensor, cache: torch.Tensor, place: torch.Tensor) -> torch.Tensor:
            cache.index_copy_(0, place, torch.tanh(self.q(x)))
            return F.softmax(x @ cache.T, -1) @ cache

    torch.manual_seed(0)
    model = Step().cuda()
    compiled = _compiled(model)
    theirs, ours = torch.zeros(2, 512, 64, device="cuda").unbind(0)
    with torch.no_grad():
        for i in range(10):
            x, place = torch.randn(3, 64, device="cuda"), torch.arange(3 * i, 3 * i + 3, device="cuda")
            _equal(compiled(x, ours, place), model(x, theirs, place))
            _equal(ours, theirs)
            assert ours._version == theirs._version
    assert sum(r.kept for r in _graphs()) > 0


@trap
def random_numbers_go_on() -> None:
    model = nn.Sequential(nn.Linear(64, 64), nn.GELU(), nn.Dropout(0.5), nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64))
    model = model.cuda()
    compiled = _compiled(model)
    x = torch.randn(9, 64, device="cuda")
    with torch.no_grad():
        torch.manual_seed(3)
        want = [model(x) for _ in range(6)]
        torch.manual_seed(3)
        for y in want:
            _equal(compiled(x), y)
    (report,) = _graphs()
    assert report.kept > 0 and any("random" in why for why in report.direct), report


@trap
def an_operator_with_state_on_the_cpu() -> None:
    calls = []

    @torch.library.custom_op("cuda_traps::count", mutates_args=())
    def count(x: torch.Tensor) -> torch.Tensor:
        calls.append(float(x.flatten()[0]))
        return x * 2

    @count.register_fake
    def _(x: torch.Tensor) -> torch.Tensor:
        return torch.empty_like(x)

    function = lambda x: torch.tanh((count(torch.tanh(x @ x)) @ x).softmax(-1) + x)  # noqa: E731
    compiled = _compiled(function)
    for _ in range(6):
        x = torch.randn(32, 32, device="cuda")
        _equal(compiled(x), function(x))
    assert len(calls) == 12 and calls[::2] == calls[1::2], calls


@trap
def parameters_that_change() -> None:
    model = _model()
    compiled = _compiled(model)
    x = torch.randn(7, 64, device="cuda")
    with torch.no_grad():
        for step in range(10):
            _equal(compiled(x), model(x))
            if step % 3 == 0:
                model[0].weight.add_(0.1)
            elif step % 3 == 1:
                model[3].weight.data = torch.randn_like(model[3].weight)
            else:
                model[3].bias = nn.Parameter(torch.randn_like(model[3].bias))


@trap
def sizes_that_change() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        for rows in (3, 5, 8, 5, 8, 3, 8, 8, 5, 5, 12, 12, 12, 1, 1, 1):
            x = torch.randn(rows, 64, device="cuda")
            _equal(compiled(x), model(x))
    assert max(r.kept for r in _graphs()) > 1


@trap
def other_captures_come_and_go() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        x = torch.randn(7, 64, device="cuda")
        for i in range(8):
            _equal(compiled(x), model(x))
            if i == 4:
                graph = torch.cuda.CUDAGraph()
                torch.cuda.synchronize()
                with torch.cuda.graph(graph):
                    y = model(x @ x.T @ x)
                graph.replay()
                del y, graph
                gc.collect()
            if i > 4:
                torch.cuda.empty_cache()
                torch._C._cuda_clearCublasWorkspaces()
                junk = [torch.full((1 << 20,), 7.0, device="cuda") for _ in range(64)]
                del junk
    _recorded()


@trap
def a_recorded_call_in_the_callers_capture() -> None:
    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        x = torch.randn(7, 64, device="cuda")
        for _ in range(4):
            compiled(x)
        _recorded()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = compiled(x) + compiled(x * 2)
        for seed in range(3):
            torch.manual_seed(seed)
            x.copy_(torch.randn(7, 64, device="cuda"))
            compiled(x)
            graph.replay()
            _equal(y, model(x) + model(x * 2))


@trap
def one_stream_of_four_threads() -> None:
    models = [_model() for _ in range(4)]
    compiled = [_compiled(m) for m in models]

    def work(seed: int) -> None:
        with torch.no_grad():
            for k in range(60):
                x = torch.full((7, 64), float(k + seed), device="cuda") / 60
                which = (seed + k // 20) % 4
                _equal(compiled[which](x), models[which](x))

    _in_threads(4, work)


@trap
def little_memory_for_graphs() -> None:
    import vesta

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.tanh(x @ x) @ x) @ x

    none = vesta.compile(function, options={"cuda_graph_memory": 0})
    x = torch.randn(256, 256, device="cuda") / 16
    for _ in range(4):
        _equal(none(x), function(x))
    assert [r.kept for r in _graphs()] == [0] and "memory" in _graphs()[0].why_none, _graphs()[0]
    # Room for the recordings of one: cuBLAS's workspaces stay.
    functions = [lambda x, i=i: torch.tanh(torch.tanh(x @ x + i) @ x) @ x for i in range(3)]
    budget = 160 << 20
    for f in functions:
        compiled = vesta.compile(f, options={"cuda_graph_memory": budget})
        for _ in range(4):
            _equal(compiled(x), f(x))


@trap
def memory_runs_out() -> None:
    import vesta

    def function(x: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.tanh(x @ x) @ x) @ x

    small, large = (torch.randn(n, n, device="cuda") / n**0.5 for n in (256, 2048))
    expected = [function(small).cpu(), function(large).cpu()]
    compiled = vesta.compile(function, dynamic=False)
    for _ in range(3):
        _equal(compiled(small).cpu(), expected[0])
    total = torch.cuda.get_device_properties(0).total_memory
    # What the limit counts: PyTorch's allocator what it has reserved, cudaMallocAsync what tensors have.
    native = torch.cuda.get_allocator_backend() == "native"
    held = torch.cuda.memory_reserved if native else torch.cuda.memory_allocated
    ran = []
    try:
        # MiB: what a call of the large one needs, by itself and while it is recorded, is in between.
        for extra in (0, 8, 24, 40, 56, 72, 96, 128, 192):
            for _ in range(3):
                gc.collect()
                torch.cuda.empty_cache()
                torch.cuda.set_per_process_memory_fraction((held() + (extra << 20)) / total)
                try:
                    found = compiled(large).cpu()
                except torch.cuda.OutOfMemoryError:
                    ran.append(False)
                    continue
                ran.append(True)
                _equal(found, expected[1])
    finally:
        torch.cuda.set_per_process_memory_fraction(1.0)
    assert not ran[0] and ran[-1], ran
    for i, x in enumerate((small, large)):
        for _ in range(80):
            found = compiled(x)
        _equal(found.cpu(), expected[i])
    assert all(r.kept > 0 for r in _graphs()), _graphs()


@trap
def without_graphs() -> None:
    import vesta

    model = _model()
    compiled = vesta.compile(model, mode="max-autotune-no-cudagraphs")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(7, 64, device="cuda")
            _equal(compiled(x), model(x))
    (report,) = _graphs()
    assert report.recorded == 0 and "cuda_graphs" in report.why_none, report


@trap
def a_large_result_of_a_library_call() -> None:
    function = lambda x, w: torch.tanh(x @ x) @ w  # noqa: E731
    compiled = _compiled(function)
    w = torch.randn(512, 4096, device="cuda")
    for _ in range(5):
        x = torch.randn(512, 512, device="cuda") / 20
        torch.testing.assert_close(compiled(x, w), function(x, w), rtol=1e-3, atol=1e-3)


@trap
def training_with_recorded_halves() -> None:
    losses = []
    for compiled in (False, True):
        model = _model()
        run = _compiled(model) if compiled else model
        optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
        torch.manual_seed(1)
        for _ in range(12):
            x = torch.randn(16, 64, device="cuda")
            loss = F.mse_loss(run(x), x.softmax(-1))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        losses.append(loss.detach())
    torch.testing.assert_close(losses[1], losses[0], rtol=1e-4, atol=1e-6)


@trap
def calls_alone_are_recorded() -> None:
    """A program without a kernel of ours: matrix products alone, and the backend "cudagraphs"."""
    import vesta

    a, b = (torch.randn(64, 64, device="cuda") / 8 for _ in range(2))
    function = lambda x: x @ a @ b @ a @ b  # noqa: E731
    products = _compiled(function)
    for _ in range(5):
        x = torch.randn(64, 64, device="cuda")
        _equal(products(x), function(x))
    _recorded()
    vesta.reset()
    model = _model()
    compiled = vesta.compile(model, backend="cudagraphs")
    with torch.no_grad():
        for _ in range(6):
            x = torch.randn(7, 64, device="cuda")
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    (report,) = [g.compiled for c in vesta.explain().captures for g in c.graphs if g.compiled]
    assert not report.kernels and report.graphs.kept > 0, report.graphs


@trap
def eager_calls_of_a_functional_program() -> None:
    import vesta

    model = _model()
    compiled = vesta.compile(model, backend="aot_eager")
    with torch.no_grad():
        for _ in range(4):
            x = torch.randn(7, 64, device="cuda")
            torch.testing.assert_close(compiled(x), model(x), rtol=0, atol=0)
    (report,) = _graphs()
    assert report.recorded == 0 and "cuda_graphs" in report.why_none, report


@trap
def numbers_in_the_cpus_memory() -> None:
    """They are arguments of kernels, whose value a recorded graph is given at every call."""

    def update(p: torch.Tensor, g: torch.Tensor, lr: torch.Tensor, step: torch.Tensor) -> torch.Tensor:
        m = g * (1 - 0.9**step)
        p.add_(m * -lr)
        return (p * lr).softmax(-1)

    compiled = _compiled(update)
    p = torch.randn(64, 64, device="cuda")
    q = p.clone()
    lr, step = torch.tensor(0.1, dtype=torch.float64), torch.tensor(0.0)
    for i in range(8):
        g = torch.randn(64, 64, device="cuda")
        lr.mul_(0.9 if i < 7 else float("nan"))
        step += 1
        ours, eagers = compiled(p, g, lr, step), update(q, g, lr, step)
        for a, b in ((ours, eagers), (p, q)):
            torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6, equal_nan=True)
    kept: list[torch.Tensor] = []
    scale = _compiled(lambda x, s: (x * s).tanh() @ x)
    x = torch.randn(64, 64, device="cuda")
    numbers = [torch.tensor(v, dtype=t) for t in (torch.float32, torch.bfloat16, torch.int64) for v in (2, 3, -1, 2)]
    for s in numbers:
        kept.append(scale(x, s))
        s.fill_(100)  # it was read when the call was made
    for y, v in zip(kept, (2, 3, -1, 2) * 3, strict=True):
        _equal(y, (x * v).tanh() @ x)
    half = torch.randn(1000, device="cuda").half()
    for s in (torch.tensor(0.1), torch.tensor(0.1, dtype=torch.float64), torch.tensor(True), torch.tensor(3)):
        torch.testing.assert_close(_compiled(lambda x, s: x * s)(half, s), half * s, rtol=0, atol=0)


@trap
def other_memory_under_the_same_tensors() -> None:
    """A call uses the present addresses of its inputs, not those of the call before."""

    def function(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return torch.tanh(torch.relu(x + b) @ w) * b

    compiled = _compiled(function)
    x, w, b = (torch.randn(64, 64, device="cuda") for _ in range(3))
    for i in range(12):
        _equal(compiled(x, w, b), function(x, w, b))
        if i >= 3:
            t = (x, w, b)[i % 3]
            if i % 2:
                t.data = torch.randn_like(t)
            else:
                t.set_(torch.randn(2, 64, 64, device="cuda")[1])
    _equal(compiled(x, w, x), function(x, w, x))
    _equal(compiled(w, w, w), function(w, w, w))
    y = compiled(x, w, b)
    _equal(compiled(y, w, y), function(y, w, y))
    x.resize_(2, 64, 64).copy_(torch.randn(2, 64, 64, device="cuda"))
    for _ in range(3):
        _equal(compiled(x, w, b), function(x, w, b))
    assert sum(r.kept for r in _graphs()) > 0


@trap
def caches_and_many_weights() -> None:
    """A step with many tensors: some are read by products, some by kernels, some are written and some are copied."""

    class Step(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layers = nn.ModuleList(nn.Linear(64, 64, bias=False) for _ in range(12))
            self.scales = nn.ParameterList(torch.rand(64) for _ in range(12))

        def forward(self, x: torch.Tensor, caches: list[torch.Tensor], place: torch.Tensor) -> torch.Tensor:
            for layer, scale, cache in zip(self.layers, self.scales, caches, strict=True):
                cache.index_copy_(0, place, torch.tanh(layer(x)) * scale)
                x = x + torch.softmax(cache, -1).sum(0)
            return x

    torch.manual_seed(0)
    model = Step().cuda().requires_grad_(False)
    compiled = _compiled(model)
    ours = [torch.zeros(32, 64, device="cuda") for _ in range(12)]
    theirs = [c.clone() for c in ours]
    for i in range(10):
        x, place = torch.randn(1, 64, device="cuda"), torch.tensor([i], device="cuda")
        _equal(compiled(x, ours, place), model(x, theirs, place))
        if i == 6:  # another cache, at the place of an old one
            ours[3], theirs[3] = ours[3].clone(), theirs[3].clone()
        if i == 7:
            ours[4], ours[5] = ours[5], ours[4]
            theirs[4], theirs[5] = theirs[5], theirs[4]
        for a, b in zip(ours, theirs, strict=True):
            _equal(a, b)
            assert a._version == b._version
    ours[0], theirs[0] = ours[1], theirs[1]  # one tensor twice, which is written
    x, place = torch.randn(1, 64, device="cuda"), torch.tensor([20], device="cuda")
    for _ in range(3):
        _equal(compiled(x, ours, place), model(x, theirs, place))
    assert sum(r.kept for r in _graphs()) > 0
