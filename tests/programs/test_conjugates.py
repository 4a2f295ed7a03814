"""Random programs of complex numbers: what eager leaves pending (is_conj(), is_neg()) in arguments and results."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch

import vesta
from tests.numerics.wide_runs import copies
from tests.programs.random_programs import memory

STEPS = (
    *("new = x.conj()", "new = x.mH", "new = x.mT", "new = x[1:]", "new = x[:, ::2]", "new = x.imag", "new = x.real"),
    *("new = x * 2", "new = x + y", "new = x * y.conj()", "new = x.resolve_conj()", "new = x.resolve_neg()"),
    *(
        "new = x.clone()",
        "new = x.contiguous()",
        "new = torch._neg_view(x)",
        "new = x.abs()",
        "new = x.conj_physical()",
    ),
    *("new = x.sum(0, keepdim=True)", "new = x.expand(2, *x.shape)[0]", "new = x.detach()", "new = x.is_conj() * x"),
    *("new = torch.view_as_real(x.resolve_conj())[..., 1]", "new = torch.cat([x, x.conj()])", "new = x @ x.mH"),
    *("new = torch.dot(x.flatten(), x.flatten().conj())[None, None]", "new = x.reshape(-1)[:4].view(2, 2)"),
    *("new = torch.vdot(x.flatten().conj(), x.flatten())[None, None]", "new = x.flip(0)", "new = x.neg()"),
    *("x.mul_(1.5)", "x.add_(1)", "x[0].zero_()", "x.copy_(x.conj() * 0.5)", "x.imag.add_(2)"),
)


def program(r: random.Random) -> tuple[str, Callable[..., list[torch.Tensor]]]:
    names, lines = ["a", "b"], []
    for i in range(r.randint(2, 7)):
        places = {"x": r.choice(names), "y": r.choice(names), "new": f"v{i}"}
        step = r.choice(STEPS)
        if step.startswith("new"):
            names.append(f"v{i}")
        lines.append("    " + re.sub(r"\b(x|y|new)\b", lambda found, at=places: at[found[0]], step))
    shown = [n for n in names if r.random() < 0.6] or names[-1:]
    text = "\n".join(["def function(a, b):", *lines, f"    return [{', '.join(shown)}]"])
    scope: dict[str, Any] = {"torch": torch}
    exec(text, scope)
    return text, scope["function"]


def argument(r: random.Random, seed: int) -> torch.Tensor:
    z = torch.randn(3, 4, dtype=torch.complex64, generator=torch.Generator().manual_seed(seed))
    return r.choice(
        [z, z.conj(), z.imag, z.conj().imag, z.t().contiguous().mH, z[:, 1:3], torch._neg_view(z)],
    )


def outcome(function: Callable[..., Any], args: list[torch.Tensor]) -> Any:
    try:
        return function(*args)
    except Exception as error:
        return type(error)


@pytest.mark.parametrize("first", range(0, 200, 50))
def test_random_conjugates(first: int):
    compiled = 0
    for seed in range(first, first + 50):
        r = random.Random(seed)
        text, function = program(r)
        args = [argument(r, 2 * seed), argument(r, 2 * seed + 1)]
        ours_in, eagers_in = copies(args), copies(args)
        ours_function = vesta.trace_and_compile(function)
        ours, eagers = outcome(ours_function, ours_in), outcome(function, eagers_in)
        if not isinstance(eagers, list):
            assert ours is eagers, text
            continue
        compiled += not ours_function.report().fallbacks
        assert memory(ours, ours_in) == memory(eagers, eagers_in), text
        for mine, eager in zip([*ours, *ours_in], [*eagers, *eagers_in], strict=True):
            assert (mine.is_conj(), mine.is_neg()) == (eager.is_conj(), eager.is_neg()), text
            assert mine.stride() == eager.stride() or eager.numel() == 0, text
            torch.testing.assert_close(mine, eager, rtol=1e-4, atol=1e-4, msg=text)
    assert compiled >= 30
