"""vesta.stats counts what explain() shows of single functions, over the whole process."""

from __future__ import annotations

import gc
import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from torch import nn

import vesta
from tests import processes
from tests.build import generates_code


@pytest.fixture(autouse=True)
def _counts_begin_at_zero() -> Iterator[None]:
    vesta.reset_stats()
    yield


def broken(x: torch.Tensor) -> torch.Tensor:
    y = x.sin() + 1
    print(end="")
    return y.exp().sum(-1)


def test_counts_equal_those_of_explain() -> None:
    compiled = vesta.compile(broken)
    for n in (4, 5, 4):
        compiled(torch.randn(n, 8))
    stats, explained = vesta.stats(), vesta.explain(compiled).explanation.captures[0]
    assert (stats.calls, stats.hits, stats.misses) == (explained.calls, explained.hits, explained.misses)
    assert stats.calls == 3
    assert (stats.frames, stats.segments) == (1, 2)
    assert stats.variants == len(explained.graphs)
    assert stats.recompiles == len(explained.recompiles) > 0
    assert stats.breaks == {"print": 2}
    assert stats.fallbacks == {}


def test_stages_are_those_of_the_reports() -> None:
    compiled = vesta.compile(broken, options={"cache": False})
    compiled(torch.randn(4, 8))
    stats, graphs = vesta.stats(), vesta.explain(compiled).explanation.graphs
    for stage in ("passes", "plan", "codegen", "load"):
        assert stats.stages[stage].runs == len(graphs)
        assert stats.stages[stage].ms >= sum(g.stages[stage] for g in graphs) * 0.9
    assert stats.stages["trace"].ms >= sum(g.ms["trace"] for g in graphs) * 0.9
    assert stats.stages["trace"].runs > len(graphs)  # a trace that meets a break is made again up to it
    assert stats.compile_ms == pytest.approx(sum(s.ms for s in stats.stages.values()))
    assert stats.waited_ms >= sum(g.ms["trace"] for g in graphs)


def test_functions_that_are_gone_or_reset_still_count() -> None:
    compiled = vesta.compile(lambda x: x.sin() + 1)
    compiled(torch.randn(4))
    compiled(torch.randn(4))
    vesta.reset()
    assert vesta.stats().calls == 2
    compiled(torch.randn(4))
    del compiled
    gc.collect()
    assert vesta.stats().calls == 3
    assert vesta.stats().hits == 1


def test_reset_leaves_explain_as_it_is() -> None:
    compiled = vesta.compile(lambda x: x.sin() + 1)
    compiled(torch.randn(4))
    vesta.reset_stats()
    zero = vesta.stats().as_dict()
    assert all(not v for k, v in zero.items() if not k.endswith("_bytes")), zero
    assert vesta.explain(compiled).explanation.captures[0].calls == 1
    compiled(torch.randn(4))
    assert vesta.stats().calls == vesta.stats().hits == 1


def test_eager_calls_by_reason() -> None:
    compiled = vesta.compile(lambda x: x.sin() + 1)
    with torch.compiler.set_stance("force_eager"):
        compiled(torch.randn(4))
    assert vesta.stats().fallbacks == {"torch.compiler.set_stance forces eager mode": 1}


def test_calls_that_step_aside() -> None:
    compiled = vesta.compile(lambda x: torch.linalg.inv(x))  # one call into ATen: compiled code gains nothing
    for _ in range(10):
        compiled(torch.eye(4))
    assert vesta.stats().aside == vesta.explain(compiled).explanation.captures[0].aside > 0
    assert vesta.stats().calls == 10


def test_memory_is_held_as_long_as_it_is_used() -> None:
    before = vesta.stats()
    model = nn.Sequential(nn.Conv2d(8, 16, 3), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 8, 3)).eval()
    compiled = vesta.compile(model)
    with torch.no_grad():
        compiled(torch.randn(2, 8, 32, 32))
    folded = (16 * 8 * 3 * 3 + 16) * 4  # the first convolution with the batch norm in its weights
    assert vesta.stats().packed_bytes - before.packed_bytes >= folded
    del compiled, model
    gc.collect()
    assert vesta.stats().packed_bytes == before.packed_bytes


@pytest.mark.kernels
def test_memory_of_kernels() -> None:
    before = vesta.stats()
    compiled = vesta.compile(lambda x, y: torch.mm(x.tanh(), y).exp())
    compiled(torch.randn(64, 64), torch.randn(64, 64))
    held = vesta.stats()
    assert held.code_bytes > before.code_bytes
    assert held.arena_bytes > 0
    big = vesta.compile(lambda x: x.sin() + 1)(torch.randn(1 << 20))
    del big
    assert vesta.stats().pool_bytes >= 4 << 20


def test_memory_of_compiles() -> None:
    compiled = vesta.compile(broken, options={"cache": False})
    compiled(torch.randn(4, 8))
    assert vesta.wait()
    stats, graphs = vesta.stats(), vesta.explain(compiled).explanation.graphs
    assert stats.graph_bytes == stats.plan_bytes == stats.generator_bytes == 0  # no compile goes on
    assert stats.peak_bytes["graph_bytes"] >= max(g.compiled.graph_memory for g in graphs) > 0
    assert stats.peak_bytes["plan_bytes"] == max(g.compiled.plan_memory for g in graphs) > 0
    assert stats.peak_bytes["generator_bytes"] == max(g.compiled.kernel_memory for g in graphs)
    assert (stats.peak_bytes["generator_bytes"] > 0) == generates_code()
    assert "memory of the compile: graph" in str(vesta.explain(compiled))
    vesta.reset_stats()
    assert vesta.stats().peak_bytes["plan_bytes"] == 0


@pytest.mark.kernels
def test_arenas_by_thread() -> None:
    compiled = vesta.compile(lambda x, y: torch.mm(x.tanh(), y).exp())
    x = torch.randn(64, 64)
    compiled(x, x)
    before = vesta.stats().owner_bytes
    seen = []

    def work() -> None:
        compiled(x, x)
        seen.append({**vesta.stats().owner_bytes})

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    (new,) = seen[0].keys() - before.keys()
    assert re.match(r"thread \d+ ", new) and seen[0][new] >= 64 * 64 * 4
    end = time.monotonic() + 10
    while new in vesta.stats().owner_bytes and time.monotonic() < end:  # the system's thread ends after Python's
        time.sleep(0.01)
    assert new not in vesta.stats().owner_bytes
    assert sum(vesta.stats().owner_bytes.values()) == vesta.stats().arena_bytes + vesta.stats().cuda_graph_bytes


@pytest.mark.kernels
def test_training_keeps_no_arena() -> None:
    compiled = vesta.compile(lambda x, y: torch.mm(torch.mm(x.tanh(), y).exp(), y).sum())
    kept = []

    def work(trains: bool) -> None:
        x = torch.randn(64, 64, requires_grad=trains)
        before = vesta.stats().arena_bytes
        for _ in range(2):
            result = compiled(x, x)
            if trains:
                result.backward()
        kept.append(vesta.stats().arena_bytes - before)

    for trains in (True, False):
        thread = threading.Thread(target=work, args=(trains,))
        thread.start()
        thread.join()
    assert kept[0] == 0
    assert kept[1] >= 64 * 64 * 4


def test_cpp_entry_counts() -> None:
    compiled = vesta.trace_and_compile(lambda x: x.sin() + 1)
    for n in (4, 4, 5):
        compiled(torch.randn(n))
    stats = vesta.stats()
    assert (stats.hits, stats.misses, stats.variants, stats.recompiles) == (1, 2, 2, 1)
    assert stats.stages["trace"].runs == 2
    assert stats.frames == stats.calls == 0


CACHED = """
import torch, vesta
vesta.compile(lambda x: (x.sin() + 1).sum(-1))(torch.ones(4, 8))
s = vesta.stats()
print(s.artifacts_found, s.artifacts_missed, s.kernels_in_store, s.kernels_compiled)
"""


def test_cache_on_disk(tmp_path: Path) -> None:
    env = {"VESTA_CACHE_DIR": str(tmp_path)}
    told = [processes.run(CACHED, env={**processes._ENVIRONMENT, **env}).stdout.split() for _ in range(2)]
    assert told == [["0", "1", "0", "1" if generates_code() else "0"], ["1", "0", "0", "0"]]


@pytest.mark.kernels
def test_kernels_of_the_process() -> None:
    x = torch.randn(4, 8)
    one = vesta.compile(lambda x: x.sin() * 3, options={"cache": False})
    two = vesta.compile(lambda x: x.sin() * 3, options={"cache": False})
    one(x), two(x)
    stats = vesta.stats()
    assert (stats.kernels_compiled, stats.kernels_in_process, stats.artifacts_missed) == (1, 1, 0)


def test_table() -> None:
    compiled = vesta.compile(broken)
    compiled(torch.randn(3, 8))
    text = str(vesta.stats())
    assert re.search(r"^Compiles$", text, re.M)
    assert re.search(r"^    plan +[\d.]+ ms  2 runs$", text, re.M)
    assert re.search(r"^         1  print$", text, re.M)
    assert re.search(r"^  machine code +[\d.]+ ([KM]i)?B  at most [\d.]+ ([KM]i)?B$", text, re.M)
    assert re.search(r"^    thread \d+ .* [\d.]+ ([KM]i)?B$", text, re.M)


SAMPLE = re.compile(r'(vesta_[a-z_]+)(?:\{([a-z]+)="((?:\\.|[^"\\])*)"\})? ([\d.e+-]+)')


def test_prometheus_text() -> None:
    compiled = vesta.compile(broken)
    compiled(torch.randn(3, 8))
    stats = vesta.stats()
    types: dict[str, str] = {}
    values: dict[tuple[str, str], float] = {}
    for line in stats.prometheus().splitlines():
        if line.startswith("# HELP "):
            name = line.split(" ", 3)[2]
            assert name not in types
            types[name] = ""
        elif line.startswith("# TYPE "):
            _, _, name, kind = line.split(" ")
            assert types[name] == ""
            types[name] = kind
        else:
            found = SAMPLE.fullmatch(line)
            assert found, line
            values[found[1], found[3] or ""] = float(found[4])
            assert types[found[1]] in ("counter", "gauge")
    assert all(kind == ("counter" if name.endswith("_total") else "gauge") for name, kind in types.items())
    assert values["vesta_calls_total", ""] == stats.calls
    assert values["vesta_graph_breaks_total", "print"] == 1
    assert values["vesta_compile_seconds_total", "plan"] == pytest.approx(stats.stages["plan"].ms / 1e3)
    assert values["vesta_code_bytes", ""] == stats.code_bytes
    assert values["vesta_peak_bytes", "plans"] == stats.peak_bytes["plan_bytes"] > 0
    owners = {name: n for (metric, name), n in values.items() if metric == "vesta_owner_bytes"}
    assert owners == stats.owner_bytes


def test_threads_count_and_ask() -> None:
    compiled = vesta.compile(lambda x: (x.sin() + 1).exp().sum(), options={"only_if_faster": False})
    x = torch.randn(4)
    compiled(x)
    vesta.reset_stats()

    def work() -> None:
        for _ in range(200):
            compiled(x)
            assert vesta.stats().calls > 0

    threads = [threading.Thread(target=work) for _ in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert vesta.stats().calls == vesta.stats().hits == 800
