"""Programs of a GPU, saved and loaded: by processes with a GPU that is none (fake_gpu), without one, and by C++."""

from __future__ import annotations

import os
import subprocess
import sysconfig
from pathlib import Path

import pytest
import torch
from torch import nn

import vesta
from tests.programs import fake_gpu
from tests.programs.saved_models import RUNNER

pytestmark = pytest.mark.skipif(not fake_gpu.AVAILABLE, reason="no fake GPU was built, or torch is a CUDA build")
NVRTC = str(Path(sysconfig.get_paths()["purelib"]) / "nvidia/cu13/lib")


class Tied(nn.Module):
    """Weights that share storages, one that is a small part of its storage, two dtypes, a buffer that calls write."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.table = nn.Embedding(11, 8)
        self.out = nn.Linear(8, 11, bias=False)
        self.out.weight = self.table.weight
        self.whole = torch.randn(1_000_000)
        self.register_buffer("part", self.whole[500_001:500_009])
        self.register_buffer("wide", torch.randn(8, dtype=torch.float64))
        self.register_buffer("turned", torch.randn(3, 8).t())
        self.register_buffer("total", torch.zeros(8))
        self.register_buffer("empty", torch.empty(0, 8))

    def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        y = self.table(x) * self.part + self.wide.float()
        self.total.add_(y.sum(0))
        z = torch.cat([y @ self.turned, self.empty @ self.turned])
        return self.out(torch.relu(y)) + self.total.sum(), z

    def gpus(self) -> Tied:
        whole = self.whole.cuda()
        self.cuda()
        self.part = whole[500_001:500_009]
        self.whole = whole
        return self


def _example(rows: int) -> torch.Tensor:
    return (torch.arange(rows) * 7) % 11


def _same(found: tuple[torch.Tensor, ...], wanted: tuple[torch.Tensor, ...]) -> None:
    for a, b in zip(found, wanted, strict=True):
        torch.testing.assert_close(a.cpu(), b.cpu(), rtol=0, atol=0)


def save(path: str, backend: str, weights: str = "True") -> None:
    model = Tied().gpus().eval()
    compiled = vesta.compile(model, backend=backend)
    with torch.no_grad():
        for rows in (5, 7):
            compiled(_example(rows).cuda())
        model.total.zero_()
        saved = vesta.save(compiled, path, weights=weights == "True")
    assert saved.bytes < 200_000, saved
    assert not saved.skipped, saved


def load(path: str) -> None:
    loaded, model = vesta.load(path, check_weights=True), Tied().gpus().eval()
    state = loaded.state_dict()
    assert {t.device.type for t in state.values()} == {"cuda"}
    with torch.no_grad():
        for rows in (5, 7, 31, 5):
            x = _example(rows).cuda()
            _same(loaded(x), model(x))
            _same((state["total"],), (model.total,))
        state["table.weight"].mul_(2)
        model.table.weight.mul_(2)
        _same(loaded(x), model(x))


def load_with_weights_of_others(path: str) -> None:
    model = Tied().gpus().eval()
    given = {n: t.detach().clone() for n, t in (*model.named_parameters(), *model.named_buffers())}
    with torch.no_grad():
        x = _example(9).cuda()
        _same(vesta.load(path, weights=given)(x), model(x))
        try:
            vesta.load(path, weights={name: t.cpu() for name, t in given.items()})
        except vesta.errors.UserError as e:
            assert "is on cuda:0, not on cpu: move the tensor there" in str(e), e
        else:
            raise AssertionError("weights of the CPU were taken")


def load_and_run(path: str, compiles: str) -> None:
    loaded = vesta.load(path)
    assert "sm_90" in repr(loaded) and "in the file, for cuda:0" in repr(loaded), loaded
    with torch.no_grad():
        for rows in (5, 7, 31):
            for _ in range(3):
                assert [tuple(t.shape) for t in loaded(_example(rows).cuda())] == [(rows, 11), (rows, 3)]
    maps = Path("/proc/self/maps").read_text(encoding="utf-8")
    assert "libcuda.so.1" in maps
    assert [name in maps for name in ("libnvrtc", "libnvJitLink")] == [compiles == "True"] * 2


def save_calls(inputs: str, results: str) -> None:
    """The programs of tests/unit/run_saved.cpp. Each runs again after its float weights were multiplied by 0.9."""
    calls, wanted, model = [_example(rows).cuda() for rows in (5, 7)], [], Tied().gpus().eval()
    with torch.no_grad():
        for scaled in (False, True):
            if scaled:
                for t in (*model.parameters(), *model.buffers()):
                    t.mul_(0.9)
            wanted += [[t.cpu() for t in model(x)] for x in calls]
    torch.save([{"x": x} for x in calls], inputs)
    torch.save(wanted, results)


def load_without_a_gpu(path: str) -> None:
    try:
        vesta.load(path)
    except vesta.errors.UserError as e:
        assert str(e) == (
            f"{path} cannot run here: it was saved for cuda:0, but PyTorch has no CUDA here; load it with a CUDA build "
            "of PyTorch, or save the program with its tensors on the CPU"
        ), e
    else:
        raise AssertionError("it was loaded")


def refuse() -> None:
    model = nn.Linear(4, 4).cuda().eval()
    model.register_buffer("turned", torch.randn(4, dtype=torch.complex64).cuda().conj())
    function = vesta.compile(lambda x: (model(x) + model.turned.real).relu(), backend="aot_eager")
    with torch.no_grad():
        function(torch.randn(2, 4).cuda())
        try:
            vesta.save(function, "unused.vesta")
        except vesta.errors.UserError as e:
            assert "is a lazy conjugate: resolve_conj() makes it plain" in str(e), e
        else:
            raise AssertionError("it was saved")


def _done(function: str, *arguments: object, **options: object) -> None:
    done = fake_gpu.run(f"{__name__}.{function}", *arguments, **options)
    assert done.returncode == 0, done.stderr[-3000:]


def test_another_process_gives_equal_results(tmp_path):
    _done("save", tmp_path / "m.vesta", "aot_eager")
    _done("load", tmp_path / "m.vesta")
    _done("load_without_a_gpu", tmp_path / "m.vesta", gpu=False)


def test_weights_outside_of_the_file(tmp_path):
    _done("save", tmp_path / "m.vesta", "aot_eager", False)
    _done("load_with_weights_of_others", tmp_path / "m.vesta")


def test_kernels_run_without_a_compiler(tmp_path):
    _done("save", tmp_path / "m.vesta", "vesta", LD_LIBRARY_PATH=NVRTC)
    _done("load_and_run", tmp_path / "m.vesta", False)
    # The driver finishes the PTX for a later GPU.
    _done("load_and_run", tmp_path / "m.vesta", False, VESTA_FAKE_GPU="120")


def test_a_file_of_a_later_gpu_is_compiled_again(tmp_path):
    _done("save", tmp_path / "m.vesta", "vesta", LD_LIBRARY_PATH=NVRTC)
    _done("load_and_run", tmp_path / "m.vesta", True, LD_LIBRARY_PATH=NVRTC, VESTA_FAKE_GPU="86")


def test_lazy_conjugates_are_refused():
    _done("refuse")


@pytest.mark.skipif(not RUNNER.exists(), reason=f"there is no {RUNNER}")
def test_a_cpp_program_finds_pytorchs_cuda_library(tmp_path):
    """It links none of it: PyTorch's and ours are found beside their other libraries."""
    program, inputs, results, wanted = (tmp_path / name for name in ("m.vesta", "in.pt", "out.pt", "wanted.pt"))
    _done("save", program, "cudagraphs")
    _done("save_calls", inputs, wanted)
    folder, package = tmp_path / "lib", Path(vesta.__file__).parent
    folder.mkdir()
    for library in (*Path(torch.__file__).parent.glob("lib/*.so*"), *package.glob("libvesta*.so")):
        if library.name != "libvesta_cuda.so":
            (folder / library.name).symlink_to(library.resolve())
    environment = os.environ | {"LD_LIBRARY_PATH": str(folder), "LD_PRELOAD": str(fake_gpu.ALLOCATOR)}

    def run(**more: str) -> subprocess.CompletedProcess[str]:
        words = [RUNNER, program, inputs, results]
        return subprocess.run(words, capture_output=True, text=True, timeout=200, env=environment | more)

    done = run()
    assert done.returncode == 1
    assert "it was saved for cuda:0, but PyTorch has no CUDA here" in done.stderr
    for name in ("libtorch_cuda.so", "libvesta_cuda.so"):
        (folder / name).symlink_to(fake_gpu.TORCH)
    done = run(VESTA_LOG="graph")
    assert done.returncode == 0, done.stderr
    assert "recorded 1 CUDA graphs" in done.stderr
    assert "no CUDA graph" not in done.stderr
    # Nothing is printed that nobody asked for.
    assert run().stderr == ""
    for found, expected in zip(
        torch.load(results, map_location="cpu", weights_only=False), torch.load(wanted), strict=True
    ):
        _same(found, expected)
