"""``vesta.wait``: waits for compiles that go on in the background."""

from __future__ import annotations

import time
from typing import Any

from vesta import _C
from vesta.errors import UserError
from vesta.explain import captured_of

__all__ = ["wait"]


def wait(compiled: Any = None, timeout: float | None = None, *, tier: int = 2) -> bool:
    """Waits until the compiles of ``compiled`` have ended; later calls use what they have made.

    A compile goes on in the background if a call's time is up (the option ``deadline_ms``) or should not be spent on it
    at all (``background=True``). Code behind a graph break is compiled when a call first reaches it, so ``wait`` does
    not know about code that has not been reached yet. Of a graph with gradients, it waits for the forward half and for
    the backward halves whose compiles have begun, and of any graph for weights that are packed in the background.

    Args:
        compiled: A result of :func:`vesta.compile`. None: everything that this process compiles, which includes what
            ``torch.compile(backend="vesta")`` and C++ compile.
        timeout: Seconds to wait at most. None: no bound.
        tier: 2: until the compiles have ended. 1: until calls of ``compiled`` can run as calls into ATen, which takes
            milliseconds; where there are no such calls (gradients, GPUs), until the compile has ended.
            ``vesta.explain(compiled)`` shows the tier in which the calls of each graph run.

    Returns:
        False if a compile is still running when the time is up.
    """
    if timeout is not None and timeout < 0:
        raise UserError(f"vesta.wait takes a timeout of 0 or more seconds, not {timeout!r}")
    if tier not in (1, 2):
        raise UserError(f"vesta.wait takes the tier 1 or 2, not {tier!r}")
    if compiled is None:
        if tier == 1:
            raise UserError("vesta.wait takes a tier for a compiled function only")
        return _C.wait(-1.0 if timeout is None else timeout)
    captured = captured_of(compiled)
    if captured is None:
        raise UserError(f"vesta.wait takes a result of vesta.compile, not {compiled!r}")
    end = None if timeout is None else time.monotonic() + timeout
    methods = getattr(compiled, "_vesta_methods", None)
    done = True
    for each in [captured, *(methods.captured() if methods is not None else [])]:
        done = each.wait(-1.0 if end is None else max(0.0, end - time.monotonic()), tier) and done
    return done
