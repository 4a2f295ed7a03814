"""Random changes of state between calls are seen."""

from __future__ import annotations

import pytest

import vesta
from tests.capture import mutation_fuzz


@pytest.mark.skipif(not hasattr(vesta._C, "capture"), reason="this build has no capture")
@pytest.mark.parametrize("seed", range(12))
def test_changes_are_seen(seed: int) -> None:
    found = mutation_fuzz.check(seed, vesta.compile)
    assert found is None, f"{found} (python -m tests.capture.mutation_fuzz --seeds {seed}:{seed + 1} --trace)"


def test_a_missed_change_is_found_and_shrunk() -> None:
    def first_result_for_ever(function):
        results = []
        return lambda *arguments: (results or results.append(function(*arguments)) or results)[0]

    found = [mutation_fuzz.check(seed, first_result_for_ever) for seed in range(4)]
    assert all(each is not None and each.count(": ") <= 6 for each in found), found
