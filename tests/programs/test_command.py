"""The command `vesta`, as a user calls it."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import vesta
from tests import processes
from tests.build import generates_code

FILL = """
import torch, vesta
vesta.compile(lambda x: (x.sin() + 1, x.sum(0)))(torch.ones(64, 64))
vesta.compile(lambda x: x.cos() + 1)(torch.ones(64, 64))
"""


COMMAND = "import runpy; runpy.run_module('vesta', run_name='__main__', alter_sys=True)"


def run(*arguments: str, folder: Path | str, status: int = 0) -> str:
    done = processes.run(COMMAND, *arguments, env={**os.environ, "VESTA_CACHE_DIR": str(folder)})
    assert done.returncode == status, (done.stdout, done.stderr)
    return done.stdout + done.stderr


def told(*arguments: str, folder: Path, status: int = 0) -> Any:
    return json.loads(run(*arguments, "--json", folder=folder, status=status))


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "cache"
    processes.run(FILL, env={**os.environ, "VESTA_CACHE_DIR": str(folder)}).check_returncode()
    return folder


def test_help_is_there_for_every_command(tmp_path: Path) -> None:
    said = subprocess.run([sys.executable, "-m", "vesta", "--help"], capture_output=True, text=True, check=True).stdout
    assert "cache" in said and "env" in said
    for command in (
        ("cache",),
        ("env",),
        ("show",),
        ("replay",),
        ("bisect",),
        *(("cache", c) for c in ("stats", "verify", "trim", "clear")),
    ):
        assert "usage: vesta" in run(*command, "--help", folder=tmp_path)
    assert "usage" in run(folder=tmp_path, status=2)


def test_stats_count_what_is_there(filled: Path, tmp_path: Path) -> None:
    found = told("cache", "stats", folder=filled)
    assert found["folder"] == str(filled)
    assert found["artifacts"]["entries"] == 2
    assert (found["kernels"]["entries"] >= 1) == generates_code()
    assert found["bytes"] == found["artifacts"]["bytes"] + found["kernels"]["bytes"] > 0
    said = run("cache", "stats", folder=filled)
    assert "artifacts" in said and "1.0 GiB" in said and "last used between" in said
    empty = told("cache", "stats", "--folder", str(tmp_path / "none"), folder=filled)
    assert empty["bytes"] == 0 and empty["used_last"] is None
    assert "0 B" in run("cache", "stats", folder=tmp_path / "none")


def test_verify_names_damaged_entries_and_trim_deletes_them(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    subprocess.run(["cp", "-a", str(filled), str(folder)], check=True)
    good = told("cache", "verify", folder=folder)
    assert good["damaged"] == [] and good["entries"] >= 2
    broken, _ = folder.rglob("artifact_*")
    broken.write_bytes(broken.read_bytes()[:-1])
    bad = told("cache", "verify", folder=folder, status=1)
    assert bad["damaged"] == [broken.name + broken.parent.name]
    assert "trim --damaged" in run("cache", "verify", folder=folder, status=1)
    assert told("cache", "trim", folder=folder)["deleted_bytes"] == 0
    assert told("cache", "trim", "--damaged", folder=folder)["deleted_bytes"] > 0
    assert told("cache", "verify", folder=folder) == {**good, "folder": str(folder), "entries": good["entries"] - 1}


def test_trim_and_clear_delete(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    subprocess.run(["cp", "-a", str(filled), str(folder)], check=True)
    (folder / "mine.txt").write_text("not an entry")
    before = told("cache", "stats", folder=folder)["bytes"]
    deleted = told("cache", "trim", "--to", str(before - 1), folder=folder)["deleted_bytes"]
    assert 0 < deleted < before
    assert told("cache", "clear", folder=folder)["deleted_bytes"] == before - deleted
    assert told("cache", "stats", folder=folder)["bytes"] == 0
    assert (folder / "mine.txt").exists()
    assert "is not a size" in run("cache", "trim", "--to", "much", folder=folder, status=2)


def test_a_folder_that_is_not_safe_is_not_touched(filled: Path, tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    subprocess.run(["cp", "-a", str(filled), str(folder)], check=True)
    folder.chmod(0o777)
    for command in ("stats", "verify", "trim", "clear"):
        assert "other users may write to it" in run("cache", command, folder=folder, status=2)
    assert list(folder.rglob("artifact_*"))
    assert "the cache is off" in run("cache", "stats", folder="", status=2)


def test_env_tells_the_machine(tmp_path: Path) -> None:
    found = told("env", folder=tmp_path)
    assert found["torch"] == torch.__version__ and found["cache"] == str(tmp_path)
    assert found["threads"] >= 1 and found["vector_bytes"] in (16, 32, 64)
    said = run("env", folder=tmp_path)
    assert found["cpu"] in said and "KiB" in said


def test_show_tells_what_a_saved_program_holds(tmp_path: Path) -> None:
    compiled, path = vesta.compile(lambda x, scale=2.0: (x.sin() * scale).sum(-1)), tmp_path / "f.vesta"
    compiled(torch.ones(3, 4))
    vesta.save(compiled, path)
    said = run("show", str(path), folder=tmp_path)
    assert "(x, scale=2.0)" in said and "x: f32[3, 4]" in said and "where scale == 2.0" in said
    found = told("show", str(path), "--check", folder=tmp_path)
    assert len(found["variants"]) == 1 and found["weights"] == [] and found["damaged_storages"] == []
    assert found["bytes"] == path.stat().st_size
    path.write_bytes(b"something else")
    assert "not a program saved by Vesta" in run("show", str(path), folder=tmp_path, status=2)
    assert "No such file" in run("show", str(tmp_path / "none"), folder=tmp_path, status=2)
