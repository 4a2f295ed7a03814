"""Whole artifacts in the cache: a second process traces and finds; what differs is compiled again."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests import processes

# Each program gives a function and its arguments; main() calls it three times, compiled and eager.
MAIN = """
import contextlib, json, os, sys, torch, vesta
torch.manual_seed(0)
options = json.loads(sys.argv[1])
{program}
def run(compiled, arguments):
    return [compiled(*arguments(i)) for i in range(3)]
torch.manual_seed(1)
expected = run(f, arguments)
torch.manual_seed(1)
compiled = vesta.compile(f, options=options)
found = run(compiled, arguments)
torch.testing.assert_close(found, expected)
report = vesta.explain()
print(json.dumps({{
    "cached": [v.cached for v in report.variants],
    "stages": [[s.name for s in v.stages] for v in report.variants],
    "kernels": [[k.name for k in v.kernels] for v in report.variants],
    "externs": [[[e.op, e.reason, e.count] for e in v.externs] for v in report.variants],
    "guards": [v.guards for v in report.variants],
    "fused": [v.ops_fused for v in report.variants],
    "code": [v.code_bytes for v in report.variants],
    "said": str(report),
}}))
"""

PROGRAMS = {
    "kernels and calls into ATen": """
w = torch.randn(32, 32)
def f(x):
    return torch.linalg.inv((x @ w).relu() + 5 * torch.eye(32)).sum(0), torch.sin(x) * 2, x.softmax(-1)
def arguments(i):
    return [torch.randn(32, 32)]
""",
    "a model in inference": """
model = torch.nn.Sequential(torch.nn.Conv2d(3, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                            torch.nn.Conv2d(8, 8, 3), torch.nn.BatchNorm2d(8), torch.nn.ReLU(),
                            torch.nn.Conv2d(8, 8, 3), torch.nn.Flatten(), torch.nn.Linear(800, 10)).eval()
for p in model.parameters():
    p.requires_grad_(False)
first = model[0].weight.clone()
@torch.no_grad()
def f(x):
    return model(x)
def arguments(i):
    with torch.no_grad():  # the folded weights are not what is stored
        model[0].weight.copy_(first * (0.5 if i == 2 else 1))
    return [torch.randn(2, 3, 16, 16)]
""",
    "sizes that change": """
def f(x, y):
    return (x[:, None] + y[None]).exp().sum(1), x.shape[0]
def arguments(i):
    return [torch.randn(5 + i), torch.randn(7 + 2 * i)]
""",
    "what is written in place and views": """
def f(x):
    x[1:] += 1
    y = x.view(-1)[2:] * 2
    z = y + 1
    return x[0], y.t(), z[None], x
def arguments(i):
    return [torch.arange(12.0).view(3, 4)]
""",
    "a result without elements": """
def f(x):
    return x[:0] * 2
def arguments(i):
    return [torch.randn(64, 8)]
""",
    "random numbers": """
def f(x):
    return torch.rand(64) + x, torch.nn.functional.dropout(x, 0.5)
def arguments(i):
    return [torch.ones(64)]
""",
    "errors that depend on data": """
table = torch.randn(10, 4)
def f(i):
    try:
        return torch.nn.functional.embedding(i, table) + 1
    except IndexError:
        return table[0]
def arguments(i):
    return [torch.tensor([1, 9 if i < 2 else 11])]
""",
    "gradients": """
def f(x):
    y = (x.sin() * x).sum()
    (g,) = torch.autograd.grad(y, x)
    return y.detach(), g
def arguments(i):
    return [torch.arange(8.0).requires_grad_()]
""",
    "complex numbers and types": """
def f(x):
    return torch.fft.fft(x).real.to(torch.bfloat16) * 2, torch.complex(x, x) * 1j, (x > 0) & (x < 1), x.to(torch.int8)
def arguments(i):
    return [torch.randn(16)]
""",
}


def process(folder: Path | str, program: str, environment: dict[str, str] | None = None, **options: Any) -> Any:
    env = {**os.environ, "VESTA_CACHE_DIR": str(folder), **(environment or {})}
    env.pop("VESTA_DUMP", None)
    done = processes.run(MAIN.format(program=program), json.dumps(options), env=env)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_second_process_plans_and_generates_nothing(name: str, tmp_path: Path) -> None:
    cold = process(tmp_path / "cache", PROGRAMS[name])
    assert cold["cached"] and not all(cold["cached"])  # a process finds what it has written, too
    warm = process(tmp_path / "cache", PROGRAMS[name])
    assert all(warm["cached"]) and len(warm["cached"]) == len(cold["cached"])
    for stages in warm["stages"]:
        # A joint graph is split each time; its halves are found.
        assert [s for s in stages if s != "split"] == ["trace", "find", "load"]
    for told in ("kernels", "externs", "guards", "fused", "code"):
        assert warm[told] == cold[told], told
    found = "(found in the cache)"
    assert warm["said"].count(found) > cold["said"].count(found)


PLAIN = """
SCALE = 2.0
def f(x):
    return (x * SCALE).sin().sum(0)
def arguments(i):
    return [torch.ones(8, 8)]
"""


def test_names_and_lines_are_the_programs_own(tmp_path: Path) -> None:
    process(tmp_path, PROGRAMS["sizes that change"])
    other = PROGRAMS["sizes that change"].replace("(x, y)", "(left, right)").replace("x[", "left[")
    other = other.replace("y[None]", "right[None]").replace("x.shape", "left.shape")
    warm = process(tmp_path, "\n\n\n" + other)
    assert all(warm["cached"])
    guards = [g for graph in warm["guards"] for g in graph]
    assert any("left.size(0)" in g for g in guards), guards
    assert not any("x.size" in g or "<input" in g or "<line" in g for g in guards), guards


@pytest.mark.parametrize(
    ("change", "options"),
    [
        (("2.0", "3.0"), {}),
        ((".sin()", ".cos()"), {}),
        (("ones(8, 8)", "ones(8, 9)"), {}),
        (("ones(8, 8)", "ones(8, 8, dtype=torch.float64)"), {}),
        (("ones(8, 8)", "ones(8, 8).t()[:, 1:]"), {}),
        (("", ""), {"skip_passes": ["identities"]}),
        (("", ""), {"packed_weights": 0}),
        (("", ""), {"kernels": False}),
    ],
    ids=["global", "operator", "size", "type", "strides", "passes", "packed weights", "kernels"],
)
def test_what_changed_is_compiled_again(change: tuple[str, str], options: dict[str, Any], tmp_path: Path) -> None:
    process(tmp_path, PLAIN)
    assert process(tmp_path, PLAIN)["cached"] == [True]
    changed = PLAIN.replace(*change) if change[0] else PLAIN
    assert process(tmp_path, changed, **options)["cached"] == [False]
    assert process(tmp_path, changed, **options)["cached"] == [True]
    assert process(tmp_path, PLAIN)["cached"] == [True]


PARTS = """
GLOBAL = 2.0
class Constants:
    attribute = 6.0
def callee(x, keyword=7.0):
    return x.sin() * 3.0 + keyword
def make():
    inside = 4.0
    def f(x, default=5.0):
        return (callee(x) * GLOBAL + inside + default * Constants.attribute).sum(0)
    return f
f = make()
def arguments(i):
    return [torch.ones(8, 8)]
"""


# main() compares with eager, so that what another process has stored would be a wrong result.
@pytest.mark.parametrize(
    ("was", "now"),
    [
        ("2.0", "2.5"),
        ("x.sin() * 3.0", "x.sin() * 3.5"),
        ("x.sin()", "x.cos()"),
        ("4.0", "4.5"),
        ("5.0", "5.5"),
        ("6.0", "6.5"),
        ("7.0", "7.5"),
    ],
    ids=["global", "constant in a callee", "callee", "closure", "default", "attribute of a class", "callee's default"],
)
def test_what_changed_between_processes_is_compiled_again(was: str, now: str, tmp_path: Path) -> None:
    process(tmp_path, PARTS)
    changed = PARTS.replace(was, now)
    assert changed != PARTS
    assert process(tmp_path, changed)["cached"] == [False]
    assert process(tmp_path, changed)["cached"] == [True]
    assert process(tmp_path, PARTS)["cached"] == [True]


CUSTOM = """
@torch.library.custom_op("vesta_tests::scaled", mutates_args=())
def scaled(x: torch.Tensor, factor: float = 2.0) -> torch.Tensor:
    return x * factor * 10
@scaled.register_fake
def _(x, factor=2.0):
    return torch.empty_like(x)
def f(x):
    return scaled(x).sin() + 1
def arguments(i):
    return [torch.ones(8, 8)]
"""


def test_an_operators_defaults_and_kernel_are_those_of_this_process(tmp_path: Path) -> None:
    process(tmp_path, CUSTOM)
    assert process(tmp_path, CUSTOM.replace("* 10", "* 20"))["cached"] == [True]
    assert process(tmp_path, CUSTOM.replace("2.0", "3.0"))["cached"] == [False]


def test_another_instruction_set_is_another_target(tmp_path: Path) -> None:
    process(tmp_path, PLAIN)
    assert process(tmp_path, PLAIN, {"ATEN_CPU_CAPABILITY": "default"})["cached"] == [False]


@pytest.mark.parametrize("name", ["kernels and calls into ATen", "a model in inference", "sizes that change"])
def test_equal_programs_give_equal_bytes(name: str, tmp_path: Path) -> None:
    before = "import gc, random; noise = [random.random() for _ in range(random.randrange(100))]\n"
    other = before + "vesta.compile(lambda x: x.exp().cumsum(0))(torch.ones(9))" + PROGRAMS[name]
    process(tmp_path / "a", PROGRAMS[name], compile_threads=1)
    process(tmp_path / "b", other, {"PYTHONHASHSEED": "7"}, compile_threads=8)

    def entries(folder: Path) -> dict[str, bytes]:
        return {p.name: p.read_bytes() for p in folder.rglob("*") if p.is_file()}

    one, two = entries(tmp_path / "a"), entries(tmp_path / "b")
    assert any(key.startswith("artifact") for key in one)
    for key, content in one.items():
        assert two[key] == content, key


def test_dumps_show_every_stage(tmp_path: Path) -> None:
    process(tmp_path / "cache", PLAIN)
    dumped = process(tmp_path / "cache", PLAIN, dump_dir=str(tmp_path / "dump"))
    assert dumped["cached"] == [False]
    (folder,) = (tmp_path / "dump").iterdir()
    names = {p.name.split("_", 1)[-1] for p in folder.iterdir()}
    assert {"plan.txt", "artifact.txt", "graph_traced.txt"} <= names
    for text in folder.glob("*.txt"):
        assert "<input" not in text.read_text() and "<line" not in text.read_text(), text
