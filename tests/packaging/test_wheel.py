"""A wheel holds everything but torch: it is unpacked beside nothing else and used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest
import torch

ROOT = Path(__file__).resolve().parents[2]

pytestmark = pytest.mark.slow  # it builds everything once more


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    pytest.importorskip("scikit_build_core")
    folder = tmp_path_factory.mktemp("wheel")
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pip", "wheel", "--no-deps", "--no-build-isolation", "--disable-pip-version-check"),
            *("--quiet", "-w", str(folder), str(ROOT)),
        ],
        capture_output=True,
        text=True,
        timeout=1500,
        env={"CC": "cc", "CXX": "c++"} | os.environ,  # as cmake finds them, so that ccache has their objects
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return next(folder.glob("vesta-*.whl"))


def test_contents(wheel: Path) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    for name in ("vesta/libvesta.so", "vesta/libvesta_cuda.so", "vesta/__init__.py", "vesta/include/vesta/compile.h"):
        assert name in names
    assert any(name.startswith("vesta/_C.") for name in names)
    assert not [name for name in names if not name.startswith(("vesta/", "vesta-"))]


def test_clean_environment(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "venv"
    venv.create(environment, with_pip=False)
    python = environment / "bin/python"
    site = next((environment / "lib").glob("python*/site-packages"))
    zipfile.ZipFile(wheel).extractall(site)
    # torch and what it needs come from this environment; vesta must come from the wheel.
    (site / "torch.pth").write_text(str(Path(torch.__file__).parents[1]) + "\n")
    program = """
import sys, torch
assert "vesta" not in sys.modules
assert "vesta" in torch._dynamo.list_backends(), torch._dynamo.list_backends()
f = torch.compile(lambda x: torch.nn.functional.gelu(x) * 2 + 1, backend="vesta")
x = torch.randn(7, 33)
with torch.no_grad():
    torch.testing.assert_close(f(x), torch.nn.functional.gelu(x) * 2 + 1)
import vesta
assert vesta.__file__.startswith(sys.prefix), vesta.__file__
print("fine")
"""
    clean = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    done = subprocess.run([python, "-c", program], capture_output=True, text=True, timeout=300, env=clean, cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.endswith("fine\n")
