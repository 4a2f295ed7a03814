"""The installed C++ package: examples/cpp is built against it with find_package(Vesta) and run without Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / os.environ.get("VESTA_BUILD", "build/release")


def run(*command: str | Path, timeout: int = 300) -> str:
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, timeout=timeout, stdin=subprocess.DEVNULL
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    if not (BUILD / "CMakeCache.txt").exists() or not shutil.which("cmake"):
        pytest.skip(f"no build folder {BUILD}")
    prefix = tmp_path_factory.mktemp("prefix")
    run("cmake", "--install", BUILD, "--prefix", prefix)
    return prefix


def test_installed_headers_and_library(installed: Path) -> None:
    assert (installed / "include/vesta/compile.h").exists()
    assert len(list(installed.glob("lib*/**/libvesta.so"))) == 1
    assert len(list(installed.glob("lib*/**/cmake/Vesta/VestaConfig.cmake"))) == 1


def test_library_needs_no_python_and_no_llvm(installed: Path) -> None:
    library = next(installed.glob("lib*/**/libvesta.so"))
    needed = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", library))
    # libgomp is torch's own, beside libtorch_cpu.so: kernels run on its threads.
    allowed = r"lib(torch|torch_cpu|c10|gomp|stdc\+\+|m|gcc_s|c|pthread|dl|rt|atomic)\.so(\.\d+)?|ld-linux.*"
    assert [name for name in needed if not re.fullmatch(allowed, name)] == []
    exported = run("nm", "-D", "--defined-only", library)
    assert not re.search(r"\bLLVM\w+$|_ZNK?4llvm", exported, re.MULTILINE)


def test_example_builds_and_runs(installed: Path, tmp_path: Path) -> None:
    build = tmp_path / "example"
    run(
        *("cmake", "-G", "Ninja", "-S", ROOT / "examples/cpp", "-B", build),
        *(f"-DCMAKE_PREFIX_PATH={installed}", f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"),
    )
    run("cmake", "--build", build, timeout=600)
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    done = subprocess.run([build / "example"], capture_output=True, text=True, timeout=120, env=environment)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as eager" in done.stdout
    assert "DIFFERS" not in done.stdout


def test_another_torch_is_refused(installed: Path, tmp_path: Path) -> None:
    fake = tmp_path / "torch"
    (fake / "lib").mkdir(parents=True)
    (fake / "lib/libtorch_cpu.so").touch()
    header = fake / "include/torch/headeronly/version.h"
    header.parent.mkdir(parents=True)
    header.write_text("#define TORCH_VERSION_MAJOR 1\n#define TORCH_VERSION_MINOR 2\n#define TORCH_VERSION_PATCH 3\n")
    done = subprocess.run(
        [
            *("cmake", "-G", "Ninja", "-S", ROOT / "examples/cpp", "-B", tmp_path / "example"),
            *(f"-DCMAKE_PREFIX_PATH={installed}", f"-DVESTA_TORCH_DIR={fake}"),
        ],
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0
    assert "holds torch 1.2.3" in " ".join(done.stderr.split())
