"""Checks that includes never point to a later stage, and that torch, CUDA and LLVM appear only where they may.

The stages import no module of the Python package either: the bindings look its objects up for them.
"""

from __future__ import annotations

import argparse
import re
import sys
from pathlib import Path

# Each stage with the stages whose headers it may include, besides its own and include/vesta.
ALLOWED: dict[str, set[str]] = {
    "base": set(),
    "graph": {"base"},
    "interop": {"base"},
    "trace": {"base", "graph", "interop"},
    "loops": {"base", "graph"},
    "schedule": {"base", "graph", "loops"},
    "machine": {"base", "loops"},
    "store": {"base"},
    "codegen": {"base", "loops", "machine", "store"},
    "artifact": {"base", "machine"},
    "program": {"base", "artifact", "machine"},
    "runtime": {"base", "machine", "artifact", "interop", "program"},
}
ALLOWED["pipeline"] = set(ALLOWED)
ALLOWED["capture"] = {*ALLOWED["pipeline"], "pipeline"}
ALLOWED["bindings"] = {*ALLOWED["capture"], "capture"}

TORCH_STAGES = {"interop", "trace", "runtime", "pipeline", "capture", "bindings"}
# Entry-point headers that show at::Tensor.
TORCH_PUBLIC = ("vesta/compile.h", "vesta/load.h", "vesta/detail/")

TORCH_HEADER = re.compile(r"^(torch|ATen|c10|caffe2|pybind11)/")
# The folders of src/capture/python in their order: each may include those before it. Files beside the folders (owned
# references and the like) may be included by all of them, and include none.
CAPTURE_PYTHON = "src/capture/python/"
CAPTURE_ORDER = (
    "breaks",
    "frame",
    "gil",
    "interpreter",
    "hook",
    "values",
    "sources",
    "tensors",
    "wrapper",
    "guards",
    "functions",
    "tracer",
    "epilogue",
    "segments",
    "saving",
)
# Those without torch, and the only one that sees CPython's internals.
TORCH_FREE = tuple(
    f"{CAPTURE_PYTHON}{folder}/" for folder in CAPTURE_ORDER if folder not in ("tensors", "functions", "saving")
)
PYTHON_INTERNALS = CAPTURE_PYTHON + "frame/"

PYTHON_INTERNAL_HEADER = re.compile(r"^(internal/)?pycore_")
# The folder of libvesta_cuda, the only one that sees CUDA's headers and torch's that include them.
CUDA_LIBRARY = "src/runtime/cuda/library/"
CUDA_HEADER = re.compile(
    r"^((c10|ATen|ATen/native|torch/csrc)/(cuda|cudnn)/|crt/|cooperative_groups"
    r"|(cu[A-Z]\w*|cu(da|blas|dnn|fft|rand|solver|sparse)\w*|(driver|vector|surface|texture)_types|nccl|nvrtc|nvJitLink)\.h)"
)
LLVM_HEADER = re.compile(r"^(llvm|llvm-c)/")
PACKAGE_IMPORT = re.compile(r"(?i)import\w*\(\"vesta\b")
INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^">]+)[">]')


def stage_of(path: Path, root: Path) -> str | None:
    parts = path.relative_to(root).parts
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[:2] == ("python", "bindings"):
        return "bindings"
    return None


def folder_of(path: str, before: str) -> str | None:
    """The first folder of a file below `before`: "" for a file beside the folders, None for a file elsewhere."""
    if not path.startswith(before):
        return None
    folder, below, _ = path.removeprefix(before).partition("/")
    return folder if below else ""


def wrong_in_capture(own: str, target: str) -> str | None:
    """Why a file of the capture of Python may not include another one; None if it may."""
    here, there = folder_of(own, CAPTURE_PYTHON), folder_of("src/" + target, CAPTURE_PYTHON)
    if here is None or not there or here == there:
        return None
    for folder in (here, there):
        if folder and folder not in CAPTURE_ORDER:
            return f"the folder {folder} has no place in CAPTURE_ORDER of tools/check_includes.py"
    if here and CAPTURE_ORDER.index(there) < CAPTURE_ORDER.index(here):
        return None
    return f"{CAPTURE_PYTHON}{here} must not include {target}, which comes later"


def check(path: Path, root: Path) -> list[str]:
    stage = stage_of(path, root)
    public = path.relative_to(root).parts[0] == "include"
    problems = []
    for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
        where = f"{path.relative_to(root)}:{number}"
        if stage not in (None, "bindings") and PACKAGE_IMPORT.search(line):
            problems.append(f"{where}: only python/bindings may import modules of the Python package")
        match = INCLUDE.match(line)
        if not match:
            continue
        target = match.group(1)
        first = target.split("/")[0]
        if public:
            own = str(path.relative_to(root / "include"))
            if TORCH_HEADER.match(target) and not own.startswith(TORCH_PUBLIC):
                problems.append(f"{where}: {own} must not include torch ({target})")
            if first in (*ALLOWED, "fmt") or LLVM_HEADER.match(target) or CUDA_HEADER.match(target):
                problems.append(f"{where}: a public header must not include {target}")
            continue
        if stage is None:
            continue
        if stage not in ALLOWED:
            problems.append(f"{where}: the stage {stage} is not in tools/check_includes.py")
            return problems
        if first in ALLOWED and first != stage and first not in ALLOWED[stage]:
            problems.append(f"{where}: {stage} must not include {target}")
        if TORCH_HEADER.match(target) and stage not in TORCH_STAGES:
            problems.append(f"{where}: {stage} must not include torch ({target})")
        if target.startswith(TORCH_PUBLIC) and stage not in TORCH_STAGES:
            problems.append(f"{where}: {stage} must not include {target}, which includes torch")
        if LLVM_HEADER.match(target) and "codegen/llvm" not in str(path):
            problems.append(f"{where}: only src/codegen/llvm may include LLVM ({target})")
        own = str(path.relative_to(root))
        if wrong := wrong_in_capture(own, target):
            problems.append(f"{where}: {wrong}")
        python = stage == "bindings" or own.startswith("src/capture/python/")
        if target in ("Python.h", "pybind11/pybind11.h") and not python:
            problems.append(f"{where}: only python/bindings and src/capture/python may include {target}")
        if not own.startswith(CUDA_LIBRARY):
            if CUDA_HEADER.match(target):
                problems.append(f"{where}: only {CUDA_LIBRARY} may include CUDA's headers ({target})")
            if target.startswith(CUDA_LIBRARY.removeprefix("src/")):
                problems.append(f"{where}: {target} belongs to a library of its own")
        if TORCH_HEADER.match(target) and own.startswith(TORCH_FREE):
            problems.append(f"{where}: must not include torch ({target})")
        if PYTHON_INTERNAL_HEADER.match(target) and not own.startswith(PYTHON_INTERNALS):
            problems.append(f"{where}: only {PYTHON_INTERNALS} may include CPython's internal headers ({target})")
    return problems


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=Path, default=Path(__file__).resolve().parent.parent, help="the checkout")
    root: Path = parser.parse_args().root
    files = [
        path
        for folder in ("src", "include", "python/bindings")
        for path in sorted((root / folder).rglob("*"))
        if path.suffix in (".h", ".cpp")
    ]
    problems = [problem for path in files for problem in check(path, root)]
    for problem in problems:
        print(problem)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
