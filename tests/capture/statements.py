"""Statements as a tree: printed as Python, and made smaller for a failure's report."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Block:
    """`header` ends with a colon; an empty body is printed as `pass`."""

    header: str
    body: tuple[Statement, ...]


@dataclass(frozen=True)
class Statement:
    """Lines, then blocks: `if` and `else` are two blocks of one statement, a decorator is a line before a `def`."""

    lines: tuple[str, ...] = ()
    blocks: tuple[Block, ...] = ()
    optional: int = 0  # how many of the last blocks the statement can do without


def line(text: str) -> Statement:
    return Statement((text,))


def printed(statements: tuple[Statement, ...], indent: str = "    ") -> Iterator[str]:
    for statement in statements:
        yield from (indent + text for text in statement.lines)
        for block in statement.blocks:
            yield indent + block.header
            yield from printed(block.body, indent + "    ") if block.body else [indent + "    pass"]


def count(statements: tuple[Statement, ...]) -> int:
    return sum(1 + sum(count(block.body) for block in statement.blocks) for statement in statements)


def smaller(statements: tuple[Statement, ...]) -> Iterator[tuple[Statement, ...]]:
    """Programs with something left out, the largest parts first."""
    length = len(statements)
    size = length // 2
    while size > 1:
        for at in range(0, length, size):
            yield statements[:at] + statements[at + size :]
        size //= 2
    for at in reversed(range(length)):
        yield statements[:at] + statements[at + 1 :]
    for at, statement in enumerate(statements):
        before, behind = statements[:at], statements[at + 1 :]
        for block in statement.blocks:
            yield before + block.body + behind
        for drop in range(statement.optional, 0, -1):
            kept = statement.blocks[: len(statement.blocks) - drop]
            yield (*before, replace(statement, blocks=kept, optional=statement.optional - drop), *behind)
        for number, block in enumerate(statement.blocks):
            for body in smaller(block.body):
                blocks = list(statement.blocks)
                blocks[number] = replace(block, body=body)
                yield (*before, replace(statement, blocks=tuple(blocks)), *behind)
