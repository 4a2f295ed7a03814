"""Every case under `vesta.compile`, one child process for each file. `python -m tests.capture.run` shows the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.capture.case import case_files, case_names
from tests.capture.running import run
from tests.capture.semantics import Task


def _captures() -> bool:
    vesta = pytest.importorskip("vesta")
    return hasattr(vesta, "compile") and hasattr(vesta._C, "capture")


@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_as_plain_python(path: Path):
    if not _captures():
        pytest.skip("this build of vesta captures no Python")
    outcomes = list(run([Task(str(path), "vesta:compile")]))
    wrong = [f"{o.case}: " + "\n    ".join(o.differences) for o in outcomes if o.differences]
    assert not wrong, f"{len(wrong)} of {len(outcomes)} cases of {path.stem}:\n" + "\n".join(wrong)
    assert len(outcomes) == len(case_names(path))


@pytest.mark.slow
@pytest.mark.parametrize("path", case_files(), ids=lambda path: path.stem)
def test_plain_python_is_as_itself(path: Path):
    """A case that differs from itself would tell nothing."""
    wrong = [f"{o.case}: {o.differences}" for o in run([Task(str(path), "plain")]) if o.differences]
    assert not wrong, "\n".join(wrong)
