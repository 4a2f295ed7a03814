"""vesta.why_miss and `vesta why-miss`: each field of a key, changed alone, is the one that is named."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.build import generates_code

COMMAND = "import runpy; runpy.run_module('vesta', run_name='__main__', alter_sys=True)"

PROGRAM = """
import json, sys, torch, vesta
torch.set_num_threads(2)
def f(x, y):
    a = x.sin() + 1
    b = a * {factor}
    return b.sum(-1), y.exp()
compiled = vesta.compile(f, options=json.loads(sys.argv[1]))
x = torch.ones(8, 16)
compiled(x, {second})
print(json.dumps([[m.name, m.entry, m.nearest, [[d.field, d.was, d.now, d.where] for d in m.differences], str(m)]
                  for m in vesta.why_miss(compiled)]))
print(vesta.explain(compiled))
"""


def run(
    folder: Path,
    file: Path,
    factor: float = 2.0,
    second: str = "torch.ones(4)",
    options: dict[str, Any] | None = None,
    **env: str,
) -> list[Any]:
    file.write_text(PROGRAM.format(factor=factor, second=second))
    program = f"import runpy; runpy.run_path({str(file)!r}, run_name='__main__')"
    done = processes.run(program, json.dumps(options or {}), env={**os.environ, "VESTA_CACHE_DIR": str(folder), **env})
    assert done.returncode == 0, done.stderr
    line, explained = done.stdout.split("\n", 1)
    found: list[Any] = json.loads(line)
    # explain() names the same entry and the same fields.
    for _, _, nearest, _, said in found:
        if nearest:
            assert f"not found in the cache; the nearest entry, {nearest}, differs in" in explained
            assert all(part.strip() in explained for part in said.splitlines()[1:])
    assert bool([f for f in found if f[2]]) == ("not found in the cache" in explained)
    return found


def test_without_a_cache_nothing_is_missed(tmp_path: Path) -> None:
    assert run(tmp_path / "cache", tmp_path / "program.py", options={"cache": False}) == []


def test_the_field_that_changed_is_named(tmp_path: Path) -> None:
    folder, file = tmp_path / "cache", tmp_path / "program.py"
    ((name, entry, nearest, differences, said),) = run(folder, file)
    assert name == "f, graph 1" and entry.startswith("artifact_")
    assert nearest == "" and differences == [] and "no other entry" in said
    assert run(folder, file) == []  # found

    ((_, graph_entry, nearest, differences, said),) = run(folder, file, factor=3.0)
    ((field, was, now, where),) = differences
    assert nearest == entry and field == "graph"
    assert "2" in was and "3" in now and where.endswith("program.py:6") and "from " in said

    ((_, _, _, differences, _),) = run(folder, file, options={"skip_passes": ["views"], "cache": True})
    assert [d[0] for d in differences] == ["options"] and "skip_passes [views]" in differences[0][2]

    ((_, _, _, differences, _),) = run(folder, file, second="x")
    assert "facts" in [d[0] for d in differences] or [d[0] for d in differences] == ["graph"]

    ((_, _, _, differences, _),) = run(folder, file, ATEN_CPU_CAPABILITY="default")
    if generates_code():
        generator, *differences = differences
        assert generator[0] == "generator" and "-avx2" in generator[2] and "+sse3" not in generator[2]
    assert [d[0] for d in differences] == ["torch"]

    def told_of(a: str, *more: str) -> subprocess.CompletedProcess[str]:
        return processes.run(COMMAND, "why-miss", entry, a, "--folder", str(folder), *more)

    told = json.loads(told_of(graph_entry, "--json").stdout)
    assert [d["field"] for d in told["differences"]] == ["graph"]
    plain = told_of(graph_entry).stdout
    assert "graph" in plain and "was" in plain and "now" in plain
    for a, message in (("artifact_none", "has no artifact"), ("artifact", "several artifacts")):
        failed = told_of(a)
        assert failed.returncode == 2 and message in failed.stderr


def test_without_a_cache(monkeypatch: pytest.MonkeyPatch) -> None:
    import vesta

    monkeypatch.setenv("VESTA_CACHE_DIR", "")
    with pytest.raises(vesta.errors.UserError, match="the cache is off"):
        vesta.why_miss()
    with pytest.raises(vesta.errors.UserError, match=r"takes a result of vesta\.compile"):
        vesta.why_miss(print, folder="/tmp")
