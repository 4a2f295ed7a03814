"""Processes that share a cache or a saved program, with NVRTC and without: more of traps.TRAPS."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import torch

from tests.cuda.traps import _compiled, _equal, _model, trap


def _maps() -> str:
    return Path("/proc/self/maps").read_text(encoding="utf-8")


def _loaded() -> set[str]:
    """The compiler's libraries in this process. PyTorch may have loaded them itself."""
    return {name for name in ("libnvrtc.", "libnvrtc-builtins", "libnvJitLink") if name in _maps()}


def _in_a_process(function: str, *arguments: object, **environment: str) -> str:
    """Runs "tuned.tune", say, of this folder in a process of its own; what it logged."""
    call = f"from tests.cuda import {function.split('.')[0]}; {function}(*{[str(a) for a in arguments]!r})"
    done = subprocess.run(
        [sys.executable, "-c", call], env=os.environ | environment, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stderr


def _variants() -> list[Any]:
    import vesta

    return [g.compiled for c in vesta.explain().captures for g in c.graphs if g.compiled]


def _program(x: torch.Tensor) -> torch.Tensor:
    return torch.tanh(x @ x).softmax(-1) + x.sum(-1, keepdim=True)


def compile_and_run(expect: str) -> None:
    model = _model()
    torch.zeros(1, device="cuda") @ torch.zeros(1, 1, device="cuda")
    before, kept = _loaded(), []  # reports are of functions that are alive
    with torch.no_grad():
        for function, x in ((model, torch.randn(7, 64, device="cuda")), (_program, torch.randn(64, 64, device="cuda"))):
            compiled = _compiled(function)
            for _ in range(3):
                _equal(compiled(x), function(x))
            kept.append(compiled)
    reports = _variants()
    assert len(reports) == 2 and all(r.kernels for r in reports)
    assert {r.cached for r in reports} == {expect == "found"}
    assert expect != "found" or _loaded() == before


def run_what_is_not_there() -> None:
    import vesta

    function, x = (lambda x: torch.tanh(x) * 7 + 3), torch.randn(123, device="cuda")
    function(x)
    before, compiled = _loaded(), _compiled(function)
    for _ in range(3):
        assert torch.equal(compiled(x), function(x))
    assert _loaded() - {"libnvJitLink"} <= before
    assert any("not in the cache" in f.reason for f in vesta.explain().fallbacks), vesta.explain()


@trap
def a_second_process_loads_no_compiler() -> None:
    with tempfile.TemporaryDirectory() as cache:
        _in_a_process("processes.compile_and_run", "made", VESTA_CACHE_DIR=cache)
        _in_a_process("processes.compile_and_run", "found", VESTA_CACHE_DIR=cache)
        _in_a_process("processes.compile_and_run", "found", VESTA_CACHE_DIR=cache, VESTA_NVRTC="")


@trap
def no_compiler_and_no_code() -> None:
    with tempfile.TemporaryDirectory() as cache:
        _in_a_process("processes.compile_and_run", "made", VESTA_CACHE_DIR=cache)
        log = _in_a_process(
            "processes.run_what_is_not_there", VESTA_CACHE_DIR=cache, VESTA_NVRTC="", VESTA_LOG="fallbacks"
        )
        assert log.count("not in the cache") == 1, log


def save_program(path: str) -> None:
    import vesta

    model = _model()
    compiled = _compiled(model)
    with torch.no_grad():
        for rows in (5, 7):
            compiled(torch.randn(rows, 64, device="cuda"))
        vesta.save(compiled, path)


def load_program(path: str) -> None:
    import vesta

    model, before = _model(), _loaded()
    loaded = vesta.load(path)
    with torch.no_grad():
        for rows in (5, 7, 31):
            x = torch.randn(rows, 64, device="cuda")
            for _ in range(3):
                _equal(loaded(x), model(x))
    assert _loaded() - {"libnvJitLink"} <= before


@trap
def a_saved_program_runs_without_a_compiler() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.vesta")
        _in_a_process("processes.save_program", path, VESTA_CACHE_DIR="")
        _in_a_process("processes.load_program", path, VESTA_CACHE_DIR="", VESTA_NVRTC="")


class Shared(torch.nn.Module):
    """Tied weights, weights of two types, a part of a storage, a number of the CPU's, a buffer that calls write, and
    random numbers."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = torch.nn.Embedding(101, 64)
        self.out = torch.nn.Linear(64, 101, bias=False)
        self.out.weight = self.table.weight
        self.wide = torch.nn.Linear(64, 64, dtype=torch.float64)
        self.register_buffer("total", torch.zeros(64))
        self.cuda()
        self.whole = torch.randn(4_000_000, device="cuda")
        self.register_buffer("part", self.whole[1_000_001:1_000_065])
        self.register_buffer("turned", torch.randn(64, 64, device="cuda").t())
        self.scale = torch.tensor(0.5)

    def forward(self, ids: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        y = self.table(ids) * self.scale + self.wide(x.double()).float()
        y = torch.tanh(y * self.part) @ self.turned
        self.total.add_(y.sum(0))
        return self.out(torch.nn.functional.dropout(y, 0.5, True)).softmax(-1)


def _calls(function: Any) -> list[torch.Tensor]:
    results = []
    for seed, rows in enumerate((5, 7, 31, 7, 7, 7, 5)):
        torch.manual_seed(seed)
        ids, x = torch.randint(101, (rows,), device="cuda"), torch.randn(rows, 64, device="cuda")
        results.append(function(ids, x).cpu())
    return results


def save_shared(path: str, wanted: str) -> None:
    import vesta

    model = Shared().eval()
    compiled = _compiled(model)
    with torch.no_grad():
        for a, b in zip(_calls(compiled), _calls(model), strict=True):
            _equal(a, b)
        model.total.zero_()
        saved = vesta.save(compiled, path)
        assert saved.bytes < 4_000_000, saved  # of one storage, only the part that is read
        results = _calls(compiled)
        torch.save([*results, model.total.cpu()], wanted)


def load_shared(path: str, wanted: str) -> None:
    import vesta

    loaded, again = vesta.load(path, check_weights=True), vesta.load(path)
    state = loaded.state_dict()
    devices = {name: str(t.device) for name, t in state.items()}
    assert devices.pop("self.scale") == "cpu", devices
    assert set(devices.values()) == {"cuda:0"}, devices
    *results, total = torch.load(wanted)
    with torch.no_grad():
        for a, b in zip(_calls(loaded), results, strict=True):
            _equal(a, b)
        _equal(state["total"].cpu(), total)
        assert not again.state_dict()["total"].any()
        state["table.weight"].mul_(2)  # seen by both that read it
        model = Shared().eval()
        model.table.weight.mul_(2)
        for a, b in zip(_calls(loaded), _calls(model), strict=True):
            _equal(a, b)
        again.load_state_dict(state)
        for a, b in zip(_calls(again), _calls(model), strict=True):
            _equal(a, b)


@trap
def what_saved_weights_share_they_share_again() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path, wanted = str(Path(folder) / "model.vesta"), str(Path(folder) / "wanted.pt")
        _in_a_process("processes.save_shared", path, wanted, VESTA_CACHE_DIR="")
        _in_a_process("processes.load_shared", path, wanted, VESTA_CACHE_DIR="", VESTA_NVRTC="")


def load_without_a_gpu(path: str) -> None:
    import vesta

    try:
        vesta.load(path)
    except vesta.errors.UserError as e:
        assert "it was saved for cuda:0, but there is no GPU here" in str(e), e
    else:
        raise AssertionError("it was loaded")


@trap
def a_saved_program_names_the_gpu_that_it_needs() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = str(Path(folder) / "model.vesta")
        _in_a_process("processes.save_program", path, VESTA_CACHE_DIR="")
        _in_a_process("processes.load_without_a_gpu", path, CUDA_VISIBLE_DEVICES="")


@trap
def a_saved_program_runs_in_cpp() -> None:
    """A process that links neither Python nor CUDA. Only a build folder has the program."""
    import vesta

    runner = Path(vesta.__file__).parents[2] / "tests/unit/run_saved"
    if not runner.exists():
        return
    model, calls = _model(), [torch.randn(rows, 64, device="cuda") for rows in (5, 7, 7, 7)]
    with tempfile.TemporaryDirectory() as name, torch.no_grad():
        folder = Path(name)
        _in_a_process("processes.save_program", folder / "model.vesta", VESTA_CACHE_DIR="")
        torch.save([{"input": x} for x in calls], folder / "in.pt")
        wanted = [model(x) for x in calls]
        for weight in model.parameters():
            weight.mul_(0.9)
        wanted += [model(x) for x in calls]
        done = subprocess.run(
            [runner, *(folder / file for file in ("model.vesta", "in.pt", "out.pt"))],
            capture_output=True,
            text=True,
            timeout=120,
            env=os.environ | {"VESTA_LOG": "graph"},
        )
        assert done.returncode == 0, done.stderr
        assert "recorded" in done.stderr and "no CUDA graph" not in done.stderr, done.stderr
        found = torch.load(folder / "out.pt", map_location="cuda", weights_only=False)
        for (ours,), theirs in zip(found, wanted, strict=True):
            _equal(ours, theirs)
