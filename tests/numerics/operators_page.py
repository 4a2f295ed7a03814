"""Makes docs/operators.md, which says how Vesta runs each operator, from the outcomes of a sweep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from tests.numerics.op_samples import Outcome

_HEAD = """# Operators

Written by `python -m tests.numerics.sweep_op_db --write-page docs/operators.md`; do not edit.

How Vesta runs each operator of PyTorch's `op_db`, over {samples} in {dtypes}:

- **fused**: it becomes part of generated kernels,
- **decomposed**: it is replaced by other operators, all of which are fused,
- **view**: no data moves and no kernel is needed, or the result has no elements,
- **extern**: it, or an operator that it consists of, is a call into ATen,
- **refused**: the program runs eager, with the reason given.

One operator may be in several classes, depending on dtype and arguments; the counts say how often.

"""


def _short(op: str) -> str:
    """aten::add.Tensor -> add"""
    return op.rsplit("::", 1)[-1].split(".", 1)[0]


def classify(outcome: Outcome) -> tuple[str, list[str]]:
    """(class, reasons)"""
    if not outcome.compiled:
        return "refused", [outcome.reason or "no reason given"]
    if outcome.externs:
        return "extern", [
            f"`{_short(op)}`: {why}" if why else f"`{_short(op)}`" for op, why in sorted(outcome.externs.items())
        ]
    fused = {_short(op) for kernel in outcome.kernels for op in kernel}
    if not fused:
        return "view", []
    own = outcome.op.split(".")
    names = {outcome.op.split(".")[0], own[-1], outcome.op.replace("nn.functional.", "").split(".")[0]}
    return ("fused", []) if fused & names else ("decomposed", ["into " + ", ".join(f"`{f}`" for f in sorted(fused))])


def text(outcomes: Iterable[Outcome], per_dtype: int) -> str:
    """`per_dtype`: how many samples of each operator and dtype were drawn at most; 0: all."""
    classes: dict[str, Counter[str]] = defaultdict(Counter)
    reasons: dict[str, Counter[str]] = defaultdict(Counter)
    wrong: Counter[str] = Counter()
    dtypes: dict[str, None] = {}
    calls = 0
    for outcome in outcomes:
        dtypes[outcome.dtype] = None
        if outcome.variant == "error":
            continue
        calls += 1
        if outcome.status != "ok":
            wrong[outcome.op] += 1
            classes[outcome.op]["wrong"] += 1
            continue
        kind, why = classify(outcome)
        classes[outcome.op][kind] += 1
        if kind in ("extern", "refused") or (kind == "decomposed" and not reasons[outcome.op]):
            reasons[outcome.op].update(why)
    totals: Counter[str] = Counter()
    lines = []
    for op in sorted(classes):
        kinds = classes[op].most_common()
        totals[kinds[0][0]] += 1
        shown = ", ".join(f"{kind} {count}" if len(kinds) > 1 else kind for kind, count in kinds)
        because = "; ".join(
            reason.replace("|", "\\|").replace("\n", " ")[:200] for reason, _ in reasons[op].most_common(3)
        )
        lines.append(f"| {op} | {shown} | {because} |")
    summary = ", ".join(f"{count} {kind}" for kind, count in totals.most_common())
    table = ["| operator | what happens | which part, and why |", "|---|---|---|", *lines]
    return (
        _HEAD.format(
            samples=f"{per_dtype} random samples of each dtype" if per_dtype else "all of its samples",
            dtypes=", ".join(sorted(dtypes)),
        )
        + f"{calls} calls of {len(classes)} operators, {sum(wrong.values())} of them not as eager's. "
        + f"By what happens to most of an operator's samples: {summary}.\n\n"
        + "\n".join(table)
        + "\n"
    )
