"""Methods of a compiled module: which are compiled, who ``self`` is in them, and what libraries do with them."""

from __future__ import annotations

import copy
import functools
import gc
import inspect
import pickle
import types
import weakref

import pytest
import torch
from torch import nn

import vesta
from vesta.errors import GraphBreak, UserError


class Net(nn.Module):
    def __init__(self, width: int = 8) -> None:
        super().__init__()
        self.linear = nn.Linear(width, 8)
        self.norm = nn.LayerNorm(8)
        self.scale = 2.0

    def forward(self, x, *, bias: float = 0.0):
        return self.norm(self.linear(x)) * self.scale + bias

    def training_step(self, batch, index):
        return self(batch).square().mean()

    def predict_step(self, batch):
        return self.forward(batch).softmax(-1)

    def encode(self, x):
        return self(x) + self.forward(x)

    def decode(self, x):
        return self.encode(x).sin()

    def who(self):
        return self

    def another(self):
        return type(self)(8)

    @classmethod
    def made(cls):
        return cls()

    @property
    def device(self):
        return self.linear.weight.device


@pytest.fixture
def net():
    torch.manual_seed(0)
    return Net().eval()


@pytest.fixture
def x():
    return torch.randn(5, 8)


def captures(compiled):
    """The captured objects of a wrapper and its methods, by name."""
    return {c.name.rpartition("<locals>.")[2]: c for c in vesta.explain(compiled).explanation.captures}


def assert_compiled(compiled, name, calls=2, graphs=1):
    captured = captures(compiled)[name]
    assert (captured.calls, len(captured.graphs), len(captured.breaks)) == (calls, graphs, 0)
    assert captured.hits == calls - graphs and not captured.fallbacks


def twice(function, *args):
    function(*args)
    return function(*args)


# Compiled methods


@pytest.mark.parametrize("gradients", [False, True])
@pytest.mark.parametrize(
    ("name", "args"), [("forward", ()), ("training_step", (0,)), ("predict_step", ()), ("encode", ())]
)
def test_a_method_is_one_graph(net, x, name, args, gradients):
    compiled = vesta.compile(net, methods=("encode",))
    with torch.set_grad_enabled(gradients):
        expected = getattr(net, name)(x, *args)
        result = twice(getattr(compiled, name), x, *args)
    torch.testing.assert_close(result, expected)
    assert result.requires_grad == gradients
    assert_compiled(compiled, f"Net.{name}")
    assert captures(compiled)["Net"].calls == 0


def test_a_number_that_counts_steps_is_no_recompile_for_each(net, x):
    compiled = vesta.compile(net)
    for index in range(8):
        torch.testing.assert_close(compiled.training_step(x, index), net.training_step(x, index))
    assert len(captures(compiled)["Net.training_step"].recompiles) <= 1


class Counts(nn.Module):
    def forward(self, x, step, *more, start=0, **others):
        return x * step + start + sum(more) + others.get("end", 0)


def test_numbers_that_are_passed_on(x):
    """A call of a module passes its arguments on twice."""

    def passes(f, *args, **kwargs):
        return f(*[*args], **{**kwargs})

    net = Counts()
    for compiled in (vesta.compile(net), vesta.compile(functools.partial(passes, net))):
        for i in range(2, 10):
            torch.testing.assert_close(compiled(x, i, i + 1, start=i + 2, end=i + 3), x * i + 3 * i + 6)
        (captured,) = vesta.explain(compiled).explanation.captures
        assert captured.hits >= 6 and not captured.breaks and not captured.fallbacks
    decided = vesta.compile(lambda *args: args[0] + 1 if args[1] > 5 else args[0] - 1)
    for i in range(2, 10):
        torch.testing.assert_close(decided(x, i), x + 1 if i > 5 else x - 1)


def test_lists_and_dicts_that_are_passed_on_after_writing(x):
    def f(x, items, table):
        items.append(4)
        table["b"] = x
        table["k"] += 1
        return (lambda *args, **kwargs: sum(args) * kwargs["b"] + kwargs["k"])(*items, **table)

    compiled = vesta.compile(f)
    for i in range(2, 8):
        (items, table), (same, other) = ([i, x], {"k": i}), ([i, x], {"k": i})
        torch.testing.assert_close(compiled(x, items, table), f(x, same, other))
        assert items[2] == 4 and items[1] is x and table["b"] is x and table["k"] == i + 1


def test_other_methods_are_python_that_calls_compiled_code(net, x):
    compiled = vesta.compile(net)
    torch.testing.assert_close(twice(compiled.decode, x), net.decode(x))
    assert compiled.who() is compiled
    assert_compiled(compiled, "Net")
    assert_compiled(compiled, "Net.forward")
    assert set(captures(compiled)) == {"Net", "Net.forward"}


def test_hooks_belong_to_calls(net, x):
    net.register_forward_hook(lambda module, args, out: out + 1)
    compiled = vesta.compile(net)
    torch.testing.assert_close(compiled(x), net.forward(x) + 1)
    torch.testing.assert_close(compiled.forward(x), net.forward(x))
    torch.testing.assert_close(compiled.predict_step(x), net.predict_step(x))


def test_a_step_that_python_executes_calls_compiled_code(x):
    class Steps(Net):
        def training_step(self, batch, index):
            yield self(batch)
            yield self.forward(batch) + 1

        def predict_step(self, batch):
            print("a break", end="")
            return self(batch), self

    net = Steps().eval()
    compiled = vesta.compile(net)
    for _ in range(2):
        assert [y.shape for y in compiled.training_step(x, 0)] == [(5, 8), (5, 8)]
    assert_compiled(compiled, "Steps")
    assert_compiled(compiled, "Net.forward")
    for _ in range(2):
        result, seen = compiled.predict_step(x)
        assert seen is compiled
        torch.testing.assert_close(result, net(x))
    (stop,) = captures(compiled)["Steps.predict_step"].breaks
    assert stop.count == 2


def test_what_was_compiled_or_disabled_by_name_stays_so(x):
    class Steps(Net):
        @vesta.disable
        def training_step(self, batch, index):
            return self(batch), vesta.is_compiling()

        @vesta.compile
        def predict_step(self, batch):
            return self(batch) + 1

    net = Steps().eval()
    compiled = vesta.compile(net)
    result, compiling = twice(compiled.training_step, x, 0)
    assert not compiling
    torch.testing.assert_close(result, net(x))
    assert_compiled(compiled, "Steps")
    torch.testing.assert_close(compiled.predict_step(x), net(x) + 1)
    assert set(captures(compiled)) == {"Steps"}
    assert vesta.explain(Steps.predict_step).explanation.captures[0].calls == 1


def test_fullgraph_and_stances_hold_for_methods(net, x):
    class Prints(Net):
        def predict_step(self, batch):
            print("a break", end="")
            return batch

    with pytest.raises(GraphBreak, match="print"):
        vesta.compile(Prints(), fullgraph=True).predict_step(x)
    compiled = vesta.compile(net)
    with torch.compiler.set_stance("force_eager"):
        torch.testing.assert_close(compiled.forward(x), net.forward(x))
    assert not captures(compiled)["Net.forward"].graphs


# Arguments


def test_methods_are_checked(net):
    for methods, message in [
        ("encode", r"takes a tuple of method names, not 'encode'"),
        ((3,), "takes a tuple of method names"),
        (None, "takes a tuple of method names"),
        (("encod",), r'Net has no method "encod"; did you mean "encode"'),
        (("zzz",), r'Net has no method "zzz"$'),
        (("device",), r'"device" of Net is a property; put @vesta.compile below @property'),
        (("scale",), r'"scale" of Net is not a method'),
        (("__len__",), "called by name"),
    ]:
        for more in ({}, {"disable": True}):
            with pytest.raises(UserError, match=message):
                vesta.compile(net, methods=methods, **more)
    for other in (lambda x: x, Net, functools.partial(print)):
        with pytest.raises(UserError, match="methods is for modules"):
            vesta.compile(other, methods=("forward",))
    with pytest.raises(UserError, match="takes a tuple of method names"):
        vesta.compile(methods="encode")


def test_methods_are_part_of_the_settings(net, x):
    compiled = vesta.compile(net, methods=["decode", "encode"])
    assert vesta.compile(compiled, methods=("encode", "decode", "encode")) is compiled
    plain = vesta.compile(compiled)
    assert plain is not compiled and plain._orig_mod is net
    torch.testing.assert_close(plain.encode(x), compiled.encode(x))
    assert set(captures(compiled)) == {"Net", "Net.encode"}
    assert set(captures(plain)) == {"Net", "Net.forward"}
    assert vesta.compile(net, methods=("forward", "training_step")).forward(x).shape == (5, 8)
    assert vesta.compile(net, methods=("encode",), disable=True) is net
    assert type(vesta.compile(methods=("encode",))(net)) is type(vesta.compile(net, methods=("encode",)))


def test_methods_of_every_kind(x):
    class Kinds(Net):
        @staticmethod
        def free(x):
            return x + 1

        @classmethod
        def of_class(cls, x):
            return cls.__name__, x + 2

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(self.norm, name)

    net = Kinds()
    net.own = lambda x: x + 3
    net.partial = functools.partial(torch.add, other=4)
    compiled = vesta.compile(net, methods=("free", "of_class", "own", "partial", "extra_repr"))
    for k, name in enumerate(("free", "own", "partial")):
        torch.testing.assert_close(twice(getattr(compiled, name), x), x + (1, 3, 4)[k])
    name, result = compiled.of_class(x)
    assert name == "Kinds"
    torch.testing.assert_close(result, x + 2)
    assert compiled.extra_repr() == net.extra_repr()


# Properties of methods that stay as they are


def test_a_method_is_still_a_bound_method(net, x):
    compiled = vesta.compile(net)
    method = compiled.forward
    assert method.__self__ is compiled and method == compiled.forward and method != vesta.compile(Net()).forward
    assert method.__name__ == "forward" and method.__code__ is Net.forward.__code__
    assert inspect.signature(method) == inspect.signature(net.forward)
    assert inspect.signature(method.__func__) == inspect.signature(Net.forward)
    assert inspect.unwrap(method) is Net.forward and type(compiled).forward is Net.forward
    assert isinstance(method, types.MethodType) and "forward" not in vars(net)
    torch.testing.assert_close(method(x, bias=1.0), net.forward(x, bias=1.0))
    with pytest.raises(TypeError, match=r"forward\(\) missing 1 required positional argument: 'x'"):
        method()
    with pytest.raises(NotImplementedError, match='missing the required "forward"'):
        vesta.compile(nn.ModuleList()).forward(x)


def test_objects_made_by_methods_are_plain(net):
    compiled = vesta.compile(net)
    for other in (compiled.another(), compiled.made(), type(compiled)()):
        assert type(other) is Net and other.linear is not net.linear


def test_a_method_of_a_class_that_changes(x):
    class Changing(Net):
        pass

    net = Changing().eval()
    compiled = vesta.compile(net)
    compiled.forward(x)
    Changing.forward = lambda self, x: x + self.scale
    torch.testing.assert_close(compiled.forward(x), x + 2)
    torch.testing.assert_close(compiled(x), x + 2)
    net.__class__ = Net
    torch.testing.assert_close(compiled.forward(x), Net.forward(net, x))


def test_calls_in_a_trace(net, x):
    compiled = vesta.compile(net)

    def f(x):
        return compiled.forward(x) + compiled(x) + compiled.predict_step(x) + compiled.decode(x)

    explain = vesta.explain(f)
    explain(x)
    torch.testing.assert_close(explain(x) and explain.result, f(x))
    torch.testing.assert_close(explain.result, net.forward(x) + net(x) + net.predict_step(x) + net.decode(x))
    assert len(explain(x).graphs) == 1 and not explain(x).breaks and not explain(x).recompiles


# Writing methods


def test_an_attribute_in_place_of_a_method(net, x):
    compiled = vesta.compile(net)
    before = compiled.forward
    compiled.forward = types.MethodType(lambda self, x: x * self.scale, compiled)
    assert vars(net)["forward"].__self__ is net and compiled.forward.__self__ is compiled
    for function in (compiled, compiled.forward, net, net.forward):
        torch.testing.assert_close(twice(function, x), x * 2)
    assert_compiled(compiled, "Net")
    compiled.forward = lambda x: x + 1
    for function in (compiled, compiled.forward, net, net.forward):
        torch.testing.assert_close(twice(function, x), x + 1)
    compiled.forward = before
    torch.testing.assert_close(compiled.forward(x), Net.forward(net, x))
    assert vars(net)["forward"] == types.MethodType(Net.forward, net) and compiled.forward == before
    del compiled.forward
    assert "forward" not in vars(net)
    torch.testing.assert_close(compiled.forward(x), net.forward(x))
    with pytest.raises(AttributeError, match="forward"):
        del compiled.forward
    net.forward = lambda x: x - 1
    torch.testing.assert_close(compiled.forward(x), x - 1)


@pytest.mark.parametrize("depth", [0, 1])
def test_forward_that_is_redirected_for_a_call(net, x, depth):
    """As Lightning does, so that what wraps the module runs around its training_step."""

    class Wrapper(nn.Module):
        def __init__(self, module):
            super().__init__()
            self.module = module

        def forward(self, *args):
            return self.module(*args)

    def redirected(wrapper, module, method, *args):
        original = module.forward

        def wrapped(*args):
            module.forward = original
            return method(*args)

        module.forward = wrapped
        return wrapper(*args)

    compiled = vesta.compile(net)
    wrapper = Wrapper(compiled) if depth else compiled
    for index in range(6):
        result = redirected(wrapper, compiled, compiled.training_step, x, index)
        torch.testing.assert_close(result, Net.training_step(net, x, index))
        assert compiled.forward == types.MethodType(compiled.forward.__func__, compiled)
    captured = captures(compiled)["Net"]
    assert captured.calls == 6 and captured.hits >= 3 and not captured.breaks
    torch.testing.assert_close(compiled(x), Net.forward(net, x))


def test_forward_that_is_wrapped_and_unwrapped(net, x):
    """As accelerate does, so that the module runs in mixed precision."""
    compiled = vesta.compile(net)
    compiled._original_forward = compiled.forward
    inner = torch.autocast("cpu", torch.bfloat16)(compiled.forward.__func__)

    @functools.wraps(inner)
    def converted(*args, **kwargs):
        return inner(*args, **kwargs).float()

    expected = Net.forward(net, x)
    compiled.forward = types.MethodType(converted, compiled)
    for function in (compiled, compiled.forward):
        result = twice(function, x)
        assert result.dtype is torch.float32 and not torch.equal(result, expected)
        torch.testing.assert_close(result, expected, rtol=0.05, atol=0.05)
    compiled.forward = types.MethodType(inspect.unwrap(compiled.forward), compiled)
    torch.testing.assert_close(compiled(x), expected)
    other = pickle.loads(pickle.dumps(compiled.__deepcopy__({})))
    assert type(other) is Net and other._original_forward.__self__ is other


def test_a_forward_that_is_partial(net, x):
    """As accelerate's hooks are."""
    compiled = vesta.compile(net)
    old = compiled.forward

    def new_forward(module, x):
        return old(x + 1) * 2

    compiled.forward = functools.update_wrapper(functools.partial(new_forward, compiled), old)
    expected = Net.forward(net, x + 1) * 2
    for function in (compiled, compiled.forward):
        torch.testing.assert_close(twice(function, x), expected)
    assert_compiled(compiled, "Net")


# Libraries that wrap or patch a compiled module


def test_a_loop_of_generation(x):
    class Decoder(Net):
        def generate(self, x, steps):
            kept = []
            call = self.__call__
            for _ in range(steps):
                if "bias" in inspect.signature(self.forward).parameters:
                    x = call(x, bias=1.0)
                kept.append(x[0, 0].item())
            return x, kept

    net = Decoder().eval()
    compiled = vesta.compile(net)
    with torch.no_grad():
        (result, kept), (expected, other) = compiled.generate(x, 5), net.generate(x, 5)
    torch.testing.assert_close(result, expected)
    assert kept == pytest.approx(other, rel=1e-4)
    assert_compiled(compiled, "Decoder", calls=5)


def test_a_compiled_part_of_a_plain_whole(net, x):
    class Pipe(nn.Module):
        def __init__(self):
            super().__init__()
            self.encoder = vesta.compile(Net().eval())
            self.head = nn.Linear(8, 2)

        def forward(self, x):
            return self.head(self.encoder.forward(x)) + self.head(self.encoder(x))

    pipe = Pipe()
    assert list(pipe.state_dict()) == [
        *(f"encoder.{k}" for k in net.state_dict()),
        *(f"head.{k}" for k in nn.Linear(1, 1).state_dict()),
    ]
    twice(pipe, x)
    assert_compiled(pipe.encoder, "Net")
    assert_compiled(pipe.encoder, "Net.forward")
    assert type(copy.deepcopy(pipe).encoder) is Net
    pipe.train()
    assert pipe.encoder.training and pipe.encoder.norm.training
    parallel = nn.DataParallel(vesta.compile(net))
    torch.testing.assert_close(twice(parallel, x), net(x))
    assert_compiled(parallel.module, "Net")


def test_compiled_in_place(net, x):
    net.forward = vesta.compile(net.forward)
    expected = Net.forward(net, x)
    for function in (net, net.forward, vesta.compile(net), vesta.compile(net).forward):
        torch.testing.assert_close(twice(function, x), expected)
    assert type(copy.deepcopy(net).forward) is types.MethodType
    other = pickle.loads(pickle.dumps(net))
    torch.testing.assert_close(other(x), expected)
    del net.forward
    net.compile(backend="vesta")
    torch.testing.assert_close(net(x), expected)


# Lifetimes


def test_nothing_outlives_its_owner(x):
    net = Net()
    compiled = vesta.compile(net, methods=("encode",))
    for _ in range(2):
        compiled.training_step(x, 0).backward()
        compiled.predict_step(x), compiled.encode(x), compiled.decode(x)
    gone = [weakref.ref(o) for o in (net, compiled, net.linear, net.linear.weight)]
    del net, compiled
    gc.collect()
    assert [o() for o in gone] == [None] * 4


def test_a_file_with_wrappers(net, x):
    pair = pickle.loads(pickle.dumps([net, vesta.compile(net)]))
    assert pair[0] is pair[1] and type(pair[0]) is Net
