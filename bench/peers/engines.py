"""The engines: how each makes a program of a model, and how it is called.

An engine is loaded after the model is built: its packages lie in a folder that is searched last, and libraries that
look for optional packages must not find them.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.utils import _pytree as pytree

Arguments = tuple[torch.Tensor, ...]
Call = Callable[[], Any]


class Engine(Protocol):
    """`packages`: what must be installed in the folder of engines. `writes`: programs may write to their arguments.
    `parts`: seconds of the steps of `make`, by their names. `lost_s`: seconds of a step that failed before another way
    was found. `notes`: what else is to be known about the program."""

    title: str
    packages: tuple[str, ...]
    writes: bool
    parts: dict[str, float]
    lost_s: float
    notes: list[str]

    def load(self) -> None:
        """Imports what the first call would import, so that its time does not include it."""

    def make(self, model: torch.nn.Module, arguments: Arguments, threads: int) -> Call:
        """What a caller does before the first call. The result is called many times."""

    def wait(self) -> None:
        """Returns when later calls are as fast as they get."""

    def tensors(self, result: Any) -> list[torch.Tensor]: ...


@contextmanager
def timed(parts: dict[str, float], name: str) -> Iterator[None]:
    start = time.perf_counter()
    yield
    parts[name] = time.perf_counter() - start


class Vesta:
    title = "Vesta"
    packages: tuple[str, ...] = ()
    writes = True

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.lost_s = 0.0
        self.notes: list[str] = []
        self._program: Any = None

    def load(self) -> None:
        importlib.import_module("vesta")

    def make(self, model: torch.nn.Module, arguments: Arguments, threads: int) -> Call:
        from bench.compilers import compiled

        self._program = compiled("vesta", model)
        return lambda: self._program(*arguments)

    def wait(self) -> None:
        import vesta

        vesta.wait(self._program)
        report = vesta.explain()
        self.notes += [f"{b.where}: {b.reason}" for b in report.breaks]
        self.notes += [f.reason for f in report.fallbacks]

    def tensors(self, result: Any) -> list[torch.Tensor]:
        return [t for t in pytree.tree_leaves(result) if isinstance(t, torch.Tensor)]


class OpenVino:
    title = "OpenVINO"
    packages = ("openvino",)
    writes = False

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.lost_s = 0.0
        self.notes: list[str] = []
        self._openvino: Any = None

    def load(self) -> None:
        self._openvino = importlib.import_module("openvino")
        importlib.import_module("openvino.frontend.pytorch.ts_decoder")
        importlib.import_module("openvino.frontend.pytorch.fx_decoder")
        importlib.import_module("torch.export")

    def _converted(self, model: torch.nn.Module, arguments: Arguments) -> Any:
        """By torch.jit.trace, and where that fails by torch.export."""
        start = time.perf_counter()
        try:
            with timed(self.parts, "convert"):
                return self._openvino.convert_model(
                    model, example_input=arguments, input=[tuple(a.shape) for a in arguments]
                )
        except Exception as error:
            self.notes.append(f"converted by torch.export; by torch.jit.trace it fails: {one_line(error)}")
            self.lost_s = time.perf_counter() - start
        with timed(self.parts, "convert"):
            return self._openvino.convert_model(torch.export.export(model, arguments))

    def make(self, model: torch.nn.Module, arguments: Arguments, threads: int) -> Call:
        settings = {
            "PERFORMANCE_HINT": "LATENCY",
            "INFERENCE_NUM_THREADS": threads,
            "INFERENCE_PRECISION_HINT": "f32",
        }
        converted = self._converted(model, arguments)
        with timed(self.parts, "compile"):
            request = self._openvino.Core().compile_model(converted, "CPU", settings).create_infer_request()
        inputs = [a.numpy() for a in arguments]
        return lambda: request.infer(inputs, share_inputs=True, share_outputs=True)

    def wait(self) -> None:
        pass

    def tensors(self, result: Any) -> list[torch.Tensor]:
        return [torch.from_numpy(array) for array in result.values()]


class OnnxRuntime:
    title = "ONNX Runtime"
    packages = ("onnxruntime", "onnx", "onnxscript")
    writes = False

    def __init__(self) -> None:
        self.parts: dict[str, float] = {}
        self.lost_s = 0.0
        self.notes: list[str] = []
        self._runtime: Any = None

    def load(self) -> None:
        self._runtime = importlib.import_module("onnxruntime")
        importlib.import_module("onnxscript")
        importlib.import_module("torch.onnx._internal.exporter._compat")

    def make(self, model: torch.nn.Module, arguments: Arguments, threads: int) -> Call:
        with tempfile.TemporaryDirectory(prefix="vesta-bench-") as folder:
            path = f"{folder}/model.onnx"
            with timed(self.parts, "convert"):
                torch.onnx.export(model, arguments, path, dynamo=True, external_data=True, verbose=False)
            options = self._runtime.SessionOptions()
            options.intra_op_num_threads = threads
            options.graph_optimization_level = self._runtime.GraphOptimizationLevel.ORT_ENABLE_ALL
            options.log_severity_level = 3
            with timed(self.parts, "compile"):
                session = self._runtime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        names = [i.name for i in session.get_inputs()]
        inputs = {name: a.numpy() for name, a in zip(names, arguments, strict=True)}
        return lambda: session.run(None, inputs)

    def wait(self) -> None:
        pass

    def tensors(self, result: Any) -> list[torch.Tensor]:
        return [torch.from_numpy(array) for array in result]


ENGINES: dict[str, Callable[[], Engine]] = {"vesta": Vesta, "openvino": OpenVino, "onnxruntime": OnnxRuntime}
TITLES: dict[str, str] = {"vesta": Vesta.title, "openvino": OpenVino.title, "onnxruntime": OnnxRuntime.title}


def one_line(error: BaseException, length: int = 500) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:length]


def versions(engine: str, folder: Path) -> dict[str, str | None]:
    """The versions of the packages that an engine needs, None for one that is not installed."""
    found = {d.name: d.version for d in importlib.metadata.distributions(path=[*sys.path, str(folder)])}
    return {name: found.get(name) for name in ENGINES[engine]().packages}
