"""The Python entry point of the capture: vesta.compile's arguments and results, disable, reset, is_compiling.

Each test of what a compiled thing still is runs twice: over a double of the compiler's object that calls the original,
and over the compiler itself.
"""

from __future__ import annotations

import collections
import copy
import functools
import gc
import inspect
import math
import pickle
import pydoc
import typing
import weakref
from types import SimpleNamespace

import pytest
import torch
from torch import nn
from torch.nn.utils import parametrize

import vesta
from vesta import _C
from vesta.errors import GraphBreak, RecompileError, Unsupported, UserError


class Plain:
    """Stands for the compiler's object: calls the original and counts."""

    def __init__(self, wrapped, options, name, fullgraph, only=(), skip=()):
        self.wrapped, self.options, self.name, self.fullgraph = wrapped, options, name, fullgraph
        self.calls = 0

    def __call__(self, *args, **kwargs):
        self.calls += 1
        return self.wrapped(*args, **kwargs)

    def report(self):
        return SimpleNamespace(
            name=self.name,
            where=SimpleNamespace(file="", line=0, function=""),
            segments=[],
            recompiles=[],
            fallbacks=[],
            calls=self.calls,
            hits=0,
            misses=0,
        )

    def reset(self):
        self.calls = 0


@pytest.fixture
def plain(monkeypatch):
    """The doubles that were made."""
    made = []

    def capture(*args):
        made.append(Plain(*args))
        return made[-1]

    monkeypatch.setattr(_C, "capture", capture, raising=False)
    return made


@pytest.fixture(params=["double", "compiler"])
def either(request, monkeypatch):
    if request.param == "double":
        monkeypatch.setattr(_C, "capture", Plain, raising=False)
    elif not hasattr(_C, "capture"):
        pytest.skip("this build has no capture of Python functions")


def f(x, y=1, *, scale: float = 2.0) -> torch.Tensor:
    """Adds and scales."""
    return (x + y) * scale


class Net(nn.Module):
    kind = "net"

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 3)
        self.norm = nn.BatchNorm1d(3)
        self.register_buffer("seen", torch.zeros(()))
        self.scale = 2.0

    def forward(self, x, *, bias: float = 0.0):
        """Runs it."""
        self.seen += 1
        return self.norm(self.linear(x)) * self.scale + bias

    def twice(self, x):
        return self(self(x)[:, :1].expand(-1, 4))


@pytest.fixture
def x():
    return torch.randn(5, 4)


# Arguments


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"mode": "max-autotun"}, 'did you mean "max-autotune"'),
        ({"mode": "fast"}, "default, reduce-overhead, max-autotune, max-autotune-no-cudagraphs"),
        ({"fullgraf": True}, 'no argument "fullgraf"; did you mean "fullgraph"'),
        ({"recompile_limit": 3}, "variant_limit"),
        ({"strict": True}, r'options=\{"strict"'),
        ({"zzz": 1}, "it has fullgraph, dynamic, backend, mode, options, strategy, disable, methods"),
        ({"backend": "inductor"}, r'use torch.compile\(model, backend="inductor"\)'),
        ({"backend": "vseta"}, 'did you mean "vesta"'),
        ({"backend": lambda gm, inputs: gm}, "use torch.compile"),
        ({"dynamic": "yes"}, "dynamic takes True, False or None"),
        ({"fullgraph": 1}, "fullgraph takes True or False"),
        ({"disable": None}, "disable takes True or False"),
        ({"options": ["strict"]}, "options takes a dict"),
        ({"options": {"strct": True}}, 'did you mean "strict"'),
        ({"options": {"triton.cudagraphs": True}}, 'did you mean "cuda_graphs"'),
        ({"options": {"zzz": 1}}, "the options are"),
        ({"options": {"strict": True}, "mode": "max-autotune"}, "mode and options exclude"),
        ({"options": {"dynamic": True}, "dynamic": False}, 'dynamic=False, but options has "dynamic": True'),
    ],
)
def test_wrong_arguments_are_explained_at_once(plain, arguments, message):
    with pytest.raises(UserError, match=message):
        vesta.compile(f, **arguments)
    with pytest.raises(UserError, match=message):
        vesta.compile(**arguments)
    with pytest.raises(UserError, match=message):
        vesta.compile(f, **{"disable": True, **arguments})


@pytest.mark.parametrize("thing", [3, "f", [f], torch.ones(2), property(f)])
def test_what_cannot_be_called_cannot_be_compiled(plain, thing):
    with pytest.raises(UserError, match=f"not {type(thing).__name__}"):
        vesta.compile(thing)


@pytest.mark.parametrize("mode", [None, "default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"])
def test_modes_of_torch_compile(plain, mode):
    assert vesta.compile(f, mode=mode)(1) == 4


def test_arguments_reach_the_compiler(plain):
    vesta.compile(f, dynamic=True, fullgraph=True, options={"strict": True, "variant_limit": 3})
    (made,) = plain
    assert made.wrapped is f and made.name == "f" and made.fullgraph
    assert (made.options.dynamic, made.options.strict, made.options.variant_limit) == (True, True, 3)
    vesta.compile(Net())
    vesta.compile(functools.partial(f, y=2))
    assert [m.name for m in plain[1:]] == ["Net", "partial"]


def test_signature_is_the_documented_one():
    assert str(inspect.signature(vesta.compile)).startswith(
        "(model: 'Any' = None, *, fullgraph: 'bool' = False, dynamic: 'bool | None' = None, backend: 'str' = 'vesta', "
        "mode: 'str | None' = 'default', options: 'Mapping[str, Any] | None' = None, strategy: 'str | None' = None, "
        "disable: 'bool' = False, methods: 'Sequence[str]' = (), only: 'Sequence[Pattern] | None' = None, "
        "skip: 'Sequence[Pattern]' = ())"
    )


def test_nothing_to_compile(plain, monkeypatch):
    net = Net()
    for arguments in ({"disable": True}, {"backend": "eager"}):
        assert vesta.compile(f, **arguments) is f
        assert vesta.compile(**arguments)(net) is net
    for builtin in (len, math.sin, dict.fromkeys, [].append, "x".join, int.__add__, object.__init__):
        assert vesta.compile(builtin) is builtin
    monkeypatch.setenv("TORCH_COMPILE_DISABLE", "1")
    assert vesta.compile(f) is f
    assert not plain


def test_torchscript_runs_as_it_is(plain):
    scripted = torch.jit.script(nn.Linear(4, 3))
    with pytest.warns(UserWarning, match="TorchScript") as warnings:
        assert vesta.compile(scripted) is scripted
    assert warnings[0].filename == __file__
    with pytest.raises(UserError, match="compile the original module or function"):
        vesta.compile(scripted, fullgraph=True)


# Functions and other callables


def test_a_function_keeps_its_metadata(either):
    compiled = vesta.compile(f)
    assert (compiled.__name__, compiled.__qualname__, compiled.__module__) == ("f", "f", __name__)
    assert compiled.__doc__ == "Adds and scales." and compiled.__wrapped__ is f
    assert inspect.signature(compiled) == inspect.signature(f)
    assert typing.get_type_hints(compiled) == {"scale": float, "return": torch.Tensor}
    assert inspect.getsource(compiled) == inspect.getsource(f)
    assert compiled.__defaults__ == (1,) and compiled.__code__ is f.__code__
    assert "f" in repr(compiled) and callable(compiled)
    assert "Adds and scales" in pydoc.render_doc(compiled)
    assert functools.wraps(compiled)(lambda: 0).__name__ == "f"


def test_a_function_is_called_as_the_original(either, x):
    compiled = vesta.compile(f)
    torch.testing.assert_close(compiled(x), f(x))
    torch.testing.assert_close(compiled(x, 3, scale=0.5), f(x, 3, scale=0.5))
    with pytest.raises(TypeError, match=r"f\(\) missing 1 required positional argument: 'x'"):
        compiled()
    with pytest.raises(TypeError, match="unexpected keyword argument 'z'"):
        compiled(x, z=1)


def test_attributes_of_a_function(either):
    def g(x):
        return x

    g.table = {}
    compiled = vesta.compile(g)
    assert compiled.table is g.table
    compiled.table = compiled.other = 1
    assert compiled.table == compiled.other == 1 and g.table == {} and not hasattr(g, "other")
    del compiled.other
    with pytest.raises(AttributeError):
        _ = compiled.other


def decorated(x):
    return x + 1


def test_decorators(either, x, monkeypatch):
    compiled = vesta.compile(dynamic=True)(decorated)
    assert compiled.__name__ == "decorated" and compiled.__wrapped__ is decorated
    torch.testing.assert_close(compiled(x), x + 1)
    monkeypatch.setitem(globals(), "decorated", compiled)  # as @vesta.compile does
    assert pickle.loads(pickle.dumps(compiled)) is compiled


def test_methods_in_a_class_body(either, x):
    class Thing:
        def __init__(self, k):
            self.k = k

        @vesta.compile
        def scaled(self, x):
            return x * self.k

        @classmethod
        @vesta.compile
        def made(cls, x):
            return cls.__name__, x + 1

        @staticmethod
        @vesta.compile(dynamic=True)
        def free(x):
            return x + 2

        @vesta.compile
        @staticmethod
        def free_below(x):
            return x + 3

        @vesta.compile
        @classmethod
        def made_below(cls, x):
            return cls.__name__

        @property
        @vesta.compile
        def doubled(self):
            return self.k * 2

    thing, other = Thing(2), Thing(3)
    torch.testing.assert_close(thing.scaled(x), x * 2)
    torch.testing.assert_close(Thing.scaled(other, x), x * 3)
    torch.testing.assert_close(thing.made(x)[1], x + 1)
    assert Thing.made(x)[0] == Thing.made_below(x) == "Thing"
    torch.testing.assert_close(thing.free(x), x + 2)
    torch.testing.assert_close(Thing.free_below(x), x + 3)
    assert thing.doubled == 4
    assert thing.scaled.__self__ is thing and thing.scaled.__name__ == "scaled"
    assert inspect.signature(thing.scaled) == inspect.signature(lambda x: 0)


def test_bound_methods_partials_and_objects(either, x):
    class Scale:
        def __init__(self, k):
            self.k = k

        def __call__(self, x):
            return x * self.k

        def plus(self, x):
            return x + self.k

    scale = Scale(3)
    compiled = vesta.compile(scale)
    torch.testing.assert_close(compiled(x), x * 3)
    compiled.k = 4
    assert scale.k == compiled.k == 4
    torch.testing.assert_close(compiled(x), x * 4)
    method = vesta.compile(scale.plus)
    torch.testing.assert_close(method(x), x + 4)
    assert method.__self__ is scale and method.__name__ == "plus"
    partial = vesta.compile(functools.partial(f, scale=3.0))
    torch.testing.assert_close(partial(x, 2), f(x, 2, scale=3.0))
    assert partial.keywords == {"scale": 3.0}

    class Holder:
        kept = method

    assert Holder().kept is method  # bound already


def test_generators_and_coroutines_stay_what_they_are(either):
    @vesta.compile
    def counts(n):
        yield from range(n)

    @vesta.compile
    async def answers():
        return 42

    assert inspect.isgeneratorfunction(counts) and inspect.iscoroutinefunction(answers)
    assert list(counts(3)) == [0, 1, 2]
    with pytest.raises(StopIteration) as stop:
        answers().send(None)
    assert stop.value.value == 42


def test_pickle_and_copy_of_functions(either, x):
    compiled = vesta.compile(f)
    assert pickle.loads(pickle.dumps(compiled)) is f  # the name leads to the original
    assert copy.copy(compiled) is copy.deepcopy(compiled) is compiled
    partial = vesta.compile(functools.partial(f, y=2))
    for copied in (pickle.loads(pickle.dumps(partial)), copy.deepcopy(partial)):
        assert type(copied) is functools.partial and copied.func is f


def test_compiling_twice(either):
    compiled = vesta.compile(f)
    assert vesta.compile(compiled) is compiled
    assert vesta.compile(compiled, options={}) is compiled
    other = vesta.compile(compiled, dynamic=True)
    assert other is not compiled and other.__wrapped__ is f
    net = vesta.compile(Net())
    assert vesta.compile(net) is net
    assert vesta.compile(net, fullgraph=True)._orig_mod is net._orig_mod


def test_what_torch_compile_returned_is_compiled_anew(either):
    compiled = vesta.compile(torch.compile(f, backend="eager"))
    assert compiled.__wrapped__ is f
    net = Net()
    assert vesta.compile(torch.compile(net, backend="eager"))._orig_mod is net


def test_classes(either, x):
    @vesta.compile
    class Scale:
        def __call__(self, x):
            return x * 3

    class Layer(Net):
        pass

    assert vesta.compile(Layer) is Layer
    torch.testing.assert_close(Scale()(x), x * 3)
    layer = Layer().eval()
    torch.testing.assert_close(layer(x), layer.forward(x))
    assert vesta.compile(Layer) is Layer and type(Layer.__call__.__wrapped__).__name__ == "function"
    with pytest.raises(UserError, match="has no __call__"):
        vesta.compile(collections.OrderedDict)


# Modules


def test_a_module_is_still_of_its_class(either, x):
    net = Net().eval()
    compiled = vesta.compile(net)
    assert isinstance(compiled, Net) and compiled.__class__ is Net and issubclass(type(compiled), Net)
    assert type(compiled).__name__ == "Net" and repr(compiled) == repr(net)
    assert compiled.kind == "net" and compiled._get_name() == "Net"
    assert inspect.signature(compiled) == inspect.signature(net.forward)
    assert inspect.signature(type(compiled)) == inspect.signature(Net)
    assert compiled.forward.__doc__ == "Runs it." and type(compiled).__doc__ == Net.__doc__
    torch.testing.assert_close(compiled(x, bias=1.0), net(x, bias=1.0))
    assert type(vesta.compile(Net())) is type(compiled)


def test_a_module_shares_all_state(either, x):
    net = Net()
    compiled = vesta.compile(net)
    assert list(compiled.state_dict()) == list(net.state_dict())
    assert all(a is b for a, b in zip(compiled.parameters(), net.parameters(), strict=True))
    assert [n for n, _ in compiled.named_modules()] == ["", "linear", "norm"]
    assert compiled.eval() is compiled and not net.training and not net.norm.training
    assert compiled.train() is compiled and net.training
    assert compiled.half() is compiled and net.linear.weight.dtype is torch.float16
    compiled.to(torch.float64)
    assert net.seen.dtype is torch.float64
    compiled.scale = 5.0
    assert net.scale == 5.0
    net.extra = nn.Linear(2, 2)
    assert compiled.extra is net.extra and "extra.weight" in compiled.state_dict()
    del compiled.extra
    assert not hasattr(net, "extra")
    with pytest.raises(AttributeError, match="'Net' object has no attribute 'extra'"):
        _ = compiled.extra
    compiled.requires_grad_(False)
    assert not net.linear.weight.requires_grad
    compiled.float().eval()
    compiled.load_state_dict(Net().state_dict())
    torch.testing.assert_close(compiled(x), net(x))
    compiled.linear = nn.Linear(4, 3)
    torch.testing.assert_close(compiled(x), net(x))
    assert compiled._orig_mod is net


def test_methods_of_a_module_call_it_compiled(plain, x):
    compiled = vesta.compile(Net().eval())
    compiled.twice(x)
    assert plain[0].calls == 2


def test_hooks_before_and_after(either, x):
    net = Net().eval()
    heard = []
    net.register_forward_pre_hook(lambda module, args: heard.append(("pre", module)))
    compiled = vesta.compile(net)
    handle = compiled.register_forward_hook(lambda module, args, out: out + 1)
    torch.testing.assert_close(compiled(x), net.forward(x) + 1)
    assert heard == [("pre", net)]
    handle.remove()
    torch.testing.assert_close(compiled(x), net.forward(x))


def test_containers(either, x):
    compiled = vesta.compile(nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2)))
    assert len(compiled) == 3 and isinstance(compiled[1], nn.ReLU)
    assert [type(m).__name__ for m in compiled] == ["Linear", "ReLU", "Linear"]
    assert type(compiled[:2]) is nn.Sequential and len(compiled[:2]) == 2
    compiled.append(nn.ReLU())
    assert compiled(x).shape == (5, 2) and (compiled(x) >= 0).all()
    del compiled[3]
    assert len(compiled) == len(compiled._orig_mod) == 3


def test_copies_of_a_module_are_plain(either, x):
    compiled = vesta.compile(Net().eval())
    for copied in (copy.deepcopy(compiled), pickle.loads(pickle.dumps(compiled))):
        assert type(copied) is Net and copied.linear.weight is not compiled.linear.weight
        torch.testing.assert_close(copied(x), compiled(x))
    shallow = copy.copy(compiled)
    assert type(shallow) is Net and shallow.linear is compiled.linear
    assert type(copy.deepcopy(nn.Sequential(compiled))[0]) is Net


def test_save_and_load(either, x, tmp_path):
    compiled = vesta.compile(Net().eval())
    torch.save(compiled, tmp_path / "net.pt")
    loaded = torch.load(tmp_path / "net.pt", weights_only=False)
    assert type(loaded) is Net
    torch.testing.assert_close(loaded(x), compiled(x))


def test_a_compiled_submodule(either, x):
    outer = nn.Sequential(nn.Linear(4, 4), nn.ReLU()).eval()
    expected = outer(x)
    keys = list(outer.state_dict())
    outer[0] = vesta.compile(outer[0])
    assert list(outer.state_dict()) == keys
    torch.testing.assert_close(outer(x), expected)
    torch.testing.assert_close(vesta.compile(outer)(x), expected)


class Slotted(nn.Module):
    __slots__ = ("factor",)

    def __init__(self):
        super().__init__()
        self.factor = 2.0
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x) * self.factor


def test_slots(either, x):
    net = Slotted()
    compiled = vesta.compile(net)
    assert compiled.factor == 2.0 and "factor" not in vars(net)
    compiled.factor = 3.0
    assert net.factor == 3.0 and isinstance(compiled, Slotted) and compiled.__class__ is Slotted
    torch.testing.assert_close(compiled(x), net(x))
    del compiled.factor
    assert not hasattr(net, "factor")


def test_classes_that_listen_to_their_subclasses(either, x):
    made = []

    class Registry(type):
        def __new__(cls, name, bases, body, **kwargs):
            made.append(name)
            return super().__new__(cls, name, bases, body, **kwargs)

        def __init__(cls, name, bases, body, **kwargs):
            super().__init__(name, bases, body)

    class Registered(nn.Module, metaclass=Registry):
        def __init_subclass__(cls, code, **kwargs):
            made.append(code)

        def forward(self, x):
            return x + 1

    class Sub(Registered, code=2):
        pass

    compiled = vesta.compile(Sub())
    assert made == ["Registered", "Sub", 2] and type(type(compiled)) is Registry
    torch.testing.assert_close(compiled(x), x + 1)


def test_a_class_that_defines_its_own_call_and_attributes(either, x):
    class Odd(nn.Module):
        def __init__(self):
            super().__init__()
            self.values = {"k": 2}

        def __call__(self, x):
            return super().__call__(x) + 1

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return self.__dict__["values"][name]

        def __eq__(self, other):
            return isinstance(other, Odd)

        def __hash__(self):
            return 1

        def __bool__(self):
            return False

        def forward(self, x):
            return x * self.k

    compiled = vesta.compile(Odd())
    torch.testing.assert_close(compiled(x), x * 2 + 1)
    assert compiled.k == 2 and compiled == Odd() and hash(compiled) == 1 and not compiled


def test_parametrized_before_and_after(either, x):
    class Double(nn.Module):
        def forward(self, w):
            return w * 2

    net = nn.Linear(4, 3)
    parametrize.register_parametrization(net, "weight", Double())
    compiled = vesta.compile(net)
    assert parametrize.is_parametrized(compiled)
    torch.testing.assert_close(compiled(x), net(x))
    for through_the_wrapper in (True, False):
        net = nn.Linear(4, 3)
        compiled = vesta.compile(net)
        weight = net.weight.detach().clone()
        target = compiled if through_the_wrapper else net
        parametrize.register_parametrization(target, "weight", Double())
        torch.testing.assert_close(compiled.weight, weight * 2)
        torch.testing.assert_close(compiled(x), net(x))
        torch.testing.assert_close(compiled(x), nn.functional.linear(x, weight * 2, net.bias))
        parametrize.remove_parametrizations(target, "weight")
        torch.testing.assert_close(compiled.weight, weight * 2)
        assert type(net) is nn.Linear and compiled.__class__ is nn.Linear


def test_graph_modules(either, x):
    net = torch.fx.symbolic_trace(nn.Sequential(nn.Linear(4, 3), nn.ReLU()))
    compiled = vesta.compile(net)
    torch.testing.assert_close(compiled(x), net(x))
    (relu,) = (n for n in compiled.graph.nodes if n.target == "1")
    relu.replace_all_uses_with(relu.args[0])
    compiled.graph.erase_node(relu)
    compiled.recompile()
    torch.testing.assert_close(compiled(x), net._modules["0"](x))
    assert (net(x) < 0).any() and not hasattr(copy.deepcopy(compiled), "_orig_mod")


def test_lazy_modules(either, x):
    compiled = vesta.compile(nn.LazyLinear(3))
    assert compiled(x).shape == (5, 3)
    assert compiled.__class__ is nn.Linear and compiled.in_features == 4


def test_nothing_outlives_its_owner(either, x):
    net = Net().eval()
    compiled = vesta.compile(net)
    compiled(x)
    model, weight = weakref.ref(net), weakref.ref(net.linear.weight)
    del net, compiled
    gc.collect()
    assert model() is None and weight() is None

    def make():
        def local(x):
            return x + 1

        return vesta.compile(local), weakref.ref(local)

    compiled, function = make()
    compiled(x)
    del compiled
    gc.collect()
    assert function() is None


def test_reference_counts_suffice(plain, x):
    gc.disable()
    try:
        net = Net().eval()
        compiled = vesta.compile(net)
        compiled(x)
        model = weakref.ref(net)
        plain.clear()
        del net, compiled
        assert model() is None
    finally:
        gc.enable()


def test_a_module_that_keeps_its_own_method_compiled(either, x):
    class Steps(Net):
        def __init__(self):
            super().__init__()
            self.step = vesta.compile(self.plain_step)

        def plain_step(self, x):
            return self.linear(x)

        def forward(self, x):
            return self.step(x)

    net = Steps()
    torch.testing.assert_close(net(x), net.linear(x))
    other = copy.deepcopy(net)
    assert other.step.__self__ is other
    model = weakref.ref(net)
    del net
    gc.collect()
    assert model() is None


def test_a_wrapper_that_passes_attributes_on_is_not_taken_for_compiled(either, x):
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self.inner = inner

        def __getattr__(self, name):
            try:
                return super().__getattr__(name)
            except AttributeError:
                return getattr(super().__getattr__("inner"), name)

        def forward(self, x):
            return self.inner(x) + 1

    wrapper = Wrapper(vesta.compile(Net().eval()))
    compiled = vesta.compile(wrapper)
    assert compiled._orig_mod is wrapper
    torch.testing.assert_close(compiled(x), wrapper(x))


def test_a_wrapper_keeps_the_model_alive(either, x):
    compiled = vesta.compile(Net().eval())
    gc.collect()
    torch.testing.assert_close(compiled(x), compiled._orig_mod(x))
    net = compiled._orig_mod
    del compiled
    gc.collect()
    assert net(x).shape == (5, 3) and net.scale == 2.0


# disable, reset, is_compiling


def test_disable_leaves_torchs_marks(either, x):
    @vesta.disable
    def g(x):
        """Says it."""
        return x + 1

    @vesta.disable(recursive=False, reason="it is odd")
    def h(x):
        return x + 2

    assert g.__name__ == "g" and g.__doc__ == "Says it."
    torch.testing.assert_close(g(x), x + 1)
    assert g._torchdynamo_disable and g._torchdynamo_disable_recursive and g._torchdynamo_disable_msg is None
    assert h._torchdynamo_disable and not h._torchdynamo_disable_recursive
    assert h._torchdynamo_disable_msg == "it is odd"
    torch.testing.assert_close(vesta.compile(lambda x: g(x) + h(x))(x), x * 2 + 3)


def test_disabling_what_was_compiled(plain, x):
    disabled = vesta.disable(vesta.compile(f))
    disabled(x)
    assert plain[0].calls == 0
    net = vesta.disable(vesta.compile(Net().eval()))
    assert isinstance(net, Net) and net(x).shape == (5, 3) and plain[1].calls == 0

    @vesta.disable
    class Layer(Net):
        pass

    assert Layer.__init__._torchdynamo_disable and Layer().eval()(x).shape == (5, 3)
    with pytest.raises(UserError, match=r"vesta\.disable takes"):
        vesta.disable(3)


def test_reset_reaches_everything_that_lives(plain, x):
    compiled, net = vesta.compile(f), vesta.compile(Net())
    compiled(x), net(x)
    vesta.reset()
    assert [p.calls for p in plain] == [0, 0]
    del compiled


def test_is_compiling():
    assert not vesta.is_compiling()
    seen = []

    def g(x):
        seen.append(vesta.is_compiling())
        return x + (1 if vesta.is_compiling() else 2)

    torch.testing.assert_close(torch.compile(g, backend="eager")(torch.zeros(2)), torch.ones(2))


# Errors


def test_a_break_says_where_why_and_what_to_do():
    file, line = __file__, inspect.getsourcelines(f)[1] + 2
    error = vesta.errors._graph_break("print writes to a file", "take it out", file, line, "f", [(file, 1, "outer")])
    assert isinstance(error, GraphBreak) and isinstance(error, Unsupported)
    assert (error.file, error.line, error.function) == (file, line, "f")
    assert error.reason == "print writes to a file" and error.hint == "take it out"
    text = str(error)
    assert f'File "{file}", line {line}, in f\n    return (x + y) * scale' in text
    assert text.index("in outer") < text.index("in f")
    assert text.endswith("reason: print writes to a file\nwhat to do: take it out")
    again = pickle.loads(pickle.dumps(error))
    assert str(again) == text and again.line == line


def test_a_forbidden_recompile_says_what_changed():
    error = vesta.errors._recompile("f", "x.size(0) == 8", "8", "9", __file__, 1, "f")
    assert isinstance(error, RecompileError) and isinstance(error, RuntimeError)
    assert "x.size(0) == 8 failed (8 became 9)" in str(error)
    assert "was not compiled before" in str(vesta.errors._recompile("f"))
