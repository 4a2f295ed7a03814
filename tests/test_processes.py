"""A program of tests/processes.py runs as `python -c` does."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests import processes


def test_what_it_prints_and_how_it_ends() -> None:
    done = processes.run("import sys; print(sys.argv[1:]); print('told', file=sys.stderr); sys.exit(3)", "a", "b c")
    assert (done.returncode, done.stdout, done.stderr) == (3, "['a', 'b c']\n", "told\n")
    assert processes.run("pass").returncode == 0
    stopped = processes.run("raise SystemExit('no such thing')")
    assert stopped.returncode == 1 and stopped.stderr == "no such thing\n"
    failed = processes.run("import os\nos.nothing()")
    assert failed.returncode == 1 and "AttributeError" in failed.stderr
    assert processes.run("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)").returncode == -11


def test_each_is_a_process_of_its_own() -> None:
    told = "import os, sys; print(os.getpid(), hash('a'), 'vesta' in sys.modules, os.environ.get('VESTA_CACHE_DIR'))"
    first, second = (processes.run(told, env={**os.environ, "VESTA_CACHE_DIR": x}).stdout.split() for x in "ab")
    assert first[0] != second[0] and first[1] != second[1]
    assert first[2:] == ["False", "a"] and second[2:] == ["False", "b"]


def test_exit_functions_run_and_a_long_one_ends(tmp_path: Path) -> None:
    processes.run(f"import atexit; atexit.register(lambda: open({str(tmp_path / 'left')!r}, 'w').close())")
    assert (tmp_path / "left").exists()
    with pytest.raises(subprocess.TimeoutExpired):
        processes.run("import time; time.sleep(60)", timeout=0.5)
    assert processes.run("print('the next one')").stdout == "the next one\n"


def test_other_variables_need_a_fresh_process() -> None:
    program = "import os, sys; print(os.environ['OTHER'], 'torch' in sys.modules)"
    assert processes.run(program, env={**os.environ, "OTHER": "1"}).stdout == "1 False\n"
