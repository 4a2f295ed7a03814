"""What the tests know of the build is what cmake was told."""

from __future__ import annotations

import re
from pathlib import Path

import vesta
from tests.build import generates_code


def test_code_is_generated_unless_cmake_was_told_otherwise() -> None:
    folder = Path(vesta._C.__file__).parents[2]
    (option,) = re.findall(r"^VESTA_LLVM:BOOL=(\w+)$", (folder / "CMakeCache.txt").read_text(), re.MULTILINE)
    assert generates_code() == (option == "ON")
