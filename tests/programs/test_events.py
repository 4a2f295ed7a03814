"""vesta.events: what is recorded, how events are joined, and the files that are made of them."""

from __future__ import annotations

import json
import os
import threading
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
from tests import processes
from tests.build import generates_code
from vesta import _C
from vesta.command import main
from vesta.events import read_events


def inner(x: torch.Tensor) -> torch.Tensor:
    return x.cos() * 3


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    print(end="")
    return inner(y).sum(-1)


def recorded_calls(sizes: tuple[int, ...] = (4, 4, 5)) -> vesta.Events:
    vesta.wait()
    compiled = vesta.compile(broken, options={"cache": False})
    with vesta.events(True) as recorded:
        for n in sizes:
            compiled(torch.randn(n, 8))
    return recorded


def of_type(recorded: vesta.Events, *types: str) -> list[vesta.Event]:
    return [e for e in recorded if e.type in types]


def test_nothing_is_recorded_unless_asked_for() -> None:
    with vesta.events(True):
        pass
    vesta.compile(broken)(torch.randn(4, 8))
    assert len(vesta.events()) == 0


def test_one_recording_at_a_time() -> None:
    with vesta.events(True) as recorded:
        with pytest.raises(vesta.errors.UserError, match="recorded already"):
            vesta.events(True)
        vesta.compile(broken)(torch.randn(4, 8))
        assert len(recorded) > 0
    frozen = list(recorded)
    vesta.events(True)
    assert list(recorded) == frozen
    assert len(vesta.events(False)) == 0


def test_every_id_is_joined() -> None:
    recorded = recorded_calls()
    calls = {e.call for e in of_type(recorded, "call")}
    frames = {e.frame: e.call for e in of_type(recorded, "frame")}
    assert len(calls) == len(frames) == 3
    assert set(frames.values()) == calls
    runs, captures = of_type(recorded, "run"), of_type(recorded, "capture")
    assert len(runs) == 6
    assert len(captures) == 4  # two segments, two sizes
    segments: dict[int, set[int]] = defaultdict(set)
    for e in captures:
        segments[e.segment].add(e.variant)
    assert len(segments) == 2
    for e in runs:
        assert frames[e.frame] == e.call
        assert e.variant in segments[e.segment]
    variants = {e.variant: e for e in captures}
    assert len(variants) == 4
    made = of_type(recorded, "stage", "kernel", "break", "recompile")
    assert made
    for e in made:
        capture = variants[e.variant]
        assert (e.call, e.frame, e.segment) == (capture.call, capture.frame, capture.segment)
    for variant in variants:
        stages = {e.name for e in of_type(recorded, "stage") if e.variant == variant}
        assert {"trace", "passes", "plan", "codegen", "assemble", "load"} <= stages
        kernels = [e for e in of_type(recorded, "kernel") if e.variant == variant]
        details = {e.detail for e in kernels}
        assert {"loaded"} < details <= {"loaded", "compiled", "in process"} if generates_code() else not details
        assert all(e.kernel and e.entry == e.kernel for e in kernels)
    assert {e.name for e in of_type(recorded, "break")} == {"print"}
    assert len(of_type(recorded, "recompile")) == 2


ENTRIES = """
import torch, vesta
with vesta.events(True) as recorded:
    vesta.compile(lambda x: (x.sin() + 1).sum(-1))(torch.ones(4, 8))
for e in recorded:
    if e.type in ("entry", "kernel"):
        print(e.type, e.detail.replace(" ", "_"), e.entry, e.kernel or "-")
"""


@pytest.mark.slow
@pytest.mark.kernels
def test_entries_of_the_store_are_joined(tmp_path: Path) -> None:
    env = {**processes._ENVIRONMENT, "VESTA_CACHE_DIR": str(tmp_path)}
    cold, warm = ([line.split() for line in processes.run(ENTRIES, env=env).stdout.splitlines()] for _ in range(2))
    artifact, kernel = cold[0][2], next(line[3] for line in cold if line[:2] == ["kernel", "compiled"])
    assert cold == [
        ["entry", "missed", artifact, "-"],
        ["entry", "missed", kernel, "-"],
        ["entry", "written", kernel, "-"],
        ["kernel", "compiled", kernel, kernel],
        ["entry", "written", artifact, "-"],
        ["kernel", "loaded", kernel, kernel],
    ]
    assert warm == [["entry", "found", artifact, "-"], ["kernel", "loaded", kernel, kernel]]


def test_nested_compiled_functions_are_frames_of_one_call() -> None:
    within = vesta.compile(inner)

    @torch._dynamo.disable
    def between(x: torch.Tensor) -> torch.Tensor:
        return within(x)

    def outer(x: torch.Tensor) -> torch.Tensor:
        return between(x.sin()) + 1

    with vesta.events(True) as recorded:
        vesta.compile(outer)(torch.randn(8))
    (call,) = of_type(recorded, "call")
    assert {e.call for e in recorded} == {call.call}
    assert {e.name.split(":")[0].rsplit(".")[-1] for e in of_type(recorded, "frame")} >= {"inner", "outer"}


def test_background_compiles_belong_to_the_call_that_began_them() -> None:
    compiled = vesta.compile(broken, options={"background": True, "cache": False})
    _C.inject_fault("plan", "delay", 0.3)  # the call does not find it done
    try:
        with vesta.events(True) as recorded:
            compiled(torch.randn(6, 8))
            assert vesta.wait(timeout=60)
    finally:
        _C.inject_fault("plan", "none")
    call = of_type(recorded, "call")[0]
    codegen = next(e for e in of_type(recorded, "stage") if e.name == "codegen")
    assert codegen.call == call.call
    assert codegen.thread != call.thread
    assert codegen.thread_name == "vesta compile"
    assert any("in the background" in e.detail for e in of_type(recorded, "eager"))


def test_cpp_entry() -> None:
    compiled = vesta.trace_and_compile(lambda x: x.sin() + 1)
    with vesta.events(True) as recorded:
        for _ in range(2):
            compiled(torch.randn(4))
    first, second = of_type(recorded, "run")
    (capture,) = of_type(recorded, "capture")
    assert first.call != second.call
    assert (first.segment, first.variant) == (second.segment, second.variant) == (capture.segment, capture.variant)
    assert {e.variant for e in of_type(recorded, "stage")} == {capture.variant}


def test_eager_calls_have_their_reason() -> None:
    compiled = vesta.compile(inner)
    with vesta.events(True) as recorded, torch.compiler.set_stance("force_eager"):
        compiled(torch.randn(4))
    assert [(e.type, e.detail) for e in recorded] == [("eager", "torch.compiler.set_stance forces eager mode")]


def check_trace(path: Path) -> list[dict[str, object]]:
    """The spans of a trace, which nest on each track; every track has a name."""
    trace = json.loads(path.read_text())["traceEvents"]
    named = {(e["pid"], e.get("tid")) for e in trace if e["ph"] == "M"}
    spans = [e for e in trace if e["ph"] == "X"]
    around = {(e["cat"], e["args"][e["cat"]]): e for e in spans if e["cat"] in ("call", "frame")}
    for e in spans:
        for kind in ("frame",) if e["cat"] == "run" else ("call",) if e["cat"] == "frame" else ():
            outer = around[kind, e["args"][kind]]
            assert outer["ts"] <= e["ts"]
            assert e["ts"] + e["dur"] <= outer["ts"] + outer["dur"] + 0.001
    tracks = defaultdict(list)
    for e in trace:
        assert e["ph"] in "XiM"
        if e["ph"] == "M":
            continue
        assert {(e["pid"], None), (e["pid"], e["tid"])} <= named
        assert e["ts"] >= 0
        tracks[e["pid"], e["tid"]].append((e["ts"], e["ts"] + e.get("dur", 0)))
    for track in tracks.values():
        open_spans: list[float] = []
        for begin, end in sorted(track, key=lambda t: (t[0], -t[1])):
            while open_spans and open_spans[-1] <= begin:
                open_spans.pop()
            assert not open_spans or end <= open_spans[-1] + 0.001
            open_spans.append(end)
    return spans


def test_trace_file(tmp_path: Path) -> None:
    recorded = recorded_calls()
    recorded.save(tmp_path / "trace.json")
    spans = check_trace(tmp_path / "trace.json")
    assert len(spans) == sum(e.us > 0 for e in recorded)
    by_group = defaultdict(set)
    for e in spans:
        by_group[e["pid"]].add(e["cat"])
    assert {"call", "frame", "run"} in by_group.values()
    made = {"capture", "stage", *(["kernel"] if generates_code() else [])}
    assert any(made <= kinds for kinds in by_group.values())
    compile_threads = {e["tid"] for e in spans if e["name"] == "codegen"}
    assert compile_threads.isdisjoint(e["tid"] for e in spans if e["cat"] == "call")
    for e in spans:
        assert e["args"]["call"] > 0  # type: ignore[index]


def half_as_long(events: list[dict[str, Any]]) -> None:
    next(e for e in events if e.get("cat") == "frame")["dur"] *= 0.5


def half_as_long_again(events: list[dict[str, Any]]) -> None:
    next(e for e in events if e.get("cat") == "frame")["dur"] *= 1.5


def into_the_next_span(events: list[dict[str, Any]]) -> None:
    passes = next(e for e in events if e["name"] == "passes")
    after = (e for e in events if e["name"] == "codegen" and e["tid"] == passes["tid"] and e["ts"] > passes["ts"])
    codegen = min(after, key=lambda e: e["ts"])
    passes["dur"] = codegen["ts"] + codegen["dur"] / 2 - passes["ts"]


@pytest.mark.parametrize(
    "damage", [half_as_long, half_as_long_again, pytest.param(into_the_next_span, marks=pytest.mark.kernels)]
)
def test_a_trace_can_be_told_from_a_wrong_one(tmp_path: Path, damage: Callable[[list[dict[str, Any]]], None]) -> None:
    recorded_calls().save(tmp_path / "trace.json")
    trace = json.loads((tmp_path / "trace.json").read_text())
    damage(trace["traceEvents"])
    (tmp_path / "wrong.json").write_text(json.dumps(trace))
    with pytest.raises(AssertionError):
        check_trace(tmp_path / "wrong.json")


def test_json_lines_can_be_read_again(tmp_path: Path) -> None:
    recorded = recorded_calls()
    recorded.save(tmp_path / "events.jsonl")
    assert list(read_events(tmp_path / "events.jsonl")) == list(recorded)
    with pytest.raises(vesta.errors.UserError, match=r"\.jsonl .*\.json "):
        recorded.save(tmp_path / "events.txt")
    (tmp_path / "other.jsonl").write_text("{}\n")
    with pytest.raises(vesta.errors.UserError, match="no events"):
        read_events(tmp_path / "other.jsonl")


def test_text_counts_by_type() -> None:
    lines = str(recorded_calls()).splitlines()
    assert lines[0].endswith(" events")
    assert any(line.split()[:2] == ["run", "6"] for line in lines)


OF_ENVIRONMENT = """
import os, torch, vesta
f = vesta.compile(lambda x: x.sin() + 1)
f(torch.ones(4))
if os.fork() == 0:
    f(torch.ones(4))
    os._exit(0)
os.wait()
"""


def test_file_of_the_environment(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, trace = tmp_path / "events.jsonl", tmp_path / "trace.json"
    env = {**processes._ENVIRONMENT, "VESTA_EVENTS": str(file)}
    assert processes.run(OF_ENVIRONMENT, env=env).returncode == 0
    recorded = read_events(file)
    parent, child = recorded[0].process, recorded[-1].process
    assert parent != child
    assert [e.process for e in of_type(recorded, "run")] == [parent, child]
    assert {e.thread for e in recorded if e.process == child} == {child}
    assert main(["events", str(file), str(trace)]) == 0
    assert f"{trace}: {len(recorded)} events" in capsys.readouterr().out
    check_trace(trace)
    assert main(["events", str(tmp_path / "none.jsonl"), str(trace)]) == 2
    assert main(["events", str(file), str(trace), "--json"]) == 0


def test_a_file_that_cannot_be_written_is_named() -> None:
    env = {**processes._ENVIRONMENT, "VESTA_EVENTS": "/nonexistent/events.jsonl"}
    done = processes.run(OF_ENVIRONMENT, env=env)
    assert done.returncode == 0
    assert "VESTA_EVENTS: events are not recorded: /nonexistent/events.jsonl: No such file or directory" in done.stderr


def test_threads_record() -> None:
    # A call that runs uncompiled to be measured has no event.
    compiled = vesta.compile(lambda x: (x.cos() * 3).exp().sum(), options={"only_if_faster": False})
    x = torch.randn(8)
    compiled(x)

    def work() -> None:
        for _ in range(100):
            compiled(x)

    with vesta.events(True) as recorded:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
    by_thread = defaultdict(set)
    for e in of_type(recorded, "run"):
        by_thread[e.thread].add(e.call)
    assert sum(map(len, by_thread.values())) == 400
    assert recorded[0].process == os.getpid()
    assert recorded.dropped == 0


def test_a_failed_compile_leaves_its_stages() -> None:
    _C.inject_fault("plan", "throw")
    try:
        with vesta.events(True) as recorded:
            vesta.compile(lambda x: x.tan() + 1, options={"cache": False})(torch.randn(4))
    finally:
        _C.inject_fault("plan", "none")
    names = [e.name for e in of_type(recorded, "stage")]
    assert "plan" in names
    assert "codegen" not in names
    assert of_type(recorded, "eager")
