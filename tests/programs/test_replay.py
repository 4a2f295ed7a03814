"""vesta.record keeps compiles in a file; `vesta replay` compiles and runs them again."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
import vesta.replay
from tests import processes
from tests.build import generates_code
from vesta import _C
from vesta.cases import read
from vesta.child_process import Ended, in_child
from vesta.number_rule import Errors
from vesta.replay import Replayed, replay, replay_here

COMMAND = """
import sys
from vesta import _C
from vesta.command import main
fault, stage = sys.argv[1:3]
if fault == "wrong":
    _C.spoil(stage)
elif fault:
    _C.inject_fault(stage, fault, 60)
sys.exit(main(sys.argv[3:]))
"""


def run(*arguments: str, fault: str = "", stage: str = "") -> subprocess.CompletedProcess[str]:
    return processes.run(COMMAND, fault, stage, *arguments, env={**os.environ, "VESTA_CACHE_DIR": ""})


UNCACHED = {"cache": False}  # faults are injected into compiles


def f(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    return torch.mm(x.sin() + 1, x)[i].exp()


X, INDEX = torch.randn(8, 8), torch.tensor([7, 0, 3])


@pytest.fixture(scope="module")
def case(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("cases") / "case.vesta"
    with vesta.record(path):
        vesta.compile(f, options=UNCACHED)(X, INDEX)
    return path


def test_a_case_is_readable_and_has_no_data(case: Path) -> None:
    told = json.loads(case.read_text())
    assert told["versions"]["torch"] == torch.__version__ and told["versions"]["vesta"] == vesta.__version__
    (one,) = told["compiles"]
    assert one["outcome"] == "compiled" and one["ms"]["plan"] > 0 and one["ms"]["total"] > 0
    assert one["options"]["numerics"] == "fast" and one["seed"] == 0
    described = {d["name"]: d for d in one["inputs"]}
    assert described["x"] == {
        **{"name": "x", "dtype": "f32", "sizes": [8, 8], "strides": [8, 1], "device": "cpu", "alignment": 1}
    }
    assert any("aten::mm(" in line and "test_replay.py" in line for line in one["graph"])
    assert len(case.read_text().splitlines()) > 40 and str(float(X[0, 0]))[:6] not in case.read_text()


def test_record_keeps_what_it_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "case.vesta"

    def kept(call: Callable[[], Any], **conditions: Any) -> list[_C.Case]:
        with vesta.record(path, **conditions):
            call()
        return _C.parse_cases(path.read_text())[1]

    def fails() -> None:
        _C.inject_fault("codegen", "throw")
        vesta.compile(f, options=UNCACHED)(X, INDEX)
        _C.inject_fault("codegen", "none")

    def works() -> None:
        vesta.compile(f, options=UNCACHED)(X, INDEX)

    assert [c.outcome for c in kept(works)] == ["compiled"]
    assert kept(works, only="failed") == []
    (failed,) = kept(fails, only="failed")
    assert failed.outcome == "failed" and failed.error_kind == "InternalError" and "injected" in failed.error
    assert kept(works, slower_than_ms=1e6) == []
    assert len(kept(works, slower_than_ms=0)) == len(kept(fails, slower_than_ms=1e6)) == 1
    compiled = vesta.compile(f, options=UNCACHED)
    compiled(X, INDEX)
    assert kept(lambda: compiled(X, INDEX)) == []

    recorder = vesta.record(path).start()
    works()
    with pytest.raises(vesta.errors.UserError, match="already"):
        recorder.start()
    works()
    assert recorder.stop() == 2 and recorder.stop() == 0
    works()
    assert len(read(path)[1]) == 2

    @vesta.record(path)
    def decorated() -> None:
        works()

    decorated()
    assert len(read(path)[1]) == 1


def test_record_waits_for_compiles_in_the_background(tmp_path: Path) -> None:
    path = tmp_path / "case.vesta"

    def start() -> None:
        vesta.compile(f, options={"background": True, **UNCACHED})(X, INDEX)

    _C.inject_fault("plan", "delay", 0.3)
    try:
        with vesta.record(path):
            start()
        assert read(path)[1][1].outcome == "compiled"
        with vesta.record(path, wait=0):
            start()
            while '"unfinished"' not in path.read_text():
                time.sleep(0.01)
        assert read(path)[1][1].outcome == "unfinished"
        assert vesta.wait(timeout=60)
        assert read(path)[1][1].outcome == "compiled"
    finally:
        _C.inject_fault("plan", "none")


def test_a_compile_that_ends_the_process_is_in_the_file(tmp_path: Path) -> None:
    path = tmp_path / "case.vesta"
    program = """
import sys, torch, vesta
from vesta import _C
_C.inject_fault("codegen", "crash")
with vesta.record(sys.argv[1], only="failed"):
    vesta.compile(lambda x: x.exp(), options={"cache": False})(torch.ones(3))
"""
    assert processes.run(program, str(path), env={**os.environ, "VESTA_CACHE_DIR": ""}).returncode < 0
    assert [c.outcome for c in read(path)[1].values()] == ["unfinished"]


def test_the_child_of_a_fork_leaves_the_file_to_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "case.vesta"
    program = """
import os, sys, torch, vesta
def compiles(f): vesta.compile(f, options={"cache": False})(torch.ones(3))
with vesta.record(sys.argv[1]):
    compiles(lambda x: x.exp())
    child = os.fork()
    compiles(lambda x: x.sin())
    if child == 0: os._exit(0)
    os.waitpid(child, 0)
"""
    assert processes.run(program, str(path)).returncode == 0
    assert ["exp" in c.graph for c in read(path)[1].values()] == [True, False]


def test_wrong_arguments_of_record(tmp_path: Path) -> None:
    for match, arguments in (
        ("only=", {"only": "slow"}),
        ("slower_than_ms of 0 or more", {"slower_than_ms": -2}),
        ("wait of 0 or more", {"wait": -1}),
    ):
        with pytest.raises(vesta.errors.UserError, match=match):
            vesta.record(tmp_path / "case.vesta", **arguments)  # type: ignore[arg-type]
    with pytest.raises(vesta.errors.UserError, match="cannot write"), vesta.record(tmp_path / "none" / "case.vesta"):
        pass


@pytest.mark.slow
def test_replay_runs_a_case_to_the_same_plan(case: Path) -> None:
    told = [json.loads(run("replay", str(case), "--json").stdout) for _ in range(2)]  # in two processes
    assert told[0]["versions"] == []
    (one,), (two,) = (t["compiles"] for t in told)
    assert one["status"] == "right" and one["not_confined"] == []
    assert one["plan"] == two["plan"] and ("kernel sin add" in one["plan"]) == generates_code()
    assert one["results"] == two["results"]
    said = run("replay", str(case), "--plan")
    assert said.returncode == 0 and one["plan"] in said.stdout
    assert "compile 1 (recorded: compiled): right" in said.stdout and "codegen" in said.stdout
    assert one["plan"] not in run("replay", str(case)).stdout


@pytest.mark.parametrize(
    ("fault", "stage", "status", "text"),
    [
        pytest.param("wrong", "kernel:sin_add", "wrong", "the result is wrong", marks=pytest.mark.kernels),
        pytest.param(
            *("throw", "pass:views", "failed", "InternalError: a fault was injected into the stage pass:views"),
            marks=pytest.mark.slow,
        ),
        ("crash", "codegen", "crashed", "it ends the process: SIGABRT"),
        pytest.param("delay", "plan", "hung", "it does not end in 2 seconds", marks=pytest.mark.slow),
    ],
)
def test_replay_tells_what_goes_wrong(case: Path, fault: str, stage: str, status: str, text: str) -> None:
    seconds = ("--seconds", "2") if fault == "delay" else ()
    said = run("replay", str(case), *seconds, fault=fault, stage=stage)
    assert said.returncode == 1
    assert f"compile 1 (recorded: compiled): {status}" in said.stdout and text in said.stdout


@pytest.mark.slow
def test_what_is_no_case_is_an_error_of_the_user(case: Path, tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.vesta"
    for text, message in (
        (None, "No such file"),
        ("{", "this is no file of recorded compiles"),
        ('{"format": "vesta case 9"}', "of this version of Vesta"),
        (json.dumps({**json.loads(case.read_text()), "compiles": []}), "has no compiles"),
    ):
        if text is not None:
            wrong.write_text(text)
        for command in ("replay", "bisect"):
            said = run(command, str(wrong))
            assert said.returncode == 2 and message in said.stderr
    for command in ("replay", "bisect"):
        said = run(command, str(case), "--number", "2")
        assert said.returncode == 2 and "has the compiles 1 to 1, and not 2" in said.stderr
    told = json.loads(case.read_text())
    told["versions"]["torch"] = "1.0"
    wrong.write_text(json.dumps(told))
    assert f"another version: torch 1.0, here {torch.__version__}" in run("replay", str(wrong)).stdout


def test_a_replay_has_neither_network_nor_write_access(case: Path, tmp_path: Path, monkeypatch: Any) -> None:
    def tries(case: _C.Case, options: Any = None) -> Replayed:
        refused = []
        for what in (lambda: socket.socket(), lambda: (tmp_path / "new").write_text(""), lambda: case_file.unlink()):
            try:
                what()
            except PermissionError:
                refused.append("refused")
        return Replayed("right", ", ".join(refused) + case_file.read_text()[:1])

    case_file = tmp_path / "case.vesta"
    case_file.write_text(case.read_text())
    monkeypatch.setattr(vesta.replay, "replay_here", tries)
    found = replay(read(case)[1][1])
    expected = (
        3 - len([s for s in found.confined if "network" in s]) - 2 * len([s for s in found.confined if "files" in s])
    )
    assert found.error == ", ".join(["refused"] * expected) + "{"
    (tmp_path / "new").write_text("")  # this process keeps its rights


def test_a_child_sends_plain_data_only() -> None:
    error = Errors(True, compiled=0.5)
    data = {"a": [1, None, ("x", 2.5)], "dtype": torch.bfloat16, "errors": error}
    assert in_child(lambda say: data, 60) == Ended("done", data)
    assert in_child(lambda say: say("once") or say("twice") or 1 // 0, 60) == Ended(
        "raised", why="ZeroDivisionError: integer division or modulo by zero", said="twice"
    )
    sent = in_child(lambda say: os.system, 60)
    assert sent.how == "crashed" and "it sends what it should not: a child process sends posix.system" in sent.why
    assert in_child(lambda say: time.sleep(60), 0.2).how == "hung"


def _cases(call: Callable[[], Any]) -> list[_C.Case]:
    keeper = _C.CaseKeeper("", [])
    call()
    keeper.stop()
    return _C.parse_cases(_C.join_cases([], keeper.cases()))[1]


def _views(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
    y.mul_(2)
    z = x * 3
    return x.t(), y, z, z[1:], y.view(-1)


MODEL = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.ReLU())

PROGRAMS: dict[str, Callable[[], Any]] = {
    "symbolic": lambda: vesta.compile(lambda x, n: x.sin() * n + x.shape[0], dynamic=True)(torch.randn(5, 6), 7),
    "views and writes": lambda: vesta.compile(_views)(torch.randn(4, 4), torch.randn(4, 4)),
    "the same tensor twice": lambda: vesta.compile(lambda x, y: x.add_(y))(X.clone(), X.clone()),
    "one tensor": lambda: (lambda t: vesta.compile(lambda x, y: x.add_(1) + y)(t, t))(X.clone()),
    "conj": lambda: vesta.compile(lambda x: x * 2)(torch.randn(4, dtype=torch.complex64).conj()),
    "storage offset": lambda: vesta.compile(lambda x: x.as_strided((2,), (1,)) + x.storage_offset())(
        torch.randn(9)[3:]
    ),
    "training": lambda: vesta.compile(torch.nn.Linear(4, 4))(torch.randn(2, 4)).sum().backward(),
    "convolution": lambda: vesta.compile(MODEL)(torch.randn(2, 3, 8, 8)),
    "half": lambda: vesta.compile(lambda x: torch.softmax(x, -1) @ x.t())(torch.randn(8, 8).bfloat16()),
    "random": lambda: vesta.compile(lambda x: torch.nn.functional.dropout(x) + torch.rand(3))(torch.randn(4, 3)),
    "indices": lambda: vesta.compile(lambda w, i: torch.nn.functional.embedding(i, w))(torch.randn(9, 4), INDEX),
    "logarithm": lambda: vesta.compile(lambda x: x.log() + x.sqrt())(torch.rand(9)),
    "nothing": lambda: vesta.compile(lambda x: None if x.shape[0] else x)(torch.randn(3)),
    "float8": lambda: vesta.compile(lambda x: x.to(torch.float8_e4m3fn))(torch.randn(9)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_every_kind_of_case_is_right(name: str) -> None:
    for case in _cases(PROGRAMS[name]):
        (again,) = _C.parse_cases(_C.join_cases([], [case.text()]))[1]
        found = replay_here(again)
        assert found.ok, (name, found.error, str(found.comparison), case.text())


def test_inputs_are_what_the_case_describes() -> None:
    (case,) = _cases(lambda: vesta.compile(lambda w, i: w.t()[i] + 1)(torch.randn(4, 3).t()[1:], INDEX[1:]))
    first, second = (vesta.cases.Inputs(case, *vesta.cases.inputs_that_run(case)) for _ in range(2))
    x, i = sorted(first.given, key=lambda t: t.dim(), reverse=True)
    assert x.dtype == torch.float32 and x.size() == (2, 4) and x.stride() == (1, 3)
    assert i.dtype == torch.int64 and int(i.max()) < 4
    assert all(bool((a == b).all()) for a, b in zip(first.given, second.given, strict=True))
    case.seed = 5
    assert not bool((vesta.cases.Inputs(case).memory[0] == first.memory[0]).all())


@pytest.mark.parametrize("limit", [0.5, 4096])
def test_a_case_shows_the_bound_of_saved_memory(tmp_path: Path, limit: float) -> None:
    path = tmp_path / "case.vesta"
    x = torch.randn(8, 8, requires_grad=True)
    with vesta.record(path):
        vesta.compile(lambda x: x.exp().sin().sum(), options={"activation_memory": limit, "cache": False})(x).backward()
    cases = json.loads(path.read_text())["compiles"]
    assert cases and all(case["options"]["activation_memory"] == limit for case in cases)
    assert len(read(path)[1]) == len(cases)
