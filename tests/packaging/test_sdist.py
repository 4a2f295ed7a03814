"""A source distribution holds all that a build of the package reads."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run(*command: object, cwd: Path) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=300, cwd=cwd)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_it_configures(tmp_path: Path):
    pytest.importorskip("scikit_build_core")
    if not (ROOT / ".git").exists():
        pytest.skip("not a git checkout")
    checkout = tmp_path / "checkout"  # without the build folders and environments of this one, which would be walked
    for name in run("git", "ls-files", cwd=ROOT).splitlines():
        if (ROOT / name).is_file():
            (checkout / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, checkout / name)
    program = f"from scikit_build_core.build import build_sdist; build_sdist({str(tmp_path)!r})"
    run(sys.executable, "-c", program, cwd=checkout)
    (archive,) = tmp_path.glob("vesta-*.tar.gz")
    with tarfile.open(archive) as tar:
        tar.extractall(tmp_path, filter="data")
    source = tmp_path / archive.name.removesuffix(".tar.gz")
    assert (source / "LICENSE").exists() and not (source / "tests").exists()
    assert (source / "tools/gen_opcodes.py").exists() and (source / "tools/gen_forwarding_allocator.py").exists()
    run(
        *("cmake", "-G", "Ninja", "-S", source, "-B", tmp_path / "build"),
        *(f"-DPython_EXECUTABLE={sys.executable}", "-DVESTA_TESTS=OFF"),
        cwd=tmp_path,
    )
