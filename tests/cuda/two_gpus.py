"""Programs on a second GPU: further traps.TRAPS. Where there is one GPU, the report says that they did not run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from tests.cuda.traps import _compiled, _equal, _in_threads, _model, needs, trap


def on_two_gpus(function: Callable[[], None]) -> Callable[[], None]:
    return needs(lambda: torch.cuda.device_count() > 1, "a second GPU")(trap(function))


def _recordings(captured: Any) -> list[Any]:
    """Of one compiled function: its programs' CUDA graphs."""
    return [g.compiled.graphs for g in captured.graphs if g.compiled and g.compiled.graphs]


def _all_recorded(functions: int) -> None:
    """Each of the process's compiled functions has its own recording, of all its steps."""
    import vesta

    found = [_recordings(c) for c in vesta.explain().captures]
    assert len(found) == functions, found
    for reports in found:
        assert reports, "a function without a program on a GPU"
        for report in reports:
            assert report.kept > 0 and not report.direct, str(report)


def _run(compiled: Any, model: nn.Module, device: str, calls: int) -> None:
    with torch.no_grad():
        for k in range(calls):
            x = torch.randn(7, 64, generator=torch.Generator().manual_seed(k)).to(device)
            y = compiled(x)
            assert y.device == torch.device(device), y.device
            _equal(y, model(x))


@on_two_gpus
def a_model_on_the_gpu_that_is_not_current() -> None:
    model = _model().to("cuda:1")
    compiled = _compiled(model)
    _run(compiled, model, "cuda:1", 8)
    assert torch.cuda.current_device() == 0
    _all_recorded(1)


@on_two_gpus
def two_models_on_two_gpus_in_turn() -> None:
    models = [_model().to(f"cuda:{i}") for i in range(2)]
    compiled = [_compiled(model) for model in models]
    for _ in range(6):
        for i in (0, 1):
            with torch.cuda.device(1 - i):  # the other one is current
                _run(compiled[i], models[i], f"cuda:{i}", 2)
                assert torch.cuda.current_device() == 1 - i
    _all_recorded(2)


@on_two_gpus
def two_models_on_two_gpus_in_two_threads() -> None:
    models = [_model().to(f"cuda:{i}") for i in range(2)]
    compiled = [_compiled(model) for model in models]

    def work(i: int) -> None:
        _run(compiled[i], models[i], f"cuda:{i}", 60)

    _in_threads(2, work)
    _all_recorded(2)


@on_two_gpus
def one_function_on_each_gpu() -> None:
    """It has a program for each, and a recording of each."""
    import vesta

    function = lambda x: torch.tanh(x @ x).softmax(-1) + 1  # noqa: E731
    compiled = _compiled(function)
    for k in range(6):
        for i in (0, 1):
            x = torch.randn(64, 64, generator=torch.Generator().manual_seed(k)).to(f"cuda:{i}")
            _equal(compiled(x), function(x))
    (captured,) = vesta.explain().captures
    reports = _recordings(captured)
    assert len(reports) == 2 and all(r.kept > 0 for r in reports), [str(r) for r in reports]


@on_two_gpus
def a_tensor_moved_between_gpus() -> None:
    """By the program itself, in both directions, and by its caller from one program to the next."""
    torch.manual_seed(0)
    w = torch.randn(64, 64, device="cuda:0")
    v = torch.randn(64, 64, device="cuda:1")

    def function(x: torch.Tensor) -> torch.Tensor:
        there = torch.tanh(x @ w).to("cuda:1")
        return (there @ v).relu().to("cuda:0") + x

    compiled = _compiled(function)
    first, second = (lambda x: torch.tanh(x @ w) * 2), (lambda x: torch.tanh(x @ v) + 1)
    compiled_first, compiled_second = _compiled(first), _compiled(second)
    for k in range(8):
        x = torch.randn(64, 64, generator=torch.Generator().manual_seed(k)).to("cuda:0") / 8
        torch.testing.assert_close(compiled(x), function(x), rtol=1e-4, atol=1e-4)
        y = compiled_second(compiled_first(x).to("cuda:1"))
        assert y.device == torch.device("cuda:1"), y.device
        torch.testing.assert_close(y, second(first(x).to("cuda:1")), rtol=1e-4, atol=1e-4)


@on_two_gpus
def training_on_the_gpu_that_is_not_current() -> None:
    grads = []
    for is_compiled in (False, True):
        model = _model().to("cuda:1")
        run = _compiled(model) if is_compiled else model
        for k in range(4):
            x = torch.randn(16, 64, generator=torch.Generator().manual_seed(k)).to("cuda:1")
            run(x).square().sum().backward()
        grads.append([p.grad for p in model.parameters()])
    for ours, eagers in zip(grads[1], grads[0], strict=True):
        torch.testing.assert_close(ours, eagers, rtol=1e-4, atol=1e-5)
