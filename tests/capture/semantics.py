"""Runs a case plain and compiled, each in a world of its own, and tells every observable difference.

Observed of each call: the result or the exception (type, arguments, text, traceback lines, cause, context), the
arguments, the callable with its closure, the world's globals and classes, the results of earlier calls, which of all
these are the same object, what was printed, warned and logged, and the interpreter's and torch's state afterwards.
"""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import os
import random
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch.utils.hooks import RemovableHandle

from tests.capture.captured import Made, made_of
from tests.capture.case import Case, Given, case_names, cases_of, world
from tests.capture.differences import portrait_differences
from tests.capture.portrait import Portrait

Compile = Callable[[Any], Any]
_LEFT = "calls left to the recursion limit"
_FRESH = 86  # the exit code that asks for another process


@dataclass
class Observation:
    outcome: str  # "returned" or the exception's type
    portrait: Portrait
    printed: dict[str, str]
    warned: list[tuple[str, str, str, int]]
    state: dict[str, Any]


def _state() -> dict[str, Any]:
    return {
        "grad mode": torch.is_grad_enabled(),
        "inference mode": torch.is_inference_mode_enabled(),
        "autocast": (torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")),
        "autocast cache": torch.is_autocast_cache_enabled(),
        "default dtype": torch.get_default_dtype(),
        "default device": _default_device(),
        "deterministic": torch.are_deterministic_algorithms_enabled(),
        "anomaly mode": torch.is_anomaly_enabled(),
        "torch function": torch._C._is_torch_function_enabled(),
        "function modes": torch._C._len_torch_function_stack(),
        "dispatch modes": torch._C._len_torch_dispatch_stack(),
        "random state of torch": hash(bytes(torch.get_rng_state().numpy())),
        "random state of Python": hash(random.getstate()),
        "sys.exc_info()": sys.exc_info()[0],
        "recursion limit": sys.getrecursionlimit(),
        "garbage collection": gc.isenabled(),
        "trace function": sys.gettrace(),
        "profile function": sys.getprofile(),
        "switch interval": sys.getswitchinterval(),
        "warning filters": len(warnings.filters),
        "depth": _depth(),
        _LEFT: _left(),
    }


def _default_device() -> str:
    try:
        return str(torch.get_default_device())
    except Exception as error:
        return f"cannot be asked: {error}"


def _depth() -> int:
    frame, count = sys._getframe(), 0
    while frame is not None:
        frame, count = frame.f_back, count + 1  # type: ignore[assignment]
    return count


def _left() -> int:
    """How much deeper calls can go: a frame that was not counted back shows."""
    reached = 0

    def down() -> None:
        nonlocal reached
        reached += 1
        down()

    with contextlib.suppress(RecursionError):
        down()
    return reached


@contextlib.contextmanager
def _restored() -> Iterator[None]:
    """torch's and Python's settings after a case, whatever it did."""
    state = torch.get_rng_state(), random.getstate(), torch.get_default_dtype(), torch.is_grad_enabled()
    filters, limit = warnings.filters[:], sys.getrecursionlimit()
    hooks, RemovableHandle.next_id = RemovableHandle.next_id, 10**6  # a hook's key, the same in each world
    try:
        yield
    finally:
        RemovableHandle.next_id = hooks
        torch.set_rng_state(state[0])
        random.setstate(state[1])
        torch.set_default_dtype(state[2])
        torch.set_grad_enabled(state[3])
        torch.use_deterministic_algorithms(False)
        warnings.filters[:] = filters
        sys.setrecursionlimit(limit)
        sys.settrace(None)
        sys.setprofile(None)


@dataclass
class _Streams:
    out: io.StringIO
    err: io.StringIO


def _call(case: Case, function: Any, given: Given) -> tuple[str, Any]:
    try:
        if case.drive is not None:
            return "returned", case.drive(function, *given.args, **given.kwargs)
        return "returned", function(*given.args, **given.kwargs)
    except BaseException as error:
        return type(error).__name__, error


def observe(path: Path, name: str, compile: Compile) -> Iterator[Observation]:
    """One observation for each call of the case."""
    with world(path) as module, _restored():
        torch.manual_seed(0)
        random.seed(0)
        case = cases_of(module)[name]
        function = case.function() if case.makes else case.function
        compiled = compile(function)
        if case.rebind:
            module.__dict__[name] = compiled
        earlier: list[Any] = []
        for give in case.calls():
            given = give()
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                streams = _Streams(io.StringIO(), io.StringIO())
                with contextlib.redirect_stdout(streams.out), contextlib.redirect_stderr(streams.err):
                    outcome, value = _call(case, compiled, given)
                state = _state()
            with torch.no_grad():
                roots = {"arguments": given.args, "keywords": given.kwargs, "callable": function}
                names = {k: v for k, v in module.__dict__.items() if not k.startswith("__")}
                roots["globals"] = names
                roots["result" if outcome == "returned" else "exception"] = value
                roots["earlier results"] = earlier
                portrait = Portrait(roots, module, [(compiled, function)] if compiled is not function else [])
            if outcome == "returned":
                earlier = [*earlier, value]
            yield Observation(
                outcome,
                portrait,
                {"stdout": streams.out.getvalue(), "stderr": streams.err.getvalue()},
                [(str(w.message), w.category.__name__, Path(w.filename).name, w.lineno) for w in caught],
                state,
            )
            value = None


def _differences(plain: Observation, ours: Observation) -> list[str]:
    found = []
    if plain.outcome != ours.outcome:
        found.append(f"outcome: {_told(ours)}, plain {_told(plain)}")
        return found
    found += portrait_differences(plain.portrait, ours.portrait)
    for stream, text in plain.printed.items():
        if text != ours.printed[stream]:
            found.append(f"{stream}: {ours.printed[stream]!r}, plain {text!r}")
    if plain.warned != ours.warned:
        found.append(f"warnings: {ours.warned}, plain {plain.warned}")
    for name, value in plain.state.items():
        if name == _LEFT and abs(value - ours.state[name]) <= 2:  # depends on what is specialised
            continue
        if value != ours.state[name]:
            found.append(f"after the call, {name}: {ours.state[name]!r}, plain {value!r}")
    return found


def _told(observation: Observation) -> str:
    """'returned', or the exception with its text and innermost line."""
    for name, root in observation.portrait.roots:
        if name == "exception":
            value = observation.portrait.nodes[root].value
            line = value["traceback"][-1:] if isinstance(value, dict) else ""
            return f"{observation.outcome}({value['text']!r}) at {line}" if line else observation.outcome
    return observation.outcome


def check_case(path: Path, name: str, compile: Compile) -> list[str]:
    """Every difference, each with the call it was seen in; [] if the compiled callable is as the plain one."""
    for _ in observe(path, name, lambda f: f):  # modules imported and caches filled at a first use are no difference
        pass
    plain = list(observe(path, name, lambda f: f))
    found = []
    calls = observe(path, name, compile)
    for number, before in enumerate(plain, 1):
        ours = next(calls)
        different = _differences(before, ours)
        found += [f"call {number}: {text}" for text in different]
        if different:
            break
    calls.close()
    return found


def resolve(spec: str) -> Compile:
    """`plain`, or `module:attribute` of a compile function."""
    if spec == "plain":
        return lambda f: f
    module, _, attribute = spec.partition(":")
    made: Any = importlib.import_module(module)
    for part in attribute.split("."):
        made = getattr(made, part)
    return made


@dataclass(frozen=True)
class Task:
    """The cases of one file, from number `begin` on, or the `only` ones."""

    path: str
    compile: str
    begin: int = 0
    only: tuple[str, ...] = ()

    def names(self) -> list[str]:
        return [n for n in case_names(Path(self.path)) if not self.only or n in self.only]


@dataclass(frozen=True)
class Outcome:
    file: str
    case: str
    differences: tuple[str, ...]
    made: Made | None = None


def outcome_of(path: Path, name: str, compile: Compile) -> Outcome:
    compiled: list[Any] = []

    def keeping(f: Any) -> Any:
        compiled.append(compile(f))
        return compiled[-1]

    try:
        found = check_case(path, name, keeping)
    except BaseException as error:
        found = [f"the harness: {type(error).__name__}: {error}"]
    return Outcome(path.stem, name, tuple(found), made_of(compiled))


def work(task: Task, emit: Callable[[Any], None]) -> None:
    """For tests/isolation.py: one ("begin", number) and one ("outcome", Outcome) for each case."""
    path = Path(task.path)
    emit(("begin", (task.begin, "loading")))
    compile = resolve(task.compile)
    for number, name in enumerate(task.names()):
        if number < task.begin:
            continue
        emit(("begin", (number, name)))
        outcome = outcome_of(path, name, compile)
        emit(("outcome", outcome))
        if outcome.differences:  # what went wrong here must not be blamed on the cases after it
            os._exit(_FRESH)
        gc.collect(1)


def after(task: Task, step: Any, reason: str) -> tuple[Outcome | None, Task | None]:
    """The meaning of a process's death at `step`, None if the outcome is known, and the task that goes on after it."""
    number, name = step if step is not None else (task.begin, "loading")
    known = reason.startswith(f"exit with code {_FRESH}")
    lost = None if known else Outcome(Path(task.path).stem, name, (reason,))
    if name == "loading" or number + 1 >= len(task.names()):
        return lost, None
    return lost, Task(task.path, task.compile, number + 1, task.only)
