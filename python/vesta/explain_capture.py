"""The result of capturing a Python function: graphs, breaks, guards and recompiles, as data and as text."""

from __future__ import annotations

import functools
import inspect
import linecache
import os
import re
import types
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from vesta import _C
from vesta.byte_text import byte_text
from vesta.errors import UserError, documentation_of
from vesta.misses import Miss, miss_of

__all__ = ["Break", "Captured", "Graph", "Guard", "Line", "Recompile", "Skipped", "explain_captured", "read"]

SHOWN_GUARDS = 24  # per graph; Graph.guards has all
SHOWN_OPERATORS = 6
SHOWN_MODULES = 6
SHOWN_SAVED = 5  # kinds of saved tensors; Graph.activations has all
TORCH = os.path.dirname(torch.__file__) + os.sep


@dataclass(frozen=True)
class Line:
    """A place in the user's program. ``text`` is the line itself, if the file can be read."""

    file: str = ""
    line: int = 0
    function: str = ""
    text: str = ""

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}" if self.file else "?"

    def __bool__(self) -> bool:
        return bool(self.file)


@dataclass(frozen=True)
class Guard:
    """A fact that a graph relies on. ``failed``: how often it was the first guard that did not hold."""

    text: str
    kind: str = ""
    where: Line = Line()
    failed: int = 0


@dataclass(frozen=True)
class Break:
    """A graph break: an instruction that Python executes between two graphs.

    ``name``: the kind of break, a heading of docs/breaks.md. ``stack``: the calls that lead to the instruction.
    """

    where: Line
    reason: str
    hint: str = ""
    instruction: str = ""
    count: int = 0
    stack: tuple[Line, ...] = ()
    name: str = ""

    @property
    def documentation(self) -> str:
        return documentation_of(self.name) if self.name else ""


@dataclass(frozen=True)
class Graph:
    """One compiled trace, from ``where`` to a return or to ``stop``.

    ``ops``: how often each operator occurs. ``effects``: writes to objects that existed before the call, made after the
    graph has run. ``compiled``: kernels and calls into ATen. ``steps``: these in the order in which a call runs them;
    empty if gradients are recorded. ``backward``: the backward halves that have run, where gradients are recorded
    (``trains``); ``backward_failures``: why compiles of such a half failed, or its last failed run, whose passes run as
    calls of its operators; ``activations``: what a call saves for them and what they compute again; ``saved_bytes``: of
    the tensors that it saves, and ``eager_saved_bytes``: of those that eager saves.
    ``pending``: the compile still goes on in the background, and calls run in tier 0
    or 1. ``tier``: how calls run. 0: in Python. 1: as calls into ATen without Python code between them. 2: with machine
    code. 3: with machine code that was tuned. ``early_hits``: the hits that tier 1 served while the compile
    was going on. ``python_us`` and ``early_us``: the least time of a call then, from this graph on, in tiers 0 and 1,
    in microseconds; 0: not measured.
    ``ms``: milliseconds by stage; ``total_ms`` also includes the time between the stages.
    ``variant``: its id in events. ``outputs``: how many tensors a call returns. ``output_bytes``: of those among them
    that it makes; -1: not known.
    """

    where: Line
    ops: dict[str, int]
    guards: tuple[Guard, ...] = ()
    effects: tuple[str, ...] = ()
    end: str = "return"
    stop: Break | None = None
    ms: dict[str, float] = field(default_factory=dict)
    total_ms: float = 0.0
    hits: int = 0
    compiled: _C.CompileReport | None = None
    trains: bool = False
    backward: tuple[_C.CompileReport, ...] = ()
    backward_failures: tuple[str, ...] = ()
    activations: _C.ActivationReport = field(default_factory=_C.ActivationReport)
    pending: bool = False
    tier: int = 0
    early_hits: int = 0
    python_us: float = 0.0
    early_us: float = 0.0
    steps: tuple[_C.StepInfo, ...] = ()
    variant: int = 0
    outputs: int = 0
    output_bytes: int = -1

    @property
    def saved_bytes(self) -> int:
        return self.activations.saved_bytes

    @property
    def eager_saved_bytes(self) -> int:
        return self.activations.eager_saved_bytes

    @property
    def op_count(self) -> int:
        if not self.ops and self.compiled:
            return self.compiled.ops_traced
        return sum(self.ops.values())

    @property
    def miss(self) -> Miss | None:
        """The nearest stored graph and how this one differs from it. None if this graph was found in the cache or there
        is no usable cache. Reads the cache's folder."""
        folder = _C.cache_folder()
        try:
            return miss_of("", self.compiled, folder) if self.compiled and folder else None
        except UserError:  # the compile already logged this error
            return None

    @property
    def stages(self) -> dict[str, float]:
        """``ms`` with all passes as one stage."""
        stages: dict[str, float] = {}
        for name, ms in self.ms.items():
            stage = "passes" if name.startswith("pass:") else name
            stages[stage] = stages.get(stage, 0.0) + ms
        return stages


@dataclass(frozen=True)
class Recompile:
    """A call for which ``guard`` did not hold, with its old and new value. ``ms`` is 0 if the call ran eager."""

    guard: str
    was: str
    now: str
    where: Line
    segment: Line
    ms: float = 0.0


@dataclass(frozen=True)
class Skipped:
    """Code that Python runs uncompiled. ``name``: the kind of reason, a heading of docs/breaks.md."""

    where: Line
    reason: str
    name: str = ""


@dataclass(frozen=True)
class Slower:
    """A part of a function that runs uncompiled, because ``reason`` is what measurements showed. ``runs``: how often it
    ran uncompiled so far."""

    where: Line
    reason: str
    runs: int


@dataclass(frozen=True)
class Captured:
    """Everything known about one compiled function; ``print`` shows it."""

    name: str
    where: Line = Line()
    graphs: tuple[Graph, ...] = ()
    breaks: tuple[Break, ...] = ()
    recompiles: tuple[Recompile, ...] = ()
    fallbacks: tuple[_C.Fallback, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    slower: tuple[Slower, ...] = ()  # parts that run uncompiled, because they are slower compiled
    failures: tuple[Skipped, ...] = ()  # of Vesta's own in traces; another trace may serve the calls all the same
    calls: int = 0
    call_us: float = 0.0  # the mean time of a call since the last compile; 0: none was measured
    aside: int = 0  # calls that ran uncompiled because a compile gains nothing
    only: tuple[str, ...] = ()  # the modules that are compiled, by vesta.compile(only=...); nothing else is
    hits: int = 0
    misses: int = 0

    @property
    def guards(self) -> tuple[Guard, ...]:
        return tuple(guard for graph in self.graphs for guard in graph.guards)

    @property
    def op_count(self) -> int:
        return sum(graph.op_count for graph in self.graphs)

    @property
    def total_ms(self) -> float:
        return sum(graph.total_ms for graph in self.graphs)

    def __str__(self) -> str:
        return "\n".join(lines_of(self))


def explain_captured(captured: _C.CapturedFunction) -> Captured:
    """The report on a captured function so far."""
    return read(captured.report(), captured.wrapped)


def read(report: _C.CaptureReport, wrapped: Any = None) -> Captured:
    """The native report on ``wrapped``, with the text of each line that it names."""
    graphs = tuple(graph_of(s, v) for s in report.segments for v in s.variants)
    return Captured(
        name=report.name,
        where=line_of(report.where) or definition_of(wrapped),
        graphs=graphs,
        breaks=together([g.stop for g in graphs if g.stop is not None]),
        recompiles=tuple(recompile_of(r) for r in report.recompiles),
        fallbacks=tuple(report.fallbacks),
        skipped=tuple(Skipped(line_of(s.where), s.skipped, s.skipped_name) for s in report.segments if s.skipped),
        slower=tuple(part for s in report.segments for part in slower_parts(s)),
        failures=tuple(Skipped(line_of(s.where), text, "trace-failed") for s in report.segments for text in s.failures),
        calls=report.calls,
        call_us=report.call_us,
        aside=report.aside,
        only=tuple(report.only),
        hits=report.hits,
        misses=report.misses,
    )


def graph_of(segment: _C.CaptureSegment, variant: _C.CaptureVariant) -> Graph:
    stages = list(variant.stages) + (list(variant.compiled.stages) if variant.compiled else [])
    sizes = variant.compiled.guards if variant.compiled else []
    return Graph(
        where=line_of(segment.where),
        ops={o.op: o.count for o in variant.ops},
        guards=tuple(
            [Guard(g.text, g.kind, line_of(g.where), g.failed) for g in variant.guards]
            + [Guard(text, "size", where) for text, where in map(apart, sizes)]
        ),
        effects=tuple(variant.effects),
        end=variant.end,
        stop=break_of(variant.stop) if variant.stop else None,
        ms={s.name: s.ms for s in stages},
        total_ms=variant.total_ms,
        hits=variant.hits,
        compiled=variant.compiled,
        trains=variant.trains,
        backward=tuple(variant.backward),
        backward_failures=tuple(variant.backward_failures),
        activations=variant.activations,
        pending=variant.pending,
        tier=variant.tier,
        early_hits=variant.early_hits,
        python_us=variant.python_us,
        early_us=variant.early_us,
        steps=tuple(variant.steps),
        variant=variant.id,
        outputs=variant.outputs,
        output_bytes=variant.output_bytes,
    )


def backward_line(g: Graph) -> str:
    kernels = several(sum(len(half.kernels) for half in g.backward), "kernel")
    calls = several(sum(half.ops_extern for half in g.backward), "call")
    ran = f"{kernels}, {calls} into ATen" if g.backward else "has not run yet"
    return f"backward: {ran}; saves {byte_text(g.saved_bytes)} for it (eager {byte_text(g.eager_saved_bytes)})"


def activation_lines(a: _C.ActivationReport) -> Iterator[str]:
    """What is saved for the backward pass and why, and what that computes again instead."""
    if a.limit is not None:
        yield f"activation_memory allows {byte_text(a.limit)}" + ("" if a.is_reached else ": not reached")
    groups: dict[tuple[str, str], list[int]] = {}
    for saved in a.saved:
        groups.setdefault((saved.op or "an input", saved.why), []).append(saved.bytes)
    largest = sorted(groups.items(), key=lambda group: -sum(group[1]))
    for (op, why), sizes in largest[:SHOWN_SAVED]:
        times = f" {len(sizes)} times," if len(sizes) > 1 else ""
        yield f"saved: {op},{times} {byte_text(sum(sizes))}; {why}"
    if len(largest) > SHOWN_SAVED:
        rest = largest[SHOWN_SAVED:]
        count, total = sum(len(sizes) for _, sizes in rest), sum(sum(sizes) for _, sizes in rest)
        yield f"saved: {several(count, 'tensor')} more, {byte_text(total)}"
    if a.again:
        counts = Counter(again.op for again in a.again).most_common()
        ops = ", ".join(f"{op} {n}" if n > 1 else op for op, n in counts[:SHOWN_OPERATORS])
        yield f"computed again: {ops}" + (", ..." if len(counts) > SHOWN_OPERATORS else "")
    if a.saved or a.again:
        yield (
            f"estimated: {a.again_us / 1000:.3f} ms to compute again and {a.load_us / 1000:.3f} ms to load what is "
            f"saved; eager loads for {a.eager_load_us / 1000:.3f} ms"
        )


def break_of(stop: _C.CaptureBreak) -> Break:
    where = line_of(stop.where)
    stack = tuple(place for place in map(line_of, stop.stack) if place != where)
    return Break(where, stop.reason, stop.hint, stop.instruction, stop.count, stack, stop.name)


def line_of(place: _C.UserLine) -> Line:
    return line_at(place.file, place.line, place.function)


def line_at(file: str, line: int, function: str = "") -> Line:
    return Line(file, line, function, linecache.getline(file, line).strip() if file else "")


def apart(text: str) -> tuple[str, Line]:
    """Splits the text of a guard on sizes into the guard and the place at its end, if there is one."""
    found = re.fullmatch(r"(.*) \((.+):(\d+)\)", text)
    return (found[1], line_at(found[2], int(found[3]))) if found else (text, Line())


# A graph reports a failed guard with the expected and the actual value in one text.
CHANGES = (
    re.compile(r"(?P<guard>.*?)(?: is)? (?P<now>[^ ]+) instead of (?P<was>[^ ]+)"),
    re.compile(r"(?P<guard>.*) does not hold \((?P<now>.*) and .*\)"),
)


def recompile_of(r: _C.CaptureRecompile) -> Recompile:
    guard, was, now = r.guard, r.was, r.now
    found = None if was or now else next((m for c in CHANGES if (m := c.fullmatch(guard))), None)
    if found:
        guard, was, now = found["guard"], found.groupdict().get("was", ""), found["now"]
    guard, asked = apart(guard)
    return Recompile(guard, was, now, line_of(r.where) or asked, line_of(r.segment), r.ms)


def definition_of(wrapped: Any) -> Line:
    """The first line of the function that a call of ``wrapped`` runs."""
    if isinstance(wrapped, torch.nn.Module):
        wrapped = wrapped.forward
    elif isinstance(wrapped, functools.partial):
        wrapped = wrapped.func
    elif not isinstance(wrapped, types.FunctionType | types.MethodType):
        wrapped = inspect.getattr_static(wrapped, "__call__", None)
    code = getattr(wrapped, "__code__", None)
    if not isinstance(code, types.CodeType):
        return Line()
    return line_at(code.co_filename, code.co_firstlineno, code.co_qualname)


def together(breaks: Sequence[Break]) -> tuple[Break, ...]:
    """Merges breaks at one place with one reason and adds their counts."""
    counts: dict[Break, int] = {}
    for b in breaks:
        alike = replace(b, count=0)
        counts[alike] = counts.get(alike, 0) + b.count
    return tuple(replace(b, count=n) for b, n in counts.items())


def slower_parts(segment: _C.CaptureSegment) -> Iterator[Slower]:
    if segment.slower:
        yield Slower(line_of(segment.where), f"it took {segment.slower}", segment.uncompiled)
    if segment.rest_slower:
        reason = f"from here to the end of the call, it took {segment.rest_slower}"
        yield Slower(line_of(segment.where), reason, segment.rest_uncompiled)


def lines_of(c: Captured) -> Iterator[str]:
    title = f"{c.name} ({c.where})" if c.where else c.name
    yield title
    yield "=" * len(title)
    yield (
        f"{several(c.calls, 'call')}; {several(len(c.graphs), 'graph')}, {several(c.op_count, 'operator')}, "
        f"{several(len(c.breaks), 'break')}, {several(len(c.guards), 'guard')}, "
        f"{several(len(c.recompiles), 'recompile')}; {c.total_ms:.1f} ms to compile"
    )
    if c.call_us and any(g.compiled and g.compiled.strategy for g in c.graphs):
        yield f"a call takes {c.call_us:.3g} us, the mean since the last compile"
    if c.aside:
        yield f"{several(c.aside, 'call')} ran uncompiled: compiled code would not be faster than eager"
    if c.only:
        yield only_line(c.only)
    for i, graph in enumerate(c.graphs, 1):
        yield ""
        yield from graph_lines(i, graph)
    yield from section("Graph breaks: Python runs these lines between graphs", [break_lines(b) for b in c.breaks])
    yield from section("Recompiles", [recompile_lines(r) for r in c.recompiles])
    yield from section("Not compiled: code that Python runs", [[f"{s.where}  {s.reason}"] for s in c.skipped])
    yield from section(
        "Left to Python: parts that are slower compiled",
        [[f"{s.where}  {s.reason}; {several(s.runs, 'run')} uncompiled"] for s in c.slower],
    )
    yield from section("Traces that failed", [[f"{s.where}  {s.reason}"] for s in c.failures])
    yield from section("Calls that ran eager", [[f"{several(f.count, 'time')}: {f.reason}"] for f in c.fallbacks])


def only_line(names: Sequence[str]) -> str:
    more = ", ..." if len(names) > SHOWN_MODULES else ""
    return f"compiled of its modules: {', '.join(names[:SHOWN_MODULES])}{more}"


def section(heading: str, entries: Sequence[Iterable[str]]) -> Iterator[str]:
    if entries:
        yield ""
        yield heading
        for lines in entries:
            yield from (f"  {line}" for line in lines)


def graph_lines(number: int, g: Graph) -> Iterator[str]:
    yield f"Graph {number}, {several(g.hits, 'hit')}"
    yield f"  from  {at(g.where)}".rstrip()
    yield f"  to    {at(g.stop.where) if g.stop else g.end}"
    by_count = sorted(g.ops.items(), key=lambda x: -x[1])
    ops = ", ".join(f"{op} {n}" if n > 1 else op for op, n in by_count[:SHOWN_OPERATORS])
    more = ", ..." if len(by_count) > SHOWN_OPERATORS else ""
    yield f"  {several(g.op_count, 'operator')}" + (f": {ops}{more}" if ops else "")
    yield from tier_lines(g)
    if g.compiled:
        cached = f" ({g.compiled.cached_kernels} from the cache)" if g.compiled.cached_kernels else ""
        cached = " (found in the cache)" if g.compiled.cached else cached
        kernels = several(len(g.compiled.kernels), "kernel")
        reasons = {e.reason for e in g.compiled.externs}
        why = f": {reasons.pop()}" if len(reasons) == 1 and not g.compiled.kernels else ""
        yield f"  {kernels}{cached}, {several(g.compiled.ops_extern, 'call')} into ATen{why}"
        if g.trains:
            yield f"  {backward_line(g)}"
            yield from (f"    {line}" for line in activation_lines(g.activations))
            for why in g.backward_failures:
                yield f"  a backward half runs as calls of its operators: {why}"
        if g.compiled.plan_memory:
            took = {"graph": g.compiled.graph_memory, "plan": g.compiled.plan_memory, "LLVM": g.compiled.kernel_memory}
            yield "  memory of the compile: " + ", ".join(f"{what} {byte_text(n)}" for what, n in took.items())
        if g.compiled.strategy:
            yield from strategy_lines(g.compiled.strategy, g)
        if g.compiled.tuning:
            yield f"  tuning: {g.compiled.tuning}"
        if g.compiled.graphs:
            yield f"  CUDA graphs: {g.compiled.graphs}"
    miss = g.miss
    if miss and miss.nearest:
        yield f"  not found in the cache; the nearest entry, {miss.nearest}, differs in"
        yield from (f"  {line}" for difference in miss.differences for line in str(difference).splitlines())
    if g.ms:
        yield f"  {g.total_ms:.1f} ms: " + ", ".join(f"{stage} {ms:.1f}" for stage, ms in g.stages.items())
    if g.effects:
        yield f"  written after the graph: {', '.join(g.effects)}"
    if g.guards:
        yield "  guards"
        shown = shown_guards(g.guards)
        width = min(max((len(text) for text, _ in shown), default=0), 60)
        yield from (f"    {text:{width}}  {place}".rstrip() for text, place in shown)
        if len(g.guards) > len(shown):
            yield (
                f"    and {len(g.guards) - len(shown)} more"
                if shown
                else f"    {len(g.guards)}, all on torch's own code"
            )


TIERS = ("calls run in Python", "calls into ATen", "machine code", "machine code that was tuned")


def tier_lines(g: Graph) -> Iterator[str]:
    if g.pending:
        yield "  the compile goes on in the background (vesta.wait waits for it)"
    if g.pending or g.compiled:
        yield f"  tier {g.tier}: {TIERS[g.tier]}" + (" until the compile has ended" if g.pending else "")
    if g.early_hits:
        yield f"  {several(g.early_hits, 'hit')} in tier 1, before the machine code was made"
    if g.python_us and g.early_us:
        yield f"  a call took {g.python_us:.3g} us in tier 0 and {g.early_us:.3g} us in tier 1"


def strategy_lines(s: _C.StrategyReport, g: Graph) -> Iterator[str]:
    yield f"  strategy: {s.chosen}; {s}"
    made = sum(ms for stage, ms in g.stages.items() if stage in ("codegen", "assemble", "load"))
    yield f"  outcome: {made:.3g} ms to make it after the plan"


def shown_guards(guards: Sequence[Guard]) -> list[tuple[str, str]]:
    """The text and place of the guards worth showing: on sizes, and on values that the program itself reads."""
    lines: dict[tuple[str, str], None] = {}
    for guard in sorted(guards, key=lambda guard: guard.kind != "size"):
        if guard.kind == "size" or not (guard.where.file.startswith(TORCH) or guard.text.endswith(" does not exist")):
            failed = f"failed {several(guard.failed, 'time')}  " if guard.failed else ""
            lines[re.sub(r" at 0x[0-9a-f]+", "", guard.text), failed + at(guard.where)] = None
    return list(lines)[:SHOWN_GUARDS]


def break_lines(b: Break) -> Iterator[str]:
    for i, place in enumerate([*b.stack, b.where]):
        yield "  " * i + at(place)
    yield f"  {several(b.count, 'time')}: {b.reason}"
    if b.hint:
        yield f"  what to do: {b.hint}"
    if b.documentation:
        yield f"  see {b.documentation}"


def recompile_lines(r: Recompile) -> Iterator[str]:
    took = f"{r.ms:.1f} ms" if r.ms else "it ran eager; no variant was made"
    change = f": {r.was} became {r.now}" if r.was else f": it is {r.now}" if r.now else ""
    yield f"{r.guard} failed{change} ({took})"
    if r.where:
        yield f"  read at {at(r.where)}"


def at(place: Line) -> str:
    if not place:
        return ""
    return f"{place}  {place.text}" if place.text else f"{place} in {place.function}" if place.function else str(place)


def several(n: int, what: str) -> str:
    return f"{n} {what}" if n == 1 else f"{n} {what}s"
