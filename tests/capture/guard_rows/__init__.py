"""Programs that change what a compiled function has read, between its calls.

A row is a function of a `Runner` and runs twice: once with a `runner.compile` that returns functions unchanged, once
with one that compiles them. All that the row passes to `runner.see` must be equal in both runs, so the compiled
function must notice every change. A call by `runner.hit` must also be served by a variant that exists already.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import torch

import vesta

ROWS: dict[str, Callable[[Runner], None]] = {}
_ABSENT = object()
_ATOMS = (int, float, complex, str, bytes, slice, range, torch.dtype, torch.device, torch.layout, torch.memory_format)


def row(function: Callable[[Runner], None]) -> Callable[[Runner], None]:
    topic = function.__module__.rsplit(".", 1)[-1]
    name = f"{topic}-{function.__name__.strip('_')}"
    assert name not in ROWS, f"two rows are called {name}"
    ROWS[name] = function
    return function


def variants(compiled: Any) -> int:
    """How many graphs `compiled` has, those of all its frames together."""
    return len(vesta.explain(compiled).explanation.graphs)


def frozen(value: Any) -> Any:
    """The present value, in a form that later changes do not affect."""
    if isinstance(value, torch.Tensor):
        with torch.no_grad():
            kind = (type(value).__name__, str(value.dtype), tuple(value.shape), value.requires_grad, str(value.device))
            return (*kind, value.stride(), value.detach().as_subclass(torch.Tensor).clone())
    if isinstance(value, dict):
        return (type(value).__name__, [(frozen(k), frozen(v)) for k, v in value.items()])
    if isinstance(value, list | tuple):
        return (type(value).__name__, [frozen(each) for each in value])
    if isinstance(value, set | frozenset):
        return (type(value).__name__, sorted(map(repr, value)))
    if isinstance(value, BaseException):
        return (type(value).__name__, str(value))
    if isinstance(value, _ATOMS) or value is None:
        return value
    return (type(value).__qualname__, frozen(vars(value)) if hasattr(value, "__dict__") else None)


def difference(plain: Any, compiled: Any) -> str | None:
    """Where two frozen values differ, or None."""
    if isinstance(plain, torch.Tensor) and isinstance(compiled, torch.Tensor):
        if plain.dtype != compiled.dtype or plain.shape != compiled.shape:
            return f"{plain.dtype}{list(plain.shape)} is {compiled.dtype}{list(compiled.shape)}"
        if plain.is_meta or compiled.is_meta:
            return None if plain.is_meta and compiled.is_meta else f"one is on the meta device: {plain}, {compiled}"
        if torch.allclose(plain.to_dense(), compiled.to_dense(), rtol=1e-4, atol=1e-5, equal_nan=True):
            return None
        return f"plain gives {plain.flatten()[:8].tolist()}, compiled {compiled.flatten()[:8].tolist()}"
    if type(plain) is not type(compiled):
        return f"plain gives {plain!r}, compiled {compiled!r}"
    if isinstance(plain, list | tuple):
        if len(plain) != len(compiled):
            return f"plain gives {plain!r}, compiled {compiled!r}"
        for at, (left, right) in enumerate(zip(plain, compiled, strict=True)):
            if (found := difference(left, right)) is not None:
                return found if isinstance(left, torch.Tensor) else f"[{at}] {found}"
        return None
    if isinstance(plain, float):
        same = plain == compiled or plain != plain or abs(plain - compiled) <= 1e-5 * abs(plain)
        return None if same else f"plain gives {plain!r}, compiled {compiled!r}"
    return None if plain == compiled else f"plain gives {plain!r}, compiled {compiled!r}"


class Runner:
    """Runs a row's program, with its functions compiled or not, and records the results."""

    def __init__(self, compile_function: Callable[..., Any] | None, *, count: bool = True) -> None:
        self._compile = compile_function
        self._count = count and compile_function is not None
        self._undo = contextlib.ExitStack()
        self.seen: list[Any] = []
        self.recompiled: list[str] = []

    def compile(self, function: Any, **options: Any) -> Any:
        return self._compile(function, **options) if self._compile else function

    def see(self, *values: Any) -> None:
        self.seen.append([frozen(value) for value in values])

    def call(self, function: Any, *arguments: Any, **keywords: Any) -> None:
        """Calls the function and records the result or the exception."""
        try:
            self.see(function(*arguments, **keywords))
        except Exception as error:
            self.see(error)

    def hit(self, function: Any, *arguments: Any, **keywords: Any) -> None:
        """Calls the function and records the result. A compile for this call is a failure."""
        before = variants(function) if self._count else 0
        self.call(function, *arguments, **keywords)
        if self._count and (now := variants(function)) != before:
            self.recompiled.append(f"call {len(self.seen)}: {before} variants became {now}")

    def patch(self, holder: Any, name: str, value: Any) -> None:
        """Sets an attribute (an item of a dict) until the row ends."""
        if isinstance(holder, dict):
            old = holder.get(name, _ABSENT)
            undo = (lambda: holder.pop(name, None)) if old is _ABSENT else (lambda: holder.__setitem__(name, old))
            self._undo.callback(undo)
            holder[name] = value
            return
        old = vars(holder).get(name, _ABSENT)
        self._undo.callback(lambda: delattr(holder, name) if old is _ABSENT else setattr(holder, name, old))
        setattr(holder, name, value)

    def on_exit(self, undo: Callable[[], Any]) -> None:
        self._undo.callback(undo)

    @contextlib.contextmanager
    def until_the_end(self) -> Iterator[Runner]:
        grad, dtype, threads = torch.is_grad_enabled(), torch.get_default_dtype(), torch.get_num_threads()
        deterministic = torch.are_deterministic_algorithms_enabled()
        try:
            with self._undo:
                yield self
        finally:
            torch.set_grad_enabled(grad)
            torch.set_default_dtype(dtype)
            torch.set_num_threads(threads)
            torch.use_deterministic_algorithms(deterministic)


def run(program: Callable[[Runner], None], compile_function: Callable[..., Any] | None) -> Runner:
    runner = Runner(compile_function)
    torch.manual_seed(0)
    with runner.until_the_end():
        program(runner)
    return runner


def check(program: Callable[[Runner], None], compile_function: Callable[..., Any]) -> None:
    """Raises AssertionError where the compiled run differs from the plain one, or compiled for a call that must hit."""
    plain = run(program, None)
    compiled = run(program, compile_function)
    assert plain.seen, "the row shows nothing"
    for call, (left, right) in enumerate(zip(plain.seen, compiled.seen, strict=True), 1):
        found = difference(left, right)
        assert found is None, f"call {call}: {found}"
    assert not compiled.recompiled, "; ".join(compiled.recompiled)
