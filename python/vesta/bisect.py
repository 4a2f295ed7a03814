"""``vesta bisect``: finds the kernel, the pass and the rewrite at fault for a recorded case."""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from vesta import _C
from vesta.cases import read
from vesta.child_process import in_child
from vesta.recording import versions
from vesta.replay import SECONDS, Replayed, confine, kernels_of, options_of, replay, replay_here

__all__ = ["Culprit", "bisect", "bisect_file"]


@dataclass(frozen=True)
class Culprit:
    """What is at fault.

    ``what``: one sentence. ``right``: nothing is at fault. ``kernels``: the kernels that are wrong by themselves.
    ``passes``: the smallest set of passes without which the case is right. ``rewrite``: the number of the first rewrite
    that makes the case wrong, and ``change``: the lines of the graph that it changes. ``case``: the text of a smaller
    case, which has only the first of the kernels; empty: there is none.
    """

    what: str
    right: bool = False
    kernels: tuple[str, ...] = ()
    passes: tuple[str, ...] = ()
    rewrite: int | None = None
    change: str = ""
    case: str = ""


Try = Callable[[_C.Options], bool]  # whether the case is right with these options


def bisect(case: _C.Case, *, seconds: float = SECONDS, tell: Callable[[str], None] = lambda line: None) -> Culprit:
    """Looks for what is at fault for a case. Every candidate runs in a child process for ``seconds`` at most. ``tell``
    gets a line for each candidate."""

    def right(options: _C.Options, what: str) -> bool:
        replayed = replay(case, options, seconds=seconds)
        tell(f"{what}: {_short(replayed)}")
        return replayed.ok

    if right(options_of(case), "the case"):
        return Culprit("it is right, so nothing is at fault", right=True)
    if not right(options_of(case, kernels=False), "without kernels"):
        if right(options_of(case, kernels=False, skip_passes=_C.passes()), "without kernels and passes"):
            passes = _needed(lambda names: right(options_of(case, kernels=False, skip_passes=names), _without(names)))
            return _culprit_of_passes(case, passes, seconds, tell)
        return Culprit("the case is wrong without kernels and passes, too: the fault is in the graph or in the runtime")
    found = _wrong_kernels(case, seconds, tell)
    if found:
        names = tuple(name for name, _ in found)
        plural = "kernels are" if len(names) > 1 else "kernel is"
        return Culprit(f"the {plural} at fault: {', '.join(names)}", kernels=names, case=found[0][1])
    if right(options_of(case, skip_passes=_C.passes()), "without passes"):
        passes = _needed(lambda names: right(options_of(case, skip_passes=names), _without(names)))
        return _culprit_of_passes(case, passes, seconds, tell)
    return Culprit(
        "the case is wrong without passes, and right without kernels, but each kernel is right by itself: "
        "the fault is in the plan"
    )


def _culprit_of_passes(case: _C.Case, passes: list[str], seconds: float, tell: Callable[[str], None]) -> Culprit:
    named = f"the {'passes are' if len(passes) > 1 else 'pass is'} at fault: {', '.join(passes)}"
    rewrite = _first_wrong_rewrite(case, seconds, tell)
    if rewrite is None:
        return Culprit(named, passes=tuple(passes))
    before, after = (_graph_after(case, limit, seconds) for limit in (rewrite - 1, rewrite))
    change = "\n".join(
        line
        for line in difflib.unified_diff(before, after, n=0, lineterm="")
        if not line.startswith(("---", "+++", "@@"))
    )
    return Culprit(named, passes=tuple(passes), rewrite=rewrite, change=change)


def _needed(right: Callable[[Sequence[str]], bool]) -> list[str]:
    """The smallest set of passes, in the sense that none of them can be left in, without which the case is right. It
    is right without all."""
    skipped = list(_C.passes())
    size = len(skipped)
    while size >= 1:
        at = 0
        while at < len(skipped) and len(skipped) > 1:
            fewer = skipped[:at] + skipped[at + size :]
            if fewer and right(fewer):
                skipped = fewer
            else:
                at += size
        size //= 2
    return skipped


def _first_wrong_rewrite(case: _C.Case, seconds: float, tell: Callable[[str], None]) -> int | None:
    """The first rewrite with which the case is wrong; None if the number of rewrites does not decide."""

    def right(limit: int) -> bool:
        replayed = replay(case, options_of(case, rewrite_limit=limit), seconds=seconds)
        tell(f"with rewrite_limit {limit}: {_short(replayed)}")
        return replayed.ok

    if not right(0):
        return None
    low, high = 0, 1
    while right(high):
        low, high = high, 2 * high
        if high > 1 << 20:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if right(middle) else (low, middle)
    return high


def _graph_after(case: _C.Case, limit: int, seconds: float) -> list[str]:
    def work(say: Any) -> str:
        confine(case)
        return str(case.inspect(options_of(case, rewrite_limit=limit)).graph)

    return str(in_child(work, seconds).value or "").splitlines()


def _wrong_kernels(case: _C.Case, seconds: float, tell: Callable[[str], None]) -> list[tuple[str, str]]:
    """The names of the kernels that are wrong by themselves, with their cases."""

    def work(say: Any) -> list[tuple[str, str]]:
        confine(case)
        return [(name, part.text()) for name, part, _ in kernels_of(case)]

    ended = in_child(work, seconds)
    out = []
    for index, (name, text) in enumerate(ended.value or ()):
        replayed = _replay_kernel(case, index, seconds)
        tell(f"kernel {name} by itself: {_short(replayed)}")
        if not replayed.ok:
            out.append((name, _C.join_cases(versions(), [text])))
    return out


def _replay_kernel(case: _C.Case, index: int, seconds: float) -> Replayed:
    def work(say: Any) -> Replayed:
        confine(case)
        _, part, values = kernels_of(case)[index]
        return replay_here(part, values=values)

    ended = in_child(work, seconds)
    return ended.value if ended.how == "done" else Replayed(ended.how, ended.why)


def _without(names: Sequence[str]) -> str:
    if len(names) > 4:
        return f"without {len(names)} passes"
    return f"without {', '.join(names)}"


def _short(replayed: Replayed) -> str:
    return f"{replayed.status} ({replayed.error.splitlines()[0]})" if replayed.error else replayed.status


def bisect_file(
    path: str | os.PathLike[str], number: int | None, seconds: float, tell: Callable[[str], None]
) -> list[tuple[int, Culprit]]:
    """Bisects the cases of a file, or the one with this number (from 1)."""
    _, cases = read(path, number)
    return [(i, bisect(case, seconds=seconds, tell=tell)) for i, case in cases.items()]
