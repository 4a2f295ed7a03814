"""Every option of vesta.options takes effect through vesta.compile, torch.compile and trace_and_compile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import nn

import vesta
from tests.build import generates_code
from tests.programs.saved_bytes import saved_bytes
from vesta.options import BACKENDS, MODES, OPTION_NAMES, make_options, options_of_mode

EntryPoint = Callable[..., Any]


kept: list[Any] = []  # reports are of what still exists


def keep(compiled: Any) -> Any:
    kept.append(compiled)
    return compiled


def by_torch(f: Any, **options: Any) -> Any:
    return keep(torch.compile(f, backend="vesta", options=options))


def by_vesta(f: Any, **options: Any) -> Any:
    return keep(vesta.compile(f, options=options))


def directly(f: Any, **options: Any) -> Any:
    return keep(vesta.trace_and_compile(f, **options))


def forget() -> None:
    kept.clear()
    vesta.reset()
    torch._dynamo.reset()


ENTRY_POINTS = {"vesta.compile": by_vesta, "torch.compile": by_torch, "trace_and_compile": directly}


@pytest.fixture(params=ENTRY_POINTS)
def entry(request: pytest.FixtureRequest) -> Iterator[EntryPoint]:
    forget()
    with torch.no_grad():
        yield ENTRY_POINTS[request.param]


def variants() -> list[Any]:
    return vesta.explain().variants


def of_option(option: str) -> Callable[[Any], Any]:
    def mark(test: Any) -> Any:
        TESTED.add(option)
        return test

    return mark


TESTED: set[str] = set()


@of_option("dynamic")
def test_dynamic(entry: EntryPoint) -> None:
    """Sizes that a first call has shown are constants or symbols; a symbol is at least 2."""

    def guards(dynamic: bool) -> list[str]:
        forget()
        entry(lambda x: x.sin() + 1, dynamic=dynamic)(torch.ones(4, 3))
        return [g for v in variants() for g in v.guards]

    assert guards(False) == []
    assert len(guards(True)) == 2


@of_option("strict")
def test_strict_raises_what_would_run_eager(entry: EntryPoint, monkeypatch: pytest.MonkeyPatch) -> None:
    x = torch.randn(4)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x.sin() + 1

    # A bug of the compiler's, as its guard against a graph that is no graph would find it.
    entry(f, strict=True)(x)
    bad = {"strict": True, "variant_limit": 0}
    compiled = entry(f, **bad)
    with pytest.raises(Exception, match="variant"):
        compiled(x)
    torch.testing.assert_close(entry(f, variant_limit=0)(x), f(x))


@of_option("variant_limit")
def test_variant_limit(entry: EntryPoint) -> None:
    x = torch.randn(4)
    torch.testing.assert_close(entry(lambda x: x.sin() + 1, variant_limit=0)(x), x.sin() + 1)
    assert not variants() and vesta.explain().fallbacks
    entry(lambda x: x.sin() + 1, variant_limit=1)(x)
    assert len(variants()) == 1


@of_option("recompile_share")
def test_recompile_share(entry: EntryPoint) -> None:
    """test_recompile_share.py in tests/capture has more. Dynamo itself decides about recompiles."""
    compiled = entry(lambda x: x.sin() + 1, recompile_share=0, dynamic=False, cache=False)
    try:
        for size in (3, 4, 5):
            torch.testing.assert_close(compiled(torch.ones(size)), torch.ones(size).sin() + 1)
            if entry is not by_torch:
                vesta._C.inject_fault("plan", "delay", 2.1)  # the second compile takes what is not counted
    finally:
        vesta._C.inject_fault("plan", "none")
    put_off = [f for f in vesta.explain().fallbacks if "recompile_share" in f.reason]
    assert bool(put_off) == (entry is not by_torch)


@of_option("packed_weights")
def test_packed_weights(entry: EntryPoint) -> None:
    if entry is directly:
        pytest.skip("it takes tensors alone: none of them is a weight")
    x = torch.randn(2, 3, 16, 16)

    def packed(allowed: bool | int | None) -> int:
        forget()
        model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU()).eval()
        compiled = entry(model, packed_weights=allowed)
        torch.testing.assert_close(compiled(x), model(x), rtol=1e-4, atol=1e-5)
        return sum(v.packed_bytes for v in variants())

    assert packed(True) == packed(None) > 0
    assert packed(False) == packed(0) == 0


@pytest.mark.kernels
@of_option("numerics")
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_numerics(entry: EntryPoint, dtype: torch.dtype) -> None:
    def f(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return ((x * 3.14 + y) * x - y).relu() * 1.7 - x

    x, y = (torch.randn(64, 64, generator=torch.Generator().manual_seed(i)).to(dtype) for i in range(2))
    exact = f(x.double(), y.double())
    eager, fast = entry(f, numerics="eager")(x, y), entry(f, numerics="fast")(x, y)
    assert len({k.name for v in variants() for k in v.kernels}) == 1  # one kernel each
    torch.testing.assert_close(eager, f(x, y), rtol=0, atol=0)
    assert not torch.equal(fast, eager)
    assert (fast.double() - exact).abs().mean() < (eager.double() - exact).abs().mean()
    with pytest.raises(Exception, match='"fast" or "eager"'):
        entry(f, numerics="other")(x, y)


@pytest.mark.kernels
@of_option("skip_passes")
@of_option("rewrite_limit")
def test_passes_are_left_out(entry: EntryPoint) -> None:
    def f(x: torch.Tensor) -> torch.Tensor:
        return nn.functional.softmax(x * 1, -1)

    x = torch.randn(4, 8)

    def operators(**options: Any) -> set[str]:
        forget()
        torch.testing.assert_close(entry(f, **options)(x), f(x))
        return {op for v in variants() for k in v.kernels for op in k.ops}

    assert "decompose" in vesta.passes()
    assert "aten::exp" in operators() and "aten::mul.Scalar" not in operators()
    assert "aten::exp" not in operators(skip_passes=["decompose"])
    assert "aten::mul.Scalar" in operators(rewrite_limit=0)


@of_option("activation_memory")
def test_activation_memory(entry: EntryPoint) -> None:
    """test_activation_memory.py has more. For torch.compile, AOTAutograd decides what is saved."""
    if entry is by_torch:
        pytest.skip("AOTAutograd splits its graphs")
    weights = [(torch.randn(64, 64) / 16).requires_grad_() for _ in range(4)]
    x = torch.randn(256, 64, requires_grad=True)

    def f(x: torch.Tensor, *weights: torch.Tensor) -> torch.Tensor:
        for w in weights:
            x = (x @ w).tanh()
        return x.sum()

    with torch.enable_grad():
        expected = torch.autograd.grad(f(x, *weights), [x, *weights])
        held = []
        for bound in (None, 1.0, 0.5, 2 * 256 * 64 * 4, 0):
            compiled = entry(f, activation_memory=bound)
            held.append(saved_bytes(lambda call=compiled: call(x, *weights), [x, *weights]))
            found = torch.autograd.grad(compiled(x, *weights), [x, *weights])
            torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)
    one = 256 * 64 * 4
    assert held == [4 * one, 4 * one, 2 * one, 2 * one, 0]


@of_option("deadline_ms")
@of_option("background")
def test_deadline(entry: EntryPoint) -> None:
    """test_deadline.py has more."""
    x = torch.randn(4)
    try:
        vesta._C.inject_fault("codegen", "delay", 0.5)
        for options in ({"deadline_ms": 10}, {"background": True}):
            forget()
            torch.testing.assert_close(entry(lambda x: x.sin() + 1, **options)(x), x.sin() + 1)
            assert not any(v.kernels for v in variants())
            assert vesta.wait()
    finally:
        vesta._C.inject_fault("codegen", "none")


@of_option("compile_memory")
def test_compile_memory(entry: EntryPoint) -> None:
    """test_compile_memory.py has more."""
    x = torch.randn(4)
    for budget, count in ((1000, 0), (10**9, 1)):
        forget()
        vesta.reset_stats()
        torch.testing.assert_close(entry(lambda x: x.sin() + 1, compile_memory=budget, cache=False)(x), x.sin() + 1)
        assert len(variants()) == count
        assert any("compile_memory" in reason for reason in vesta.stats().fallbacks) == (count == 0)


@of_option("strategy")
@of_option("expected_calls")
@pytest.mark.parametrize("calls", [1, 1_000_000])
def test_strategy(entry: EntryPoint, calls: int) -> None:
    """test_strategy.py has more. What Dynamo captured, and what is traced directly, is compiled in any case."""
    compiled = entry(lambda x: (x.sin() + 1).exp().sum(-1), strategy="auto", expected_calls=calls, cache=False)
    x = torch.randn(64, 64)
    for _ in range(3):
        torch.testing.assert_close(compiled(x), (x.sin() + 1).exp().sum(-1))
    kernels = [k for v in variants() for k in v.kernels]
    assert bool(kernels) == (generates_code() and (calls > 1 or entry is not by_vesta))


@of_option("only_if_faster")
@pytest.mark.parametrize("measured", [True, False])
def test_only_if_faster(entry: EntryPoint, measured: bool) -> None:
    """test_profit.py has more. Dynamo divides programs by itself, and what is traced directly is one graph."""

    def f(x: torch.Tensor) -> torch.Tensor:
        if entry is by_vesta:
            for i in range(12):
                print(end="")
                x = {"index": i, "twice": [i, x]}["twice"][1]
                print(end="")
        return x.sin() + 1

    x = torch.randn(4)
    compiled = entry(f, only_if_faster=measured)
    for _ in range(60):
        torch.testing.assert_close(compiled(x), x.sin() + 1)
    seen = vesta.explain()
    slow = [f for f in seen.fallbacks if "uncompiled" in f.reason] + [p for c in seen.captures for p in c.slower]
    assert bool(slow) == (measured and entry is by_vesta)


@of_option("compile_threads")
def test_compile_threads(entry: EntryPoint) -> None:
    def f(x: torch.Tensor) -> tuple[torch.Tensor, ...]:
        return x.sin().sum(0), x.cos().sum(1), x.exp()

    x = torch.randn(8, 8)
    for threads in (1, 2):
        forget()
        torch.testing.assert_close(tuple(entry(f, compile_threads=threads)(x)), f(x))


@of_option("cache")
def test_cache(entry: EntryPoint) -> None:
    """A process without a cache here; with one: test_artifact_cache.py and test_cache.py."""
    entry(lambda x: x.sin() + 1, cache=False)(torch.randn(4))
    assert not any(v.cached for v in variants())


@of_option("cuda_graphs")
@of_option("copied_inputs")
@of_option("cuda_graph_memory")
def test_cuda_graphs(entry: EntryPoint) -> None:
    """tests/cuda/recorded.py tests the effect on a GPU. Programs of the CPU accept the options and have no graphs."""
    x = torch.randn(4)
    options = {"cuda_graphs": True, "copied_inputs": -1, "cuda_graph_memory": 1 << 20}
    torch.testing.assert_close(entry(lambda x: x.sin() + 1, **options)(x), x.sin() + 1)
    assert [v.graphs for v in variants()] == [None]


@of_option("autotune_seconds")
def test_tuning(entry: EntryPoint) -> None:
    """tests/cuda/tuned.py tests the effect on a GPU, and test_tuning.py more on a CPU."""
    x = torch.randn(40, 64)
    for seconds in (0, 0.5, 10):
        forget()
        result = entry(lambda x: (x @ x.t()).relu(), autotune_seconds=seconds)(x)
        torch.testing.assert_close(result, (x @ x.t()).relu(), rtol=1e-4, atol=1e-4)
        assert [v.tuning is not None for v in variants()] == [seconds > 0]


def test_modes_are_options() -> None:
    assert set(MODES) == {"default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"}
    assert make_options(options_of_mode(None)).cuda_graphs and make_options(options_of_mode("default")).cuda_graphs
    assert not make_options(options_of_mode("max-autotune-no-cudagraphs")).cuda_graphs
    assert make_options(options_of_mode("reduce-overhead")).copied_inputs == -1
    for mode, seconds in (("default", 0), ("reduce-overhead", 0), ("max-autotune", 10)):
        assert make_options(options_of_mode(mode)).autotune_seconds == seconds
    assert make_options(options_of_mode("max-autotune-no-cudagraphs")).autotune_seconds == 10
    for entry in (vesta.compile, functools.partial(torch.compile, backend="vesta")):
        for mode in MODES:
            x = torch.randn(4)
            torch.testing.assert_close(entry(lambda x: x.sin() + 1, mode=mode)(x), x.sin() + 1)
    with pytest.raises(vesta.errors.UserError, match="reduce-overhead"):
        vesta.compile(torch.sin, mode="reduce_overhead")


@of_option("kernels")
def test_without_kernels_every_operator_is_eagers_call(entry: EntryPoint) -> None:
    """Bit for bit: nothing is fused, folded, packed or decomposed; outputs that are inputs or each other are copies."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Flatten(), nn.Linear(288, 16)).eval()

    def f(x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, ...]:
        z = nn.functional.layer_norm(model(x) * 1 + 0, (16,)).softmax(-1)
        y.mul_(2)
        return z, z.t(), z.sum(), y[1:] + 0, x.clone(), torch.cat([z, z.half()], 1), z[:, ::2]

    for dtype in (torch.float32, torch.float64):
        model.to(dtype)
        x, y = torch.randn(2, 3, 8, 8, dtype=dtype), torch.randn(4, dtype=dtype)
        other = y.clone()
        forget()
        compiled = entry(f, kernels=False)
        for _ in range(2):
            for ours, eagers in zip(compiled(x, y), f(x, other), strict=True):
                torch.testing.assert_close(ours, eagers, rtol=0, atol=0)
                assert ours.stride() == eagers.stride()
            assert torch.equal(y, other)
        (variant,) = variants()
        assert not variant.kernels and variant.ops_extern > 4 and variant.packed_bytes == 0
        assert {e.reason for e in variant.externs} == {"the option kernels is off"}
        assert "the option kernels is off" in str(vesta.explain())
    assert not vesta.explain().fallbacks


def test_without_kernels_gradients_are_eagers() -> None:
    def losses(compile: Callable[[Any], Any]) -> list[torch.Tensor]:
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 4))
        run, optimizer = compile(model), torch.optim.SGD(model.parameters(), lr=0.1)
        out = []
        for _ in range(3):
            loss = nn.functional.cross_entropy(run(torch.randn(6, 8)), torch.arange(6) % 4)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            out.append(loss.detach())
        return [*out, *model.parameters()]

    eager = losses(lambda m: m)
    for compile in (
        functools.partial(vesta.compile, backend="aot_eager"),
        functools.partial(torch.compile, backend="vesta", options={"kernels": False}),
    ):
        forget()
        for ours, eagers in zip(losses(compile), eager, strict=True):
            torch.testing.assert_close(ours, eagers, rtol=0, atol=0)
        assert not any(v.kernels for v in variants())


def test_backends_are_options() -> None:
    x = torch.randn(4)
    f = lambda x: (x.sin() + 1).softmax(-1)  # noqa: E731
    for backend in (*BACKENDS, "eager"):
        forget()
        torch.testing.assert_close(keep(vesta.compile(f, backend=backend))(x), f(x), rtol=1e-6, atol=1e-6)
        assert any(v.kernels for v in variants()) == (backend == "vesta" and generates_code())
        assert bool(variants()) == (backend != "eager")
    assert BACKENDS["cudagraphs"]["cuda_graphs"] and not BACKENDS["aot_eager"]["cuda_graphs"]
    vesta.compile(f, backend="aot_eager", mode="reduce-overhead")(x)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"backend": "cudagraphs", "options": {"cuda_graphs": False}}, "options asks for cuda_graphs=False"),
        ({"backend": "cudagraphs", "mode": "max-autotune-no-cudagraphs"}, "mode asks for cuda_graphs=False"),
        ({"backend": "aot_eager", "options": {"kernels": True}}, "kernels=False, but options asks for kernels=True"),
        ({"backend": "cudagraph"}, 'did you mean "cudagraphs"'),
        ({"backend": "inductor"}, '"vesta", "cudagraphs", "aot_eager", "eager", not "inductor"'),
    ]
    for arguments, message in wrong:
        with pytest.raises(vesta.errors.UserError, match=message):
            vesta.compile(f, **arguments)


@of_option("dump_dir")
def test_dump_dir(entry: EntryPoint, tmp_path: Path) -> None:
    entry(lambda x: x.sin() + 1, dump_dir=str(tmp_path))(torch.randn(4))
    assert list(tmp_path.rglob("*graph_traced.txt"))


def test_every_option_is_tested() -> None:
    assert set(OPTION_NAMES) == TESTED
