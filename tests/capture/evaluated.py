"""Vesta's evaluator as a compiler for the harness: it changes nothing but who runs the frames."""

from __future__ import annotations

import types
from typing import Any

import vesta


def evaluated(function: Any, how: int = 0) -> Any:
    """Frames of the function and of what it calls."""
    return vesta._C.evaluated(function, how) if isinstance(function, types.FunctionType) else function


def resumed(function: Any) -> Any:
    """The same, and now and then CPython goes on with a frame."""
    return evaluated(function, 7)


def thrown(function: Any) -> Any:
    """The same, and CPython goes on where an instruction fails."""
    return evaluated(function, -1)


def all_frames(function: Any) -> Any:
    """From now on every frame of this thread, also of generators that outlive a call."""
    vesta._C.evaluate_all()
    return function


def all_frames_resumed(function: Any) -> Any:
    vesta._C.evaluate_all(7)
    return function


def all_frames_thrown(function: Any) -> Any:
    vesta._C.evaluate_all(-1)
    return function
