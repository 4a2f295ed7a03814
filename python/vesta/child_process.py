"""Runs a function in a child process, so that a crash or a hang is a result and not the end."""

from __future__ import annotations

import dataclasses
import io
import os
import pickle
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

__all__ = ["Ended", "in_child"]


@dataclass(frozen=True)
class Ended:
    """How a child ended: ``"done"``, ``"raised"``, ``"crashed"`` or ``"hung"``. ``value``: what the function returned.
    ``why``: a sentence about the other ends. ``said``: the function's last message."""

    how: str
    value: Any = None
    why: str = ""
    said: Any = None


def in_child(function: Callable[[Callable[[Any], None]], Any], seconds: float) -> Ended:
    """Calls ``function`` in a fork of this process. It may call its argument with messages; the last one is kept."""
    ours, theirs = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    with warnings.catch_warnings():
        # CPython warns where other threads exist. The child starts its own: for compiles and for ATen.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        os.close(ours)
        status = 1
        try:
            _send(theirs, ("value", function(lambda message: _send(theirs, ("said", message)))))
            status = 0
        except BaseException as error:
            _send(theirs, ("error", f"{type(error).__name__}: {error}"))
        finally:
            sys.stdout.flush()
            os._exit(status)  # nothing of the parent's is torn down here
    os.close(theirs)
    received, in_time = _receive(ours, time.monotonic() + seconds)
    os.close(ours)
    if not in_time:
        os.kill(child, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    try:
        messages = {kind: message for kind, message in map(_plain_data, received)}
    except Exception as error:  # whatever a child that was taken over sends
        return Ended("crashed", why=f"it sends what it should not: {error}")
    said = messages.get("said")
    if not in_time:
        return Ended("hung", why=f"it does not end in {seconds:g} seconds", said=said)
    if "value" in messages:
        return Ended("done", messages["value"], said=said)
    if "error" in messages:
        return Ended("raised", why=str(messages["error"]), said=said)
    name = signal.Signals(-status).name if status < 0 else f"exit status {status}"
    return Ended("crashed", why=f"it ends the process: {name}", said=said)


def _plain_data(message: bytes) -> Any:
    return _PlainData(io.BytesIO(message)).load()


class _PlainData(pickle.Unpickler):
    """Reads what a confined child sends, which must not run code here: data, dtypes and Vesta's dataclasses."""

    def find_class(self, module: str, name: str) -> Any:
        if module == "torch" and isinstance(dtype := getattr(torch, name, None), torch.dtype):
            return dtype
        if module.startswith("vesta."):
            found = super().find_class(module, name)
            if isinstance(found, type) and dataclasses.is_dataclass(found):
                return found
        raise pickle.UnpicklingError(f"a child process sends {module}.{name}")


def _send(pipe: int, message: Any) -> None:
    data = pickle.dumps(message)
    data = len(data).to_bytes(8, "little") + data
    while data:
        data = data[os.write(pipe, data) :]


def _receive(pipe: int, end: float) -> tuple[list[bytes], bool]:
    """The messages until the child closes its pipe, and whether it does so in time."""
    data = bytearray()
    in_time = False
    while (left := end - time.monotonic()) > 0:
        if not select.select([pipe], [], [], left)[0]:
            break
        part = os.read(pipe, 1 << 20)
        if not part:
            in_time = True
            break
        data += part
    messages = []
    while len(data) >= 8 and len(data) >= (size := 8 + int.from_bytes(data[:8], "little")):
        messages.append(bytes(data[8:size]))
        del data[:size]
    return messages, in_time
