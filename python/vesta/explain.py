"""``vesta.explain``: what was compiled, the result, the time it took, and what ran eager and why."""

from __future__ import annotations

import functools
import os
import types
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, overload

from vesta import _C
from vesta.compile import compile
from vesta.compiled_function import Compiled
from vesta.compiled_module import is_wrapper, methods_of
from vesta.errors import UserError
from vesta.explain_capture import Break, Captured, Graph, Guard, Recompile, explain_captured
from vesta.function import alive

if TYPE_CHECKING:
    from vesta.page.measured import MeasuredCall

__all__ = ["Explainer", "Explanation", "explain"]


@dataclass
class Explanation:
    """Reports on compiled functions; ``print`` shows them.

    ``captures`` has the results of :func:`vesta.compile`, ``functions`` the graphs of ``torch.compile`` and of
    :func:`vesta.trace_and_compile`.
    """

    functions: list[_C.FunctionReport] = field(default_factory=list)
    captures: list[Captured] = field(default_factory=list)

    @property
    def variants(self) -> list[_C.CompileReport]:
        """Every compiled variant of every function."""
        return [v for f in self.functions for v in f.variants] + [g.compiled for g in self.graphs if g.compiled]

    @property
    def fallbacks(self) -> list[_C.Fallback]:
        """Calls that ran eager, by reason."""
        return [x for c in self.captures for x in c.fallbacks] + [x for f in self.functions for x in f.fallbacks]

    @property
    def graphs(self) -> list[Graph]:
        return [g for c in self.captures for g in c.graphs]

    @property
    def breaks(self) -> list[Break]:
        return [b for c in self.captures for b in c.breaks]

    @property
    def guards(self) -> list[Guard]:
        return [g for c in self.captures for g in c.guards]

    @property
    def recompiles(self) -> list[Recompile]:
        return [r for c in self.captures for r in c.recompiles]

    def __str__(self) -> str:
        if not self.functions and not self.captures:
            return "Vesta has not compiled anything in this process yet."
        return "\n\n".join([str(c) for c in self.captures] + ["\n".join(str(f) for f in self.functions)]).strip("\n")

    __repr__ = __str__


class Explainer:
    """Calls a compiled function and explains it: ``explainer(*args)``. ``print`` shows the calls so far.

    ``compiled`` is the compiled function, ``result`` its last result.
    """

    def __init__(
        self, compiled: Callable[..., Any], captured: _C.CapturedFunction, html: str | os.PathLike[str] | None = None
    ) -> None:
        self.compiled, self.result = compiled, None
        self._captured, self._html = captured, html
        self._measured: MeasuredCall | None = None

    def __call__(self, *args: Any, **kwargs: Any) -> Explanation:
        if self._html is None:
            self.result = self.compiled(*args, **kwargs)
            return self.explanation
        from vesta.page.measured import measure

        self.result, self._measured = measure(lambda: self.compiled(*args, **kwargs), self._measured)
        return write_page(self.explanation, self._html, self._measured)

    @property
    def explanation(self) -> Explanation:
        """The report so far. For a module this includes its compiled methods that were called."""
        methods = methods_of(self.compiled) if is_wrapper(self.compiled) else None
        captures = [explain_captured(c) for c in methods.captured()] if methods else []
        return Explanation(captures=[explain_captured(self._captured), *(c for c in captures if c.calls)])

    def __str__(self) -> str:
        return str(self.explanation)

    __repr__ = __str__


def write_page(
    explanation: Explanation, path: str | os.PathLike[str], measured: MeasuredCall | None = None
) -> Explanation:
    from vesta.page.page import page_of

    Path(path).write_text(page_of(explanation, measured), encoding="utf-8")
    return explanation


@overload
def explain(  # type: ignore[overload-overlap]
    function: _C.CompiledFunction | None = None, *, html: str | os.PathLike[str] | None = None
) -> Explanation: ...
@overload
def explain(function: Callable[..., Any], *, html: str | os.PathLike[str] | None = None) -> Explainer: ...
def explain(function: Any = None, *, html: str | os.PathLike[str] | None = None) -> Explanation | Explainer:
    """Explains one function, or without an argument everything that the process has compiled.

    ``vesta.explain(f)(*args)`` calls ``f`` and returns graphs, operators, graph breaks with line and reason, guards,
    recompiles with the change that caused each, and times in milliseconds. ``f`` is a result of :func:`vesta.compile`,
    or anything that ``vesta.compile`` takes, which is then compiled first. Call the explainer again to see the effect
    of other arguments. For a result of :func:`vesta.trace_and_compile`, ``explain`` shows the calls so far.

    Functions compiled through ``torch.compile`` appear in ``vesta.explain()``, one for each graph that Dynamo made.

    ``html``: a file that gets the report as a page, which needs no other file and runs no script. It shows what was
    compiled and ran when, graphs with their steps coloured by time, breaks in their lines of source, recompiles, guards
    and memory. ``vesta.explain(f, html="report.html")(*args)`` writes it after each call, which is run under PyTorch's
    profiler so that the page has the time of each kernel; call the explainer twice to see a call that compiles nothing.
    Without a call, the page shows the events that :func:`vesta.events` has recorded, and the planner's estimates.
    """
    if function is None:
        captures = [explain_captured(f) for f in alive() if not isinstance(f, _C.CompiledFunction)]
        explanation = Explanation(list(_C.reports()), captures)
        return explanation if html is None else write_page(explanation, html)
    if isinstance(function, _C.CompiledFunction):
        explanation = Explanation([function.report()])
        return explanation if html is None else write_page(explanation, html)
    if not callable(function) or isinstance(function, type):
        raise UserError(f"vesta.explain takes a function, method or module, not {function!r}")
    compiled = function if captured_of(function) else compile(function)
    captured = captured_of(compiled)
    if captured is None:
        raise UserError(f"vesta.explain has nothing to show for {function!r}: it has no Python code")
    return Explainer(compiled, captured, html)


def captured_of(function: Any) -> _C.CapturedFunction | None:
    """The native object behind a result of :func:`vesta.compile`; None for anything else."""
    inner = function.__func__ if isinstance(function, types.MethodType) else function
    if not isinstance(inner, Compiled) and not is_wrapper(inner):
        return None
    captured: Any = object.__getattribute__(inner, "_vesta_call")
    if isinstance(captured, functools.partial):  # for a function that an instance has instead of a method
        captured = captured.func
    return None if isinstance(captured, types.FunctionType) else captured  # a function belongs to a disabled module
