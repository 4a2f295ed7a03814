"""How the package is found, and what it says when it cannot work: each in a fresh process."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import vesta
from tests.build import generates_code
from vesta.torch_version import mismatch

PACKAGE = Path(vesta.__file__).absolute().parents[1]


def run(program: str, *path: Path, argument: str = "") -> subprocess.CompletedProcess[str]:
    environment = dict(os.environ)
    environment["PYTHONPATH"] = os.pathsep.join(map(str, [*path, PACKAGE]))
    return subprocess.run(
        [sys.executable, "-c", program, argument], capture_output=True, text=True, timeout=300, env=environment, cwd="/"
    )


def test_backend_is_found_by_its_entry_point() -> None:
    done = run(
        """
import sys, torch
assert "vesta" not in sys.modules
f = torch.compile(lambda x: torch.nn.functional.silu(x) * x + 1, backend="vesta")
x = torch.randn(5, 17)
with torch.no_grad():
    torch.testing.assert_close(f(x), torch.nn.functional.silu(x) * x + 1)
import vesta
(function,) = vesta.explain().functions
assert not function.fallbacks, function.fallbacks[0].reason
(variant,) = function.variants
assert (variant.ops_fused > 0) == (sys.argv[1] == "True")
""",
        argument=str(generates_code()),
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_environment_imports_the_build() -> None:
    link = Path(sysconfig.get_path("purelib")) / "vesta-build.pth"
    if not link.exists():
        pytest.skip(f"{sys.prefix} is not linked to a build folder (tools/setup.sh does it)")
    program = """
import importlib.metadata, importlib.util
(entry,) = importlib.metadata.entry_points(group="torch_dynamo_backends", name="vesta")
print(importlib.util.find_spec(entry.module.partition(".")[0]).origin)
"""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd="/")
    assert done.returncode == 0, done.stderr
    assert Path(done.stdout.strip()).is_relative_to(link.read_text().strip())


def test_importing_torch_does_not_import_vesta() -> None:
    done = run("import sys, torch; assert not any(name.startswith('vesta') for name in sys.modules)")
    assert done.returncode == 0, done.stderr


def test_another_torch_is_named(tmp_path: Path) -> None:
    fake = tmp_path / "torch"
    fake.mkdir()
    (fake / "__init__.py").write_text("__version__ = '1.2.3+cpu'")
    done = run("import vesta", tmp_path)
    assert done.returncode != 0
    assert "built for torch 2." in done.stderr and "torch 1.2.3+cpu is installed" in done.stderr


def test_torch_of_the_same_minor_version_is_taken() -> None:
    assert not mismatch("2.13.0", "2.13.1+cu130")
    assert not mismatch("2.13.0", "2.13.0a0+git123")
    assert "2.15.0.dev1" in mismatch("2.13.0", "2.15.0.dev1")
