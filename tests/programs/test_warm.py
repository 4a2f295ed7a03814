"""vesta.warm compiles what calls need, and runs nothing of the program."""

from __future__ import annotations

import time
from typing import Any

import pytest
import torch

import vesta
from vesta import _C
from vesta.errors import GraphBreak, UserError


def _misses(compiled: Any) -> int:
    return vesta.explain(compiled).explanation.captures[0].misses


def test_a_warm_function_compiles_nothing() -> None:
    log: list[int] = []

    def f(x: torch.Tensor, scale: float = 1.0) -> torch.Tensor:
        log.append(x.size(0))
        return (x * scale).sin().sum(-1)

    compiled = vesta.compile(f)
    x = torch.randn(4, 8)
    warmed = vesta.warm(compiled, [x])
    assert warmed and not warmed.cold and log == []
    (call,) = warmed.calls
    assert call.ready and call.is_new and call.stop is None and call.example == "float32[4, 8]"
    assert "float32[4, 8]: compiled in" in str(warmed)
    misses = _misses(compiled)
    torch.testing.assert_close(compiled(x), f(x))
    assert log == [4, 4] and _misses(compiled) == misses == 1
    assert vesta.explain(compiled).explanation.captures[0].hits == 1  # warming counts no hit
    again = vesta.warm(compiled, [x])
    assert again and not again.calls[0].is_new and "was compiled before" in str(again)


def test_two_sizes_serve_all() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return torch.softmax(x, -1) @ x.t()

    compiled = vesta.compile(f)
    assert vesta.warm(compiled, [(torch.randn(3, 8),)], shapes=[(5, 8), (9, 8)])
    misses = _misses(compiled)
    for rows in (2, 5, 9, 31):
        x = torch.randn(rows, 8)
        torch.testing.assert_close(compiled(x), f(x))
    assert _misses(compiled) == misses == 2


def test_shapes_of_several_tensors() -> None:
    def f(x: torch.Tensor, n: int, y: torch.Tensor) -> torch.Tensor:
        return (x + n) @ y

    compiled = vesta.compile(f)
    x, y = torch.randn(2, 3), torch.randn(3, 4)
    warmed = vesta.warm(compiled, [(x, 1, y)], shapes=[((5, 6), (6, 7))])
    assert [c.example for c in warmed.calls] == ["float32[2, 3], 1, float32[3, 4]", "float32[5, 6], 1, float32[6, 7]"]
    torch.testing.assert_close(compiled(x, 1, y), f(x, 1, y))
    for wrong in ([(5, 6)], [((5, 6),)]):
        with pytest.raises(UserError, match="sizes of each of the example's 2 tensors"):
            vesta.warm(compiled, [(x, 1, y)], shapes=wrong)


def test_the_place_behind_which_nothing_is_compiled(capsys: pytest.CaptureFixture[str]) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        y = x.sin() + 1
        print("here")
        return y.cos()

    compiled = vesta.compile(f)
    warmed = vesta.warm(compiled, [torch.randn(3)])
    assert capsys.readouterr().out == ""
    assert not warmed and warmed.calls[0].ready
    (stop,) = warmed.cold
    assert stop.name == "print" and stop.where.text == 'print("here")'
    assert "is compiled when a call first reaches it" in str(warmed)
    x = torch.randn(3)
    torch.testing.assert_close(compiled(x), x.sin().add(1).cos())
    assert capsys.readouterr().out == "here\n"
    assert _misses(compiled) == 2  # what follows the break, and the function has been met again


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(8, 8)
        self.log: list[None] = []

    def forward(self, x: torch.Tensor, *, twice: bool = False) -> torch.Tensor:
        self.log.append(None)
        y = self.linear(x).relu()
        return y * 2 if twice else y

    def encode(self, x: torch.Tensor) -> torch.Tensor:
        return self.linear(x)


def test_modules_keywords_and_methods() -> None:
    model = Model().eval()
    compiled = vesta.compile(model)
    x = torch.randn(4, 8)
    with torch.inference_mode():
        assert vesta.warm(compiled, [(x,), {"x": x, "twice": True}])
        assert not model.log
        misses = _misses(compiled)
        torch.testing.assert_close(compiled(x), model(x))
        torch.testing.assert_close(compiled(x=x, twice=True), model(x, twice=True))
        assert _misses(compiled) == misses
    method = vesta.compile(model.encode)
    assert vesta.warm(method, [x])
    torch.testing.assert_close(method(x), model.encode(x))


def test_a_call_that_will_run_eager_is_not_run() -> None:
    ran = []

    def numbers(x: torch.Tensor) -> Any:
        ran.append(None)
        yield x + 1

    warmed = vesta.warm(vesta.compile(numbers), [torch.randn(3)])
    assert not warmed and not ran and not warmed.calls[0].ready
    assert "runs eager: " in str(warmed) and "generator" in str(warmed)
    x = torch.randn(3)
    with torch.utils._python_dispatch.TorchDispatchMode():
        warmed = vesta.warm(vesta.compile(lambda x: ran.append(None)), [x])
    assert not warmed and not ran and "dispatch mode" in str(warmed)


def test_no_code_of_the_program_catches_the_end() -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        try:
            return x.sin()
        except BaseException:
            return x

    compiled = vesta.compile(f)
    assert vesta.warm(compiled, [torch.randn(3)])


def test_errors() -> None:
    def raises(x: torch.Tensor) -> torch.Tensor:
        print("never")
        return x

    with pytest.raises(GraphBreak):
        vesta.warm(vesta.compile(raises, fullgraph=True), [torch.randn(3)])
    with pytest.raises(TypeError, match="missing 1 required positional argument"):
        vesta.warm(vesta.compile(raises), [()])
    with pytest.raises(UserError, match=r"takes a result of vesta\.compile"):
        vesta.warm(raises, [torch.randn(3)])
    with pytest.raises(UserError, match="takes a list of examples"):
        vesta.warm(vesta.compile(raises), torch.randn(3))
    with pytest.raises(UserError, match="shapes beside an example"):
        vesta.warm(vesta.compile(raises), [], shapes=[(3,)])


@pytest.mark.parametrize("options", [{"background": True}, {"deadline_ms": 20}])
def test_it_waits_whatever_the_options_say(options: dict[str, Any]) -> None:
    _C.inject_fault("plan", "delay", 0.5)
    try:
        compiled = vesta.compile(lambda x: x.exp() + 1, options=options)
        start = time.perf_counter()
        assert vesta.warm(compiled, [torch.randn(7)])
        assert time.perf_counter() - start > 0.4
        graphs = vesta.explain(compiled).explanation.graphs
        assert [g.pending for g in graphs] == [False] and graphs[0].compiled
        other = vesta.compile(lambda x: x.exp() + 2, options={"background": True})
        late = vesta.warm(other, [torch.randn(7)], timeout=0.01)
        assert not late.finished and not late and "the time was up" in str(late)
        assert vesta.wait(other, timeout=60)
    finally:
        _C.inject_fault("plan", "none")


def test_gradients() -> None:
    model = Model()
    compiled = vesta.compile(model)
    x = torch.randn(4, 8)
    assert vesta.warm(compiled, [x])
    misses = _misses(compiled)
    compiled(x).sum().backward()
    assert model.linear.weight.grad is not None and _misses(compiled) == misses
