"""einops-style code: patterns parsed in Python, shapes solved, tensors reshaped."""

from __future__ import annotations

import functools
import itertools

import torch

from tests.capture.case import case, t


@functools.lru_cache(256)
def parse(side: str) -> tuple[tuple[str, ...], ...]:
    groups: list[tuple[str, ...]] = []
    current: list[str] | None = None
    for token in side.replace("(", " ( ").replace(")", " ) ").split():
        if token == "(":
            if current is not None:
                raise ValueError(f"nested parentheses in {side!r}")
            current = []
        elif token == ")":
            groups.append(tuple(current or ()))
            current = None
        elif current is None:
            groups.append((token,))
        else:
            current.append(token)
    return tuple(groups)


class Plan:
    def __init__(self, left, right, sizes):
        self.left, self.right, self.sizes = left, right, dict(sizes)

    def apply(self, x, reduction=None):
        known = dict(self.sizes)
        for group, size in zip(self.left, x.shape, strict=True):
            missing = [name for name in group if name not in known]
            product = 1
            for name in group:
                product *= known.get(name, 1)
            match missing:
                case []:
                    if product != size:
                        raise ValueError(f"{group} has {product} elements, not {size}")
                case [name]:
                    if size % product:
                        raise ValueError(f"{size} is no multiple of {product}")
                    known[name] = size // product
                case _:
                    raise ValueError(f"more than one unknown in {group}")
        flat = list(itertools.chain.from_iterable(self.left))
        target = list(itertools.chain(*self.right))
        x = x.reshape([known[name] for name in flat])
        dropped = [name for name in flat if name not in target]
        if dropped:
            x = getattr(x, reduction or "sum")(dim=tuple(flat.index(name) for name in dropped))
            flat = [name for name in flat if name in target]
        x = x.permute([flat.index(name) for name in target if name in flat])
        for at, name in enumerate(target):
            if name not in flat:
                x = x.unsqueeze(at).expand(*x.shape[:at], known[name], *x.shape[at:])
        shape = []
        for group in self.right:
            size = 1
            for name in group:
                size *= known[name]
            shape.append(size)
        return x.reshape(shape)


@functools.cache
def plan_of(pattern, sizes):
    left, arrow, right = pattern.partition("->")
    assert arrow == "->", pattern
    return Plan(parse(left), parse(right), sizes)


def rearrange(x, pattern, reduction=None, **sizes):
    if isinstance(x, list):
        x = torch.stack(x)
    try:
        return plan_of(pattern, tuple(sorted(sizes.items()))).apply(x, reduction)
    except ValueError as error:
        raise RuntimeError(f'"{pattern}": {error}') from error


@case(lambda: (t(2, 3, 8),), lambda: (t(4, 3, 6),))
def heads(x):
    y = rearrange(x, "b n (h d) -> b h n d", h=2)
    return y, rearrange(y * 2, "b h n d -> b n (h d)")


@case(lambda: (t(1, 3, 4, 6),))
def patches(x):
    return rearrange(x, "b c (h p) (w q) -> b (h w) (p q c)", p=2, q=3)


@case(lambda: (t(2, 3, 4),))
def reduced_and_repeated(x):
    return (
        rearrange(x, "b n d -> b d", "mean"),
        rearrange(x, "b n d -> n (r d) b", r=2),
        rearrange(list(x), "b n d -> n b d"),
    )


@case(lambda: (t(2, 3, 4),))
def wrong_pattern(x):
    return rearrange(x, "b n (h d) -> b h n d", h=3)


@case(lambda: (t(2, 3, 4),))
def wrong_pattern_caught(x):
    try:
        return rearrange(x, "b n (h d -> b")
    except RuntimeError as error:
        return x * 2, str(error), type(error.__cause__).__name__
    except (KeyError, TypeError) as error:
        return x * 3, type(error).__name__


@case(lambda: (t(2, 3), t(3, 4)), lambda: (t(4, 3), t(3, 5)))
def einsum(a, b):
    return (
        torch.einsum("ij,jk->ik", a, b),
        torch.einsum("ij->j", a),
        torch.einsum("...j,jk", a, b),
        torch.tensordot(a, b, dims=1),
    )
