"""The programs under compute-sanitizer: accesses out of bounds, and races in shared memory. Kernels of ours alone.

python -m tests.cuda.sanitized check FIRST    the programs from number FIRST on, one line each, with nothing around them
python -m tests.cuda.sanitized run FIRST      runs them without a comparison, so that eager launches nothing
"""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import time

from tests.cuda import programs

# What each tool watches. racecheck fails by itself in kernels of cuBLAS that eager launches.
TOOLS = {"memcheck": "check", "racecheck": "run"}
OWN_ERROR = "Internal Sanitizer Error"


def path() -> str | None:
    """The tools of compute-sanitizer, which is part of CUDA's toolkit."""
    return shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")


def run(tool: str, limit_s: float, notes: list[str]) -> tuple[int, list[str]]:
    """How many programs ran, and what the tool found: a line each.

    The tool can fail by itself, in a kernel of a library. The program that ran then runs again, as the
    first one of a new process. If the tool fails there, too, that is a failure.
    """
    sanitizer = path()
    if sanitizer is None:
        return 0, ["compute-sanitizer is not installed: it comes with CUDA's toolkit; --only names the other parts"]
    command = [sanitizer, "--tool", tool, "--kernel-name", "kernel_substring=vesta_", "--print-limit", "20"]
    names = [program.name for program in programs.programs()]
    ran, end, failures = 0, time.monotonic() + limit_s, []
    while ran < len(names):
        try:
            done = subprocess.run(
                [*command, sys.executable, "-m", "tests.cuda.sanitized", TOOLS[tool], str(ran)],
                capture_output=True,
                text=True,
                timeout=max(1.0, end - time.monotonic()),
            )
        except subprocess.TimeoutExpired:
            return ran, [*failures, f"no end after {limit_s:g} s"]
        text = done.stdout + done.stderr
        outcomes = re.findall(r"^ran (\d+): (.*)$", done.stdout, re.MULTILINE)
        # Nothing that a process does after the tool's own error counts.
        own = text.find(OWN_ERROR)
        right = [number for number, found in outcomes if not found]
        if own >= 0 and right:
            failures += [f"{names[int(n)]}: {found}" for n, found in outcomes if found and int(n) < int(right[-1])]
            failures += [
                line for line in text.splitlines() if re.match(r"=+ (?:Error: Race|Warning: Race|Invalid )", line)
            ]
            ran = int(right[-1]) + 1
            notes.append(f"{tool} failed by itself in {names[ran]}, which ran again in another process")
            continue
        ran += len(outcomes)
        failures += [f"{names[int(number)]}: {found}" for number, found in outcomes if found]
        summary = re.findall(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?)", text)
        if own >= 0 or done.returncode != 0 or not summary or not outcomes:
            told = [line for line in text.splitlines() if line.startswith("=========")]
            return ran, [*failures, *(told[:20] or [f"exit {done.returncode}: {text.strip()[-300:]}"])]
        if sum(int(n or m) for n, m in summary):
            failures += [s for s in text.splitlines() if re.match(r"=+ (?!COMPUTE|ERROR S|RACECHECK S)\S", s)][:20]
    return ran, failures


def main() -> None:
    work = {"check": programs.check, "run": programs.run}[sys.argv[1]]
    for number, program in enumerate(programs.programs()):
        if number >= int(sys.argv[2]):
            print(f"ran {number}: {work(program)}", flush=True)


if __name__ == "__main__":
    main()
