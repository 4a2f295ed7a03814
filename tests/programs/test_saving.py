"""vesta.save and vesta.load: saved programs give what the compiled ones gave, and say why where they cannot."""

from __future__ import annotations

import collections
import dataclasses
import json
import os
import struct
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.programs.saved_models import RUNNER
from vesta.errors import UserError


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


def round_trip(f: Any, path: Path, *calls: tuple[Any, ...], **options: Any) -> vesta.Loaded:
    """``f`` compiled, called, saved and loaded; the loaded one gives eager's results for the same calls."""
    compiled = vesta.compile(f, **options)
    expected = [compiled(*args) for args in calls]
    vesta.save(compiled, path)
    loaded = vesta.load(path)
    for args, wanted in zip(calls, expected, strict=True):
        same(loaded(*args), wanted)
    return loaded


def same(found: Any, wanted: Any) -> None:
    """Equal, bit for bit; a torch.Size or named tuple comes back as a tuple."""
    if isinstance(wanted, torch.Tensor):
        torch.testing.assert_close(found, wanted, rtol=0, atol=0, equal_nan=True)
    elif isinstance(wanted, dict):
        assert list(found) == list(wanted)
        for key in wanted:
            same(found[key], wanted[key])
    elif isinstance(wanted, list | tuple):
        assert isinstance(found, list) == isinstance(wanted, list) and len(found) == len(wanted)
        for a, b in zip(found, wanted, strict=True):
            same(a, b)
    else:
        assert type(found) is type(wanted) and found == wanted


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(8, 16)
        self.norm = nn.LayerNorm(16)
        self.second = nn.Linear(16, 4)
        self.register_buffer("scale", torch.full((4,), 2.0))

    def forward(self, x: torch.Tensor, mask: torch.Tensor | None = None, *, double: bool = False) -> torch.Tensor:
        y = self.second(self.norm(torch.relu(self.first(x)))) * self.scale
        if mask is not None:
            y = y.masked_fill(mask, 0.0)
        return y * 2 if double else y


def test_a_module_with_its_weights(tmp_path):
    model = Encoder().eval()
    x = torch.randn(5, 8)
    loaded = round_trip(model, tmp_path / "m.vesta", (x,))
    torch.testing.assert_close(loaded(x=x), model(x))
    assert set(loaded.state_dict()) == set(model.state_dict())
    for name, tensor in model.state_dict().items():
        torch.testing.assert_close(loaded.state_dict()[name], tensor, rtol=0, atol=0)
    assert "Encoder(x, mask=None, *, double=False)" in repr(loaded)


def test_each_variant_of_structure_and_shape(tmp_path):
    model = Encoder().eval()
    compiled = vesta.compile(model)
    x, y, mask = torch.randn(5, 8), torch.randn(7, 8), torch.rand(5, 4) > 0.5
    calls: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x,), {}),
        ((y,), {}),
        ((torch.randn(9, 8),), {}),
        ((x, mask), {}),
        ((x,), {"mask": mask, "double": True}),
        ((), {"x": x, "double": True}),
    ]
    expected = [compiled(*a, **k) for a, k in calls]
    saved = vesta.save(compiled, tmp_path / "m.vesta")
    assert saved.variants >= 4 and not saved.skipped
    loaded = vesta.load(tmp_path / "m.vesta")
    for (a, k), wanted in zip(calls, expected, strict=True):
        torch.testing.assert_close(loaded(*a, **k), wanted, rtol=0, atol=0)
    # The same arguments in another way of calling, and a size that no call had.
    torch.testing.assert_close(loaded(x=x, mask=mask), expected[3], rtol=0, atol=0)
    other = torch.randn(31, 8)
    torch.testing.assert_close(loaded(other), model(other))


def test_arguments_that_fit_no_variant_are_named(tmp_path):
    loaded = round_trip(Encoder().eval(), tmp_path / "m.vesta", (torch.randn(5, 8),))
    with pytest.raises(UserError, match=r"variant 0: input 0 \(x\): size 1 is 9 instead of 8"):
        loaded(torch.randn(5, 9))
    with pytest.raises(UserError, match=r"input 0 \(x\): dtype Double instead of Float"):
        loaded(torch.randn(5, 8, dtype=torch.float64))
    with pytest.raises(UserError, match="mask == None; here it is a tensor"):
        loaded(torch.randn(5, 8), torch.zeros(5, 4, dtype=torch.bool))
    with pytest.raises(UserError, match="here it is a list of 1"):
        loaded([torch.randn(5, 8)])
    with pytest.raises(UserError, match="double == False; here it is True"):
        loaded(torch.randn(5, 8), double=True)
    with pytest.raises(UserError, match="unexpected keyword argument 'y'"):
        loaded(y=1)
    with pytest.raises(UserError, match="multiple values for argument 'x'"):
        loaded(torch.randn(5, 8), x=torch.randn(5, 8))
    with pytest.raises(UserError, match="takes 2 positional arguments but 3 were given"):
        loaded(torch.randn(5, 8), None, None)
    with pytest.raises(UserError, match="x is a tensor; here it is not given"):
        loaded()
    with torch.enable_grad(), pytest.raises(UserError, match=r"x requires gradients.*no_grad"):
        loaded(torch.randn(5, 8, requires_grad=True))


@dataclasses.dataclass
class Pair:
    left: torch.Tensor
    right: Any


Named = collections.namedtuple("Named", ["a", "b"])


def nested(batch: dict[str, Any], rest: list[Any]) -> dict[str, Any]:
    x = batch["x"] + rest[0][1]
    return {"sum": x.sum(), "parts": [x, (x * 2, None)], "n": 3, "name": batch["mode"], "shape": x.shape}


PROGRAMS: dict[str, tuple[Any, list[tuple[Any, ...]]]] = {
    "nested containers": (
        nested,
        [
            ({"x": torch.randn(3), "mode": "a"}, [(1, torch.randn(3))]),
            ({"x": torch.ones(4), "mode": "b"}, [(1, torch.ones(4))]),
        ],
    ),
    "numbers": (
        lambda x, n, s: (x * n + s, n),
        [(torch.randn(4), 3, 0.5), (torch.randn(4), 4, 0.25), (torch.randn(4), 7, -0.0)],
    ),
    "flags": (
        lambda x, how: x.sum() if how == "sum" else x.mean(),
        [(torch.randn(4), "sum"), (torch.randn(4), "mean")],
    ),
    "star arguments": (lambda *xs, **named: torch.cat(xs) * named["k"], [(torch.ones(2), torch.ones(3))]),
    "a dtype": (lambda x, t: x.to(t) + 1, [(torch.randn(4), torch.float64), (torch.randn(4), torch.int32)]),
    "an argument comes back": (lambda x, y: (x, y, x + y), [(torch.randn(4), torch.randn(4))]),
    "a namedtuple": (lambda p: p.a - p.b, [(Named(torch.randn(3), torch.randn(3)),)]),
    "a view of an input": (lambda x: (x[1:], x.t()), [(torch.randn(3, 4),)]),
    "a size as a result": (
        lambda x: (x * 2, x.shape[0] * 2),
        [(torch.randn(3, 4),), (torch.randn(5, 4),), (torch.randn(8, 4),)],
    ),
    "empty tensors": (lambda x: (x.sum(), x * 2), [(torch.randn(0, 4),)]),
    "a 0-d tensor": (lambda x: x.sin() * 2, [(torch.tensor(1.0),)]),
    "NaN and infinities": (lambda x: x.exp() - x, [(torch.tensor([float("nan"), float("inf"), -float("inf"), -0.0]),)]),
    "strided": (lambda x: x.softmax(-1), [(torch.randn(6, 8)[::2, 1:],)]),
    "half precision": (lambda x: (x * 2).softmax(-1), [(torch.randn(6, 8, dtype=torch.bfloat16),)]),
    "no tensor arguments": (lambda n: torch.arange(8) * n, [(3,)]),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(name, tmp_path):
    f, calls = PROGRAMS[name]
    if name == "star arguments":
        compiled = vesta.compile(f)
        wanted = compiled(*calls[0], k=torch.full((5,), 2.0))
        vesta.save(compiled, tmp_path / "p.vesta")
        torch.testing.assert_close(vesta.load(tmp_path / "p.vesta")(*calls[0], k=torch.full((5,), 2.0)), wanted)
        return
    round_trip(f, tmp_path / "p.vesta", *calls)


def test_dataclasses_travel_as_dicts(tmp_path):
    compiled = vesta.compile(lambda p: Pair(p.left + p.right, 3))
    p = Pair(torch.randn(3), torch.randn(3))
    wanted = compiled(p)
    vesta.save(compiled, tmp_path / "p.vesta")
    loaded = vesta.load(tmp_path / "p.vesta")
    for argument in (p, {"left": p.left, "right": p.right}):
        found = loaded(argument)
        assert list(found) == ["left", "right"] and found["right"] == 3
        torch.testing.assert_close(found["left"], wanted.left, rtol=0, atol=0)


def test_tensors_that_are_one_object_are_told_apart(tmp_path):
    compiled = vesta.compile(lambda x, y: x + 1 if x is y else x - y)
    a, b = torch.randn(3), torch.randn(3)
    wanted = compiled(a, a), compiled(a, b)
    vesta.save(compiled, tmp_path / "p.vesta")
    loaded = vesta.load(tmp_path / "p.vesta")
    torch.testing.assert_close((loaded(a, a), loaded(a, b)), wanted, rtol=0, atol=0)


def test_arguments_are_written_as_the_program_writes_them(tmp_path):
    def f(x, y):
        x.add_(y)
        return x * 2

    compiled = vesta.compile(f)
    compiled(torch.ones(3), torch.ones(3))
    vesta.save(compiled, tmp_path / "p.vesta")
    x = torch.ones(3)
    torch.testing.assert_close(vesta.load(tmp_path / "p.vesta")(x, torch.full((3,), 4.0)), torch.full((3,), 10.0))
    torch.testing.assert_close(x, torch.full((3,), 5.0))


def test_weights_written_in_place_are_seen(tmp_path):
    model = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 2)).eval()
    x = torch.randn(4, 8)
    loaded = round_trip(model, tmp_path / "m.vesta", (x,))
    before = (tmp_path / "m.vesta").read_bytes()
    loaded.state_dict()["0.weight"].mul_(3)
    model[0].weight.mul_(3)
    torch.testing.assert_close(loaded(x), model(x))
    assert (tmp_path / "m.vesta").read_bytes() == before


def test_other_weights_without_a_compile(tmp_path):
    model, other = (nn.Sequential(nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU()).eval() for _ in range(2))
    other[1].running_mean.fill_(0.5)
    x = torch.randn(2, 3, 8, 8)
    loaded = round_trip(model, tmp_path / "m.vesta", (x,))
    state = {n: t for n, t in other.state_dict().items() if n in loaded.state_dict()}
    loaded.load_state_dict(state)
    torch.testing.assert_close(loaded(x), other(x))
    with pytest.raises(UserError, match="missing"):
        loaded.load_state_dict({"0.weight": other[0].weight})
    with pytest.raises(UserError, match=r"0.weight is f32\[4, 3, 3, 3\], not f32\[4\]"):
        loaded.load_state_dict({"0.weight": torch.ones(4)}, strict=False)
    torch.testing.assert_close(loaded(x), other(x))


def safetensors(path: Path, tensors: dict[str, torch.Tensor]) -> None:
    header, at, data = {}, 0, b""
    for name, t in tensors.items():
        raw = t.contiguous().numpy().tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(raw)]}
        data, at = data + raw, at + len(raw)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)


def test_weights_outside_of_the_file(tmp_path):
    model = Encoder().eval()
    compiled, x = vesta.compile(model), torch.randn(5, 8)
    wanted = compiled(x)
    saved = vesta.save(compiled, tmp_path / "m.vesta", weights=False)
    assert saved.bytes < sum(t.numel() * 4 for t in model.parameters()) + 200_000
    with pytest.raises(UserError, match=r"without its weights, and 7 of them are missing: .*first.weight"):
        vesta.load(tmp_path / "m.vesta")
    safetensors(tmp_path / "w.safetensors", model.state_dict())
    for weights in (model.state_dict(), tmp_path / "w.safetensors"):
        torch.testing.assert_close(vesta.load(tmp_path / "m.vesta", weights=weights)(x), wanted)
    (tmp_path / "w.safetensors").write_bytes(b"\xff" * 100)
    with pytest.raises(UserError, match=r"w\.safetensors cannot be loaded"):
        vesta.load(tmp_path / "m.vesta", weights=tmp_path / "w.safetensors")


def test_tied_weights_stay_one(tmp_path):
    class Tied(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(10, 6)
            self.head = nn.Linear(6, 10, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, i: torch.Tensor) -> torch.Tensor:
            return self.head(self.embedding(i))

    loaded = round_trip(Tied().eval(), tmp_path / "m.vesta", (torch.tensor([1, 2]),))
    assert len(loaded.state_dict()) == 1


def test_closures_and_globals_are_weights(tmp_path):
    w = torch.randn(3, 3)
    loaded = round_trip(lambda x: x @ w, tmp_path / "p.vesta", (torch.randn(2, 3),))
    assert list(loaded.state_dict()) == ["w"]


class Keeps:
    def __init__(self) -> None:
        self.w = torch.randn(3)
        self.seen = 0

    def step(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.w

    def count(self, x: torch.Tensor) -> torch.Tensor:
        self.seen += 1
        return x * self.w

    def remember(self, x: torch.Tensor) -> torch.Tensor:
        self.last = x * self.w
        return self.last

    def mark(self, x: torch.Tensor) -> torch.Tensor:
        self.used = True
        return x * self.w

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.w


def append(xs: list[torch.Tensor]) -> torch.Tensor:
    xs.append(xs[0] * 2)
    return xs[0] + 1


def test_writes_of_constants_to_the_program_itself_are_left_out(tmp_path):
    keeps, x = Keeps(), torch.randn(3)
    compiled = vesta.compile(keeps.mark)
    wanted = compiled(x)
    saved = vesta.save(compiled, tmp_path / "p.vesta")
    assert any("writes" in text and "used" in text for text in saved.dropped)
    torch.testing.assert_close(vesta.load(tmp_path / "p.vesta")(x), wanted, rtol=0, atol=0)


def test_methods_and_callable_objects(tmp_path):
    keeps = Keeps()
    round_trip(keeps.step, tmp_path / "p.vesta", (torch.randn(3),))
    round_trip(keeps, tmp_path / "p.vesta", (torch.randn(3),))


def test_what_cannot_be_saved_names_the_line(tmp_path):
    def breaks(x):
        y = x * 2
        print("here")
        return y + 1

    def message(f: Any, *args: Any) -> str:
        compiled = vesta.compile(f)
        if args:
            compiled(*args)
        with pytest.raises(UserError) as e:
            vesta.save(compiled, tmp_path / "p.vesta")
        assert not (tmp_path / "p.vesta").exists()
        return str(e.value)

    x = torch.randn(3)
    line = breaks.__code__.co_firstlineno + 2
    said = message(breaks, x)
    assert "not one graph" in said and f"test_saving.py:{line}" in said
    assert "has not been compiled yet" in message(lambda x: x + 1)
    assert "self.seen == 0 does not hold now" in message(Keeps().count, x)
    assert "writes" in message(Keeps().remember, x)
    assert "writes" in message(append, [x])
    with torch.enable_grad():
        assert "records gradients" in message(nn.Linear(3, 3), x)
    marker = object()
    assert "type(p) is object" in message(lambda x, p: x * 2 if p is marker else x + 1, x, marker)
    with pytest.raises(UserError, match=r"takes a result of vesta\.compile"):
        vesta.save(lambda x: x, tmp_path / "p.vesta")  # type: ignore[arg-type]


def test_only_variants_that_a_call_would_take_now(tmp_path):
    model = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.5))
    compiled = vesta.compile(model)
    x = torch.randn(2, 4)
    model.train()
    compiled(x)
    model.eval()
    wanted = compiled(x)
    saved = vesta.save(compiled, tmp_path / "m.vesta")
    assert saved.variants == 1 and any("training" in reason for reason in saved.skipped)
    assert any("training" in guard for guard in saved.dropped)
    torch.testing.assert_close(vesta.load(tmp_path / "m.vesta")(x), wanted, rtol=0, atol=0)


def test_damaged_and_missing_files(tmp_path):
    path = tmp_path / "m.vesta"
    round_trip(Encoder().eval(), path, (torch.randn(5, 8),))
    whole = path.read_bytes()
    with pytest.raises(UserError, match=r"nothing.vesta cannot be read: No such file"):
        vesta.load(tmp_path / "nothing.vesta")
    for damaged, said in [
        (b"", "not a program"),
        (whole[:40], "not a program"),
        (b"PK" + whole[2:], "not a program"),
        (whole[:-1], "bytes"),
        (whole[:8] + b"\x63" + whole[9:], "format 99"),
        (whole[:100] + bytes([whole[100] ^ 1]) + whole[101:], "digest"),
    ]:
        path.write_bytes(damaged)
        with pytest.raises(UserError, match=said):
            vesta.load(path)
    # Weights are only compared with their digests on request.
    (at,) = struct.unpack_from("<Q", whole, 24)
    path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    vesta.load(path)
    with pytest.raises(UserError, match="its weights are damaged"):
        vesta.load(path, check_weights=True)


def test_a_loaded_program_in_many_threads(tmp_path):
    model = Encoder().eval()
    loaded = round_trip(model, tmp_path / "m.vesta", (torch.randn(5, 8),), (torch.randn(7, 8),))
    wrong: list[Any] = []

    def work(seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        for _ in range(50):
            x = torch.randn(5 + seed % 3, 8, generator=generator)
            with torch.no_grad():
                if not torch.allclose(loaded(x), model(x), atol=1e-6):
                    wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(6)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


ELSEWHERE = """
import sys, torch, vesta
loaded = vesta.load(sys.argv[1])
with torch.no_grad():
    torch.save(loaded(torch.load(sys.argv[2])), sys.argv[3])
print(repr(loaded))
"""


def test_a_file_of_a_better_cpu_is_compiled_again(tmp_path):
    model, x = Encoder().eval(), torch.randn(5, 8)
    round_trip(model, tmp_path / "m.vesta", (x,), (torch.randn(7, 8),))
    torch.save(x, tmp_path / "x.pt")
    done = subprocess.run(
        [sys.executable, "-c", ELSEWHERE, *(str(tmp_path / f) for f in ("m.vesta", "x.pt", "y.pt"))],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},  # an x86-64-v2 to Vesta
    )
    assert done.returncode == 0, done.stderr
    torch.testing.assert_close(torch.load(tmp_path / "y.pt"), model(x))


@pytest.mark.kernels
@pytest.mark.skipif(not RUNNER.exists(), reason=f"there is no {RUNNER}")
def test_without_a_compiler_a_better_cpu_is_an_error(tmp_path):
    round_trip(Encoder().eval(), tmp_path / "m.vesta", (torch.randn(5, 8),))
    done = subprocess.run(
        [RUNNER, tmp_path / "m.vesta", "inputs", "results"],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "ATEN_CPU_CAPABILITY": "default"},
    )
    assert done.returncode == 1
    assert (
        "cannot run here" in done.stderr
        and "needs features that this CPU does not have: " in done.stderr
        and "avx2" in done.stderr
    )
