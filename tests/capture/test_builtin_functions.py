"""Callables without a Python frame: functions and methods that torch has in C, and what is made of them."""

from __future__ import annotations

import copy
import functools
import operator
import pickle

import pytest
import torch

import vesta


@pytest.fixture
def x():
    return torch.randn(3, 4)


@pytest.mark.parametrize(
    "function", [torch.sin, torch.nn.functional.gelu, torch.Tensor.exp, torch._C._nn.softplus], ids=lambda f: f.__name__
)
def test_functions_of_torch_without_python_code(function, x):
    compiled = vesta.compile(function, fullgraph=True)
    assert compiled.__name__ == function.__name__ and compiled.__doc__ == function.__doc__
    torch.testing.assert_close(compiled(x), function(x))
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert len(graph.compiled.kernels) == 1
    assert vesta.compile(compiled, fullgraph=True) is compiled
    assert pickle.loads(pickle.dumps(compiled)) is function
    assert copy.copy(compiled) is copy.deepcopy(compiled) is function
    with pytest.raises(TypeError, match="argument"):
        compiled(x, no_such_argument=1)


@pytest.mark.parametrize(
    "function",
    [
        functools.partial(torch.add, alpha=2, other=torch.ones(4)),
        functools.partial(functools.partial(torch.nn.functional.gelu), approximate="tanh"),
        operator.methodcaller("softmax", -1),
    ],
    ids=["partial", "partial of a partial", "methodcaller"],
)
def test_callables_without_a_python_frame(function, x):
    compiled = vesta.compile(function)
    torch.testing.assert_close(compiled(x), function(x))
    (graph,) = vesta.explain(compiled).explanation.graphs
    assert len(graph.compiled.kernels) == 1


def test_a_method_of_a_tensor_and_its_arguments(x):
    compiled = vesta.compile(x.add)
    torch.testing.assert_close(compiled(x, alpha=2), x + 2 * x)


def test_functions_in_c_bind_as_in_eager(x):
    class Net:
        sine, exp = vesta.compile(torch.sin), vesta.compile(torch.Tensor.exp)

    torch.testing.assert_close(Net().sine(x), x.sin())
    with pytest.raises(TypeError, match="Net"):
        Net().exp(x)
