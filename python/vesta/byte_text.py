"""Amounts of memory as text, as in src/base/byte_text.h."""

from __future__ import annotations

__all__ = ["byte_text"]


def byte_text(count: float) -> str:
    """``"1.5 MiB"``, or ``"12 B"``."""
    for unit, name in ((1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")):
        if count >= unit:
            return f"{count / unit:.1f} {name}"
    return f"{count:.0f} B"
