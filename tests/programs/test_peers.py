"""The comparison with other engines: its tables, what it says of engines that fail, and its measurements.

The engines themselves are replaced by fakes: nothing here needs them to be installed.
"""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

from bench import readme
from bench.peers import bench, engines, products, results, workloads
from bench.peers.results import Cell, Product, Results, Run
from bench.peers.worker import Bench, difference, read_bytes_per_s
from bench.processes import built_program
from tests.build import generates_code
from tests.programs.torchvision_operators import declare_torchvision_operators

MACHINE: dict[str, Any] = {
    "cpu": "a CPU",
    "cores": 4,
    "threads": 2,
    "load": 0.1,
    "versions": {"torch": "2.13", "openvino": "1.0"},
}


def run(ratio: float, first_s: float = 0.2, **more: Any) -> Run:
    """Three rounds in which eager takes 10 ms and the engine's time drifts a little around what the ratio says."""
    pairs = [[0.01, 0.01 / (ratio * drift)] for drift in (0.9, 1.0, 1.2)]
    return Run(first_s, pairs=pairs, peak_mib=500.0, difference=1e-6, **more)


def made_up() -> Results:
    def cell(name: str, batch: int, vesta: Run, openvino: Run, onnxruntime: Run) -> Cell:
        return Cell(name, batch, {"vesta": vesta, "openvino": openvino, "onnxruntime": onnxruntime})

    wrong = run(9.0)
    wrong.difference = 0.5
    return Results(
        {**MACHINE, "fma_operations_per_s": 100e9},
        [
            cell("bert", 1, run(2.4, notes=["model.py:7: a print"]), run(2.0, 5.0), run(1.5, 6.0)),
            cell("gpt2", 8, run(2.0, 0.4), Run(failure="OpConversionFailure: no rule for [aten::diff]"), run(2.0)),
            cell("resnet50", 1, run(1.5), wrong, run(1.0)),
        ],
        [
            Product(64, 768, 768, [[1e-3, 2e-3, 1.5e-3]] * 3, kernels=1, difference=1e-7),
            Product(1, 64, 64, [[2e-6, 3e-6, 1e-6]] * 3, kernels=0, difference=1e-7),
            Product(8, 64, 64, [[1e-6, 1e-6, 1e-6]], kernels=1, difference=0.1),
        ],
        {
            "vesta": run(1.8, read_bytes_per_s=[80e9, 72e9, 80e9], weight_bytes=400_000_000),
            "openvino": Run(failure="no answer in 300 s"),
        },
    )


def shown(found: Results, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    file = tmp_path / "made-up.json"
    file.write_text(json.dumps(found.as_data()))
    status = bench.main(["--show", str(file), "--out", str(tmp_path)])
    return status, capsys.readouterr().out


def row(text: str, *begin: str) -> list[str]:
    """The cells of the table's row that begins so."""
    lines = [[c.strip() for c in line.strip("│").split("│")] for line in text.splitlines() if line.startswith("│")]
    (found,) = [cells for cells in lines if cells[: len(begin)] == list(begin)]
    return found


# ---- tables ----------------------------------------------------------------------------------------------------------


def test_tables_of_a_file(tmp_path, capsys):
    status, text = shown(made_up(), tmp_path, capsys)
    assert status == 1  # a product of Vesta's differs
    bert = row(text, "bert", "1")
    assert bert[2:4] == ["10.0", "2.40 (2.16..2.88)"]
    assert bert[6:9] == ["OpenVINO", "1.20", "0.20 / 5.00 / 6.00"]
    assert "Vesta, bert, batch 1: model.py:7: a print" in text
    gpt2 = row(text, "gpt2", "8")
    assert gpt2[4] == "fails"
    assert gpt2[6:9] == ["ONNX Runtime", "1.00", "0.40 / fails / 0.20"]
    assert "OpenVINO, gpt2, batch 8: OpConversionFailure: no rule for [aten::diff]" in text
    resnet50 = row(text, "resnet50", "1")
    assert resnet50[4] == "9.00, differs"
    assert resnet50[6:8] == ["ONNX Runtime", "1.50"]  # what computes something else is not the better one
    assert "OpenVINO, resnet50, batch 1: differs from eager by 5.0e-01 of the largest number" in text
    mean = (1.2 * 1.0 * 1.5) ** (1 / 3)
    assert f"geometric mean {mean:.2f}; 2 of 3 at least 1.05" in text
    assert "2 of 3 first calls at most 0.3 s" in text


def test_tables_of_products(tmp_path, capsys):
    _, text = shown(made_up(), tmp_path, capsys)
    flops = 2 * 64 * 768 * 768
    large = row(text, "64 x 768 x 768")
    assert large[1] == f"{flops / 1e-3 / 1e9:.1f} ({flops / 1e-3 / 100e9:.0%})"
    assert large[4:] == ["1.50", "1"]
    assert row(text, "1 x 64 x 64")[4:] == ["0.50", "0"]
    total = row(text, "all", "2")  # the one that differs is left out
    assert total[5:] == [f"{math.sqrt(1.5 * 0.5):.2f}", "0.50"]
    assert "measured multiply-adds" in text
    assert "Vesta, product 8 x 64 x 64: differs from MKL's by 1.0e-01" in text
    assert "1 of 2 products are generated code" in text


def test_table_of_a_decode_step(tmp_path, capsys):
    _, text = shown(made_up(), tmp_path, capsys)
    vesta = row(text, "Vesta")
    # 400 MB in 10 ms / 1.8 are 72 GB/s; the shares of the rounds are 72 * 0.9 / 80, 72 / 72, 72 * 1.2 / 80.
    assert vesta[4:7] == ["72.0", "80.0", "100%"]
    assert row(text, "OpenVINO")[1] == "fails"
    assert "OpenVINO, decode: no answer in 300 s" in text


def test_plots_are_written(tmp_path, capsys):
    shown(made_up(), tmp_path, capsys)
    for name in ("peers.png", "products.png"):
        assert (tmp_path / name).read_bytes().startswith(b"\x89PNG")


def test_without_a_measured_peak_the_best_result_is_the_peak(tmp_path, capsys):
    found = made_up()
    found.machine["fma_operations_per_s"] = 0.0
    _, text = shown(found, tmp_path, capsys)
    assert "(100%)" in row(text, "64 x 768 x 768")[1]
    assert "the build has no program that measures" in " ".join(text.split())


def test_sections_that_were_not_measured(tmp_path, capsys):
    status, text = shown(Results(MACHINE, made_up().peers[:1]), tmp_path, capsys)
    assert status == 0
    assert "bert" in text and "GFLOP/s" not in text and "decoder" not in text
    assert shown(Results(MACHINE), tmp_path, capsys)[0] == 0


def test_the_conditions_are_shown(tmp_path, capsys):
    _, text = shown(Results(MACHINE), tmp_path, capsys)
    assert text.splitlines()[0] == "a CPU, 4 cores, 2 threads; torch 2.13, openvino 1.0"
    _, text = shown(Results({**MACHINE, "load": 3.14}), tmp_path, capsys)
    assert "busy with other programs (load 3.1)" in text


def test_only_vesta_decides_the_exit_status(tmp_path, capsys):
    found = Results(MACHINE, made_up().peers)
    assert shown(found, tmp_path, capsys)[0] == 0  # OpenVINO fails in one cell and differs in another
    found.peers[0].runs["vesta"].difference = 0.1
    status, text = shown(found, tmp_path, capsys)
    assert status == 1
    assert row(text, "bert", "1")[7] == "-"
    found.peers[0].runs["vesta"] = Run(failure="exit 1: error")
    status, text = shown(found, tmp_path, capsys)
    assert status == 1
    assert "Vesta, bert, batch 1: exit 1: error" in text


def test_a_run_without_rounds_is_not_right():
    assert not Run(first_s=1.0).is_right
    assert not Run(pairs=[[1.0, 1.0]], difference=math.nan).is_right
    assert Run(pairs=[[1.0, 1.0]]).is_right


def test_results_are_those_of_their_file():
    found = made_up()
    data = json.loads(json.dumps(found.as_data()))
    assert data["summary"]["decode"] == {"vesta": pytest.approx(1.0)}
    assert data["summary"]["products"]["worst"] == [1, 64, 64, pytest.approx(0.5)]
    del data["summary"]
    assert Results.of_data(data) == found


def test_the_table_of_the_readme(monkeypatch, tmp_path):
    begin, end = readme.marks("peers")
    page, file = tmp_path / "README.md", tmp_path / "peers.json"
    page.write_text(f"before\n{begin}old\n{end}after\n")
    file.write_text(json.dumps(made_up().as_data()))
    monkeypatch.setattr(readme, "ROOT", tmp_path)
    monkeypatch.setattr(sys, "argv", ["readme", str(file)])
    readme.main()
    before, first, *rows, last, after = page.read_text().splitlines()
    assert (before, first, last, after) == ("before", begin.strip(), end.strip(), "after")
    assert rows[0].startswith("Milliseconds of a call") and rows[3].startswith("|---")
    rows = rows[4:]
    assert len(rows) == 3
    assert rows[0] == "| bert | 1 | 10 | 4.17 | 5 | 6.67 | 1.20 | 0.2 / 5 / 6 |"
    assert rows[1] == "| gpt2 | 8 | 10 | 5 | fails | 5 | 1.00 | 0.4 / fails / 0.2 |"
    assert rows[2] == "| resnet50 | 1 | 10 | 6.67 | differs | 10 | 1.50 | 0.2 / 0.2 / 0.2 |"


# ---- arguments -------------------------------------------------------------------------------------------------------


def test_help(capsys):
    with pytest.raises(SystemExit) as done:
        bench.main(["--help"])
    assert done.value.code == 0
    text = capsys.readouterr().out
    for option in ("--models", "--batches", "--engines", "--sections", "--show", "make bench-peers"):
        assert option in text


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--models", "alexnet"], "invalid choice: 'alexnet'"),
        (["--batches", "0"], "--batches must be at least 1"),
        (["--engines", "tvm"], "invalid choice: 'tvm'"),
        (["--rounds", "0"], "--rounds must be at least 1"),
        (["--threads", "0"], "--threads must be at least 1"),
        (["--show", "/nowhere/peers.json"], "there is no /nowhere/peers.json"),
    ],
)
def test_argument_errors(arguments, says, capsys):
    with pytest.raises(SystemExit) as done:
        bench.main(arguments)
    assert done.value.code == 2
    assert says in capsys.readouterr().err


def installed(folder: Path, *names: str) -> Path:
    for name in names:
        (folder / f"{name}-1.0.dist-info").mkdir(parents=True)
        (folder / f"{name}-1.0.dist-info" / "METADATA").write_text(f"Name: {name}\nVersion: 1.0\n")
    return folder


def test_engines_that_are_not_installed_are_an_error(tmp_path, capsys):
    some = installed(tmp_path, "openvino", "onnxruntime")
    with pytest.raises(SystemExit) as done:
        bench.main(["--peers", str(some)])
    assert done.value.code == 2
    assert "onnxscript is not installed" in capsys.readouterr().err
    assert bench.parsed(["--peers", str(some), "--engines", "vesta", "openvino"]).engines == ["vesta", "openvino"]
    assert engines.versions("openvino", some) == {"openvino": "1.0"}


# ---- one process -----------------------------------------------------------------------------------------------------


@dataclass
class Fake:
    """An engine that computes `function` of the model's result, and writes down the order of its calls."""

    function: Callable[[torch.Tensor], torch.Tensor] = lambda t: t
    error: str = ""
    title: str = "a fake"
    packages: tuple[str, ...] = ()
    writes: bool = True
    parts: dict[str, float] = field(default_factory=lambda: {"compile": 0.25})
    lost_s: float = 0.0
    notes: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)

    def load(self) -> None: ...

    def wait(self) -> None:
        self.order.append("wait")

    def make(self, model: nn.Module, arguments: engines.Arguments, threads: int) -> engines.Call:
        if self.error:
            raise RuntimeError(self.error)

        def call() -> Any:
            self.order.append("engine")
            with torch.no_grad():
                return self.function(model.layer(*arguments))

        return call

    def tensors(self, result: Any) -> list[torch.Tensor]:
        return [result]


class Noted(nn.Module):
    """Writes down that eager called it."""

    def __init__(self, order: list[str]) -> None:
        super().__init__()
        self.layer = nn.Linear(8, 4)
        self.order = order

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.order.append("eager")
        return self.layer(x)


def with_fake(**options: Any) -> tuple[Bench, list[str]]:
    fake = Fake(**options)
    work = workloads.Workload(Noted(fake.order), (torch.randn(2, 8),), lambda: fake.order.append("rewind"))
    return Bench(work, fake, 1), fake.order


def test_a_process_takes_turns():
    with torch.no_grad():
        one, order = with_fake()
        got = one.first()
        assert got["first_s"] > 0 and got["parts"] == {"compile": 0.25}
        assert order == ["rewind", "engine", "wait"]
        order.clear()
        pair = one.round(0.0)["pair"]
        assert all(seconds > 0 for seconds in pair)
        # One call that is not timed, one that is, each after a rewind; the next round begins with the other.
        assert order == ["rewind", "eager"] * 2 + ["rewind", "engine"] * 2
        order.clear()
        one.round(0.0)
        assert order == ["rewind", "engine"] * 2 + ["rewind", "eager"] * 2
        got = one.finish()
    assert got["difference"] == 0.0 and got["peak_mib"] > 0


def test_a_process_finds_wrong_results():
    for function, part in ((lambda t: t * 1.01, 0.01), (lambda t: t * (1 + 1e-5), 1e-5)):
        with torch.no_grad():
            one, _ = with_fake(function=function)
            one.first()
            assert one.finish()["difference"] == pytest.approx(part, rel=0.05)
    for function, says in ((lambda t: t[:1], "shapes"), (lambda t: t / 0, "not finite")):
        with torch.no_grad():
            one, _ = with_fake(function=function)
            one.first()
            assert says in one.finish()["failure"]


def test_a_conversion_that_fails_is_an_answer():
    one, _ = with_fake(error="no rule\n  for aten::diff")
    assert one.first()["failure"] == "RuntimeError: no rule for aten::diff"


def test_differences():
    x = torch.tensor([1.0, -100.0])
    assert difference([x + 1], [x]) == {"difference": pytest.approx(0.01)}
    assert difference([torch.ones(3)], [torch.zeros(3)]) == {"difference": 1.0}
    assert difference([], []) == {"difference": 0.0}
    assert "shapes" in difference([x], [x, x])["failure"]
    assert "eager's result" in difference([x], [x / 0])["failure"]


class FakeWorker:
    """Answers in turn; "dies" ends the process."""

    def __init__(self, answers: list[Any], start_mib: float = 100.0) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []
        self.run = SimpleNamespace(failure="", start_mib=start_mib)
        self.stopped = False

    def pause(self) -> None:
        self.stopped = True

    def resume(self) -> None:
        self.stopped = False

    def ask(self, command: str) -> dict[str, Any]:
        assert not self.stopped
        self.asked.append(command)
        answer = self.answers.pop(0)
        if answer == "dies":
            self.run.failure = "exit -11: "
            return {}
        return answer

    def close(self) -> None: ...


FIRST = {"first_s": 0.5, "parts": {"convert": 0.2}, "notes": ["a note"]}


def test_the_answers_of_a_process():
    turn = {"pair": [2.0, 1.0]}
    read = {"bytes_per_s": 10.0, "weight_bytes": 20}
    worker = FakeWorker([FIRST, turn, read, turn, read, turn, {"peak_mib": 300.0, "difference": 1e-7}])
    got = bench.asked({"vesta": worker}, 2, 0.4, True)["vesta"]
    assert worker.asked == ["first", "round 0.1", "read", "round 0.4", "read", "round 0.4", "finish"]
    assert got == Run(0.5, {"convert": 0.2}, [[2.0, 1.0]] * 2, 100.0, 300.0, 1e-7, ["a note"], "", [10.0] * 2, 20)
    assert got.read_shares() == [2.0, 2.0] and got.read_shares(of_eager=True) == [1.0, 1.0]


def test_engines_take_turns_in_a_round():
    order: list[str] = []

    class Noted(FakeWorker):
        def __init__(self, name: str) -> None:
            super().__init__([FIRST, *[{"pair": [2.0, 1.0]}] * 3, {"peak_mib": 300.0, "difference": 1e-7}])
            self.name = name

        def ask(self, command: str) -> dict[str, Any]:
            order.append(f"{self.name} {command.split()[0]}")
            return super().ask(command)

    got = bench.asked({"vesta": Noted("v"), "openvino": Noted("o")}, 2, 0.4, False)
    assert [r.is_right for r in got.values()] == [True, True]
    assert order[4:-2] == ["v round", "o round"] * 2
    assert order[:4] == ["v first", "v round", "o first", "o round"] and order[-2:] == ["v finish", "o finish"]


def test_vesta_is_compared_with_the_other_engine_in_the_same_round():
    """Their processes' eager calls, which the engines may slow down, do not count."""
    vesta = Run(pairs=[[8.0, 1.0], [8.0, 2.0], [8.0, 4.0]])
    openvino = Run(pairs=[[30.0, 3.0], [30.0, 4.0], [30.0, 4.0]])
    slow = Run(pairs=[[60.0, 5.0]] * 3)
    cell = Cell("bert", 1, {"vesta": vesta, "openvino": openvino, "onnxruntime": slow})
    assert cell.better == "openvino" and cell.over_better == 2.0


@pytest.mark.parametrize(
    ("answers", "failure"),
    [
        ([{"failure": "RuntimeError: no rule"}], "RuntimeError: no rule"),
        ([FIRST, {"pair": [2.0, 1.0]}, "dies"], "exit -11: "),
        ([FIRST, *[{"pair": [2.0, 1.0]}] * 3, {"failure": "returns numbers that are not finite"}], "returns numbers"),
    ],
)
def test_a_process_that_fails_is_not_asked_again(answers, failure):
    worker = FakeWorker(answers)
    got = bench.asked({"vesta": worker}, 2, 0.4, False)["vesta"]
    assert got.failure.startswith(failure) and not got.is_right
    assert not worker.answers


# ---- the engines -----------------------------------------------------------------------------------------------------


def test_vesta_is_an_engine():
    model = nn.Sequential(nn.Linear(8, 8), nn.GELU()).eval()
    engine = engines.Vesta()
    engine.load()
    with torch.no_grad():
        one = Bench(workloads.Workload(model, (torch.randn(3, 8),)), engine, 1)
        assert one.first()["notes"] == []
        assert one.finish()["difference"] < 1e-6


class FakeOpenVino(ModuleType):
    def __init__(self) -> None:
        super().__init__("openvino")
        self.settings: dict[str, Any] = {}
        self.inputs: Any = None
        self.traced = True

    def convert_model(self, model: Any, example_input: Any = None, input: Any = None) -> Any:
        if example_input is not None and not self.traced:
            raise ValueError("no rule for aten::diff")
        self.inputs = input
        return model if example_input is not None else model.module()

    def Core(self) -> Any:
        def compile_model(model: Any, device: str, settings: dict[str, Any]) -> Any:
            self.settings = settings

            def infer(arrays: Any, share_inputs: bool, share_outputs: bool) -> dict[str, Any]:
                with torch.no_grad():
                    return {"out": model(*map(torch.from_numpy, arrays)).numpy()}

            return SimpleNamespace(create_infer_request=lambda: SimpleNamespace(infer=infer))

        return SimpleNamespace(compile_model=compile_model)


@pytest.mark.parametrize("traced", [True, False])
def test_openvino_is_set_for_latency(traced, monkeypatch):
    fake = FakeOpenVino()
    fake.traced = traced
    monkeypatch.setitem(sys.modules, "openvino", fake)
    for name in ("ts_decoder", "fx_decoder"):
        monkeypatch.setitem(sys.modules, f"openvino.frontend.pytorch.{name}", ModuleType(name))
    engine = engines.OpenVino()
    engine.load()
    with torch.no_grad():
        one = Bench(workloads.Workload(nn.Linear(8, 4), (torch.randn(3, 8),)), engine, 2)
        got = one.first()
        assert set(got["parts"]) == {"convert", "compile"}
        assert one.finish()["difference"] < 1e-6
    assert fake.settings == {
        "PERFORMANCE_HINT": "LATENCY",
        "INFERENCE_NUM_THREADS": 2,
        "INFERENCE_PRECISION_HINT": "f32",
    }
    if traced:
        assert fake.inputs == [(3, 8)] and got["notes"] == [] and engine.lost_s == 0
    else:
        assert "torch.export" in got["notes"][0] and "aten::diff" in got["notes"][0]
        assert engine.lost_s > 0


def test_onnx_runtime_has_all_optimizations(monkeypatch):
    model = nn.Linear(8, 4)
    fake = ModuleType("onnxruntime")
    made: list[Any] = []

    def session(path: str, options: Any, providers: list[str]) -> Any:
        assert Path(path).read_text() == "a model" and providers == ["CPUExecutionProvider"]
        made.append(options)

        def infer(outputs: Any, inputs: dict[str, Any]) -> list[Any]:
            with torch.no_grad():
                return [model(torch.from_numpy(inputs["x"])).numpy()]

        return SimpleNamespace(get_inputs=lambda: [SimpleNamespace(name="x")], run=infer)

    fake.SessionOptions = SimpleNamespace
    fake.GraphOptimizationLevel = SimpleNamespace(ORT_ENABLE_ALL=99)
    fake.InferenceSession = session
    monkeypatch.setitem(sys.modules, "onnxruntime", fake)
    monkeypatch.setitem(sys.modules, "onnxscript", ModuleType("onnxscript"))
    monkeypatch.setitem(sys.modules, "torch.onnx._internal.exporter._compat", ModuleType("_compat"))
    monkeypatch.setattr(torch.onnx, "export", lambda model, args, path, **_: Path(path).write_text("a model"))
    engine = engines.OnnxRuntime()
    engine.load()
    with torch.no_grad():
        one = Bench(workloads.Workload(model, (torch.randn(3, 8),)), engine, 2)
        assert set(one.first()["parts"]) == {"convert", "compile"}
        assert one.finish()["difference"] < 1e-6
    assert made[0].intra_op_num_threads == 2 and made[0].graph_optimization_level == 99


# ---- the workloads, products and the machine -------------------------------------------------------------------------


def small_decoder() -> nn.Module:
    return workloads.transformer(
        "LlamaForCausalLM",
        "LlamaConfig",
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=1000,
        max_position_embeddings=512,
        tie_word_embeddings=True,
    )


def test_both_decode_steps_compute_the_same(monkeypatch):
    declare_torchvision_operators()  # transformers imports torchvision
    monkeypatch.setattr(workloads, "decoder", small_decoder)
    own, given = (workloads.decode_step(writes) for writes in (True, False))
    assert own.weight_bytes == given.weight_bytes == 4 * sum(p.numel() for p in small_decoder().parameters())
    with torch.no_grad():
        found = []
        for work in (own, own, given, given):
            work.rewind()
            found.append(work.model(*work.arguments))
        for one in found[1:]:
            torch.testing.assert_close(one, found[0])
        # Without the rewind, the next step has a longer past.
        assert not torch.allclose(own.model(*own.arguments), found[0])


def test_a_batch_has_the_inputs_of_one(monkeypatch):
    monkeypatch.setitem(workloads.MODELS, "pair", lambda: (nn.Bilinear(3, 4, 5), (torch.randn(1, 3), torch.ones(1, 4))))
    work = workloads.build("pair", 8, writes=True)
    assert [tuple(a.shape) for a in work.arguments] == [(8, 3), (8, 4)]
    assert torch.equal(work.arguments[0][7], work.arguments[0][0])


def test_the_grid_has_a_hundred_products():
    assert len(set(products.GRID)) == 100
    assert {m for m, _, _ in products.GRID} == set(products.ROWS)
    assert min(min(n, k) for _, n, k in products.GRID) == 64 and max(max(n, k) for _, n, k in products.GRID) == 4096


def test_a_product_has_three_times_in_each_round():
    with torch.no_grad():
        got = products.measure(5, 48, 32, 1e-4, 2)
    assert len(got["rounds"]) == 2 and all(len(r) == 3 and min(r) > 0 for r in got["rounds"])
    assert got["difference"] < results.MOST_DIFFERENCE
    assert (got["kernels"] >= 1) == generates_code()


def test_products_go_on_in_a_new_process_after_a_crash(monkeypatch):
    good = {"rounds": [[1.0, 2.0, 2.0]], "kernels": 1, "difference": 0.0}
    workers = [FakeWorker([good, "dies"]), FakeWorker([{"failure": "RuntimeError: no"}, good])]
    made = list(workers)
    monkeypatch.setattr(bench, "Worker", lambda *_: made.pop(0))
    got = bench.measure_products(((1, 2, 3), (4, 5, 6), (7, 8, 9), (2, 2, 2)), 3, 1.0, lambda what: None)
    assert [p.failure for p in got] == ["", "exit -11: ", "RuntimeError: no", ""]
    assert workers[1].asked[0].split()[:3] == ["7", "8", "9"]


def test_the_peak_of_a_core_is_measured():
    program = built_program("vesta_bench_fma_peak")
    assert program is not None
    assert 1e9 < bench.fma_operations_per_s() < 1e13
    done = subprocess.run([str(program)], capture_output=True, text=True, check=True)
    assert set(json.loads(done.stdout)) == {"operations_per_s"}


def test_a_bandwidth_is_measured():
    assert 1e8 < read_bytes_per_s(1) < 1e13


def test_measuring_keeps_what_there_is(monkeypatch, tmp_path, capsys):
    """Each model is in the file as soon as it is measured."""
    asked: list[tuple[str, int]] = []

    def measure(workload: str, batch: int, *rest: Any) -> dict[str, Run]:
        asked.append((workload, batch))
        if workload == "bert":
            raise KeyboardInterrupt
        return {"vesta": run(2.0), "openvino": run(1.5)}

    monkeypatch.setattr(bench, "measure", measure)
    peers = installed(tmp_path / "peers", "openvino")
    arguments = ["--models", "vit", "bert", "--batches", "2", "--engines", "vesta", "openvino", "--sections", "models"]
    with pytest.raises(KeyboardInterrupt):
        bench.main([*arguments, "--peers", str(peers), "--out", str(tmp_path)])
    assert asked == [("vit", 2), ("bert", 2)]
    data = json.loads((tmp_path / "peers.json").read_text())
    assert [(c["name"], c["batch"]) for c in data["peers"]] == [("vit", 2)]
    assert data["machine"]["versions"]["openvino"] == "1.0"
    assert "bert, batch 2, 2 of 2" in capsys.readouterr().err


@pytest.mark.slow
def test_a_whole_run_of_vesta_alone(tmp_path):
    """With processes, as `make bench-peers` has them."""
    command = [sys.executable, "-m", "bench.peers", "--engines", "vesta", "--models", "minilm", "mobilenetv3"]
    command += ["--sections", "models", "decode", "--quick", "--rounds", "2", "--out", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout + done.stderr
    found = Results.of_data(
        {k: v for k, v in json.loads((tmp_path / "peers.json").read_text()).items() if k != "summary"}
    )
    assert [(c.name, c.batch) for c in found.peers] == [(n, b) for n in ("minilm", "mobilenetv3") for b in (1, 8)]
    assert all(c.runs["vesta"].is_right and len(c.runs["vesta"].pairs) == 2 for c in found.peers)
    assert found.decode["vesta"].is_right and found.decode["vesta"].weight_bytes == 4 * 100_313_856
    assert "decode, 5 of 5" in done.stderr and "mobilenetv3" in done.stdout
