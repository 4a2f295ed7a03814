"""One process for each workload and compiler, and its measurements."""

from __future__ import annotations

import importlib.util
import json
import os
import select
import signal
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
COMPILERS = ("eager", "inductor", "backend", "vesta")
TITLES = {
    "eager": "eager",
    "inductor": "torch.compile",
    "backend": 'torch.compile(backend="vesta")',
    "vesta": "vesta.compile",
}


@dataclass
class Run:
    """One workload under one compiler."""

    first_s: float = 0.0
    # In further processes: the additional time of a first call over a steady one, with the caches that this process
    # filled, and with a program that this process saved, including the time to load it.
    warm_beyond_s: list[float] = field(default_factory=list)
    loaded_beyond_s: list[float] = field(default_factory=list)
    file_bytes: int = 0  # of the saved program without its weights
    compile_ms: float = 0.0
    trace_ms: float = 0.0
    rounds_s: list[float] = field(default_factory=list)
    ratios: list[float] = field(default_factory=list)
    peak_mib: float = 0.0
    start_mib: float = 0.0
    tensor_bytes: int = 0
    error: float = 0.0
    failure: str = ""
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def median_ms(self) -> float:
        return 1e3 * statistics.median(self.rounds_s) if self.rounds_s else float("nan")

    @property
    def warm_ms(self) -> float:
        """The additional time of the first call over a steady one in a process that finds filled caches."""
        return 1e3 * statistics.median(self.warm_beyond_s) if self.warm_beyond_s else float("nan")

    @property
    def loaded_ms(self) -> float:
        """The additional time of loading a saved program and its first call over a steady call."""
        return 1e3 * statistics.median(self.loaded_beyond_s) if self.loaded_beyond_s else float("nan")

    @property
    def tensor_mib(self) -> float:
        """The memory of a call besides inputs and weights: the peak of its tensors, and the arena kept for it."""
        arena: int = self.details.get("arena_bytes", 0)
        return (self.tensor_bytes + arena) / 2**20

    @property
    def ratio(self) -> float:
        return statistics.median(self.ratios) if self.ratios else float("nan")


def built_program(name: str) -> Path | None:
    """A benchmark's program in the build that Python imports Vesta from, None if it has none."""
    package = importlib.util.find_spec("vesta")  # BUILD/python/vesta/__init__.py
    if package is None or package.origin is None:
        return None
    path = Path(package.origin).parents[2] / "bench" / name
    return path if path.exists() else None


class Worker:
    """A process that reads commands: `python -m module arguments`. Compilers keep their results below `cache`; Vesta
    does so if `keeps`."""

    def __init__(self, module: str, arguments: list[str], cache: str, limit_s: float, keeps: bool = False) -> None:
        self.run = Run()
        environment = {
            **os.environ,
            "VESTA_CACHE_DIR": f"{cache}/vesta" if keeps else "",
            "VESTA_BENCH_FILE": f"{cache}/program.vesta",
            "TORCHINDUCTOR_CACHE_DIR": f"{cache}/inductor",
            "HF_HUB_OFFLINE": "1",
            "TOKENIZERS_PARALLELISM": "false",
        }
        self._limit_s = limit_s
        self._errors = tempfile.TemporaryFile("w+")  # noqa: SIM115 (closed by close)
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._errors,
            text=True,
            cwd=ROOT,
            env=environment,
        )
        self.run.start_mib = self._read().get("rss_mib", 0.0)

    def ask(self, command: str) -> dict[str, Any]:
        """The answer; {} if the process has failed (run.failure says why)."""
        if self.run.failure:
            return {}
        assert self._process.stdin
        try:
            self._process.stdin.write(command + "\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            pass
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], self._limit_s)
        line = self._process.stdout.readline() if ready else ""
        if line:
            return json.loads(line)  # type: ignore[no-any-return]
        self._process.kill()
        code = self._process.wait()
        self._errors.seek(0)
        last = self._errors.read().strip().splitlines()[-1:] or [""]
        self.run.failure = f"no answer in {self._limit_s:g} s" if not ready else f"exit {code}: {last[0]}"
        return {}

    def pause(self) -> None:
        """Stops the process until `resume` is called. Its threads may spin while they wait, which slows down others."""
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        self._errors.close()
