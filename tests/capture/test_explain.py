"""vesta.explain(f)(*args): what the compiler reports of a captured function, as fields and as text."""

from __future__ import annotations

from types import SimpleNamespace as Record

import pytest
import torch

import vesta
from tests.capture import capture_page
from vesta import _C, explain_capture


def program(x, log):
    y = x.sin() * 2
    print(y.shape)
    if y.shape[0] * 2 < 16:
        y = y + 1
    return y


def place(offset):
    return Record(file=__file__, line=program.__code__.co_firstlineno + offset, function="program")


NOWHERE = Record(file="", line=0, function="")


def report(guards=2):
    """As python/bindings gives it."""
    compiled = Record(
        kernels=[1, 2],
        cached_kernels=1,
        cached=False,
        ops_extern=3,
        externs=[],
        graph_memory=1 << 20,
        plan_memory=4 << 20,
        kernel_memory=3 << 19,
        graphs="recorded 1 times",  # as a GraphReport says it; None for the CPU
        strategy=None,
        tuning="2 kernels measured",  # empty outside max-autotune
        guards=[f"x.size(0) >= 2 ({__file__}:{place(3).line})"],
        stages=[
            Record(name="pass:views", ms=0.25),
            Record(name="pass:linear", ms=0.25),
            Record(name="codegen", ms=3.0),
        ],
    )
    stop = Record(
        where=place(2),
        stack=[],
        instruction="CALL print",
        name="print",
        reason="print writes",
        hint="move it",
        count=4,
    )
    first = Record(
        ops=[Record(op="aten.sin", count=1), Record(op="aten.mul", count=2)],
        compiled=compiled,
        guards=[Record(kind="tensor", text="x is float32", where=place(0), failed=0)] * guards,
        effects=["list.append on log"],
        end="break",
        stop=stop,
        stages=[Record(name="trace", ms=1.25)],
        total_ms=5.0,
        hits=3,
        pending=False,
        tier=2,
        trains=False,
        backward=[],
        backward_failures=[],
        activations=_C.ActivationReport(),
        early_hits=4,
        python_us=12.5,
        early_us=8.25,
        steps=[],
        id=7,
        outputs=0,
        output_bytes=-1,
    )
    guard = Record(kind="shape", text="2*x.size(0) >= 16", where=place(3), failed=1)
    second = Record(
        ops=[],
        compiled=None,
        guards=[guard],
        effects=[],
        end="return",
        stop=None,
        stages=[],
        total_ms=0.25,
        hits=2,
        pending=False,
        tier=0,
        trains=False,
        backward=[],
        backward_failures=[],
        activations=_C.ActivationReport(),
        early_hits=0,
        python_us=0.0,
        early_us=0.0,
        steps=[],
        id=7,
        outputs=0,
        output_bytes=-1,
    )
    return Record(
        name="program",
        where=place(0),
        only=[],
        segments=[
            Record(
                where=place(1),
                offset=0,
                variants=[first, first],
                skipped="",
                skipped_name="",
                failures=["no memory"],
                slower="3.1 us compiled and 1.2 us uncompiled",
                uncompiled=7,
                rest_slower="",
                rest_uncompiled=0,
            ),
            Record(
                where=place(3),
                offset=20,
                variants=[second],
                skipped="32 variants",
                skipped_name="too-many-variants",
                failures=[],
                slower="",
                uncompiled=0,
                rest_slower="9 us compiled and 8 us uncompiled",
                rest_uncompiled=1,
            ),
        ],
        recompiles=[
            Record(segment=place(3), guard="x.size(0) == 8", was="8", now="9", where=place(3), ms=2.0),
            Record(segment=place(1), guard="x is float32", was="float32", now="float64", where=NOWHERE, ms=0),
        ],
        fallbacks=[Record(reason="gradients", count=2)],
        calls=9,
        call_us=3.5,
        aside=2,
        hits=7,
        misses=2,
    )


def test_fields():
    captured = explain_capture.read(report())
    assert captured.name == "program" and captured.where.text == "def program(x, log):"
    assert len(captured.graphs) == 3 and captured.op_count == 6 and len(captured.guards) == 7
    assert captured.total_ms == 10.25 and (captured.calls, captured.aside, captured.hits, captured.misses) == (
        9,
        2,
        7,
        2,
    )
    graph = captured.graphs[0]
    assert graph.ops == {"aten.sin": 1, "aten.mul": 2} and graph.effects == ("list.append on log",)
    assert graph.ms == {"trace": 1.25, "pass:views": 0.25, "pass:linear": 0.25, "codegen": 3.0}
    assert graph.stages == {"trace": 1.25, "passes": 0.5, "codegen": 3.0}
    assert graph.stop.where.text == "print(y.shape)"
    (stop,) = captured.breaks  # of two variants
    assert (stop.reason, stop.hint, stop.count, stop.instruction) == ("print writes", "move it", 8, "CALL print")
    assert stop.where.line == place(2).line and stop.where.file == __file__
    assert captured.recompiles[0].was == "8" and captured.recompiles[0].where.text == "if y.shape[0] * 2 < 16:"
    assert not captured.recompiles[1].where
    (skipped,) = captured.skipped
    assert (skipped.reason, skipped.name) == ("32 variants", "too-many-variants")
    part, rest = captured.slower
    assert (part.reason, part.runs) == ("it took 3.1 us compiled and 1.2 us uncompiled", 7)
    assert (rest.reason, rest.runs) == (
        "from here to the end of the call, it took 9 us compiled and 8 us uncompiled",
        1,
    )
    assert (stop.name, stop.documentation) == ("print", "docs/breaks.md#print")
    assert captured.fallbacks[0].reason == "gradients"


def test_text():
    line = place(0).line
    assert str(explain_capture.read(report())) == "\n".join(
        [
            f"program (test_explain.py:{line})",
            "=" * len(f"program (test_explain.py:{line})"),
            "9 calls; 3 graphs, 6 operators, 1 break, 7 guards, 2 recompiles; 10.2 ms to compile",
            "2 calls ran uncompiled: compiled code would not be faster than eager",
            *(
                text
                for number in (1, 2)
                for text in (
                    "",
                    f"Graph {number}, 3 hits",
                    f"  from  test_explain.py:{line + 1}  y = x.sin() * 2",
                    f"  to    test_explain.py:{line + 2}  print(y.shape)",
                    "  3 operators: aten.mul 2, aten.sin",
                    "  tier 2: machine code",
                    "  4 hits in tier 1, before the machine code was made",
                    "  a call took 12.5 us in tier 0 and 8.25 us in tier 1",
                    "  2 kernels (1 from the cache), 3 calls into ATen",
                    "  memory of the compile: graph 1.0 MiB, plan 4.0 MiB, LLVM 1.5 MiB",
                    "  tuning: 2 kernels measured",
                    "  CUDA graphs: recorded 1 times",
                    "  5.0 ms: trace 1.2, passes 0.5, codegen 3.0",
                    "  written after the graph: list.append on log",
                    "  guards",
                    f"    x.size(0) >= 2  test_explain.py:{line + 3}  if y.shape[0] * 2 < 16:",
                    f"    x is float32    test_explain.py:{line}  def program(x, log):",
                    "    and 1 more",
                )
            ),
            "",
            "Graph 3, 2 hits",
            f"  from  test_explain.py:{line + 3}  if y.shape[0] * 2 < 16:",
            "  to    return",
            "  0 operators",
            "  guards",
            f"    2*x.size(0) >= 16  failed 1 time  test_explain.py:{line + 3}  if y.shape[0] * 2 < 16:",
            "",
            "Graph breaks: Python runs these lines between graphs",
            f"  test_explain.py:{line + 2}  print(y.shape)",
            "    8 times: print writes",
            "    what to do: move it",
            "    see docs/breaks.md#print",
            "",
            "Recompiles",
            "  x.size(0) == 8 failed: 8 became 9 (2.0 ms)",
            f"    read at test_explain.py:{line + 3}  if y.shape[0] * 2 < 16:",
            "  x is float32 failed: float32 became float64 (it ran eager; no variant was made)",
            "",
            "Not compiled: code that Python runs",
            f"  test_explain.py:{line + 3}  32 variants",
            "",
            "Left to Python: parts that are slower compiled",
            f"  test_explain.py:{line + 1}  it took 3.1 us compiled and 1.2 us uncompiled; 7 runs uncompiled",
            f"  test_explain.py:{line + 3}  from here to the end of the call, it took 9 us compiled and 8 us uncompiled"
            "; 1 run uncompiled",
            "",
            "Traces that failed",
            f"  test_explain.py:{line + 1}  no memory",
            "",
            "Calls that ran eager",
            "  2 times: gradients",
        ]
    )


@pytest.mark.parametrize(
    ("text", "guard", "was", "now"),
    [
        ("input 0 (x): dtype Double instead of Float", "input 0 (x): dtype", "Float", "Double"),
        ("input 1 (w): size 0 is 48 instead of 32", "input 1 (w): size 0", "32", "48"),
        (f"2*a.size(0) >= 16 ({__file__}:2) does not hold (8 and 16)", "2*a.size(0) >= 16", "", "8"),
        ("autocast", "autocast", "", ""),
    ],
)
def test_what_changed_is_told_apart(text, guard, was, now):
    recompile = explain_capture.recompile_of(
        Record(segment=place(0), guard=text, was="", now="", where=NOWHERE, ms=1.0)
    )
    assert (recompile.guard, recompile.was, recompile.now) == (guard, was, now)
    assert recompile.where.line == (2 if __file__ in text else 0)


def test_many_guards_are_counted():
    text = str(explain_capture.read(report(guards=300)))
    assert "    and 299 more" in text and text.count("x is float32") == 3


@pytest.fixture
def reported(monkeypatch):
    class Captured:
        def __init__(self, wrapped, options, name, fullgraph, only, skip):
            self.wrapped = wrapped

        def __call__(self, *args, **kwargs):
            return self.wrapped(*args, **kwargs)

        def report(self):
            return report()

        def reset(self):
            pass

    monkeypatch.setattr(_C, "capture", Captured, raising=False)


def test_the_explainer_calls_and_explains(reported):
    def f(x):
        return x + 1

    for function in (f, vesta.compile(f), vesta.compile(torch.nn.Tanh()), torch.nn.Tanh()):
        explain = vesta.explain(function)
        explanation = explain(torch.zeros(2))
        assert isinstance(explanation, vesta.Explanation) and explain.result.shape == (2,)
        assert len(explanation.graphs) == 3 and len(explanation.breaks) == 1 and len(explanation.guards) == 7
        assert len(explanation.recompiles) == 2 and explanation.fallbacks[0].count == 2
        assert "Graph 3" in str(explanation) and str(explain) == str(explanation)

    class Thing:
        @vesta.compile
        def method(self, x):
            return x

    assert vesta.explain(Thing().method)(1).captures[0].name == "program"
    compiled = vesta.compile(f)
    assert compiled(1) == 2 and "program" in [c.name for c in vesta.explain().captures]


def test_what_cannot_be_explained(reported):
    for thing in (3, torch.nn.Tanh, "f"):
        with pytest.raises(vesta.errors.UserError, match="takes a function, method or module"):
            vesta.explain(thing)
    with pytest.raises(vesta.errors.UserError, match="no Python code"):
        vesta.explain(len)


@pytest.mark.kernels
@pytest.mark.skipif(not hasattr(_C, "capture"), reason="this build has no capture of Python functions")
def test_the_page_shows_what_is_printed():
    assert capture_page.story(capture_page.written()) == capture_page.story(capture_page.example())
