"""Cases, and the worlds they run in.

A case is a function in a file of `tests/capture/cases`, with factories for its arguments:

    @case(lambda: (t(3), 2))                      called twice with fresh equal arguments
    def scaled(x, n): ...

    @case(lambda: (t(3), 2), lambda: (t(5), 7))   and then with others, and with the first again
    def scaled(x, n): ...

    @maker(lambda: (t(3),))                       the decorated function makes the callable
    def closure():
        count = 0
        def f(x): ...
        return f

    @case(lambda: (t(3),), drive=lambda f, x: list(f(x)))    how the callable is used (default: called)

A world is one fresh execution of the case's file under its own module name: globals, classes, defaults, caches and code
objects are those of that world alone, so state is compared by comparing worlds.
"""

from __future__ import annotations

import contextlib
import marshal
import sys
import types
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import torch

FOLDER = Path(__file__).parent / "cases"
_REGISTRY = "__cases__"


class Given:
    """Arguments of one call, where there are keywords."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.args, self.kwargs = args, kwargs


Arguments = Callable[[], Any]  # -> tuple of positional arguments, or Given


@dataclass(frozen=True)
class Case:
    name: str
    function: Callable[..., Any]
    arguments: tuple[Arguments, ...]
    makes: bool
    drive: Callable[..., Any] | None
    rebind: bool

    def calls(self) -> list[Given]:
        """The arguments of each call, made one after the other as the calls come."""
        first, *others = self.arguments
        plan = [first, first, *others, *([first] if others else [])]
        return [_given(make) for make in plan]


def _given(make: Arguments) -> Any:
    def give() -> Given:
        made = make()
        return made if isinstance(made, Given) else Given(*made)

    return give


def _register(arguments: tuple[Arguments, ...], makes: bool, drive: Any, rebind: bool) -> Callable[[Any], Any]:
    registry = sys._getframe(2).f_globals.setdefault(_REGISTRY, {})

    def add(function: Any) -> Any:
        name = getattr(function, "__name__", None) or type(function).__name__
        if name in registry:
            raise ValueError(f"two cases are named {name}")
        registry[name] = Case(name, function, arguments or (lambda: (),), makes, drive, rebind)
        return function

    return add


def case(*arguments: Arguments, drive: Any = None, rebind: bool = False) -> Callable[[Any], Any]:
    """`rebind`: the global of the case's name is the compiled callable during the calls, as with a decorator."""
    return _register(arguments, False, drive, rebind)


def maker(*arguments: Arguments, drive: Any = None) -> Callable[[Any], Any]:
    return _register(arguments, True, drive, False)


def t(*shape: int, seed: int = 0, dtype: torch.dtype = torch.float32, grad: bool = False) -> torch.Tensor:
    """The same small multiples of a quarter each time: sums and products of few of them are exact."""
    count = 1
    for n in shape:
        count *= n
    steps = (torch.arange(count, dtype=torch.int64) * 7 + 3 * seed + 1) % 17 - 8
    values = steps.to(dtype) / 4 if dtype.is_floating_point or dtype.is_complex else steps.to(dtype)
    return values.reshape(shape).requires_grad_(grad)


@cache
def _code(path: Path) -> bytes:
    return marshal.dumps(compile(path.read_text(), str(path), "exec", dont_inherit=True))


def _module_name(path: Path) -> str:
    if path.parent == FOLDER:
        return f"tests.capture.cases.{path.stem}"
    return path.stem


@contextlib.contextmanager
def world(path: Path) -> Iterator[types.ModuleType]:
    """The module of a fresh execution of `path`, importable by its name while the context lasts."""
    name = _module_name(path)
    module = types.ModuleType(name)
    module.__file__ = str(path)
    before = sys.modules.get(name)
    sys.modules[name] = module
    try:
        exec(marshal.loads(_code(path)), module.__dict__)
        yield module
    finally:
        if before is None:
            sys.modules.pop(name, None)
        else:
            sys.modules[name] = before


def cases_of(module: types.ModuleType) -> dict[str, Case]:
    return module.__dict__.get(_REGISTRY, {})


def case_names(path: Path) -> list[str]:
    with world(path) as module:
        return list(cases_of(module))


def serves(path: Path) -> bool:
    """Whether this interpreter can run the file: `py312_x.py` needs 3.12 or later."""
    prefix = path.stem.split("_")[0]
    if not prefix.startswith("py3"):
        return True
    return sys.version_info >= (3, int(prefix[3:]))


def case_files() -> list[Path]:
    return [path for path in sorted(FOLDER.glob("*.py")) if path.stem != "__init__" and serves(path)]
