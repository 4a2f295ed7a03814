"""The programs under compute-sanitizer: accesses out of bounds, and races in shared memory. Kernels of ours alone."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys

TOOLS = ("memcheck", "racecheck")


def path() -> str | None:
    """The tools of compute-sanitizer, which is part of CUDA's toolkit."""
    return shutil.which("compute-sanitizer") or shutil.which("/usr/local/cuda/bin/compute-sanitizer")


def run(tool: str, limit_s: float) -> tuple[int, list[str]]:
    """How many programs ran, and what the tool found: a line each."""
    sanitizer = path()
    if sanitizer is None:
        return 0, ["compute-sanitizer is not installed: it comes with CUDA's toolkit; --only names the other parts"]
    command = [sanitizer, "--tool", tool, "--kernel-name", "kernel_substring=vesta_", "--print-limit", "20"]
    try:
        done = subprocess.run(
            [*command, sys.executable, "-m", "tests.cuda", "--only", "programs"],
            capture_output=True,
            text=True,
            timeout=limit_s,
        )
    except subprocess.TimeoutExpired:
        return 0, [f"no end after {limit_s:g} s"]
    text = done.stdout + done.stderr
    ran = re.search(r"^\| programs \| (\d+) \|", text, re.MULTILINE)
    summary = re.findall(r"(?:ERROR SUMMARY: (\d+) errors?|RACECHECK SUMMARY: (\d+) hazards?)", text)
    if done.returncode != 0 or not ran or not summary:
        told = [line for line in text.splitlines() if "=========" in line or line.startswith("  ")]
        return int(ran[1]) if ran else 0, told[:20] or [f"exit {done.returncode}: {text.strip()[-300:]}"]
    found = sum(int(n or m) for n, m in summary)
    errors = [line for line in text.splitlines() if re.match(r"=+ (?!COMPUTE|ERROR S|RACECHECK S)\S", line)]
    return int(ran[1]), errors[:20] or [f"{found} errors"] if found else []
