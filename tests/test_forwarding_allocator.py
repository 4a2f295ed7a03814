"""tools/gen_forwarding_allocator.py passes every virtual function on, or says what it cannot read."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from tools.gen_forwarding_allocator import CLASSES, Function, Unreadable, forwarded, virtual_functions

ROOT = Path(__file__).resolve().parents[1]
HEADERS = Path(torch.__file__).parent / "include"
BUILD = ROOT / os.environ.get("VESTA_BUILD", "build/release")

BODIES = {
    "Allocator": "virtual ~Allocator() = default; virtual int* f(int n) = 0; void g();",
    "DeviceAllocator": "DeviceAllocator(); ~DeviceAllocator() override;",
    "CUDAAllocator": "",
}


def headers(folder: Path, changed: dict[str, str], base: str = ": public {}") -> Path:
    """Headers whose classes have these bodies."""
    before = ""
    for header, name in CLASSES:
        path = folder / header
        path.parent.mkdir(parents=True, exist_ok=True)
        bases = base.format(before) if before else ""
        path.write_text(f"class {name};\nclass C10_API {name} {bases} {{\n{(BODIES | changed)[name]}\n}};\n")
        before = name
    return folder


def read(folder: Path, body: str) -> list[Function]:
    return forwarded(headers(folder, {"CUDAAllocator": body}), {"f": 1})


@pytest.mark.parametrize(
    ("declaration", "written"),
    [
        ("virtual void a() {}", "void a() override { return to_->a(); }"),
        ("virtual bool a() const = 0;", "bool a() const override { return to_->a(); }"),
        ("int a(int) noexcept override;", "int a(int a0) noexcept override { return to_->a(std::forward<int>(a0)); }"),
        (
            'virtual void a(const X& /*x, y*/, P p = {0, 1}) { CHECK("}{ \\" //", 1); }',
            "void a(const X& a0, P a1) override { return to_->a(std::forward<const X&>(a0), std::forward<P>(a1)); }",
        ),
        (
            "[[nodiscard]] virtual std::pair<A, B>\n a(std::function<bool(S, int)> f = nullptr) = 0;",
            "std::pair<A, B> a(std::function<bool(S, int)> a0) override "
            "{ return to_->a(std::forward<std::function<bool(S, int)>>(a0)); }",
        ),
        (
            "virtual void a(unsigned long, long x, const T) = 0;",
            "void a(unsigned long a0, long a1, const T a2) override { return to_->a("
            "std::forward<unsigned long>(a0), std::forward<long>(a1), std::forward<const T>(a2)); }",
        ),
    ],
)
def test_a_function(tmp_path: Path, declaration: str, written: str) -> None:
    (function,) = read(tmp_path, f"public: CUDAAllocator() : x_(1) {{}} int x_{{0}}; using Y = int; {declaration}")
    assert function.text() == written


def test_the_most_derived_declaration_counts(tmp_path: Path) -> None:
    base = "virtual int f() = 0; virtual void g(const c10::X& x) = 0; virtual void g(int) = 0; virtual void h();"
    derived = "int f() override { return 1; } void g(const X&) override; void h() final;"
    names = [
        (f.name, f.parameters)
        for f in virtual_functions(headers(tmp_path, {"Allocator": base, "CUDAAllocator": derived}))
    ]
    assert names == [("f", ()), ("g", ("const X&",)), ("g", ("int",))]


@pytest.mark.parametrize(
    ("body", "reason"),
    [
        ("virtual auto a() -> int = 0;", "cannot read: virtual auto a() -> int"),
        ("virtual int a() volatile = 0;", "cannot read: virtual int a() volatile"),
        ("virtual bool operator==(int) const = 0;", "cannot read: virtual bool operator==(int)"),
        ("C10_API virtual void a();", "cannot read: C10_API virtual void a()"),
        ("DEFAULT_COPY(CUDAAllocator) virtual void a();", "cannot read: DEFAULT_COPY(CUDAAllocator) virtual void a()"),
        ("DECLARE_FUNCTIONS(CUDAAllocator);", "cannot read: DECLARE_FUNCTIONS(CUDAAllocator)"),
        ("virtual int (*a())(int);", "cannot read: virtual int"),
        ("virtual void a(void (*f)(int));", "cannot read the parameter: void (*f)(int)"),
        ("virtual void a(int x[3]);", "cannot read the parameter: int x[3]"),
        ("virtual void a(int x, ...);", "cannot read the parameter: ..."),
        ("#if NEW\nvirtual void a();\n#endif", "a directive in the class CUDAAllocator: #if NEW"),
        ("virtual void a(", "no ) closes"),
        ("int* f(int) final;", "0 virtual functions f(), not 1"),
        ("virtual int* f(long);", "2 virtual functions f(), not 1"),
    ],
)
def test_unreadable(tmp_path: Path, body: str, reason: str) -> None:
    with pytest.raises(Unreadable, match=re.escape(reason)):
        read(tmp_path, body)


def test_other_classes_are_unreadable(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="DeviceAllocator derives from public Allocator, public Other"):
        forwarded(headers(tmp_path, {}, ": public {}, public Other"), {})
    with pytest.raises(Unreadable, match="2 definitions of the class Allocator"):
        forwarded(headers(tmp_path, {"Allocator": "}; class Allocator {"}), {})


def test_the_command_fails(tmp_path: Path) -> None:
    out = tmp_path / "out.inc"
    command = [sys.executable, ROOT / "tools/gen_forwarding_allocator.py", HEADERS, out, "raw_alloc", "gone"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert done.stderr.endswith("include: 0 virtual functions gone(), not 1, which are written by hand\n")
    assert not out.exists()


def test_every_virtual_function_of_torch(tmp_path: Path) -> None:
    """The compiler's table of virtual functions has no function of a base class left."""
    commands = json.loads((BUILD / "compile_commands.json").read_text())
    found = [c for c in commands if "CMakeFiles/vesta_cuda.dir/" in c["command"]]  # sources may be compiled in groups
    if not found:
        pytest.skip(f"{BUILD} has no libvesta_cuda: there were no CUDA headers")
    words = shlex.split(found[0]["command"])
    flags = [w for i, w in enumerate(words) if w.startswith(("-I", "-D", "-isystem")) or words[i - 1] == "-isystem"]

    functions = virtual_functions(HEADERS)
    (tmp_path / "functions.inc").write_text("\n".join(f.text() for f in functions))
    (tmp_path / "probe.cpp").write_text("""
#include <c10/cuda/CUDACachingAllocator.h>
namespace c10::cuda::CUDACachingAllocator {
struct Probe final : CUDAAllocator {
#include "functions.inc"
  CUDAAllocator* to_;
};
CUDAAllocator* make() { return new Probe; }
}
""")
    compile_ = ["c++", "-std=c++20", "-O0", "-fPIC", "-w", *flags, "-S", "-o", "probe.s", "probe.cpp"]
    done = subprocess.run(compile_, capture_output=True, text=True, timeout=300, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    assembly = (tmp_path / "probe.s").read_text()
    probe = "N3c104cuda20CUDACachingAllocator5ProbeE"
    table = assembly.split(f"_ZTV{probe}:\n")[1].split("\t.section")[0].split("\t.size")[0]
    entries = re.findall(r"\.quad\s+(\S+)", table)
    slots = [e for e in entries if e not in ("0", f"_ZTI{probe}")]
    assert len(slots) == len(functions) + 2  # two destructors
    assert not [s for s in slots if "CUDACachingAllocator5Probe" not in s]
