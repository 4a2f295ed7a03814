"""The environment of the programs: the libraries of requirements.lock upon the packages of the one we were started in.

torch, and what else .venv has, is that of .venv: its packages come after the libraries on the path. Everything is
installed without dependencies, so no library can bring another torch.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

from rich.console import Console

ROOT = Path(__file__).parents[2]
LOCK = Path(__file__).with_name("requirements.lock")
HOME = Path(os.environ.get("VESTA_ECOSYSTEM", ROOT / "build" / "ecosystem"))


def python() -> Path:
    return HOME / "bin" / "python"


def packages() -> Path:
    return HOME / "lib" / f"python{sys.version_info[0]}.{sys.version_info[1]}" / "site-packages"


def checked(*command: str | Path) -> None:
    done = subprocess.run([str(word) for word in command], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(
            f"{' '.join(map(str, command))}\n{done.stdout}{done.stderr}ecosystem: the command above failed"
        )


def make(console: Console) -> None:
    """Makes the environment, if it is not there or made from something else."""
    base = sysconfig.get_path("purelib")
    made_from = hashlib.sha256(f"{LOCK.read_text()}{base}{sys.version}".encode()).hexdigest()
    stamp = HOME / "made-from"
    if stamp.exists() and stamp.read_text() == made_from:
        return
    console.print(f"installing the libraries of {LOCK.relative_to(ROOT)} into {HOME}")
    stamp.unlink(missing_ok=True)
    with console.status("pip"):
        checked(sys.executable, "-m", "venv", "--clear", HOME)
        (packages() / "base.pth").write_text(f"import site; site.addsitedir({base!r})\n")
        checked(python(), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--no-deps", "-r", LOCK)
    if (packages() / "torch").exists():
        raise SystemExit(f"ecosystem: {LOCK.name} names torch, which is the base environment's")
    stamp.write_text(made_from)


def enter(arguments: list[str], console: Console) -> None:
    """Returns in the environment's interpreter: any other is replaced by it, with the same arguments."""
    if Path(sys.prefix).resolve() == HOME.resolve():
        return
    make(console)
    sys.stdout.flush()
    os.execv(python(), [str(python()), "-m", "tests.ecosystem", *arguments])
