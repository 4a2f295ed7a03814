"""The installed C++ package: examples/cpp is built against it with find_package(Vesta) and run without Python."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import vesta

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
    for library in ("libvesta.so", "libvesta_runtime.so"):
        assert len(list(installed.glob(f"lib*/**/{library}"))) == 1
    assert len(list(installed.glob("lib*/**/cmake/Vesta/VestaConfig.cmake"))) == 1


@pytest.mark.kernels
def test_the_compiler_of_large_kernels_lies_beside_the_library(installed: Path) -> None:
    library = next(installed.glob("lib*/**/libvesta.so"))
    program = library.parent / "vesta_kernel_compiler"
    needed = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", program))
    assert os.access(program, os.X_OK)
    assert all(re.fullmatch(r"(libm|libc|ld-linux-x86-64)\.so\.\d", name) for name in needed), needed


@pytest.mark.parametrize("name", ["libvesta.so", "libvesta_runtime.so"])
def test_library_needs_no_python_and_no_llvm(installed: Path, name: str) -> None:
    library = next(installed.glob(f"lib*/**/{name}"))
    needed = re.findall(r"NEEDED.*\[(.+)\]", run("readelf", "-d", library))
    # libgomp is torch's own, beside libtorch_cpu.so: kernels run on its threads.
    allowed = r"lib(torch|torch_cpu|c10|gomp|stdc\+\+|m|gcc_s|c|pthread|dl|rt|atomic)\.so(\.\d+)?|ld-linux.*"
    assert [name for name in needed if not re.fullmatch(allowed, name)] == []
    exported = run("nm", "-D", "--defined-only", library)
    assert not re.search(r"\bLLVM\w+$|_ZNK?4llvm", exported, re.MULTILINE)


def test_the_runtime_library_has_no_compiler(installed: Path) -> None:
    names = run("nm", "-C", BUILD / "python/vesta/libvesta_runtime.so")  # not stripped
    assert "vesta::runtime::Executable::run" in names
    for absent in ("llvm::", "vesta::trace::", "vesta::capture::", "vesta::pipeline::", "vesta::codegen::"):
        assert absent not in names
    needed = run("readelf", "-d", BUILD / "python/vesta/libvesta_runtime.so")
    assert "NEEDED" in needed and not re.search(r"nvrtc|nvJitLink|libcuda", needed)


@pytest.fixture(scope="module")
def examples(installed: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    build = tmp_path_factory.mktemp("example")
    run(
        *("cmake", "-G", "Ninja", "-S", ROOT / "examples/cpp", "-B", build),
        *(f"-DCMAKE_PREFIX_PATH={installed}", f"-DPython_EXECUTABLE={sys.executable}", "-DCMAKE_BUILD_TYPE=Release"),
    )
    run("cmake", "--build", build, timeout=600)
    return build


def plainly(*command: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    return subprocess.run([str(c) for c in command], capture_output=True, text=True, timeout=120, env=environment)


def test_example_runs(examples: Path) -> None:
    done = plainly(examples / "example")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as eager" in done.stdout
    assert "DIFFERS" not in done.stdout


@pytest.mark.kernels
def test_a_program_trains(examples: Path) -> None:
    assert not re.search(r"libpython|torch_python", run("ldd", examples / "train"))
    done = plainly(examples / "train")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "as eager" in done.stdout


def test_a_program_saved_in_python_runs_in_cpp(examples: Path, tmp_path: Path) -> None:
    libraries = run("ldd", examples / "load")
    assert "libvesta_runtime" in libraries
    assert not re.search(r"libpython|LLVM|libvesta\.so|torch_python", libraries)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.GELU(), torch.nn.LayerNorm(16), torch.nn.Linear(16, 4))
    compiled, path = vesta.compile(model.eval()), tmp_path / "m.vesta"
    with torch.no_grad():
        for rows in (3, 5, 7):
            compiled(torch.randn(rows, 8))
        vesta.save(compiled, path)
        for rows in (3, 4, 64):
            done = plainly(examples / "load", path, str(rows), "8")
            assert done.returncode == 0, done.stderr
            found = torch.tensor([float(line) for line in done.stdout.split()])
            expected = model(torch.linspace(-1, 1, rows * 8).view(rows, 8))
            torch.testing.assert_close(found.view(rows, 4), expected)
            assert "0.weight: 128 values" in done.stderr
    refused = plainly(examples / "load", path, "4", "9")
    assert refused.returncode == 1 and "size 1 is 9 instead of 8" in refused.stderr
    assert "cannot be read: No such file" in plainly(examples / "load", tmp_path / "no", "4", "8").stderr


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
