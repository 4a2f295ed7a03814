"""The cache: a second process compiles nothing, and what is wrong with the folder is only a miss."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import processes
from tests.build import generates_code

PROGRAM = """
import json, os, sys, torch, vesta
def f(a, b):
    return (a + b).relu().sum(0), (a * b).softmax(-1), a.sin() * SCALE
SCALE = float(sys.argv[1])
a, b = torch.randn(64, 96), torch.randn(64, 96)
options = json.loads(sys.argv[2])
def run():
    compiled = vesta.compile(f, options=options)
    torch.testing.assert_close(compiled(a, b), f(a, b))
    (variant,) = vesta.explain().variants
    said = str(vesta.explain())
    assert ("the cache)" in said) == (variant.cached or variant.cached_kernels > 0), said
    return variant.distinct_kernels, variant.cached_kernels
print(json.dumps(run()))
"""


def run(folder: Path | str, scale: float = 2.0, program: str = PROGRAM, **options: Any) -> Any:
    """[distinct kernels, kernels from the cache] of a process with this cache, and what it wrote to stderr."""
    environment = {**os.environ, "VESTA_CACHE_DIR": str(folder)}
    environment.pop("VESTA_DUMP", None)
    done = processes.run(program, str(scale), json.dumps(options), env=environment)
    assert done.returncode == 0, done.stderr
    return [*json.loads(done.stdout.splitlines()[-1]), done.stderr]


def entries(folder: Path) -> list[Path]:
    return [p for p in folder.rglob("*") if p.is_file()]


@pytest.mark.kernels
def test_a_second_process_compiles_nothing(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "cache"
    kernels, cached, _ = run(folder)
    assert kernels >= 2 and cached == 0 and len(entries(folder)) == kernels + 1  # each, and the artifact
    assert folder.stat().st_mode & 0o777 == 0o700
    assert run(folder)[:2] == [kernels, kernels]
    # A constant of the program is in the kernel's text: only that one is compiled.
    again, cached, _ = run(folder, scale=3.0)
    assert again == kernels and 0 < cached < kernels
    # Another instruction set is another code.
    if "avx2" in Path("/proc/cpuinfo").read_text():
        os.environ["ATEN_CPU_CAPABILITY"] = "default"
        try:
            assert run(folder)[1] == 0
        finally:
            del os.environ["ATEN_CPU_CAPABILITY"]


def test_it_can_be_left_out(tmp_path: Path) -> None:
    kernels, cached, _ = run(tmp_path / "cache", cache=False)
    assert cached == 0 and not (tmp_path / "cache").exists()
    run(tmp_path / "cache")
    assert run(tmp_path / "cache", cache=False)[:2] == [kernels, 0]
    assert run("")[:2] == [kernels, 0]


def test_the_option_reaches_the_backend_of_torch_compile(tmp_path: Path) -> None:
    by_backend = PROGRAM.replace("vesta.compile(f, options", "torch.compile(f, backend='vesta', options")
    by_backend = by_backend[: by_backend.index("    said =")] + "    return 0, 0\nprint(json.dumps(run()))\n"
    run(tmp_path / "cache", program=by_backend, cache=False)
    assert not (tmp_path / "cache").exists()
    run(tmp_path / "cache", program=by_backend)
    assert entries(tmp_path / "cache")


def test_damaged_entries_are_compiled_again(tmp_path: Path) -> None:
    kernels, _, _ = run(tmp_path / "cache")
    for i, entry in enumerate(entries(tmp_path / "cache")):
        data = bytearray(entry.read_bytes())
        if i % 2:
            data[len(data) // 2] ^= 1
        else:
            del data[len(data) // 2 :]
        entry.write_bytes(data)
    assert run(tmp_path / "cache")[:2] == [kernels, 0]
    assert run(tmp_path / "cache")[:2] == [kernels, kernels]


def test_a_folder_that_others_may_write_to_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    folder.mkdir()
    folder.chmod(0o777)
    kernels, cached, said = run(folder)
    assert (kernels > 0) == generates_code() and not cached and not entries(folder)
    assert "other users may write to it" in said and str(folder) in said


def test_no_folder_is_no_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    kernels, cached, said = run(tmp_path / "file")
    assert (kernels > 0) == generates_code() and not cached and "cache of compiled code" in said


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_reads_and_writes(tmp_path: Path) -> None:
    program = PROGRAM.replace(
        "print(json.dumps(run()))",
        """
torch.set_num_threads(1)  # a pool of threads does not survive a fork
run()
vesta.reset()
def f(a, b):
    return (a - b).exp().sum(0), a.cos()
child = os.fork()
if child == 0:
    try:
        run()
        os._exit(0)
    except BaseException:
        os._exit(1)
assert os.waitpid(child, 0)[1] == 0
import time
time.sleep(0.5)
print(json.dumps(run()))
""",
    )
    kernels, cached, _ = run(tmp_path / "cache", program=program)
    assert (kernels > 0) == generates_code() and cached <= kernels
