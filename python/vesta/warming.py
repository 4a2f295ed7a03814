"""``vesta.warm``: compiles what calls need before the first of them."""

from __future__ import annotations

import functools
import time
import types
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from vesta import _C
from vesta.errors import UserError
from vesta.explain import captured_of
from vesta.explain_capture import Break, break_of
from vesta.waiting import wait

__all__ = ["Warmed", "WarmedCall", "check_of_guards", "run_of_compiled", "warm"]


@dataclass(frozen=True)
class WarmedCall:
    """What :func:`vesta.warm` did for one example.

    ``example``: its arguments in short. ``ready``: compiled code serves such a call. ``is_new``: it was compiled for
    this example; False: an earlier one serves it, too. ``eager``: without ``ready``, why the call will run eager.
    ``stop``: the graph break behind which nothing is compiled yet. ``ms``: milliseconds.
    """

    example: str
    ready: bool
    is_new: bool
    eager: str
    stop: Break | None
    ms: float

    def __str__(self) -> str:
        if not self.ready:
            return f"{self.example}: runs eager: {self.eager}"
        how = f"compiled in {self.ms:.0f} ms" if self.is_new else "was compiled before"
        if self.stop is None:
            return f"{self.example}: {how}"
        return (
            f"{self.example}: {how} up to {self.stop.where}, which {self.stop.reason}; "
            "the code after it is compiled when a call first reaches it"
        )


@dataclass(frozen=True)
class Warmed:
    """The result of :func:`vesta.warm`: a :class:`WarmedCall` for each example; ``print`` shows them.

    ``finished``: no compile is still running.
    """

    calls: tuple[WarmedCall, ...]
    finished: bool

    @property
    def cold(self) -> list[Break]:
        """The graph breaks behind which nothing is compiled yet."""
        return [c.stop for c in self.calls if c.stop is not None]

    def __bool__(self) -> bool:
        """Whether no call like these examples will compile anything or run eager."""
        return self.finished and all(c.ready and c.stop is None for c in self.calls)

    def __str__(self) -> str:
        lines = [str(c) for c in self.calls]
        return "\n".join([*lines, *([] if self.finished else ["the time was up before all compiles had ended"])])


def warm(
    compiled: Any, inputs: Iterable[Any], *, shapes: Iterable[Sequence[Any]] = (), timeout: float | None = None
) -> Warmed:
    """Compiles what calls with such arguments need, and runs nothing: for servers, before the first request.

    The Python code is traced up to its first graph break, with its side effects taken back, the graph is compiled and
    its weights are packed, whatever ``deadline_ms`` and ``background`` say. ``vesta.warm`` does not reach the code
    after a graph break; the result names such places. On a GPU the second real call still records a CUDA graph. Call
    it in the modes in which the function will be called, such as ``torch.inference_mode()``.

    Args:
        compiled: A result of :func:`vesta.compile`.
        inputs: Examples of a call's arguments. A tuple holds positional arguments, a dict keyword arguments; anything
            else is the only argument. Examples of two sizes make code for all sizes, as such calls do.
        shapes: More calls like the first example, whose tensors take these sizes: for a single tensor the sizes, such
            as ``[(1, 128), (32, 128)]``, for several a tuple with the sizes of each.
        timeout: Seconds to wait for compiles at most; those that are still running then end in the background. None:
            no bound.

    Returns:
        A :class:`Warmed`. It is true if calls like these examples compile nothing any more.
    """
    captured = captured_of(compiled)
    if captured is None:
        raise UserError(f"vesta.warm takes a result of vesta.compile, not {compiled!r}")
    if isinstance(inputs, (torch.Tensor, dict)):
        raise UserError("vesta.warm takes a list of examples, one for each call: vesta.warm(f, [x])")
    examples = [arguments_of(example) for example in inputs]
    sizes = list(shapes)
    if sizes and not examples:
        raise UserError("vesta.warm takes shapes beside an example, whose tensors take these sizes")
    examples += [_resized(*examples[0], size) for size in sizes]
    end = None if timeout is None else time.monotonic() + timeout

    def left() -> float | None:
        return None if end is None else max(0.0, end - time.monotonic())

    calls = [_warm(captured, (*_bound(compiled), *args), keywords, left()) for args, keywords in examples]
    return Warmed(tuple(calls), wait(compiled, left()))


def check_of_guards(compiled: Any, example: Any) -> Callable[[], _C.WarmUp]:
    """A function that checks the guards as such a call does. If compiled code serves the call, it runs nothing."""
    return _call_of(compiled, example, runs=False)


def run_of_compiled(compiled: Any, example: Any) -> Callable[[], _C.WarmUp]:
    """A function that runs the graph of such a call, up to the first graph break, and nothing of the program's Python
    code. It drops the results, and writes no attributes of objects."""
    return _call_of(compiled, example, runs=True)


def _call_of(compiled: Any, example: Any, runs: bool) -> Callable[[], _C.WarmUp]:
    captured = captured_of(compiled)
    assert captured is not None
    args, keywords = arguments_of(example)
    every = (*_bound(compiled), *args)
    return lambda: captured.warm_up(every, keywords, 0.0, runs)


def _bound(compiled: Any) -> tuple[Any, ...]:
    """The arguments that a call of it puts before the caller's."""
    if isinstance(compiled, types.MethodType):
        return (compiled.__self__,)
    call: Any = object.__getattribute__(compiled, "_vesta_call")
    return call.args if isinstance(call, functools.partial) else ()


def arguments_of(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    if isinstance(example, dict):
        return (), example
    return (example if type(example) is tuple else (example,)), {}


def _resized(args: tuple[Any, ...], keywords: dict[str, Any], sizes: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    tensors = sum(isinstance(x, torch.Tensor) for x in (*args, *keywords.values()))
    each = [sizes] if tensors == 1 and all(isinstance(n, int) for n in sizes) else list(sizes)
    if len(each) != tensors or not all(isinstance(s, Sequence) for s in each):
        raise UserError(f"vesta.warm takes the sizes of each of the example's {tensors} tensors, not {sizes!r}")
    left = iter(each)

    def resized(x: Any) -> Any:
        if not isinstance(x, torch.Tensor):
            return x
        return torch.zeros(tuple(next(left)), dtype=x.dtype, device=x.device, requires_grad=x.requires_grad)

    return tuple(resized(x) for x in args), {name: resized(x) for name, x in keywords.items()}


def _warm(
    captured: _C.CapturedFunction, args: tuple[Any, ...], keywords: dict[str, Any], timeout: float | None
) -> WarmedCall:
    start = time.perf_counter()
    made = captured.warm_up(args, keywords, -1.0 if timeout is None else timeout)
    ms = (time.perf_counter() - start) * 1e3
    example = ", ".join([*map(_short, args), *(f"{name}={_short(x)}" for name, x in keywords.items())])
    return WarmedCall(example, made.ready, made.is_new, made.eager, break_of(made.stop) if made.stop else None, ms)


def _short(x: Any) -> str:
    if isinstance(x, torch.Tensor):
        return f"{str(x.dtype).removeprefix('torch.')}[{', '.join(map(str, x.shape))}]"
    text = repr(x)
    return text if len(text) <= 40 else f"{type(x).__name__}"
