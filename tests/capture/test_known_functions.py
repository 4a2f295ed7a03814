"""The table of C functions: every row resolves, every method of a known class has a row, other functions are breaks."""

from __future__ import annotations

import collections
import functools
import importlib.util
import itertools
import math
import operator
import os
import re
import socket
import types
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
import torch._dynamo.eval_frame
import torch.autograd.profiler

import vesta
from vesta import _C
from vesta.errors import GraphBreak

pytestmark = pytest.mark.skipif(not hasattr(_C, "capture"), reason="this build has no capture")

BUILD = Path(__file__).resolve().parents[2] / os.environ.get("VESTA_BUILD", "build/release")


@functools.cache
def table() -> Any:
    """The extension module of the unit tests, which shows the table of C functions."""
    file = next((BUILD / "tests/unit").glob("vesta_capture_tests*.so"))
    spec = importlib.util.spec_from_file_location("vesta_capture_tests", file)
    assert spec
    return importlib.util.module_from_spec(spec)


# In the dictionary of a class, what is called for one of its objects.
METHODS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.BuiltinFunctionType,
)


def methods(cls: type) -> dict[str, Any]:
    own = {name: f.__func__ if isinstance(f, staticmethod) else f for name, f in vars(cls).items()}
    # `__new__` is known by its class.
    return {name: f for name, f in own.items() if isinstance(f, METHODS) and name != "__new__"}


@torch.library.custom_op("vesta_known::of_library", mutates_args=())
def of_library(x: torch.Tensor) -> torch.Tensor:
    return x + 1


def test_every_row_resolves() -> None:
    rows = table().known_functions()
    assert len(rows) > 1000
    assert [name for name, _, expected, resolved in rows if expected and not resolved] == []
    # A row that is outside its range of versions resolves to nothing.
    assert [name for name, _, expected, resolved in rows if resolved and not expected] == []


def test_no_function_has_two_rows() -> None:
    # "builtins.list.append"; a special method, which stands for all known classes, has no module.
    names = [name for name, *_ in table().known_functions() if "." in name]
    assert [name for name, n in collections.Counter(names).items() if n > 1] == []


def test_every_method_of_a_known_class_has_a_row() -> None:
    known = table().known_classes()
    assert {int, list, dict, collections.OrderedDict, itertools.chain, ValueError, torch.Size} <= {*known}
    missing = [(cls, name) for cls in known for name, f in methods(cls).items() if table().effect_of(f) == "unknown"]
    assert missing == []


def test_operators_on_tensors() -> None:
    """A C function of torch's without a row is an operator of the dispatcher, or unknown."""
    homes = [torch._C._VariableFunctionsClass, torch._C.TensorBase]
    found = {f"{home.__name__}.{name}": f for home in homes for name, f in methods(home).items()}
    for module in ("_nn", "_linalg", "_fft", "_special", "_sparse", "_nested"):
        functions = vars(getattr(torch._C, module)).items()
        found |= {f"{module}.{n}": f for n, f in functions if isinstance(f, types.BuiltinFunctionType)}
    operators = {name.removeprefix("aten::").split(".")[0] for name in torch._C._dispatch_get_all_op_names()}
    effects = {name: table().effect_of(f) for name, f in found.items()}
    # Constructors read their arguments as numbers; the handler makes the tensor.
    assert {n for n, e in effects.items() if e == "reads"} == {"TensorBase.new", "TensorBase.new_tensor"}
    assert {*effects.values()} == {"tensors", "refused", "unknown", "reads"}
    unknown = {name.split(".")[1] for name, effect in effects.items() if effect == "unknown"}
    # Operators without a tensor: they check, print or change a cache.
    assert {
        n for n in unknown & operators if not re.match(r"_cufft|_print|_assert|sym_constrain|_use_cudnn_rnn", n)
    } == set()
    assert not {"add", "conv2d", "__getitem__", "gelu", "linalg_det", "fft_fft", "special_erf"} & unknown
    by_rows = {n for name, e in effects.items() if e == "tensors" and (n := name.split(".")[1]) not in operators}
    assert {"__add__", "tensor", "cpu"} <= by_rows and len(by_rows) < 80


@pytest.mark.parametrize(
    ("function", "effect"),
    [
        (math.sqrt, "reads"),
        (sum, "reads numbers"),
        (operator.add, "reads numbers"),
        (operator.iadd, "writes"),
        (list.append, "appends"),
        ([].append, "appends"),
        (list.extend, "extends"),
        (list.index, "reads"),
        (dict.pop, "writes"),
        ({}.__setitem__, "writes"),
        (int.__reduce__, "reads state"),
        (functools.reduce, "reads"),
        (dict.fromkeys, "reads"),
        (str.maketrans, "reads"),
        (type.__new__, "refused"),
        (int.__new__, "reads"),
        (torch.add, "tensors"),
        (torch.Tensor.add_, "tensors"),
        (torch.nn.functional.gelu, "tensors"),
        (torch.ops.aten.add.Tensor._op, "tensors"),
        (torch.Tensor.data_ptr, "refused"),
        (torch.Tensor.tolist, "refused"),
        (torch.from_numpy, "refused"),
        (torch._C._set_grad_enabled, "torch"),
        (torch._C._functorch._grad_increment_nesting, "torch"),
        (torch._C._autograd._saved_tensors_hooks_disable, "torch"),
        (torch._C._group_tensors_by_device_and_dtype, "tensors"),
        (torch._C._get_mkldnn_enabled, "reads"),
        (numpy.sqrt, "reads"),
        (numpy.prod, "reads"),
        (numpy.save, "unknown"),
        (numpy.frompyfunc(abs, 1, 1), "unknown"),
        (print, "unknown"),
        (socket.gethostname, "unknown"),
        (collections.deque, "reads"),
        (operator.itemgetter(0), "reads"),
        (property.__get__, "reads"),
        (memoryview(b"").release, "writes"),
        (types.SimpleNamespace, "reads"),
        (re.compile("a").match, "reads"),
        (vars(torch.Tensor.__base__)["shape"], "tensors"),
        (vars(torch.Tensor.__base__)["_base"], "refused"),
        (torch.ops.aten.add.Tensor._op, "tensors"),
        (of_library._opoverload._op, "tensors"),
    ],
)
def test_effect(function: Any, effect: str) -> None:
    assert table().effect_of(function) == effect


def raised(f: Callable[..., Any], *args: Any) -> GraphBreak:
    with pytest.raises(GraphBreak) as e:
        vesta.compile(f, fullgraph=True)(*args)
    return e.value


def test_unknown_function() -> None:
    error = raised(lambda x: x + len(socket.gethostname()), torch.ones(3))
    assert error.name == "unknown-function"
    assert "calls _socket.gethostname, a function written in C that Vesta does not know" in str(error)
    assert "call it outside of the compiled function" in str(error)


def test_unknown_function_of_numpy() -> None:
    assert raised(lambda x: x + numpy.frompyfunc(abs, 1, 1)(2), torch.ones(3)).name == "unknown-function"


def test_refused_function() -> None:
    error = raised(lambda x: x + x.data_ptr(), torch.ones(3))
    assert error.name == "untraceable-function"
    assert "which reads a tensor's memory or changes what it is" in str(error)


def test_attribute_of_tensors_without_a_row() -> None:
    error = raised(lambda x: x + x._cdata, torch.ones(3))
    assert error.name == "untraceable-function"
    assert "Tensor._cdata" in str(error)


def test_functions_that_may_be_passed() -> None:
    def f(x: torch.Tensor, pairs: list[tuple[int, int]]) -> tuple[torch.Tensor, list[Any]]:
        kept: list[int] = []
        return x + 1, [*map(max, pairs), *map(operator.add, *pairs), *map(len, pairs), *map(kept.append, [1, 2])]

    pairs = [(1, 2), (4, 3)]
    assert vesta.compile(f, fullgraph=True)(torch.ones(2), pairs)[1] == f(torch.ones(2), pairs)[1]


def test_function_that_may_not_be_passed() -> None:
    assert raised(lambda x, y: x + len([*map(y.append, [1, 2])]), torch.ones(3), []).name == "function-argument"
    assert raised(lambda x: x + sum(map(hash, [1, 2])), torch.ones(3)).name == "function-argument"
