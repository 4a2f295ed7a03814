"""First calls on a machine without an idle core: none waits much longer than its deadline. The same on a GPU is a part
of tests.cuda."""

from __future__ import annotations

import pytest

from tests.programs.first_calls import check_first_calls


@pytest.mark.slow
@pytest.mark.alone
def test_first_calls_while_each_stage_takes_ten_seconds() -> None:
    check_first_calls("cpu")
