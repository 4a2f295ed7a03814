"""How runs under compute-sanitizer are read, with scripts in its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuda import programs, sanitized

COUNT = len(list(programs.programs()))


def tool(folder: Path, body: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A sanitizer whose script has the number of the first program in $first, and counts its runs in $runs."""
    script = folder / "compute-sanitizer"
    script.write_text(
        f"""#!/bin/bash
first=${{@: -1}}
runs=$(cat {folder}/runs 2>/dev/null || echo 0)
echo $((runs + 1)) > {folder}/runs
programs() {{ for i in $(seq $1 $2); do echo "ran $i: $3"; done; }}
{body}
"""
    )
    script.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def run(limit_s: float = 60) -> tuple[int, list[str], list[str]]:
    notes: list[str] = []
    count, failures = sanitized.run("racecheck", limit_s, notes)
    return count, failures, notes


def test_all_programs_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, f'programs 0 {COUNT - 1} ""; echo "RACECHECK SUMMARY: 0 hazards"', monkeypatch)
    assert run() == (COUNT, [], [])


def test_hazards_and_wrong_results_are_failures(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""programs 0 {COUNT - 2} ""
programs {COUNT - 1} {COUNT - 1} wrong
echo "========= Error: Race reported between Write access and Read access"
echo "========= RACECHECK SUMMARY: 1 hazard displayed" """
    tool(tmp_path, body, monkeypatch)
    count, failures, notes = run()
    assert (count, notes) == (COUNT, [])
    assert failures[0].endswith(": wrong")
    assert "Race reported" in failures[1]


def test_a_program_in_which_the_tool_fails_runs_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = f"""if [ $first = 0 ]; then
  programs 0 2 ""
  echo "========= Internal Sanitizer Error: it cannot go on"
  echo "ran 3: CUDA error"
  exit 1
fi
programs $first {COUNT - 1} ""
echo "========= RACECHECK SUMMARY: 0 hazards" """
    tool(tmp_path, body, monkeypatch)
    count, failures, notes = run()
    assert (count, failures) == (COUNT, [])
    assert len(notes) == 1
    assert list(programs.programs())[3].name in notes[0]
    assert (tmp_path / "runs").read_text() == "2\n"


@pytest.mark.parametrize(
    "body", ["echo '========= Internal Sanitizer Error: no'; exit 1", "echo 'ERROR SUMMARY: 0 errors'"]
)
def test_a_tool_that_runs_nothing_is_a_failure(body: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, body, monkeypatch)
    count, failures, _ = run()
    assert count == 0
    assert failures


def test_the_limit_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tool(tmp_path, "sleep 30", monkeypatch)
    assert run(1)[1] == ["no end after 1 s"]
