"""dataclasses, named tuples, enums, SimpleNamespace."""

import collections
import dataclasses
import enum
import types
import typing

import torch

from tests.capture.case import case, t


@dataclasses.dataclass
class Config:
    scale: float = 2.0
    names: list = dataclasses.field(default_factory=list)
    hidden: int = dataclasses.field(default=1, repr=False, compare=False)

    def __post_init__(self):
        self.double = self.scale * 2


@dataclasses.dataclass(frozen=True, order=True)
class Point:
    x: int
    y: int = 0

    def moved(self, dx):
        return dataclasses.replace(self, x=self.x + dx)


@dataclasses.dataclass(slots=True, kw_only=True)
class Output:
    logits: torch.Tensor
    hidden: typing.Optional[torch.Tensor] = None


class State(typing.NamedTuple):
    h: torch.Tensor
    c: torch.Tensor
    step: int = 0

    def next(self):
        return self._replace(step=self.step + 1)


Plain = collections.namedtuple("Plain", "a b", defaults=[5])


class Mode(enum.Enum):
    TRAIN = "train"
    EVAL = "eval"

    @property
    def scale(self):
        return 2 if self is Mode.TRAIN else 3


class Size(enum.IntEnum):
    SMALL = 1
    LARGE = 10


class Flags(enum.Flag):
    A = enum.auto()
    B = enum.auto()
    C = A | B


class Word(enum.StrEnum):
    YES = enum.auto()
    NO = "nope"


@case(lambda: (t(3), Config()), lambda: (t(3), Config(3.0, ["n"])))
def dataclass_argument(x, config):
    config.hidden += 1
    config.names.append("seen")
    return x * config.scale + config.double, config.names


@case(lambda: (t(3), 3), lambda: (t(3), 4))
def dataclass_made(x, n):
    c = Config(n, names=["a"])
    p = Point(n)
    return x + c.double, c, p, repr(c), p.moved(2), p < Point(9), p == Point(n), hash(p) == hash(Point(n))


@case(lambda: (t(3),))
def dataclass_with_tensors(x):
    out = Output(logits=x + 1)
    out.hidden = out.logits * 2
    return out, dataclasses.fields(out)[0].name, Output(logits=out.logits).hidden


@case(lambda: (t(3), Point(1, 2)))
def frozen(x, p):
    try:
        p.x = 5
    except dataclasses.FrozenInstanceError as error:
        return x * p.x, str(error), dataclasses.asdict(p), dataclasses.astuple(p)


@case(lambda: (State(t(2), t(2, seed=1)),), lambda: (State(t(2), t(2, seed=1), 5),))
def named_tuple(state):
    h, c, step = state
    new = State(h + c, c=h * c)
    return new, state.next(), new.h + state.c, state.step, new._asdict(), State._fields, isinstance(new, tuple)


@case(lambda: (t(3),))
def namedtuple_function(x):
    p = Plain(x)
    q = p._replace(a=x + 1)
    return p, q.a * q.b, Plain._make([1, 2]), p[1:], repr(Plain(1)), p.b


@case(lambda: (t(3), Mode.TRAIN), lambda: (t(3), Mode.EVAL))
def enum_argument(x, mode):
    if mode is Mode.TRAIN:
        x = x + 1
    return x * mode.scale, mode.name, mode.value, mode == Mode.EVAL, Mode("eval"), Mode["TRAIN"], list(Mode), {mode: 1}


@case(lambda: (t(3), Size.SMALL), lambda: (t(3), Size.LARGE))
def int_enum(x, size):
    return x * size, size + 1, size > 5, size == 1, Size(10), f"{size}", int(size), sorted(Size, reverse=True)


@case(lambda: (t(3), Flags.A), lambda: (t(3), Flags.A | Flags.B))
def flags(x, flag):
    if Flags.B in flag:
        x = x * 2
    if flag & Flags.A:
        x = x + 1
    return x, flag | Flags.B, flag == Flags.C, flag ^ Flags.A, bool(flag & Flags.B), ~flag


@case(lambda: (t(3), Word.YES), lambda: (t(3), Word.NO))
def str_enum(x, word):
    return x + len(word), word == "yes", word.upper(), f"{word}", {"yes": 1, "nope": 2}[word]


@case(lambda: (t(3), "train"), lambda: (t(3), "eval"), lambda: (t(3), "other"))
def enum_by_value(x, name):
    return x * Mode(name).scale


@case(lambda: (t(3), types.SimpleNamespace(k=2, deep=types.SimpleNamespace(v=3))))
def simple_namespace(x, ns):
    ns.k += 1
    ns.new = x * ns.k
    return ns.new + ns.deep.v, ns, types.SimpleNamespace(a=x)


@case(lambda: (t(3),))
def dataclass_made_inside(x):
    @dataclasses.dataclass
    class Local:
        value: int
        tensor: object = None

        def run(self):
            return self.tensor * self.value

    local = Local(3, x)
    return local.run(), local.value


@case(lambda: (t(3),))
def enum_made_inside(x):
    class Color(enum.Enum):
        RED = 1
        BLUE = 2

    return x * Color.BLUE.value, Color(1).name, [c.value for c in Color]


@dataclasses.dataclass
class Tree:
    value: torch.Tensor
    children: list["Tree"] = dataclasses.field(default_factory=list)

    def total(self):
        return self.value + sum((c.total() for c in self.children), 0)


@case(lambda: (Tree(t(2), [Tree(t(2, seed=1)), Tree(t(2, seed=2), [Tree(t(2, seed=3))])]),), lambda: (Tree(t(2)),))
def dataclass_tree(tree):
    tree.children.append(Tree(tree.value * 2))
    return tree.total(), tree


class Choice(typing.TypedDict):
    a: int


@case(lambda: (t(3),))
def typed_dict(x):
    c: Choice = Choice(a=2)
    return x * c["a"], c, typing.get_type_hints(Choice)["a"] is int


@case(
    lambda: (t(3), Config()),
    drive=lambda f, x, c: (f(x, c), setattr(c, "scale", 7.0), f(x, c), setattr(c, "scale", 8.0), f(x, c)),
)
def field_changes_between_calls(x, c):
    return x * c.scale


Row = collections.namedtuple("Row", "x y", defaults=[3])


@case(lambda: (t(3), Row(1)), lambda: (t(3), Row(2, 4)))
def named_tuple_replaced(x, row):
    made = Row(x)
    try:
        made._replace(z=1)
    except (TypeError, ValueError) as e:
        return made._replace(y=x + 1), row._replace(x=x), row._asdict(), Row._make([1, x]), type(e)
