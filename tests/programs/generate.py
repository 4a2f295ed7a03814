"""Random small tensor programs: straight-line code over views, mutation, broadcasting, reductions and indexing.

A program is made while it runs eagerly, so each step is valid when it is added. Operators whose result jumps
(comparison, rounding, argmax, conversion to integers) are applied to exact values only: values which no rounding has
touched, so that a correct compiler cannot land on the other side of the jump.
"""

from __future__ import annotations

import contextlib
import linecache
import random
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

FLOATS = ("float32", "float32", "float32", "bfloat16", "float16", "float64")
# Operators and statements that round nothing.
_EXACT = re.compile(
    r".*\.(neg|abs|clone|contiguous|flip|repeat|roll|index_select|gather)\(.*\)|torch\.(cat|stack|where|relu).*"
    r"|[^ ]*\.(relu_|zero_|fill_|neg_|clamp_|copy_|t_|unsqueeze_)\(.*\)|[^=]*\] = .*"
)
INTEGERS = ("int64", "int32", "uint8")


@dataclass(frozen=True)
class Input:
    """An argument: `kind` says how it lies in memory; an alias is an expression of earlier arguments."""

    name: str
    dtype: str
    size: tuple[int, ...]
    kind: str = "contiguous"
    alias: str = ""

    def code(self) -> str:
        if self.alias:
            return self.alias
        return f"make(g, torch.{self.dtype}, {list(self.size)}, {self.kind!r})"


@dataclass(frozen=True)
class Step:
    """`target = code`, or the statement `code` if it names no target."""

    target: str
    code: str

    def line(self) -> str:
        return f"{self.target} = {self.code}" if self.target else self.code


@dataclass(frozen=True)
class Program:
    """Prints as Python that runs by itself."""

    inputs: tuple[Input, ...]
    steps: tuple[Step, ...]
    outputs: tuple[str, ...]
    seed: int = 0

    def body(self) -> str:
        names = ", ".join(i.name for i in self.inputs)
        lines = [f"def program({names}):"] + [f"    {s.line()}" for s in self.steps]
        lines.append(f"    return [{', '.join(self.outputs)}]")
        return "\n".join(lines)

    def input_code(self) -> str:
        lines = ["def inputs(seed):", "    g = torch.Generator().manual_seed(seed)"]
        lines += [f"    {i.name} = {i.code()}" for i in self.inputs]
        lines.append(f"    return [{', '.join(i.name for i in self.inputs)}]")
        return "\n".join(lines)

    def text(self) -> str:
        return (
            f"# seed {self.seed}\nimport torch\nimport torch.nn.functional as F\n"
            f"from tests.programs.generate import make\n\n\n{self.input_code()}\n\n\n{self.body()}\n"
        )

    def load(self) -> tuple[Callable[[int], list[torch.Tensor]], Callable[..., list[Any]]]:
        name = f"<program {self.seed}>"
        source = self.text()
        linecache.cache[name] = (len(source), None, source.splitlines(True), name)
        space: dict[str, Any] = {}
        exec(compile(source, name, "exec"), space)
        return space["inputs"], space["program"]

    def uses(self) -> set[str]:
        """Every value that something uses."""
        found = set(self.outputs)
        for text in [s.code for s in self.steps] + [i.alias for i in self.inputs]:
            found.update(re.findall(r"\b[av]\d+\b", text))
        return found

    def pruned(self) -> Program:
        """Without arguments that nothing uses."""
        used = self.uses()
        return replace(self, inputs=tuple(i for i in self.inputs if i.name in used))


def make(g: torch.Generator, dtype: torch.dtype, size: list[int], kind: str = "contiguous") -> torch.Tensor:
    """An argument of this dtype and size that lies in memory as `kind` says."""
    if kind == "transposed" and len(size) >= 2:
        return make(g, dtype, [*size[:-2], size[-1], size[-2]]).transpose(-1, -2)
    if kind == "stepped" and size:
        return make(g, dtype, [*size[:-1], size[-1] * 2 + 1])[..., 1::2][..., : size[-1]]
    if kind == "offset" and size:
        return make(g, dtype, [size[0] + 2, *size[1:]])[2:]
    if kind == "expanded" and size:
        return make(g, dtype, [1, *size[1:]]).expand(size)
    if kind == "channels_last" and len(size) == 4:
        return make(g, dtype, size).contiguous(memory_format=torch.channels_last)
    if dtype == torch.bool:
        return torch.randint(0, 2, size, generator=g).bool()
    if not dtype.is_floating_point:
        return torch.randint(0, 7, size, generator=g).to(dtype)
    return torch.randn(size, generator=g, dtype=torch.float32).to(dtype)


def storage(t: torch.Tensor) -> int:
    return t.untyped_storage()._cdata


class Generator:
    """Grows one program."""

    def __init__(self, seed: int, scale: int = 1) -> None:
        self.rng = random.Random(seed)
        self.seed = seed
        self.scale = scale
        self.most = 20000 * scale  # elements of any value
        self.inputs: list[Input] = []
        self.steps: list[Step] = []
        self.values: dict[str, torch.Tensor] = {}
        self.rough: set[int] = set()  # storages whose values have been rounded
        self.data = torch.Generator().manual_seed(seed)
        self.space: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}

    # ---- what steps are made of --------------------------------------------------------------------------------------

    def pick(self, fits: Callable[[torch.Tensor], bool] = lambda t: True, exact: bool = False) -> str:
        """The name of a value, later ones being likelier. Raises LookupError if none fits."""
        names = [n for n, t in self.values.items() if fits(t) and not (exact and self.is_rough(t))]
        if not names:
            raise LookupError
        place = max(self.rng.random(), self.rng.random())
        return names[int(place * len(names))]

    def is_rough(self, t: torch.Tensor) -> bool:
        return storage(t) in self.rough

    def rounds(self, code: str, used: list[torch.Tensor], result: torch.Tensor | None = None) -> bool:
        """Whether the floating-point numbers that the step makes (in `result` or in place) may be rounded ones."""
        floats = [t for t in used if t.is_floating_point()]
        dtypes = {t.dtype for t in (floats if result is None else [*floats, result])}
        joined = code.startswith("torch.") and any(t.dtype not in dtypes | {torch.bool} for t in used)
        return not _EXACT.fullmatch(code) or len(dtypes) > 1 or joined or any(map(self.is_rough, floats))

    def seen_as_bits(self, t: torch.Tensor) -> bool:
        return any(storage(v) == storage(t) and not v.is_floating_point() for v in self.values.values())

    def tensor(self, name: str) -> torch.Tensor:
        return self.values[name]

    def new_input(self, dtype: str, size: tuple[int, ...], kind: str | None = None, alias: str = "") -> str:
        kinds = (
            "contiguous",
            "contiguous",
            "contiguous",
            "transposed",
            "stepped",
            "offset",
            "expanded",
            "channels_last",
        )
        name = f"a{len(self.inputs)}"
        made = Input(name, dtype, size, kind or self.rng.choice(kinds), alias)
        if alias:
            self.values[name] = eval(alias, dict(self.space, **self.values))
        else:
            self.values[name] = make(self.data, getattr(torch, dtype), list(size), made.kind)
        self.inputs.append(made)
        return name

    def like(self, name: str) -> str:
        """A value (or a new argument) that broadcasts with `name`, of a dtype that it may meet."""
        t = self.tensor(name)

        def fits(other: torch.Tensor) -> bool:
            try:
                size = torch.broadcast_shapes(t.shape, other.shape)
            except RuntimeError:
                return False
            return size.numel() <= self.most

        if self.rng.random() < 0.85:
            return self.pick(fits)
        size = [1 if self.rng.random() < 0.3 else s for s in t.shape]
        if self.rng.random() < 0.3:
            size = size[self.rng.randint(0, len(size)) :]
        return self.new_input(str(t.dtype)[6:], tuple(size))

    def dim(self, t: torch.Tensor) -> int:
        if t.dim() == 0:
            raise LookupError
        d = self.rng.randrange(t.dim())
        return d - t.dim() if self.rng.random() < 0.4 else d

    # ---- growing -----------------------------------------------------------------------------------------------------

    def add(self, code: str, statement: bool = False, jumps: bool = False) -> bool:
        """Runs the step and keeps it if eager does."""
        used = [self.values[n] for n in dict.fromkeys(re.findall(r"\b[av]\d+\b", code))]
        writes_rough = statement and any(t.is_floating_point() for t in used) and self.rounds(code, used)
        if writes_rough and self.seen_as_bits(used[0]):
            return False  # nobody promises the bits of a rounded number
        before = {n: t.clone() for n, t in self.values.items()} if statement else {}
        try:
            with torch.no_grad(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                if statement:
                    exec(code, dict(self.space, **self.values))
                    result = None
                else:
                    result = eval(code, dict(self.space, **self.values))
        except (RuntimeError, IndexError, TypeError, ValueError, NotImplementedError):
            for n, t in before.items():  # a statement may have written some of it
                if not torch.equal(t, self.values[n]):
                    self.values[n].copy_(t)
            return False
        if statement:
            if writes_rough:
                self.rough.add(storage(used[0]))
            self.steps.append(Step("", code))
            return True
        if not isinstance(result, torch.Tensor) or result.numel() > self.most or result.dim() > 5:
            return False
        name = f"v{sum(1 for s in self.steps if s.target)}"
        self.steps.append(Step(name, code))
        self.values[name] = result
        owned = storage(result) not in {storage(t) for t in used}
        if owned and result.is_floating_point() and self.rounds(code, used, result):
            self.rough.add(storage(result))
        return True

    def grow(self, length: int) -> Program:
        from tests.programs.steps import STEPS

        rng = self.rng
        rank = rng.choice((0, 1, 2, 2, 2, 3, 3, 4))
        sizes = [rng.choice((0,) if rng.random() < 0.02 else (1, 2, 3, 4, 5, 7, 8, 16, 17, 33)) for _ in range(rank)]
        if self.scale > 1 and rank:  # any dimension may be the long one
            sizes = [max(s, 1) for s in sizes]
            while torch.Size(sizes).numel() < 1000 * self.scale:
                sizes[rng.randrange(rank)] *= rng.choice((2, 3, 5, 17))
        while torch.Size(sizes).numel() > 5000 * self.scale:
            sizes[sizes.index(max(sizes))] //= 2
        main = rng.choice(FLOATS)
        self.new_input(main, tuple(sizes))
        for _ in range(rng.randint(0, 2)):
            size = [1 if rng.random() < 0.25 else s for s in sizes][rng.randint(0, rank) if rng.random() < 0.2 else 0 :]
            self.new_input(main if rng.random() < 0.6 else rng.choice((*FLOATS, *INTEGERS, "bool")), tuple(size))
        if rng.random() < 0.15:
            name = self.pick()
            alias = rng.choice(
                (name, f"{name}.detach()", f"{name}[1:]", f"{name}.view(-1)", f"{name}.transpose(0, -1)")
            )
            with contextlib.suppress(RuntimeError, IndexError):
                self.new_input(str(self.tensor(name).dtype)[6:], (), "contiguous", alias)
        makers, weights = zip(*STEPS, strict=True)
        for _ in range(length * 20):
            if len(self.steps) >= length:
                break
            try:
                rng.choices(makers, weights)[0](self)
            except LookupError:
                continue
        return self.finish()

    def finish(self) -> Program:
        rng = self.rng
        names = list(self.values)
        made = [n for n in names if n.startswith("v")]
        outputs = made[-2:] + [n for n in made[:-2] if rng.random() < 0.4]
        if rng.random() < 0.2:
            outputs.append(rng.choice(names))  # an argument, a view of one, or an output twice
        if not outputs:
            outputs = names[:1]
        return Program(tuple(self.inputs), tuple(self.steps), tuple(outputs), self.seed).pruned()


def generate(seed: int, length: int = 0, scale: int = 1) -> Program:
    """The program of this seed, always the same. Its values have up to `scale` times as many elements as by default."""
    generator = Generator(seed, scale)
    return generator.grow(length or generator.rng.randint(1, 14))


def renamed(program: Program, old: str, new: str) -> Program:
    """`program` with every use of the value `old` being one of `new`."""

    def sub(text: str) -> str:
        return re.sub(rf"\b{old}\b", new, text)

    steps = tuple(Step(s.target, sub(s.code)) for s in program.steps if s.target != old)
    return replace(program, steps=steps, outputs=tuple(sub(o) for o in program.outputs))
