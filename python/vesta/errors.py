"""Errors of Vesta.

- :class:`UserError`: the caller asked for something impossible; the message says what to do next.
- :class:`Unsupported`: a correct program that Vesta does not compile. It runs eager unless ``strict`` is set.
- :class:`NeedsValue`: an Unsupported program that reads a tensor's value (``item``, ``nonzero``, ``bool(tensor)``).
- :class:`InternalError`: a bug in Vesta. The call runs eager unless ``strict`` is set.
"""

from __future__ import annotations

__all__ = ["Error", "InternalError", "NeedsValue", "Unsupported", "UserError"]


class Error(RuntimeError):
    """Any error of Vesta's own."""


class UserError(Error):
    """The caller asked for something impossible."""


class Unsupported(Error):
    """A correct program that Vesta does not compile."""


class NeedsValue(Unsupported):
    """The program reads a tensor's value while it is compiled."""


class InternalError(Error):
    """A bug in Vesta."""


def _python_type(name: str) -> type[BaseException]:
    """The Python type of a C++ error, by name; called by the bindings."""
    return {e.__name__: e for e in (UserError, Unsupported, NeedsValue, InternalError)}.get(name, RuntimeError)
