"""Weights that programs keep in the memory order of the tensor cores: further traps.TRAPS."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from tests.cuda.traps import trap

_SLEEP = 400_000_000  # clock cycles of a GPU: some tenths of a second


def _convolutions() -> nn.Module:
    """Enough convolutions of a half type for the pass `channels_last`."""
    torch.manual_seed(0)
    layers = [nn.Conv2d(16, 64, 3, padding=1), nn.ReLU(), nn.Conv2d(64, 64, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers, nn.Conv2d(64, 16, 3, padding=1)).cuda().half().requires_grad_(False)


def _keeping(model: nn.Module) -> Any:
    """The model compiled so that programs keep its weights in another order."""
    import vesta

    return vesta.compile(model, options={"packed_weights": True})


def _image(batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, 16, 32, 32, device="cuda", dtype=torch.half)


def _write_again(model: nn.Module) -> None:
    """The same elements in another version, so that what is kept of the weights is out of date."""
    for layer in (model[0], model[2], model[4]):
        layer.weight.mul_(1)


def _near(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=1e-2, atol=2e-3)


def _kept_bytes() -> int:
    import vesta

    return vesta.stats().packed_bytes


def _warm(compiled: Any, x: torch.Tensor, *streams: torch.cuda.Stream) -> None:
    """On each stream, the calls that run step by step and the one that records. The streams are idle afterwards."""
    torch.cuda.synchronize()
    for stream in streams:
        with torch.cuda.stream(stream):
            for _ in range(3):
                compiled(x)
    torch.cuda.synchronize()
    assert _kept_bytes() > 0, "no weights are kept, so this shows nothing"


def _captured(compiled: Any, x: torch.Tensor) -> tuple[torch.cuda.CUDAGraph, torch.Tensor]:
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = compiled(x)
    return graph, y


@trap
def convolutions_in_a_capture_as_the_first_call() -> None:
    """What the capture records has not run yet: a call before the first replay must not use it."""
    model, x = _convolutions(), _image()
    compiled = _keeping(model)
    model(x)  # cuDNN makes its handle
    graph, y = _captured(compiled, x)
    _near(compiled(x), model(x))
    x.copy_(_image())
    graph.replay()
    _near(y, model(x))


@trap
def weights_written_between_replays_of_a_callers_graph() -> None:
    model, x = _convolutions(), _image()
    compiled = _keeping(model)
    _warm(compiled, x, torch.cuda.current_stream())
    graph, y = _captured(compiled, x)
    for scale in (1.0, 2.0, 0.25):
        model[0].weight.mul_(scale)
        graph.replay()
        _near(y, model(x))


@trap
def weights_laid_out_again_on_a_busy_stream() -> None:
    """The weights are still being laid out on one stream when a call on another one reads them."""
    model, x = _convolutions(), _image()
    expected = model(x)
    compiled = _keeping(model)
    busy, other = torch.cuda.Stream(), torch.cuda.Stream()
    _warm(compiled, x, busy, other)
    _write_again(model)
    torch.cuda.synchronize()
    with torch.cuda.stream(busy):
        torch.cuda._sleep(_SLEEP)
        first = compiled(x)
    with torch.cuda.stream(other):
        second = compiled(x)
    torch.cuda.synchronize()
    _near(first, expected)
    _near(second, expected)


def _replaced_while_read(packing: torch.cuda.Stream, reading: torch.cuda.Stream) -> None:
    model, x = _convolutions(), _image()
    expected = model(x)
    compiled = _keeping(model)
    _warm(compiled, x, packing, reading)
    with torch.cuda.stream(reading):
        torch.cuda._sleep(_SLEEP)
        result = compiled(x)
    with torch.cuda.stream(packing):
        _write_again(model)
        compiled(x)  # keeps new weights instead
        sizes = [layer.weight.numel() for layer in (model[0], model[2], model[4])]
        filled = [torch.full((n,), float("nan"), device="cuda", dtype=torch.half) for n in sizes for _ in range(4)]
    torch.cuda.synchronize()
    assert len(filled) == 12
    _near(result, expected)


@trap
def kept_weights_replaced_while_another_stream_reads_them() -> None:
    _replaced_while_read(torch.cuda.current_stream(), torch.cuda.Stream())


@trap
def kept_weights_replaced_while_the_default_stream_reads_them() -> None:
    _replaced_while_read(torch.cuda.Stream(), torch.cuda.current_stream())


@trap
def programs_of_two_shapes_share_kept_weights() -> None:
    model = _convolutions()
    compiled = _keeping(model)
    kept = []
    for batch in (2, 5):
        for _ in range(3):
            x = _image(batch)
            _near(compiled(x), model(x))
        kept.append(_kept_bytes())
    weights = sum(layer.weight.nbytes for layer in (model[0], model[2], model[4]))
    assert kept == [weights, weights], (kept, weights)
