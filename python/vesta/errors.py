"""The errors that Vesta raises.

- :class:`UserError`: the caller asked for something impossible; the message says what to do next.
- :class:`Unsupported`: a correct program that Vesta does not compile. It runs eager unless ``strict`` is set.
- :class:`NeedsValue`: an Unsupported program that reads a tensor's value (``item``, ``nonzero``, ``bool(tensor)``).
- :class:`GraphBreak`: an Unsupported program that ``fullgraph=True`` refuses. It has the line, the reason and a hint.
- :class:`RecompileError`: a call that would compile again under ``torch.compiler.set_stance("fail_on_recompile")``.
- :class:`InternalError`: a bug in Vesta. The call runs eager unless ``strict`` is set.
"""

from __future__ import annotations

import difflib
import linecache
from collections.abc import Iterable, Sequence

__all__ = ["Error", "GraphBreak", "InternalError", "NeedsValue", "RecompileError", "Unsupported", "UserError"]


class Error(RuntimeError):
    """The base class of Vesta's errors."""


class UserError(Error):
    """The caller asked for something impossible."""


class Unsupported(Error):
    """A correct program that Vesta does not compile."""


class NeedsValue(Unsupported):
    """The program reads a tensor's value while it is compiled."""


def _strict(reason: str, file: str, line: int, function: str) -> Unsupported:
    """The error for a call, or a rest of one, that would run eager under ``strict=True``. The bindings call this."""
    where = f" ({file}:{line}, in {function})" if file else ""
    return Unsupported(f"strict=True, but this would run eager{where}: {reason}")


class InternalError(Error):
    """A bug in Vesta."""


class GraphBreak(Unsupported):
    """The first instruction that cannot be part of the graph, under ``fullgraph=True``.

    ``file``, ``line`` and ``function`` say where it is; ``stack`` has the calls from the compiled function down to
    ``function``, as (file, line, function). ``reason`` says what cannot be captured, ``hint`` what to do about it, and
    ``name`` is its heading in docs/breaks.md.
    """

    def __init__(
        self,
        reason: str,
        hint: str = "",
        file: str = "",
        line: int = 0,
        function: str = "",
        stack: Sequence[tuple[str, int, str]] = (),
        name: str = "",
    ) -> None:
        super().__init__(reason, hint, file, line, function, tuple(stack), name)
        self.reason, self.hint, self.name = reason, hint, name
        self.file, self.line, self.function = file, line, function
        self.stack = tuple(stack)

    def __str__(self) -> str:
        places = [*self.stack, (self.file, self.line, self.function)] if self.file else [*self.stack]
        hint = self.hint or "compile without fullgraph=True; the code before and after this line is still compiled"
        return "\n".join(
            ["fullgraph=True, but the graph breaks here:"]
            + [_as_in_traceback(*place) for place in places]
            + [f"reason: {self.reason}", f"what to do: {hint}"]
            + ([f"see {documentation_of(self.name)}"] if self.name else [])
        )


class RecompileError(Error):
    """A call that no compiled variant serves, under ``torch.compiler.set_stance("fail_on_recompile")``.

    ``guard`` is the guard that failed (empty: nothing was compiled yet), ``was`` and ``now`` are its values. ``file``
    and
    ``line`` are where the program read the value.
    """

    def __init__(
        self,
        name: str,
        guard: str = "",
        was: str = "",
        now: str = "",
        file: str = "",
        line: int = 0,
        function: str = "",
    ) -> None:
        super().__init__(name, guard, was, now, file, line, function)
        self.name, self.guard, self.was, self.now = name, guard, was, now
        self.file, self.line, self.function = file, line, function

    def __str__(self) -> str:
        start = f'{self.name} needs a compile, which the stance "fail_on_recompile" forbids'
        if not self.guard:
            return f"{start}: it was not compiled before"
        change = f" ({self.was} became {self.now})" if self.was or self.now else ""
        place = [_as_in_traceback(self.file, self.line, self.function)] if self.file else []
        return "\n".join([f"{start}: guard {self.guard} failed{change}", *place])


def documentation_of(name: str) -> str:
    """The section of the documentation about the graph break of this name."""
    return f"docs/breaks.md#{name}"


def did_you_mean(name: str, known: Iterable[str], *, everything: str = "") -> str:
    """The end of a message about an unknown ``name``: the nearest known name, or ``everything`` if none is near."""
    near = difflib.get_close_matches(name, known, n=1)
    return f'; did you mean "{near[0]}"?' if near else f"; {everything}" if everything else ""


def _as_in_traceback(file: str, line: int, function: str) -> str:
    text = linecache.getline(file, line).strip()
    return f'  File "{file}", line {line}, in {function}' + (f"\n    {text}" if text else "")


def _graph_break(
    reason: str,
    hint: str = "",
    file: str = "",
    line: int = 0,
    function: str = "",
    stack: Sequence[tuple[str, int, str]] = (),
    name: str = "",
) -> GraphBreak:
    """The exception for a graph break under ``fullgraph=True``. The bindings call this."""
    return GraphBreak(reason, hint, file, line, function, stack, name)


def _recompile(
    name: str, guard: str = "", was: str = "", now: str = "", file: str = "", line: int = 0, function: str = ""
) -> RecompileError:
    """The exception for a miss under the stance "fail_on_recompile". The bindings call this."""
    return RecompileError(name, guard, was, now, file, line, function)


def _python_type(name: str) -> type[BaseException]:
    """The Python type for a C++ error, by name. The bindings call this."""
    return {e.__name__: e for e in (UserError, Unsupported, NeedsValue, InternalError)}.get(name, RuntimeError)
