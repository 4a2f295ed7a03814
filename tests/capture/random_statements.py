"""The generator of random functions: every one ends, and raises only what Python raises."""

from __future__ import annotations

import ast
import contextlib
import random
from collections.abc import Callable
from dataclasses import dataclass

from tests.capture.function_parts import ARGUMENTS, PARAMETERS, PRELUDE
from tests.capture.statements import Block, Statement, line, printed

INTS = ("n", "a", "b", "c")
TENSORS = ("x", "p", "q")
MATRICES = ("y", "m")
LISTS = ("xs", "l", "k")
STRINGS = ("s", "w")
ERRORS = ("ValueError", "KeyError", "IndexError", "ZeroDivisionError", "Odd", "Odder", "TypeError")


@dataclass(frozen=True)
class Program:
    seed: int
    body: tuple[Statement, ...]

    def text(self) -> str:
        inner = "\n".join(printed(self.body, "        "))
        calls = ",\n    ".join(ARGUMENTS)
        return f"""{PRELUDE}

# seed {self.seed}
@maker(
    {calls},
)
def program():
    cell = 1
    held = [0]

    def f({PARAMETERS}):
        nonlocal cell
        global G
{inner}

    return f
"""


_OUTER = {*INTS, *TENSORS, *MATRICES, *LISTS, *STRINGS, "cell", "o", "d", "ts"}


def _outer(body: tuple[Statement, ...], own: set[str]) -> tuple[Statement, ...]:
    """`nonlocal` and `global` for what the body of a local function binds and does not own."""
    bound: set[str] = set()

    def visit(node: ast.AST) -> None:
        if isinstance(node, (ast.Name, ast.MatchAs, ast.MatchStar)):
            context = getattr(node, "ctx", None)
            name = node.id if isinstance(node, ast.Name) else node.name
            if name and (context is None or isinstance(context, (ast.Store, ast.Del))):
                bound.add(name)
        for child in ast.iter_child_nodes(node):
            if not isinstance(node, (ast.FunctionDef, ast.ClassDef)):
                visit(child)

    with contextlib.suppress(SyntaxError):
        text = "\n".join(["def f():", *printed(body)])
        for node in ast.parse(text).body[0].body:  # type: ignore[attr-defined]
            visit(node)
    names = sorted(bound & _OUTER - own)
    said = [f"nonlocal {', '.join(names)}"] if names else []
    return tuple(line(text) for text in said + (["global G"] if "G" in bound else []))


class Generator:
    def __init__(self, seed: str) -> None:
        self.rng = random.Random(seed)
        self.names = 0
        self.loops = 0  # loops around the statement being made
        self.in_loop = False  # whether break and continue are allowed
        self.budget = self.rng.randrange(8, 45)
        self.functions: list[str] = []  # local functions of one tensor
        self.depth = 0
        self.tensor_branches = self.rng.random() < 0.5
        self.prints = self.rng.random() < 0.4

    def fresh(self, prefix: str) -> str:
        self.names += 1
        return f"{prefix}{self.names}"

    def pick(self, *choices: str) -> str:
        return self.rng.choice(choices)

    def chance(self, share: float) -> bool:
        return self.rng.random() < share

    # Expressions. `deep` bounds their nesting.

    def integer(self, deep: int = 2) -> str:
        leaves = [
            *INTS,
            *INTS,
            str(self.rng.randrange(-3, 8)),
            "len(xs)",
            "o.a",
            "cell",
            "G",
            "len(d)",
            "x.shape[0]",
            "y.size(1)",
        ]
        if deep <= 0:
            return self.rng.choice(leaves)
        i = lambda: self.integer(deep - 1)  # noqa: E731
        makers: list[Callable[[], str]] = [
            lambda: self.rng.choice(leaves),
            lambda: f"({i()} {self.pick('+', '-', '*')} {i()}) % 97",
            lambda: f"{i()} {self.pick('//', '%')} ({i()} or 1)",
            lambda: f"({i()} {self.pick('&', '|', '^')} {i()})",
            lambda: f"({i()} if {self.boolean(deep - 1)} else {i()})",
            lambda: f"{self.pick('min', 'max')}({i()}, {i()})",
            lambda: f"abs({i()})",
            lambda: f"sum({self.list(deep - 1)})",
            lambda: f"len({self.list(deep - 1)})",
            lambda: f"d.get({self.string(deep - 1)}, {i()})",
            lambda: f"{self.pick('xs', 'l', 'GL', 'o')}[{i()} % 2]" if self.chance(0.5) else f"(GL[-1] + {i()})",
            lambda: f"(lambda v, w={i()}: v * w % 13)({i()})",
            lambda: f"({self.rng.choice(INTS)} := {i()})",
            lambda: f"int({self.boolean(deep - 1)})",
            lambda: f"defaulted({i()}, {i()})",
            lambda: f"defaulted({i()}, *{self.list(deep - 1)}[:3], flag={self.boolean(0)}, **d)",
            lambda: f"cached({i()} % 5)",
            lambda: f"risky({i()})" if self.chance(0.3) else f"next(counting({i()} % 3 + 1))",
            lambda: f"{self.pick('o.twice', 'o.late_one', 'o.rank', 'type(o).ranked(by=2)', 'o.of(1, 2, k=3).a')}",
            lambda: f"Pair({i()}, {i()}).{self.pick('left', 'right')}",
            lambda: f"Point({i()}).a",
            lambda: f"functools.reduce(lambda u, v: (u * 3 + v) % 31, {self.list(deep - 1)}, {i()})",
            lambda: f"next((v for v in {self.list(deep - 1)} if v > {i()}), {i()})",
            lambda: f"(ord({self.string(deep - 1)}[:1] or 'z') % 11)",
            lambda: f"operator.{self.pick('add', 'sub', 'and_')}({i()}, {i()})",
            lambda: f"math.{self.pick('gcd', 'comb')}({i()} % 7, {i()} % 5)",
            lambda: f"divmod({i()}, 4)[{self.rng.randrange(2)}]",
            lambda: f"round({i()} / 3)",
            lambda: f"({i()}, {i()})[{self.boolean(0)}]",
        ]
        if self.tensor_branches and self.chance(0.08):
            return f"int({self.tensor(deep - 1)}[0].item())"
        return self.rng.choice(makers)()

    def boolean(self, deep: int = 1) -> str:
        if deep <= 0:
            return self.pick(
                "n > 2", "a < b", "len(xs) > 1", "bool(o)", "'a' in d", "not l", "c % 2 == 0", "x.shape[0] == 3"
            )
        i, b = lambda: self.integer(deep - 1), lambda: self.boolean(deep - 1)
        makers: list[Callable[[], str]] = [
            lambda: f"{i()} {self.pick('<', '<=', '>', '==', '!=')} {i()}",
            lambda: f"{i()} < {i()} <= {i()}",
            lambda: f"not {b()}",
            lambda: f"({b()} {self.pick('and', 'or')} {b()})",
            lambda: f"{i()} in {self.list(deep - 1)}",
            lambda: f"{self.string(deep - 1)} not in d",
            lambda: f"isinstance({self.pick('o', 'x', 'n', 'xs', 's')}, {self.pick('Box', 'SubBox', 'int')})",
            lambda: f"{self.pick('x is p', 'xs is l', 'o is None', 'x is not q', 'n is None')}",
            lambda: f"any(v > {i()} for v in {self.list(deep - 1)})",
            lambda: f"all([v < {i()} for v in {self.list(deep - 1)}])",
            lambda: f"o == Box({i()})",
            lambda: f"hasattr(o, {self.string(0)})",
            lambda: f"{self.string(deep - 1)}.startswith('a')",
            lambda: f"{self.list(deep - 1)} == {self.list(deep - 1)}",
        ]
        if self.tensor_branches and self.chance(0.15):
            return self.pick("{}.sum() > 0", "({} > 1).any()", "bool({}[0] < 0)", "float({}.max()) > 2").format(
                self.tensor(deep - 1)
            )
        return self.rng.choice(makers)()

    def string(self, deep: int = 1) -> str:
        if deep <= 0:
            return self.pick("s", "w", "'a'", "'b'", "'items'", "'key'")
        t, i = lambda: self.string(deep - 1), lambda: self.integer(deep - 1)
        makers: list[Callable[[], str]] = [
            t,
            lambda: f"f'{{{self.rng.choice(INTS)}}}:{{{self.rng.choice(STRINGS)}!r:>4}}'",
            lambda: f"f'{{{self.rng.choice(INTS)} + 1:03d}}'[:5]",
            lambda: f"({t()} + {t()})[:6]",
            lambda: f"str({i()})",
            lambda: f"{t()}.{self.pick('upper', 'title', 'strip', 'lower')}()",
            lambda: f"'-'.join(map(str, {self.list(deep - 1)}))[:8]",
            lambda: f"('%d/%s' % ({i()}, {t()}))[:7]",
            lambda: f"'{{}}'.format({i()})",
            lambda: "type(o).__name__",
            lambda: f"sorted({{{t()}, {t()}}})[0]",
            lambda: f"repr({i()})",
        ]
        return self.rng.choice(makers)()

    def list(self, deep: int = 1) -> str:
        if deep <= 0:
            return self.pick("xs", "l", "k", "[1, 2]", "GL[:3]", "[]")
        i, ls = lambda: self.integer(deep - 1), lambda: self.list(deep - 1)
        makers: list[Callable[[], str]] = [
            ls,
            lambda: f"[{i()}, {i()}]",
            lambda: f"[v + {i()} for v in {ls()} if {self.boolean(deep - 1)}]",
            lambda: f"[u * v for u in {ls()}[:3] for v in {ls()}[:3]]",
            lambda: f"sorted({ls()}, key=lambda v: (v * 7 + {i()}) % 5)",
            lambda: f"list(range({i()} % 5))",
            lambda: f"{ls()}[{self.pick('::-1', '1:', ':2', ':-1', '::2')}]",
            lambda: f"[*{ls()}[:2], {i()}]",
            lambda: f"list(map(lambda v: v - {i()}, {ls()}))",
            lambda: f"list(counting({i()} % 4))",
            lambda: f"list(delegating({i()} % 3))",
            lambda: f"list(dict.fromkeys({ls()}))",
            lambda: f"sorted({{v % 3 for v in {ls()}}})",
            lambda: f"list(itertools.{self.pick('chain', 'chain')}({ls()}, {ls()}))[:6]",
            lambda: f"list(itertools.accumulate({ls()}))",
            lambda: f"[a_ + b_ for a_, b_ in zip({ls()}, {ls()})]",
            lambda: f"[at * v for at, v in enumerate({ls()}, {i()})]",
            lambda: f"list(filter(None, {ls()}))",
            lambda: "[v for v in o if isinstance(v, int)]",
            lambda: f"list({{str(v): v for v in {ls()}}}.values())",
            lambda: f"list(reversed({ls()}))",
            lambda: f"{ls()}.copy()",
        ]
        return self.rng.choice(makers)()

    def tensor(self, deep: int = 2) -> str:
        if deep <= 0:
            return self.rng.choice(TENSORS)
        e, i = lambda: self.tensor(deep - 1), lambda: self.integer(deep - 2)
        makers: list[Callable[[], str]] = [
            e,
            lambda: f"({e()} {self.pick('+', '-', '*')} {e()})",
            lambda: f"({e()} {self.pick('+', '-', '*')} {i()})",
            lambda: f"({i()} - {e()})",
            lambda: f"torch.{self.pick('relu', 'abs', 'neg', 'sign', 'floor')}({e()})",
            lambda: (
                f"{e()}.{self.pick('relu', 'abs', 'clone', 'flip', 'detach', 'tanh')}".replace("flip", "flip(0).abs")
                + "()"
            ),
            lambda: f"torch.{self.pick('maximum', 'minimum')}({e()}, {e()})",
            lambda: f"torch.where({e()} > {e()}, {e()}, {i()})",
            lambda: f"{self.matrix(deep - 1)}.{self.pick('sum', 'amax', 'mean')}(0)",
            lambda: f"{self.matrix(deep - 1)}[{i()} % 2]",
            lambda: f"({e()} if {self.boolean(deep - 1)} else {e()})",
            lambda: f"torch.tensor([{i()}, {i()}, 1.5])",
            lambda: f"torch.full((3,), float({i()}))",
            lambda: f"ts[{self.pick('0', '-1', 'n % len(ts)')}]",
            lambda: f"sum(ts, {e()})",
            lambda: "torch.stack(ts).sum(0)",
            lambda: f"o.method({e()})",
            lambda: f"o({e()}, by={i()})",
            lambda: f"clipped({e()})",
            lambda: f"({e()} + {e()}.sum())",
            lambda: f"torch.cat([{e()}[1:], {e()}[:1]])",
            lambda: f"functools.reduce(torch.add, [{e()}, {e()}])",
            lambda: f"({self.rng.choice(TENSORS)} := {e()} / 2)",
            lambda: f"{e()}[[2, 0, 1]]",
            lambda: f"defaulted({e()}, 0.5)",
            lambda: f"{e()}.to(torch.float32)",
            lambda: f"getattr({e()}, {self.pick(repr('relu'), repr('abs'))})()",
            lambda: f"torch.zeros_like({e()})",
            lambda: f"({e()} @ {self.matrix(deep - 1)}.T).sum()",
        ]
        if self.functions and self.chance(0.25):
            return f"{self.rng.choice(self.functions)}({e()})"
        return f"{self.rng.choice(makers)()}"

    def matrix(self, deep: int = 1) -> str:
        if deep <= 0:
            return self.rng.choice(MATRICES)
        e, ms = lambda: self.tensor(deep - 1), lambda: self.matrix(deep - 1)
        makers: list[Callable[[], str]] = [
            ms,
            lambda: f"torch.stack([{e()}, {e()}])",
            lambda: f"({ms()} {self.pick('+', '*', '-')} {e()})",
            lambda: f"({ms()} - {ms()})",
            lambda: f"{e()}.expand(2, 3)",
            lambda: f"{ms()}.flip(1)",
            lambda: f"{ms()}.T.T",
            lambda: f"{ms()}.reshape(3, 2).reshape(2, 3)",
            lambda: f"({e()}[None] + {ms()}[:, :1])",
        ]
        return self.rng.choice(makers)()

    # Statements.

    def block(self, size: int, *, loop: bool | None = None) -> tuple[Statement, ...]:
        outer = self.in_loop
        if loop is not None:
            self.in_loop = loop
        self.depth += 1
        made = tuple(self.statement() for _ in range(size))
        self.depth -= 1
        self.in_loop = outer
        return made

    def statement(self) -> Statement:
        self.budget -= 1
        compound = self.depth < 5 and self.budget > 0 and self.chance(0.42)
        return self.compound() if compound else self.simple()

    def simple(self) -> Statement:
        i, e = self.integer, self.tensor
        makers: list[tuple[int, Callable[[], str]]] = [
            (6, lambda: f"{self.rng.choice(INTS)} = {i()}"),
            (8, lambda: f"{self.rng.choice(TENSORS)} = {e(3)}"),
            (3, lambda: f"{self.rng.choice(MATRICES)} = {self.matrix(2)}"),
            (3, lambda: f"{self.rng.choice(LISTS)} = {self.list(2)}"),
            (2, lambda: f"{self.rng.choice(STRINGS)} = {self.string(2)}"),
            (2, lambda: f"{self.rng.choice(INTS)} {self.pick('+=', '-=', '|=')} {i()}"),
            (2, lambda: f"{self.rng.choice(TENSORS)} {self.pick('+=', '-=', '*=')} {e(1)}"),
            (1, lambda: f"{self.rng.choice(TENSORS)}[{self.pick('0', '-1', '1:', '...')}] = {i()}"),
            (1, lambda: f"{self.rng.choice(TENSORS)}.{self.pick('mul_(2)', 'add_(1)', 'clamp_(-9, 9)', 'zero_()')}"),
            (1, lambda: f"{self.rng.choice(MATRICES)}[{i()} % 2] = {e(1)}"),
            (2, lambda: f"a, b = {self.pick('b, a', 'Pair(n, c)', 'divmod(n, 3)', '(b, n)')}"),
            (1, lambda: f"p, q = {self.pick('q, p', 'y', 'm.unbind(0)', '(x, x)')}"),
            (1, lambda: f"a, *l = {self.list(1)}"),
            (1, lambda: f"(a, (b, c)), s = ({i()}, [n, {i()}]), {self.string(1)}"),
            (1, lambda: f"a = b = {i()}"),
            (1, lambda: f"c: int = {i()}"),
            (3, lambda: f"{self.rng.choice(LISTS)}.append({i()})"),
            (
                1,
                lambda: (
                    f"{self.rng.choice(LISTS)}.{self.pick('sort()', 'reverse()', 'pop()', 'insert(0, n)', 'remove(a)')}"
                ),
            ),
            (
                1,
                lambda: f"{self.rng.choice(LISTS)}[{self.pick('0', '-1', '1:2', ':0')}] = {self.pick('[n]', '[]')}",
            ),
            (2, lambda: f"ts.append({e(1)})"),
            (1, lambda: f"ts[0] = {e(1)}"),
            (2, lambda: f"d[{self.string(1)}] = {i()}"),
            (1, lambda: f"d.update({self.pick('a=n', '{s: a}', '**{w: b}')})"),
            (
                1,
                lambda: self.pick(
                    "d.pop(s, None)", "d.pop(w)", "del d['a']", "d.clear()", "d.setdefault(s, n)", "del xs[0]", "del a"
                ),
            ),
            (2, lambda: f"o.a = {i()}"),
            (1, lambda: f"o.{self.pick('t', 'kept')} = {e(1)}"),
            (
                1,
                lambda: self.pick(
                    "o.twice = n",
                    "o += 1",
                    "o = o + 1",
                    "o.items.append(b)",
                    "o[0] = c",
                    "o = SubBox(a, xs)",
                    "Box.rank += 1",
                    "setattr(o, w, n)",
                ),
            ),
            (1, lambda: f"G = (G + {i()}) % 89"),
            (1, lambda: f"GL.append({i()} % 7)"),
            (1, lambda: "GD[s] = len(GD)"),
            (2, lambda: f"cell = (cell + {i()}) % 83"),
            (1, lambda: f"held.append({e(1)}.detach())"),
            (1, lambda: f"assert {self.boolean()}, {self.string()}"),
            (1, lambda: self.raised()),
            (1, lambda: "del GL[3:]"),
        ]
        if self.in_loop:
            makers.append((3, lambda: self.pick("break", "continue")))
        if self.prints:
            makers.append(
                (3, lambda: f"print({self.string(1)}, {i()}, {self.pick('x.shape', 'd', 'l', 'o', 'len(ts)')})")
            )
        if self.tensor_branches:
            makers.append((1, lambda: f"l = {e(1)}.int().tolist()"))
            makers.append((1, lambda: f"a = int({e(1)}.sum().item()) % 50"))
        weights, functions = zip(*makers, strict=True)
        text = self.rng.choices(functions, weights)[0]()
        if text.split()[0] in ("break", "continue", "raise") and self.chance(0.8):
            return Statement(blocks=(Block(f"if {self.boolean()}:", (line(text),)),))
        if self.chance(0.03) and self.depth > 1:
            return Statement(blocks=(Block(f"if {self.boolean()}:", (line(f"return {self.result()}"),)),))
        return line(text)

    def raised(self) -> str:
        return self.pick(
            "raise Odd(n)", "raise ValueError(s, a)", "raise Odder(b, 'x')", "raise KeyError(w)", "raise IndexError"
        )

    def result(self) -> str:
        return self.rng.choice(
            [
                self.tensor(),
                f"({self.tensor(1)}, {self.integer(1)})",
                "[x, xs, d]",
                "o",
                f"{{'k': {self.tensor(1)}, 'n': n}}",
                "None",
                "x",
                "(p, q, l)",
            ]
        )

    def compound(self) -> Statement:
        makers = [
            (8, self.conditional), (7, self.for_loop), (3, self.while_loop), (5, self.trying), (4, self.with_block),
            (3, self.function), (2, self.generator), (2, self.matching), (1, self.local_class),
        ]  # fmt: skip
        if self.loops >= 2:
            makers = [m for m in makers if m[1] not in (self.for_loop, self.while_loop)]
        weights, functions = zip(*makers, strict=True)
        return self.rng.choices(functions, weights)[0]()

    def size(self) -> int:
        return self.rng.randrange(1, 4)

    def conditional(self) -> Statement:
        blocks = [Block(f"if {self.boolean(2)}:", self.block(self.size()))]
        if self.chance(0.3):
            blocks.append(Block(f"elif {self.boolean()}:", self.block(self.size())))
        if self.chance(0.5):
            blocks.append(Block("else:", self.block(self.size())))
        return Statement(blocks=tuple(blocks), optional=len(blocks) - 1)

    def for_loop(self) -> Statement:
        over = self.rng.choice(
            [
                f"for {self.rng.choice(INTS)} in range({self.integer(1)} % 4):",
                f"for {self.rng.choice(INTS)} in {self.list()}[:4]:",
                "for a, b in enumerate(xs[:3]):",
                "for s, c in list(d.items())[:3]:",
                "for w in sorted(d)[:3]:",
                "for p in ts[:3]:",
                "for q in y:",
                f"for a, p in zip({self.list(0)}[:3], ts[:3]):",
                "for p, q in itertools.product(ts[:2], repeat=2):",
                "for b in counting(a % 4):",
                "for c in delegating(2):",
                "for a in (v for v in l[:3] if v > 0):",
            ]
        )
        self.loops += 1
        blocks = [Block(over, self.block(self.size(), loop=True))]
        self.loops -= 1
        if self.chance(0.2):
            blocks.append(Block("else:", self.block(1)))
        return Statement(blocks=tuple(blocks), optional=len(blocks) - 1)

    def while_loop(self) -> Statement:
        fuel = self.fresh("fuel")
        condition = self.pick("", f" and {self.boolean()}")
        self.loops += 1
        blocks = [Block(f"while ({fuel} := {fuel} - 1) >= 0{condition}:", self.block(self.size(), loop=True))]
        self.loops -= 1
        if self.chance(0.2):
            blocks.append(Block("else:", self.block(1)))
        return Statement((f"{fuel} = {self.rng.randrange(1, 5)}",), tuple(blocks), len(blocks) - 1)

    def trying(self) -> Statement:
        body = self.block(self.size())
        if self.chance(0.5):
            body += (
                line(
                    self.pick(
                        f"a = risky({self.integer(1)})", self.raised(), "b = xs[n]", "c = d[s]", "a = 1 // (n - 2)"
                    )
                ),
            )
        blocks = [Block("try:", body)]
        for kind in self.rng.sample(ERRORS, self.rng.randrange(0, 3)):
            handler = self.block(self.rng.randrange(1, 3))
            bound = ""
            if self.chance(0.5):
                name = self.fresh("error")
                bound = f" as {name}"
                handler = (line(f"held.append(repr({name})[:60])"), *handler)
                if self.chance(0.3):
                    handler += (line(f"raise ValueError('again') from {name}"),)
            elif self.chance(0.2):
                handler += (line("raise"),)
            blocks.append(Block(f"except {kind}{bound}:", handler))
        needs = 1
        if len(blocks) == 1:
            blocks.append(
                Block("except Exception:", self.block(1)) if self.chance(0.7) else Block("finally:", self.block(1))
            )
            if blocks[-1].header == "finally:":
                return Statement(blocks=tuple(blocks))
        if self.chance(0.3):
            blocks.append(Block("else:", self.block(1)))
        if self.chance(0.4):
            outer, self.in_loop = self.in_loop, False
            blocks.append(Block("finally:", self.block(self.size())))
            self.in_loop = outer
        return Statement(blocks=tuple(blocks), optional=len(blocks) - 1 - needs)

    def with_block(self) -> Statement:
        header = self.rng.choice(
            [
                "with torch.no_grad():",
                "with contextlib.suppress(ValueError, Odd, KeyError):",
                "with o:",
                f"with o as {self.fresh('entered')}:",
                "with logged(held, 'in') as a:",
                "with logged(held, 'one'), Box(n) as o:",
                "with torch.set_grad_enabled(n > 2), contextlib.nullcontext(b) as c:",
                "with contextlib.ExitStack() as stack, torch.enable_grad():",
            ]
        )
        body = self.block(self.size())
        if "stack" in header:
            body = (line("stack.callback(held.append, 'left')"), *body)
        return Statement(blocks=(Block(header, body),))

    def function(self) -> Statement:
        name = self.fresh("g")
        functions, self.functions = self.functions, self.functions[:2]
        decorators = ("@counted",) if self.chance(0.2) else ()
        loops, self.loops = self.loops, self.loops + 1
        recursive = self.chance(0.2)
        parameter = self.pick("v", "v, scale=2", "v, *rest, deep=2, **named")
        if recursive:
            parameter = "v, deep=2"
        elif "deep" not in parameter and self.chance(0.5):
            parameter += ", deep=2"
        body = self.block(self.rng.randrange(1, 3), loop=False)
        if recursive:
            stop = Statement(blocks=(Block("if deep > 0:", (line(f"return {name}(v + 1, deep - 1) * 2"),)),))
            body += (stop,)
        body += (line(f"return v {self.pick('+', '*')} {self.pick('p', 'n', 'q', 'x', '2')}"),)
        if self.chance(0.8):
            body = (*_outer(body, {"deep", *parameter.split()}), *body)
        self.loops = loops
        self.functions = [*functions, name] if self.depth <= 1 else functions
        use = line(f"{self.rng.choice(TENSORS)} = {name}({self.tensor(1)})")
        made = Statement(decorators, (Block(f"def {name}({parameter}):", body),))
        return made if self.depth == 0 else Statement(blocks=(Block("if True:", (made, use)),))

    def generator(self) -> Statement:
        name = self.fresh("gen")
        loops, self.loops = self.loops, self.loops + 1
        body = (
            *self.block(1, loop=False),
            line(f"sent = yield {self.tensor(1)}"),
            line("held.append(sent)"),
            *self.block(1, loop=False),
            line(self.pick("yield from ts[:2]", f"yield {self.tensor(1)}", "return a")),
        )
        # its own variables: a name that is assigned in it is local to it
        first = line("a = b = c = n; l = [1]; k = [2]; s = w = 'g'; p = q = x; m = y")
        own = {*INTS, *TENSORS, *MATRICES, *LISTS, *STRINGS, *PARAMETERS.split(", ")}
        body = (*_outer(body, own), first, *body)
        self.loops = loops
        made = Statement(blocks=(Block(f"def {name}(x, y, n, xs, d, o, ts):", body),))
        call = f"{name}({PARAMETERS})"
        use = self.rng.choice(
            [
                (line(f"q = sum({call})"),),
                (line(f"it = {call}"), line("p = next(it)"), line("q = next(it, x)")),
                (
                    line(f"it = {call}"),
                    line("p = next(it)"),
                    line("it.send(n)") if self.chance(0.5) else line("it.close()"),
                ),
                (Statement(blocks=(Block(f"for p in {call}:", (line("q = p + 1"),)),)),),
                (line(f"p, *_ = {call}"),),
                (line(f"ts.extend(itertools.islice({call}, 2))"),),
            ]
        )
        return Statement(blocks=(Block("if True:", (made, *use)),))

    def matching(self) -> Statement:
        subject = self.pick("n % 4", "(a % 3, b % 2)", "d", "xs[:2]", "o", "Point(n % 2)", "s")
        patterns = {
            "n % 4": ["0", "1 | 2", "int(c) if c > 2", "_"],
            "(a % 3, b % 2)": ["(0, c)", "(1, 0)", "(a, b) if a > b", "_"],
            "d": ["{'a': a, **rest}", "{'b': int()}", "{}"],
            "xs[:2]": ["[]", "[a]", "[1, *l]", "[a, b]"],
            "o": ["SubBox(a=c)", "Box(a=1 | 2)", "Box(items=[])", "_"],
            "Point(n % 2)": ["Point(0)", "Point(a=1, b=w)", "_"],
            "s": ["'a' | 'b'", "'' | 'key'", "str(w) if len(w) < 3", "_"],
        }[subject]
        chosen = [p for p in patterns if p == "_" or self.chance(0.75)] or patterns[-1:]
        cases = tuple(Statement(blocks=(Block(f"case {p}:", self.block(self.rng.randrange(1, 3))),)) for p in chosen)
        return Statement(blocks=(Block(f"match {subject}:", cases),))

    def local_class(self) -> Statement:
        name = self.fresh("Local")
        base = self.pick("Box", "SubBox", "Point", "dict", "list", "object")
        methods = (
            line(f"kept = {self.integer(0)}"),
            Statement(
                blocks=(
                    Block(
                        "def run(self, v):",
                        (line("self.seen = v"), line(f"return v + self.kept + {self.pick('n', 'len(xs)', 'cell')}")),
                    ),
                )
            ),
            Statement(("@property",), (Block("def half(self):", (line("return self.kept / 2"),)),)),
        )
        made = Statement(blocks=(Block(f"class {name}({base}):", methods),))
        arguments = "a" if base in ("Box", "SubBox", "Point") else ""
        use = (
            line(f"local = {name}({arguments})"),
            line(f"p = local.run({self.tensor(1)})"),
            line("held.append((local.half, type(local).__name__))"),
        )
        return Statement(blocks=(Block("if True:", (made, *use)),))


def generate(seed: int) -> Program:
    """The program of a seed. What Python refuses to compile (`:=` in some places) is made again."""
    for attempt in range(100):
        program = Program(seed, _body(Generator(f"{seed}/{attempt}")))
        with contextlib.suppress(SyntaxError):
            compile(program.text(), "<random>", "exec", dont_inherit=True)
            return program
    raise AssertionError(f"seed {seed} gives no program")


def _body(made: Generator) -> tuple[Statement, ...]:
    start = (
        line("a, b, c = n, len(xs), 3"),
        line("p, q, m = x + 1, x * 2, y"),
        line("l, k, s, w = [n, 1], list(xs), 'a', 'key'"),
    )
    body: list[Statement] = []
    while made.budget > 0:
        body.append(made.statement())
    end = line("return x, y, p, q, m, a, b, c, l, k, s, w, n, xs, d, o, ts, held[-4:]")
    return *start, *body, end
