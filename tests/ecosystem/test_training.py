"""The sweep of training steps: what it calls right, wrong, an error."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch import nn

import vesta
from tests.ecosystem import training
from tests.ecosystem.training import Row, Task, Trained, chosen, main, run_row
from tests.programs.zoo import ZOO


@pytest.fixture(autouse=True)
def _alone() -> Iterator[None]:
    vesta.reset()
    yield
    vesta.reset()


def task(way: str, dtype: str = "float32", rounds: int = 0) -> Task:
    return Task("critic", way, "AdamW", dtype, rounds)


@pytest.mark.parametrize("way", training.WAYS)
def test_right_model(way: str) -> None:
    row = run_row(task(way, rounds=1))
    assert (row.error, row.failure, row.stops) == ("", "", ())
    assert row.graphs >= 1
    assert row.eager_ms > 0 and row.ours_ms > 0 and row.ratio > 0 and row.first_ms > 0


@pytest.mark.parametrize("what", ["parameter", "state", "loss", "gradient", "missing gradient"])
def test_wrong_step_is_seen(what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """From the third step on one number is not eager's."""
    taken = []

    def step(trained: Trained, batch: training.Batch) -> torch.Tensor:
        loss = training.plain_step(trained, batch)
        taken.append(loss)
        p = next(trained.module.parameters())
        with torch.no_grad():
            if len(taken) < 3:
                return loss
            if what == "parameter":
                p.view(-1)[0] += 1e-3
            elif what == "state":
                trained.optimizer.state[p]["exp_avg"].view(-1)[0] += 1e-3
            elif what == "loss":
                return loss * 1.001
            elif what == "gradient":
                assert p.grad is not None
                p.grad.view(-1)[0] += 1e-2
            else:
                p.grad = None
        return loss

    monkeypatch.setattr(training, "compiled_step", lambda way, trained: step)
    row = run_row(task("model"))
    assert row.failure.startswith("step 3: "), row.failure
    assert ("results differ in" if what == "missing gradient" else "1 of ") in row.failure


def test_step_that_raises(monkeypatch: pytest.MonkeyPatch) -> None:
    def step(trained: Trained, batch: training.Batch) -> torch.Tensor:
        raise ValueError("only when compiled")

    monkeypatch.setattr(training, "compiled_step", lambda way, trained: step)
    assert run_row(task("step")).failure.endswith("ValueError: only when compiled\n")


def test_dropout_is_on() -> None:
    """Where a model was made without: in modules and in attributes that functions of torch are given."""

    class Part(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.dropout = nn.Dropout(0.0)
            self.attention_dropout = 0.0
            self.layerdrop = 0.0

    part = training.lively(Part())
    assert (part.dropout.p, part.attention_dropout, part.layerdrop) == (training.DROPOUT, training.DROPOUT, 0.0)
    assert part.training


def test_rows_are_kept(tmp_path: object, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "rows.json"  # type: ignore[operator]
    verdicts = {"critic": Row("critic", "model", graphs=2), "vae": Row("vae", "model", failure="step 1: differs")}

    def run(tasks: list[Task], *_: object) -> Iterator[Row]:
        yield from (verdicts[t.model] for t in tasks)

    monkeypatch.setattr(training, "run", run)
    assert main(["critic", "--ways", "model", "--json", str(file)]) == 0
    assert main(["vae", "--ways", "model", "--json", str(file)]) == 1
    assert training.read(file) == {"critic.model": verdicts["critic"], "vae.model": verdicts["vae"]}
    assert "1 programs, 1 wrong, 0 with breaks" in capsys.readouterr().out


def test_names(capsys: pytest.CaptureFixture[str]) -> None:
    def count(family: str) -> int:
        return len(chosen([], family))

    assert sum(map(count, training.FAMILIES)) == len(chosen([], None)) == sum(e.trains for e in ZOO.values())
    assert count("language") >= 40 and count("images") >= 60
    assert main(["--list", "gpt*"]) == 0
    assert "gpt2" in capsys.readouterr().out
    with pytest.raises(SystemExit) as ended:
        main(["nothing"])
    assert ended.value.code == 2
