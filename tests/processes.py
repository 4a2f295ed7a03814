"""Python programs in processes of their own, without the seconds that an import of torch takes.

`run` is `python -c program arguments`. The process is forked from a server that has imported torch and nothing of
vesta. Two servers, started apart, take turns: two runs in a row are processes that differ in the seed of hashes and in
the addresses of libraries, as any two processes do. A program whose environment differs in more than Vesta's own
variables, which torch may have read when it was imported, runs in a fresh process.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import json
import os
import select
import signal
import subprocess
import sys
import tempfile
import traceback
import types
from pathlib import Path
from typing import Any

PRELOAD = ("torch", "torch._dynamo", "torch.testing")


def run(
    program: str, *arguments: str, env: dict[str, str] | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """The finished process with its texts. Raises subprocess.TimeoutExpired."""
    command = [sys.executable, "-c", program, *arguments]
    env = dict(os.environ) if env is None else env
    changed = {name for name in {*env, *_ENVIRONMENT} if env.get(name) != _ENVIRONMENT.get(name)}
    if not all(name.startswith(("VESTA_", "PYTEST_")) for name in changed):
        return subprocess.run(command, capture_output=True, text=True, timeout=timeout, env=env)
    if not _servers:
        _servers.extend(_Server() for _ in range(2))
    status, out, err = _servers[next(_turns) % 2].run(program, arguments, env, timeout)
    return subprocess.CompletedProcess(command, status, out, err)


_ENVIRONMENT = dict(os.environ)  # the servers'
_servers: list[_Server] = []
_turns = itertools.count()


class _Server:
    def __init__(self) -> None:
        command = [sys.executable, "-m", __name__]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=_ENVIRONMENT)
        self.answers = b""
        atexit.register(self.process.kill)

    def run(
        self, program: str, arguments: tuple[str, ...], env: dict[str, str], timeout: float
    ) -> tuple[int, str, str]:
        with tempfile.TemporaryDirectory(prefix="vesta-tests-") as folder:
            out, err = Path(folder) / "out", Path(folder) / "err"
            pid = self._ask([program, arguments, env, os.getcwd(), str(out), str(err)], None)
            try:
                status = self._ask(None, timeout)
            except TimeoutError:
                os.kill(pid, signal.SIGKILL)
                self._ask(None, None)
                raise subprocess.TimeoutExpired(program, timeout) from None
            return status, out.read_text(errors="replace"), err.read_text(errors="replace")

    def _ask(self, request: Any, timeout: float | None) -> int:
        """The server's next answer: to a request the child's process, and then the child's exit status."""
        assert self.process.stdin is not None and self.process.stdout is not None
        if request is not None:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        while b"\n" not in self.answers:
            if not select.select([self.process.stdout], [], [], timeout)[0]:
                raise TimeoutError
            read = os.read(self.process.stdout.fileno(), 1024)
            assert read, "the server of processes has died"
            self.answers += read
        answer, _, self.answers = self.answers.partition(b"\n")
        return int(answer)


def _serve() -> None:
    for name in PRELOAD:
        __import__(name)
    requests, answers = os.dup(0), os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    for line in os.fdopen(requests):
        pid = os.fork()
        if pid == 0:
            _become(*json.loads(line))
        answers.write(f"{pid}\n")
        answers.flush()
        answers.write(f"{os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])}\n")
        answers.flush()


def _become(program: str, arguments: list[str], env: dict[str, str], cwd: str, out: str, err: str) -> None:
    """Is `python -c program arguments` from here on."""
    for target, path in ((1, out), (2, err)):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND), target)
    os.chdir(cwd)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["-c", *arguments]
    main = sys.modules["__main__"] = types.ModuleType("__main__")
    status = 0
    try:
        exec(compile(program, "<string>", "exec"), main.__dict__)
    except SystemExit as end:
        status = end.code if isinstance(end.code, int) else int(end.code is not None)
        if isinstance(end.code, str):
            print(end.code, file=sys.stderr)
    except BaseException:
        traceback.print_exc()
        status = 1
    with contextlib.suppress(Exception):
        atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _serve()
