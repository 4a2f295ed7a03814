"""Programs that derive the same constants from the same parameters hold them once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import pytest
import torch
from torch import nn

import vesta


def _model() -> nn.Module:
    torch.manual_seed(0)
    layers: list[nn.Module] = []
    for channels, following in ((3, 8), (8, 8), (8, 4)):
        layers += [nn.Conv2d(channels, following, 3, padding=1), nn.BatchNorm2d(following), nn.ReLU()]
    model = nn.Sequential(*layers)
    for layer in model:
        if isinstance(layer, nn.BatchNorm2d):
            layer.running_var.uniform_(0.5, 2)
            layer.running_mean.normal_()
    return model.eval()


def _packed() -> int:
    gc.collect()
    return vesta.stats().packed_bytes


def _agrees(compiled: Callable[[torch.Tensor], torch.Tensor], model: nn.Module, *sizes: int) -> None:
    with torch.no_grad():
        for n in sizes:
            x = torch.randn(n, 3, 12, 12)
            torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)


@pytest.fixture
def before() -> int:
    vesta.reset()
    return _packed()


def test_two_functions_of_one_model(before: int) -> None:
    model = _model()
    first = vesta.compile(model)
    _agrees(first, model, 2)
    once = _packed()
    assert once > before
    second = vesta.compile(lambda x: model(x).relu())
    with torch.no_grad():
        x = torch.randn(2, 3, 12, 12)
        torch.testing.assert_close(second(x), model(x).relu(), rtol=1e-4, atol=1e-5)
    assert _packed() == once


def test_variants_of_one_function(before: int) -> None:
    """The second size makes a program for every batch size. Further functions add nothing to what two programs hold."""
    model = _model()
    compiled = vesta.compile(model)
    _agrees(compiled, model, 2, 3, 5, 2)
    both = _packed()
    again = vesta.compile(model)
    _agrees(again, model, 2, 3, 5, 2)
    assert _packed() == both


def test_a_parameter_that_is_written_is_packed_anew_for_each_program(before: int) -> None:
    model = _model()
    first, second = vesta.compile(model), vesta.compile(model)
    _agrees(first, model, 2)
    _agrees(second, model, 2)
    once = _packed()
    with torch.no_grad():
        model[0].weight.mul_(3)
    _agrees(first, model, 2)
    assert _packed() > once, "the second program still holds the old weight"
    _agrees(second, model, 2)
    assert _packed() == once


def test_other_parameters_of_the_same_program(before: int) -> None:
    models = [_model(), _model()]
    with torch.no_grad():
        models[1][3].weight.neg_()
    for model in models:
        _agrees(vesta.compile(model), model, 2)


def test_the_last_program_frees_them(before: int) -> None:
    model = _model()
    compiled = [vesta.compile(model) for _ in range(3)]
    for f in compiled:
        _agrees(f, model, 2)
    once = _packed()
    del f
    for _ in range(2):
        compiled.pop()
        assert _packed() == once
    compiled.pop()
    assert _packed() == before


def test_threads_that_pack_at_once(before: int) -> None:
    model = _model()
    compiled = [vesta.compile(model) for _ in range(4)]
    failures: list[BaseException] = []
    start = threading.Barrier(len(compiled))

    def work(f: Callable[[torch.Tensor], torch.Tensor]) -> None:
        try:
            start.wait()
            _agrees(f, model, 2, 2)
        except BaseException as e:
            failures.append(e)

    threads = [threading.Thread(target=work, args=(f,)) for f in compiled]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not failures, failures
    together = _packed()
    another = vesta.compile(model)
    _agrees(another, model, 2)
    assert _packed() == together


def test_inference_tensors_are_not_shared(before: int) -> None:
    """They have no version counter, so that nobody could know that they changed."""
    with torch.inference_mode():
        model = _model()
        x = torch.randn(2, 3, 12, 12)
        for scale in (1.0, 2.0):
            model[0].weight.mul_(scale)
            for compiled in (vesta.compile(model), vesta.compile(model)):
                torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
