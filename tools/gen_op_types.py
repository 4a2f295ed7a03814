#!/usr/bin/env python3
"""Records calls of ATen operators, with argument and result types, for tests/unit/graph_ops_types.cpp.

Sources are the samples of torch's operator database, run under a dispatch mode, each in several memory layouts, and
direct calls of the composite operators that the op table keeps whole. One JSON object a line:
{"op": name, "args": [...], "out": [types], "error": bool}. A tensor is {"t": dtype, "s": sizes, "d": strides}.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import random
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

warnings.filterwarnings("ignore")
OPS = Path(__file__).resolve().parent.parent / "src" / "graph" / "ops"
NAMES = {
    torch.bool: "bool", torch.uint8: "u8", torch.int8: "i8", torch.int16: "i16", torch.int32: "i32", torch.int64: "i64",
    torch.float16: "f16", torch.bfloat16: "bf16", torch.float32: "f32", torch.float64: "f64", torch.complex32: "c32",
    torch.complex64: "c64", torch.complex128: "c128", torch.float8_e4m3fn: "f8e4m3fn", torch.float8_e5m2: "f8e5m2",
}  # fmt: skip
FORMATS = {
    torch.contiguous_format: "contiguous", torch.preserve_format: "preserve", torch.channels_last: "channels_last",
    torch.channels_last_3d: "channels_last_3d",
}  # fmt: skip


class Unwritable(Exception):
    pass


def rows() -> set[str]:
    texts = re.findall(r'"(aten::[^(]+)\(', (OPS / "schemas.inc").read_text())
    return set(texts)


def type_of(t: torch.Tensor) -> dict[str, Any]:
    if t.layout != torch.strided or t.dtype not in NAMES:
        raise Unwritable
    return {"t": NAMES[t.dtype], "s": list(t.shape), "d": list(t.stride())}


def written(a: Any) -> Any:
    if a is None or isinstance(a, (bool, str)):
        return a
    if isinstance(a, torch.Tensor):
        return type_of(a)
    if isinstance(a, (list, tuple)):
        return [written(x) for x in a]
    if isinstance(a, int):
        return {"i": a}
    if isinstance(a, float):
        return {"f": repr(a)}
    if isinstance(a, complex):
        return {"c": [repr(a.real), repr(a.imag)]}
    if isinstance(a, torch.dtype):
        if a not in NAMES:
            raise Unwritable
        return {"dtype": NAMES[a]}
    if isinstance(a, torch.device):
        return {"device": str(a)}
    if isinstance(a, torch.memory_format):
        return {"format": FORMATS[a]}
    if isinstance(a, torch.layout):
        return None
    raise Unwritable


class Recorder(TorchDispatchMode):
    def __init__(self, names: set[str]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names = names
        self.cases: dict[str, dict[str, Any]] = {}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        name = func._schema.name + ("." + func._schema.overload_name if func._schema.overload_name else "")
        if name not in self.names:
            return func(*args, **kwargs)
        try:
            given = self.arguments(func, args, kwargs)
        except Unwritable:
            given = None
        try:
            out = func(*args, **kwargs)
        except Exception:
            if given is not None:
                self.keep(name, given, None)
            raise
        if given is not None:
            flat = list(out) if isinstance(out, (list, tuple)) else [out]
            with contextlib.suppress(Unwritable):
                self.keep(name, given, [None if t is None else type_of(t) for t in flat])
        return out

    @staticmethod
    def arguments(func: Any, args: Any, kwargs: Any) -> list[Any]:
        given = []
        for i, a in enumerate(func._schema.arguments):
            value = args[i] if i < len(args) else kwargs.get(a.name, a.default_value)
            given.append(written(value))
        return given

    def keep(self, name: str, args: list[Any], out: list[Any] | None) -> None:
        case = {"op": name, "args": args, "out": out}
        self.cases[json.dumps(case)] = case


def layouts(t: Any, rng: random.Random) -> Any:
    """The same values in another memory layout."""
    if not isinstance(t, torch.Tensor) or t.dim() < 2 or t.layout != torch.strided:
        return t
    kind = rng.randrange(5)
    if kind == 0:
        order = list(range(t.dim()))
        rng.shuffle(order)
        back = [order.index(i) for i in range(t.dim())]
        return t.permute(order).contiguous().permute(back)
    if kind == 1 and t.dim() == 4:
        return t.contiguous(memory_format=torch.channels_last)
    if kind == 2:
        wide = torch.empty([*t.shape[:-1], t.shape[-1] + 3], dtype=t.dtype)
        wide[..., : t.shape[-1]] = t
        return wide[..., : t.shape[-1]]
    if kind == 3:
        return t.transpose(0, -1).contiguous().transpose(0, -1)
    return t


def run_samples(recorder: Recorder, rng: random.Random, per_op: int) -> None:
    for op in op_db:
        for dtype in (torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.complex64, torch.uint8):
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=False))
            except Exception:
                continue
            rng.shuffle(samples)
            for sample in samples[: per_op if dtype == torch.float32 else max(2, per_op // 3)]:
                for vary in (False, True):
                    change = (lambda t: layouts(t, rng)) if vary else (lambda t: t)
                    try:
                        args = tree_map(change, (sample.input, sample.args, sample.kwargs))
                        with torch.no_grad(), recorder:
                            op.op(args[0], *args[1], **args[2])
                    except Exception:
                        pass
                # Mixed types: the other tensor arguments get another dtype.
                try:
                    other = rng.choice([torch.int32, torch.float16, torch.float64, torch.bool, torch.float32])
                    mixed = tree_map(
                        lambda t: t.to(other) if isinstance(t, torch.Tensor) else t, (sample.args, sample.kwargs)
                    )
                    with torch.no_grad(), recorder:
                        op.op(sample.input, *mixed[0], **mixed[1])
                except Exception:
                    pass


def run_backward(recorder: Recorder, rng: random.Random, per_op: int) -> None:
    for op in op_db:
        if not op.supports_autograd:
            continue
        for dtype in (torch.float32, torch.bfloat16):
            try:
                samples = list(op.sample_inputs("cpu", dtype, requires_grad=True))
            except Exception:
                continue
            rng.shuffle(samples)
            for sample in samples[: max(2, per_op // 3)]:
                try:
                    out = op.op(sample.input, *sample.args, **sample.kwargs)
                    out = out[0] if isinstance(out, (list, tuple)) else out
                    grad = torch.randn_like(out) if out.dtype.is_floating_point else torch.ones_like(out)
                    with recorder:
                        out.backward(layouts(grad, rng))
                except Exception:
                    pass


def run_pointwise(recorder: Recorder, rng: random.Random, count: int) -> None:
    """Broadcasts of unusual layouts, on which TensorIterator's rule for strides depends."""

    def tensor(shape: list[int], dtype: torch.dtype) -> torch.Tensor:
        shape = [1 if rng.random() < 0.2 else s for s in shape]
        if rng.random() < 0.2:
            shape = shape[rng.randrange(len(shape) + 1) :]
        t = torch.ones(shape).to(dtype)
        for _ in range(2):
            t = layouts(t, rng)
        if rng.random() < 0.2 and t.dim() > 0:
            d = rng.randrange(t.dim())
            if t.shape[d] > 0:
                t = t.narrow(d, 0, 1).expand([s if i == d else -1 for i, s in enumerate(t.shape)])
        return t

    dtypes = [torch.float32, torch.bfloat16, torch.int64, torch.int32, torch.bool, torch.float64, torch.uint8]
    ops: list[Callable[..., Any]] = [torch.add, torch.mul, torch.div, torch.eq, torch.maximum, torch.atan2, torch.pow]
    for _ in range(count):
        shape = [rng.choice([0, 1, 2, 3, 3, 4, 5]) if rng.random() < 0.9 else 2 for _ in range(rng.randrange(5))]
        a, b = tensor(shape, rng.choice(dtypes)), tensor(shape, rng.choice(dtypes))
        number: Any = rng.choice([2, 2.5, True, 1j])
        calls: tuple[Callable[[], Any], ...] = (
            lambda: rng.choice(ops)(a, b),
            lambda: torch.where(b.bool(), a, b),
            lambda: torch.clamp(a, min=rng.choice([1, 0.5])),
            lambda: torch.addcmul(a, b, a),
            lambda: torch.sqrt(a),
            lambda: a.clone(),
            lambda: a.to(rng.choice(dtypes)),
            lambda: torch.ops.aten.add.Scalar(a, number),
            lambda: torch.ops.aten.mul.Scalar(a, number),
            lambda: torch.ops.aten.gt.Scalar(a, 1.5),
            lambda: torch.ops.aten.pow.Tensor_Scalar(a, number),
            lambda: torch.ops.aten.div.Scalar(a, number),
            lambda: torch.ops.aten.rsub.Scalar(a, number),
            lambda: torch.ops.aten.sub.Scalar(a, number),
            lambda: a.masked_fill(b.bool(), 1),
            lambda: torch.cumsum(a, 0),
            lambda: torch.sum(a, -1),
        )
        with torch.no_grad(), recorder:
            for call in calls:
                with contextlib.suppress(Exception):
                    call()


def run_composites(recorder: Recorder, rng: random.Random) -> None:
    """Records composite operators that Vesta keeps whole: the dispatch mode sees only their parts."""
    aten = torch.ops.aten

    def note(func: Any, *args: Any, **kwargs: Any) -> None:
        name = func._schema.name + ("." + func._schema.overload_name if func._schema.overload_name else "")
        try:
            out = func(*args, **kwargs)
        except Exception:
            out = None
        flat = None if out is None else [out]
        recorder.keep(name, recorder.arguments(func, args, kwargs), flat and [type_of(t) for t in flat])

    for dtype in (torch.float32, torch.bfloat16):
        for shape in ([2, 3, 4], [5, 6], [2, 6, 4, 5], [4], [0, 3], [2, 3, 4, 5, 6]):
            for _ in range(4):
                x = layouts(torch.randn(shape).to(dtype), rng)
                w = torch.randn(shape[-1]).to(dtype)
                note(aten.layer_norm.default, x, shape[-1:], w, w)
                note(aten.layer_norm.default, x, shape[-2:])
                note(aten.rms_norm.default, x, shape[-1:], w, 1e-6)
                note(aten.rms_norm.default, x, shape[-1:])
                note(aten.softmax.int, x, -1)
                note(aten.softmax.int, x, 0, torch.float32)
                note(aten.log_softmax.int, x, 0)
                if len(shape) > 1:
                    c = torch.randn(shape[1]).to(dtype)
                    note(aten.group_norm.default, x, 1, c, c)
                    note(aten.group_norm.default, x, 3)
                note(
                    aten.linear.default, x, layouts(torch.randn(7, shape[-1]).to(dtype), rng), torch.randn(7).to(dtype)
                )
                note(aten.linear.default, x, torch.randn(7, shape[-1]).to(dtype))
                note(aten.linear.default, x, torch.randn(shape[-1]).to(dtype))
                note(aten.l1_loss.default, x, layouts(torch.randn(shape).to(dtype), rng), rng.randrange(3))
                if len(shape) > 1:
                    rest = [shape[0], *shape[2:]]
                    for reduction in range(3):
                        note(aten.cross_entropy_loss.default, x, torch.zeros(rest, dtype=torch.long), None, reduction)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("--per-op", type=int, default=12, help="samples of each operator and dtype")
    parser.add_argument("--random", type=int, default=300, help="random pointwise calls")
    parser.add_argument("--sample", type=int, default=0, help="cases kept per operator; 0: all")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = random.Random(options.seed)
    torch.manual_seed(options.seed)
    recorder = Recorder(rows())
    run_samples(recorder, rng, options.per_op)
    run_backward(recorder, rng, options.per_op)
    run_pointwise(recorder, rng, options.random)
    run_composites(recorder, rng)
    by_op: dict[str, list[str]] = {}
    for line, case in recorder.cases.items():
        by_op.setdefault(case["op"], []).append(line)
    with options.out.open("w") as f:
        for name in sorted(by_op):
            lines = by_op[name]
            if options.sample and len(lines) > options.sample:
                lines = rng.sample(lines, options.sample)
            f.writelines(line.replace(", ", ",").replace(": ", ":") + "\n" for line in lines)
    missing = sorted(recorder.names - by_op.keys())
    print(f"{len(by_op)} operators; without a case: {' '.join(missing)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main())
