"""What was compiled, into what, how long it took, and what ran eager and why."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from vesta import _C

__all__ = ["Explanation", "explain"]


@dataclass
class Explanation:
    """Reports of compiled functions; ``print`` it."""

    functions: list[_C.FunctionReport] = field(default_factory=list)

    @property
    def variants(self) -> list[_C.CompileReport]:
        """Every compiled variant of every function."""
        return [v for f in self.functions for v in f.variants]

    @property
    def fallbacks(self) -> list[_C.Fallback]:
        """Calls that ran eager, by reason."""
        return [x for f in self.functions for x in f.fallbacks]

    def __str__(self) -> str:
        if not self.functions:
            return "Vesta has compiled nothing in this process yet."
        return "\n".join(str(f) for f in self.functions)

    __repr__ = __str__


def explain(function: Any = None) -> Explanation:
    """Explains one compiled function, or (without an argument) all that the process has compiled.

    ``function`` is what :func:`vesta.trace_and_compile` returned. Functions compiled through ``torch.compile`` appear
    in ``vesta.explain()``, one for each graph that Dynamo captured.
    """
    if function is None:
        return Explanation(list(_C.reports()))
    if not isinstance(function, _C.CompiledFunction):
        raise TypeError(
            f"explain() takes what vesta.trace_and_compile returned, not {type(function).__name__}; "
            "call explain() without an argument for everything torch.compile sent to Vesta"
        )
    return Explanation([function.report()])
