"""HTML as values: text is escaped unless it is :class:`Markup`, so a source line cannot become a tag."""

from __future__ import annotations

import html
import re

__all__ = ["Markup", "join", "tag"]

# A text may have characters that HTML forbids: controls other than tab and line breaks, and halves of surrogates.
FORBIDDEN = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f\ud800-\udfff]")
VOID = frozenset({"meta", "br", "hr", "rect", "line", "path", "circle"})


class Markup(str):
    """Text that is HTML already."""

    __slots__ = ()


def escaped(text: object) -> str:
    return text if isinstance(text, Markup) else html.escape(FORBIDDEN.sub("�", str(text)), quote=True)


def join(*parts: object) -> Markup:
    return Markup("".join(map(escaped, parts)))


def tag(name: str, /, *content: object, **attributes: object) -> Markup:
    """An element. Attributes end with an underscore if Python reserves the name, other underscores are hyphens; those
    that are None are left out."""
    shown = "".join(
        f' {key.rstrip("_").replace("_", "-")}="{escaped(value)}"'
        for key, value in attributes.items()
        if value is not None
    )
    return Markup(f"<{name}{shown}/>" if name in VOID else f"<{name}{shown}>{join(*content)}</{name}>")
